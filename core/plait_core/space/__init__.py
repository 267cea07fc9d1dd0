"""The event space: attributes with domains, sub-spaces named by dz-expressions, and filters mapped to sets of them.

Serves peers (thesis ch. 2), multicast groups and credentials (thesis 5.4). Read in this order: `schema` and `domains`
(what a point is), `boxes` (what a filter is), `dz` and `dzset` (names of sub-spaces), `mapping` (filters to names).
"""

from .boxes import ANY, NONE, AllOf, AnyOf, Box, Interval, Prefix, ValueRange
from .coarsening import Strategy
from .domains import Domain, Enumeration, FloatRange, IntRange, TextPrefix
from .dz import WHOLE, Dz
from .dzset import DzSet
from .filter_boxes import boxes_of
from .mapping import Region
from .schema import Schema

__all__ = [
    "ANY",
    "NONE",
    "WHOLE",
    "AllOf",
    "AnyOf",
    "Box",
    "Domain",
    "Dz",
    "DzSet",
    "Enumeration",
    "FloatRange",
    "IntRange",
    "Interval",
    "Prefix",
    "Region",
    "Schema",
    "Strategy",
    "TextPrefix",
    "ValueRange",
    "boxes_of",
]

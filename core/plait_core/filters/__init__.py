"""The filter language: text or Python to a predicate that can be evaluated, indexed, compared and explained.

A filter passes through these modules: parser -> ast (its syntax tree) -> compiling (evaluation) and normal_form ->
covering (covering and intersection). `Filter` is the interface to all of them.
"""

from .builder import Attribute, F
from .constraints import Constraint
from .eventbridge import from_pattern
from .explaining import Explanation, Reason
from .filter import EVERYTHING, Filter, as_filter, parse, parse_indexable
from .normal_form import Conjunction, NormalForm, satisfies
from .value_sets import ValueSet

__all__ = [
    "EVERYTHING",
    "Attribute",
    "Conjunction",
    "Constraint",
    "Explanation",
    "F",
    "Filter",
    "NormalForm",
    "Reason",
    "ValueSet",
    "as_filter",
    "from_pattern",
    "parse",
    "parse_indexable",
    "satisfies",
]

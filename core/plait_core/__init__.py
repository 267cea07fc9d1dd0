"""Plait's shared vocabulary: events and values, filters, the event space, matching and wire frames. No I/O anywhere.

Everything here is a value or a pure state machine. Callers pass time and randomness as arguments, so production, tests
and the simulator run the same objects.
"""

from typing import TYPE_CHECKING

from .lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .clock import Clock, ManualClock
    from .errors import (
        EventInvalid,
        FilterError,
        FilterNeverTrue,
        FilterSyntax,
        FilterTooComplex,
        FrameError,
        FrameFault,
        IndexMisuse,
        PlaitError,
        SpaceInvalid,
    )
    from .events import Event, EventId
    from .filters import F, Filter, parse
    from .ids import Randomness, id_text, new_id
    from .matching import Index, PythonIndex, index_name, new_index
    from .values import Attributes, Literal, Scalar, Value
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            ".clock": ("Clock", "ManualClock"),
            ".errors": (
                "EventInvalid",
                "FilterError",
                "FilterSyntax",
                "FilterNeverTrue",
                "FilterNeverTrue",
                "FilterTooComplex",
                "FrameError",
                "FrameFault",
                "IndexMisuse",
                "PlaitError",
                "SpaceInvalid",
            ),
            ".events": ("Event", "EventId"),
            ".filters": ("F", "Filter", "parse"),
            ".ids": ("Randomness", "id_text", "new_id"),
            ".matching": ("Index", "PythonIndex", "index_name", "new_index"),
            ".values": ("Attributes", "Literal", "Scalar", "Value"),
        },
    )

__all__ = [
    "Attributes",
    "Clock",
    "Event",
    "EventId",
    "EventInvalid",
    "F",
    "Filter",
    "FilterError",
    "FilterNeverTrue",
    "FilterSyntax",
    "FilterTooComplex",
    "FrameError",
    "FrameFault",
    "Index",
    "IndexMisuse",
    "Literal",
    "ManualClock",
    "PlaitError",
    "PythonIndex",
    "Randomness",
    "Scalar",
    "SpaceInvalid",
    "Value",
    "id_text",
    "index_name",
    "new_id",
    "new_index",
    "parse",
]

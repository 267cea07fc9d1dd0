"""The garbage collector in a process that is one broker.

What an event brings is freed when nobody refers to it any more, and the pipeline makes no cycles; so the collector has
next to nothing to find, and left alone it looks through all that waits for acknowledgement hundreds of times a second.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 20_000
"""Objects more than were freed before the young ones are looked through; Python's own number is 700."""

OLDER: Final = (20, 50)
"""So many looks at the young ones before one at the older, and so many of those before one at all."""


def tune_collector() -> None:
    """Leave alone what was there from the start, and look at the rest more rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *OLDER)

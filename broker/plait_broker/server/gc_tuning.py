"""Settings of the garbage collector for a process that runs one broker.

Reference counting frees an event's objects, and the pipeline makes no cycles, so the collector finds almost nothing.
With its default settings it would scan all unacknowledged events hundreds of times a second.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 200_000
"""Surplus of allocations over deallocations that starts a scan of the young generation; Python's default is 700.

A full stream to another broker keeps 65,536 unacked events, each with two or three containers. Acks free them in
bursts, so a lower limit is reached again with each burst: at 20,000, scans took a tenth of a busy broker's time.
"""

OLDER: Final = (5, 20)
"""Scans of the young generation for each scan of the middle one, and scans of the middle for each of the oldest."""


def tune_collector() -> None:
    """Exclude the objects of the start from collection, and scan the others more rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *OLDER)

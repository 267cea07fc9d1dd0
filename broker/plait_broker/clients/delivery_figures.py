"""Figures that a client reports about the deliveries of one subscription. `client_reports.py` updates them."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from plait_core.wire.frame_types.session_frames import Unseen

Source: TypeAlias = tuple[Unseen, int]
"""Reason and publisher."""


class DeliveryFigures:
    """Figures that a client has reported about the deliveries of one subscription."""

    __slots__ = ("carried", "counted", "dropped", "handed_out", "lines", "most_handed_out", "waiting")

    def __init__(self, carried: int = 0) -> None:
        self.carried = carried
        """Events that waited in the client when it opened the subscription here, by its first report."""
        self.counted = 0
        """Dropped events that the broker's totals have: those of this session."""
        self.handed_out = 0
        """Events that the application has got, and has not declined."""
        self.most_handed_out = 0
        self.waiting = 0
        """Events in the client's buffer."""
        self.dropped: Counter[Unseen] = Counter()
        """Events that the client has dropped."""
        self.lines: dict[Source, tuple[int, int]] = {}
        """Number and last sequence number of events that were not seen. `waiting` is the number at the last report."""

"""What a broker counts. Plain integers; the metrics page and `plait ls` read them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .reasons import DropReason


@dataclass(slots=True)
class Counters:
    """Since the broker started."""

    published: int = 0
    """Events that arrived from publishers, whatever became of them."""
    admitted: int = 0
    delivered: int = 0
    """Deliveries written: an event for three subscriptions counts three."""
    logged: int = 0
    confirmed: int = 0
    refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """Connections closed for what they sent, by FrameFault."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Connections and requests refused, by Code."""
    dropped: Counter[DropReason] = field(default_factory=Counter)

"""What a broker counts. Plain integers; the metrics page and `plait ls` read them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .drop_reasons import DropReason
from .histograms import DelayHistogram


@dataclass(slots=True)
class Counters:
    """Since the broker started."""

    published: int = 0
    """Events that arrived from publishers, whatever became of them."""
    admitted: int = 0
    delivered: int = 0
    """Deliveries written: an event for three subscriptions counts three."""
    logged: int = 0
    forwarded: int = 0
    """Copies of events handed on for other brokers."""
    arrived: int = 0
    """Events that came from other brokers for subscribers of this one."""
    late: int = 0
    """Deliveries written beyond their subscription's bound, to those who want late events too."""
    confirmed: int = 0
    refused: int = 0
    delivery_delays: DelayHistogram = field(default_factory=DelayHistogram)
    """Of deliveries written: how long each event had been under way, by what its frame says."""
    matching_times: DelayHistogram = field(default_factory=DelayHistogram)
    """Of events that arrived: from the read that brought them until all of that read was matched. The face counts
    these, for it has the clock."""
    waiting_times: DelayHistogram = field(default_factory=DelayHistogram)
    """Of deliveries that could not be written at once: how long each was in its subscription's queue."""
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """Connections closed for what they sent, by FrameFault."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Connections and requests refused, by Code."""
    dropped: Counter[DropReason] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    """Of sealed events: tests that ran, whether deposits fitted, and events that went on untested."""

"""A broker's counters: plain integers that the metrics page and `plait ls` read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from plait_core.wire.frame_types.session_frames import Unseen

from .drop_reasons import DropReason
from .histograms import DelayHistogram


@dataclass(slots=True)
class Counters:
    """Counts since the broker started."""

    published: int = 0
    """Events received from publishers, admitted or not."""
    admitted: int = 0
    delivered: int = 0
    """Deliveries written: an event for three subscriptions counts three times."""
    logged: int = 0
    forwarded: int = 0
    """Copies of events sent towards other brokers."""
    arrived: int = 0
    """Events received from other brokers for subscribers of this one."""
    copies: int = 0
    """Copies of events received from other brokers, to deliver or to send on."""
    late: int = 0
    """Deliveries written beyond the delay bound, of subscriptions that keep late events."""
    confirmed: int = 0
    refused: int = 0
    delivery_delays: DelayHistogram = field(default_factory=DelayHistogram)
    """Delays of deliveries when they were written, as their frames carry them."""
    matching_times: DelayHistogram = field(default_factory=DelayHistogram)
    """Time from a read to the end of matching its events and copies. The server measures it, since it has the clock."""
    waiting_times: DelayHistogram = field(default_factory=DelayHistogram)
    """Times that deliveries have waited in their subscriptions' queues."""
    busy_s: float = 0.0
    """Time that the server has spent in the broker and in writing: its share of a second is how busy the loop is."""
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """Connections closed because of faulty frames, by FrameFault."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Refused connections and requests, by Code."""
    dropped: Counter[DropReason] = field(default_factory=Counter)
    handed_out: int = 0
    """Deliveries that clients have handed to their applications, as reported."""
    client_dropped: Counter[Unseen] = field(default_factory=Counter)
    """Deliveries that clients have dropped, as reported. It is kept when their subscriptions end."""
    client_reports: Counter[str] = field(default_factory=Counter)
    """Reports of clients about deliveries, by outcome."""
    tags: Counter[str] = field(default_factory=Counter)
    """Tests of sealed events, their results, and the events that passed untested."""

"""The settings of the overlay. Each default gives its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    """The settings of one broker's overlay."""

    name: str = "broker"
    heartbeat_s: float = 0.5
    """Interval of pings on a link. A tenfold rise of its delay floods within two pings, and events avoid it within two
    seconds."""
    detect_s: float = 3.0
    """Detection time: a link without any frame, or with an unanswered ping, for so long is dead."""
    gone_s: float = 60.0
    """A broker that cannot be reached for so long is forgotten, with its unacked events."""
    durable_gone_s: float = 86_400.0
    """This time replaces `gone_s` if one of the two brokers has durable subscriptions: a broken machine can be repaired
    meanwhile. Events for durable subscriptions are kept for it, and their confirmations wait."""
    dissemination: str = "shortest-paths"
    """The strategy that plans copies of events, by its name in `dissemination/registry.py`."""
    laboratory: bool = False
    """Whether strategies that may loop are allowed, and retransmission may be off."""
    retransmit: bool = True
    """Whether events are retransmitted. It is off only in the laboratory, to show the losses of a strategy alone."""
    link_capacity: int = 0
    """The configured capacity of each link of this broker in bytes/s. 0: the measured one floods, once it is known. No
    path depends on it."""
    segments: tuple[str, ...] = ()
    """The configured network segments that this broker is attached to. They flood, and no path depends on them."""
    destinations_max: int = 64
    """Destinations that an event names one by one. One with more makes its broker open a stream group: from here on the
    bit set of a tree is shorter, and a publication costs less time."""
    stream_items_max: int = 65_536
    stream_bytes_max: int = 64 << 20
    """Bounds of the unacked events of one stream. Beyond either, the oldest is given up, counted and reported."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One run of a broker, and the log that it has in common with the runs before."""

    log: int = 0
    """Names the log: other brokers recognise the broker by it after a restart. 0 without a log."""
    born: int = 0
    """Calendar time of the start, compared only among runs with the same log."""
    stores: bool = False
    """Whether other brokers' documents are stored in the log."""

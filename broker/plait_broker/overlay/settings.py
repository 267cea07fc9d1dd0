"""The settings of the overlay. Each default gives its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    """Immutable."""

    name: str = "broker"
    heartbeat_s: float = 0.5
    """Between two pings of a link: a tenfold delay is told within two of them, and left within two seconds."""
    detect_s: float = 3.0
    """A link of which nothing is heard, or nothing is answered, for so long is dead."""
    gone_s: float = 60.0
    """A broker that cannot be reached for so long is forgotten, with what was kept for it."""
    durable_gone_s: float = 86_400.0
    """The same where one of the two has durable subscriptions: time to bring a broken machine back. What they want is
    kept for it meanwhile, and whoever asked for confirmation waits."""
    dissemination: str = "shortest-paths"
    """The strategy that plans copies of events, by its name in `dissemination/registry.py`."""
    laboratory: bool = False
    """Whether strategies that may loop are allowed, and retransmission may be off."""
    retransmit: bool = True
    """Whether events are sent again; off only in the laboratory, to show what a strategy loses by itself."""
    link_capacity: int = 0
    """Bytes/s that each link of this broker carries, as configured; 0 for unknown. It floods, and no path depends on
    it."""
    segments: tuple[str, ...] = ()
    """The network segments that this broker is attached to, as configured. They flood, and no path depends on them."""
    stream_items_max: int = 65_536
    stream_bytes_max: int = 64 << 20
    """What is kept for one destination that does not take it; beyond, the oldest is dropped, counted and told."""

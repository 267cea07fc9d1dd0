"""One subscription of an application, as its session keeps it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from plait_core.filters import Filter
from plait_core.wire.frame_types.session_frames import Subscribe

from ..protocol.outputs import PeerId
from ..protocol.peer import Peer

UNACKNOWLEDGED_MAX: Final = 16_384
"""Deliveries of one subscription whose publishers await an ack."""


@dataclass(slots=True)
class PeerSubscription:
    """One subscription of the application."""

    terms: Subscribe
    filter: Filter
    peer: Peer | None
    number: int
    """Its number in telemetry records."""
    opened: bool = False
    since: int = 0
    previous: Peer | None = None
    """The peer of its previous filter, until the new one is open."""
    position: int = 0
    unacknowledged: dict[int, tuple[PeerId, PeerId, int]] = field(default_factory=dict)
    """The deliveries that await an ack: by position, the receiving peer, the publisher and the event's number."""

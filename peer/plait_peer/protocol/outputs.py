"""The outputs of a peer: frames to send, events for the application, confirmations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plait_core.wire.frame_types.peer_frames import PeerFrame

PeerId: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a frame to a peer. The caller reports an unreachable peer by `Peer.lost`."""

    to: PeerId
    address: str
    """The address at which it listens; empty if it is unknown and the peer is connected already."""
    frame: PeerFrame


@dataclass(frozen=True, slots=True)
class Deliver:
    """An event within the peer's interest. The caller matches it against the filter."""

    publisher: PeerId
    number: int
    dz: str
    delay: float
    hops: int
    block: bytes
    round: int = 0
    """Above 0 the publisher awaits an ack: the caller calls `Peer.acknowledge` when the application has the event."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The result of an event that was published with confirmation."""

    number: int
    matched: int | None
    """The number of subscribers that have the event, or None if some may lack it."""


Output: TypeAlias = Send | Deliver | Confirmed

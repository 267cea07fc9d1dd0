"""What a peer asks of its face: frames to send, events for the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plait_core.wire.frame_types.peer_frames import PeerFrame

PeerId: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Send:
    """Bring a frame to a peer. Whoever cannot be reached is reported by `Peer.lost`."""

    to: PeerId
    address: str
    """Where it said that it listens; empty when it never said so and is connected already."""
    frame: PeerFrame


@dataclass(frozen=True, slots=True)
class Deliver:
    """An event within the wanted sub-spaces. The face matches it against the filter itself."""

    publisher: PeerId
    number: int
    dz: str
    delay: float
    hops: int
    block: bytes
    round: int = 0
    """Above 0 its publisher waits for it: the face says `Peer.dealt_with` when the application has it."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What became of an event that was to be confirmed."""

    number: int
    matched: int | None
    """How many subscribers have it; None when it could not be made sure that all have."""


Output: TypeAlias = Send | Deliver | Confirmed

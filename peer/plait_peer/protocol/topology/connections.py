"""The two ends of a connection: a parent in F_in, a child in F_out (thesis 2.4.2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait_core.wire.frame_types.peer_frames import Profile

from ..outputs import PeerId
from ..subspaces import Texts, volume

SMOOTHING = 0.25
"""Weight of the newest round trip in a link's delay: smooth, and yet four round trips show a change."""


@dataclass(slots=True)
class Parent:
    """A peer from which events come, and their sub-spaces."""

    profile: Profile
    dz: Texts
    since: float
    last_seen: float
    sources: dict[PeerId, float]
    """The publishers whose events it forwards, and their delays at the parent."""
    link_s: float | None = None
    """Half of a round trip, measured."""
    jitter_s: float = 0.0
    """The average difference between successive one-way delays."""
    pending_pulse: tuple[int, float] = (0, 0.0)
    """The number of the last Pulse, and the time at which it was sent."""
    sent_version: int = 0

    def add_round_trip(self, round_trip_s: float) -> None:
        """Add a measured round trip to the link's delay and jitter."""
        one_way = round_trip_s / 2
        if self.link_s is not None:
            self.jitter_s += SMOOTHING * (abs(one_way - self.link_s) - self.jitter_s)
        self.link_s = one_way if self.link_s is None else self.link_s + SMOOTHING * (one_way - self.link_s)


@dataclass(slots=True)
class Child:
    """A peer to which events go, and their sub-spaces."""

    profile: Profile
    dz: Texts
    since: float
    last_seen: float
    volume: float = field(init=False)
    sent_sources: frozenset[PeerId] = frozenset()
    """The publishers announced to the child as reaching this peer."""
    sent_version: int = 0

    def __post_init__(self) -> None:
        self.volume = volume(self.dz)


@dataclass(slots=True)
class Request:
    """A connection request that awaits its answer."""

    dz: Texts
    sent: float

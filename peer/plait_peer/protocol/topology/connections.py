"""The two ends of a connection, as each keeps it: a parent in F_in, a child in F_out (thesis 2.4.2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait_core.wire.frame_types.peer_frames import Profile

from ..outputs import PeerId
from ..subspaces import Texts, volume

SMOOTHING = 0.25
"""Weight of the newest round trip in a link's delay: steady, and yet four of them tell a change."""


@dataclass(slots=True)
class Parent:
    """Whom we receive from, and what."""

    profile: Profile
    dz: Texts
    since: float
    heard: float
    sources: dict[PeerId, float]
    """The publishers whose events it passes on, and how long they take to it."""
    link_s: float | None = None
    """Half of a round trip, measured."""
    jitter_s: float = 0.0
    """By how much one differs from those before, on the whole."""
    asked: tuple[int, float] = (0, 0.0)
    """The pulse that is not answered yet, and when it was sent."""
    told_version: int = 0

    def measured(self, round_trip_s: float) -> None:
        """One more round trip."""
        one_way = round_trip_s / 2
        if self.link_s is not None:
            self.jitter_s += SMOOTHING * (abs(one_way - self.link_s) - self.jitter_s)
        self.link_s = one_way if self.link_s is None else self.link_s + SMOOTHING * (one_way - self.link_s)


@dataclass(slots=True)
class Child:
    """Whom we pass events on to, and which."""

    profile: Profile
    dz: Texts
    since: float
    heard: float
    volume: float = field(init=False)
    told_sources: frozenset[PeerId] = frozenset()
    """The publishers that we have said reach us."""
    told_version: int = 0

    def __post_init__(self) -> None:
        self.volume = volume(self.dz)


@dataclass(slots=True)
class Request:
    """A connection that was asked for and not answered yet."""

    dz: Texts
    sent: float

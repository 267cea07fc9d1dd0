"""One peer on a bench: frames in, frames out, and no other peer. For the tests of the thesis' algorithms."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from plait_core.space import DzSet
from plait_core.wire.frame_types.peer_frames import Accept, Connect, Gossip, PeerEvent, PeerFrame, Profile
from plait_peer import THESIS, Deliver, Peer, PeerSettings, Policies, Send

F = TypeVar("F", bound=PeerFrame)


def settings(policies: Policies = THESIS, **changed: object) -> PeerSettings:
    return PeerSettings(policies=policies, **{"children_max": 2, **changed})  # type: ignore[arg-type]


def profile(peer: int, *dz: str, bound: float = 3.0, delay: float = 1.0, version: int = 1, **more: object) -> Profile:
    """Return the profile of another peer."""
    return Profile(peer, version, dz, bound, 0.0 if bound == 0.0 else delay, 5, **more)  # type: ignore[arg-type]


class Bench:
    """A peer with id 1. The test plays all others."""

    def __init__(self, *dz: str, bound: float = 3.0, with_settings: PeerSettings | None = None) -> None:
        self.now = 0.0
        chosen = with_settings or settings()
        self.peer = Peer(1, DzSet.of(dz), bound, randomness=Random(7), settings=chosen)
        self.sent: list[tuple[int, PeerFrame]] = []
        self.delivered: list[Deliver] = []

    def receive(self, sender: int, frame: PeerFrame) -> None:
        self.peer.receive(sender, frame, self.now)
        self._take()

    def gossip(self, *profiles: Profile) -> None:
        """Receive profiles by gossip."""
        self.receive(99, Gossip(False, profiles, (0,) * len(profiles)))

    def periods(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 1.0
            self.peer.tick(self.now)
            self._take()

    def _take(self) -> None:
        for output in self.peer.take_output():
            if isinstance(output, Send):
                self.sent.append((output.to, output.frame))
            else:
                self.delivered.append(output)

    def take(self, kind: type[F]) -> list[tuple[int, F]]:
        """Return the frames of one kind that were sent since the last call."""
        found = [(to, frame) for to, frame in self.sent if isinstance(frame, kind)]
        self.sent = [(to, frame) for to, frame in self.sent if not isinstance(frame, kind)]
        return found

    def adopt(self, parent: Profile, *dz: str, sources: dict[int, float] | None = None) -> None:
        """Connect to a parent for these sub-spaces."""
        self.peer.parents.connect(parent.peer, dz, self.now)
        sources = sources if sources is not None else {50: max(0.0, parent.delay)}
        self.receive(parent.peer, Accept(parent, dz, tuple(sources), tuple(sources.values())))
        self.sent.clear()

    def child(self, child: Profile, *dz: str) -> None:
        """Receive a connection request from a child."""
        self.receive(child.peer, Connect(child, dz or child.dz))

    def event(self, sender: int, dz: str, *, publisher: int = 50, number: int = 1, delay: float = 1.0) -> None:
        self.receive(sender, PeerEvent(publisher, number, dz, delay, 1))

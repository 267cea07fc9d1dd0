"""Death of an interior peer: the time until every live peer receives all events again, and the loss meanwhile.

The group has the settings of live peers, on virtual time. A death resets the peer's connections, as
for a killed process, or is silent, as for a host that vanishes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from plait_core.space import DzSet
from plait_peer import Deliver, Peer, PeerId
from plait_peer.protocol.subspaces import covers
from plait_peer.server import LIVE

from .structure import Structure
from .world import PeerWorld

PUBLISHER: Final = 1
FIRST: Final = 100
RATE: Final = 100.0
"""Events a second during repair: a resolution of ten milliseconds."""
CONVERGE_S: Final = 12.0
WATCHED_S: Final = 10.0
PLACE_S: Final = 0.05
"""Size of the group's area: frames take 5 to 12 ms."""
IN_TIME_S: Final = 0.25
"""Delay of an event beyond which the tree was incomplete."""
WANTS: Final = (("",), ("01", "1"), ("011", "10"), ("0",), ("11",))
DEPTH: Final = 6


@dataclass(frozen=True, slots=True)
class HealingTerms:
    """The parameters of a trial."""

    reset_connections: bool = True
    """Whether a death resets connections, or is silent."""
    subscribers: int = 19
    children_max: int = 3
    deaths: int = 1
    """Peers that die at the same moment: those with the most children."""
    mixed: bool = False
    """Whether subscribers have different parts of the space."""
    seed: int = 1
    encrypted: bool = False
    """Whether links encode and encrypt frames."""


class HealingTrial:
    """A group and its deaths."""

    def __init__(self, terms: HealingTerms) -> None:
        self.terms = terms
        self.rng = Random(f"healing/{terms.seed}")
        self.world = PeerWorld(f"healing/{terms.seed}", encrypted=terms.encrypted)
        self.settings = replace(LIVE, children_max=terms.children_max)
        self.published: dict[int, tuple[float, str]] = {}
        self.got: dict[PeerId, dict[int, float]] = {}
        self.duplicates: Counter[PeerId] = Counter()
        self.world.delivered = self._delivered
        self._start(PUBLISHER, DzSet.of([""]), 0.0)
        for number in range(FIRST, FIRST + terms.subscribers):
            wanted = self.rng.choice(WANTS) if terms.mixed else ("",)
            self._start(number, DzSet.of(wanted), 10.0)

    def _start(self, number: PeerId, wanted: DzSet, bound: float) -> None:
        rng = Random(f"peer/{self.terms.seed}/{number}")
        peer = Peer(number, wanted, bound, randomness=rng, settings=self.settings, now=self.world.now)
        self.world.join(peer, place=(PLACE_S * self.rng.random(), PLACE_S * self.rng.random()))

    def _delivered(self, peer: PeerId, event: Deliver) -> None:
        got = self.got.setdefault(peer, {})
        self.duplicates[peer] += event.number in got
        got.setdefault(event.number, self.world.now)
        if event.round:
            self.world.peers[peer].acknowledge(event.publisher, event.number)

    def converge(self) -> float:
        """Let the group form. Return the seconds until all subscribers are notified."""
        while self.world.now < CONVERGE_S:
            self.world.run(self.world.now + 0.1)
            state = Structure(self.world.peers).state(self.world.now)
            if state.notified == state.subscribers:
                break
        took = self.world.now
        self.world.run(took + 5.0)
        return took

    def interior(self) -> list[PeerId]:
        """Return the subscribers with children, those with the most first."""
        peers = self.world.peers
        found = [number for number in peers if number != PUBLISHER and peers[number].children.by_id]
        return sorted(found, key=lambda number: (-len(peers[number].children.by_id), number))

    def play(self) -> float:
        """Kill peers. Return the seconds from the death to the last event that some peer received late or never."""
        world = self.world
        self._events(1.0)
        killed_at = world.now
        for peer in self.interior()[: self.terms.deaths]:
            self._kill(peer)
        self._events(WATCHED_S)
        world.run(world.now + 2.0)
        return max([at - killed_at for at in self._missed()], default=0.0)

    def _kill(self, peer: PeerId) -> None:
        world = self.world
        others = [*world.peers[peer].parents.by_id, *world.peers[peer].children.by_id]
        world.crash(peer)
        if self.terms.reset_connections:
            world.refusing.add(peer)
            for other in others:
                world.reset(other, peer)

    def _events(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            dz = f"{self.rng.getrandbits(DEPTH):0{DEPTH}b}"
            number = self.world.publish(PUBLISHER, dz)
            self.published[number] = (self.world.now, dz)
            self.world.run(self.world.now + 1 / RATE)

    def _missed(self) -> list[float]:
        """Return the publication times of events that some live peer did not receive in time."""
        found = []
        for number, (at, dz) in self.published.items():
            for peer in self.world.peers.values():
                if not peer.state.publisher and covers(peer.state.interest, dz):
                    received_at = self.got.get(peer.id, {}).get(number)
                    if received_at is None or received_at > at + IN_TIME_S:
                        found.append(at)
                        break
        return found

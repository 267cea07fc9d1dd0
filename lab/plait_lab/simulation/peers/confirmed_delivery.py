"""Confirmed events in a group that is never quiet: each confirmation is checked when it is made.

A subscriber must receive an event that is published after its subscription opened. When the publisher reports that all
subscribers have the event, each live one of these must have received it, despite any changes of the tree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from plait_core.space import DzSet
from plait_peer import Confirmed, Deliver, Peer, PeerId
from plait_peer.protocol.subspaces import covers
from plait_peer.server import LIVE

from .world import PeerWorld

TROUBLES: Final = ("none", "join", "crash", "silence", "reset", "churn", "pause")
STEP_S: Final = 0.02
QUIET_S: Final = 40.0
"""Seconds within which every published event is confirmed or given up."""
WANTS: Final = (("",), ("01", "1"), ("011", "10"), ("0",), ("11",))
DEPTH: Final = 6


@dataclass(frozen=True, slots=True)
class ConfirmationTerms:
    """The parameters of a trial."""

    trouble: str = "crash"
    subscribers: int = 12
    publishers: int = 1
    children_max: int = 3
    seed: int = 1
    encrypted: bool = False
    """Whether links encode and encrypt frames."""


class ConfirmationTrial:
    """A group with confirmed events."""

    def __init__(self, terms: ConfirmationTerms) -> None:
        self.terms = terms
        self.rng = Random(f"custody/{terms.trouble}/{terms.seed}")
        self.world = PeerWorld(f"custody/{terms.trouble}/{terms.seed}", encrypted=terms.encrypted)
        self.settings = replace(LIVE, children_max=terms.children_max)
        self.opened: set[PeerId] = set()
        self.owed: dict[tuple[PeerId, int], set[PeerId]] = {}
        self.got: Counter[tuple[PeerId, PeerId, int]] = Counter()
        self.promised: set[tuple[PeerId, int]] = set()
        self.given_up: set[tuple[PeerId, int]] = set()
        self.excused: set[PeerId] = set()
        """Peers that were away for longer than the timeouts."""
        self.broken: list[str] = []
        self._taken: list[tuple[float, PeerId, PeerId, int]] = []
        self._numbers: Counter[PeerId] = Counter()
        self._next = 100
        self.world.delivered = self._delivered
        self.world.confirmed = self._confirmed
        self.publishers = list(range(1, terms.publishers + 1))
        for publisher in self.publishers:
            self._start(publisher, DzSet.of([""]), 0.0)
        for _ in range(terms.subscribers):
            self.join()

    # --- the group ----------------------------------------------------------------------------------------------------

    def _start(self, number: PeerId, wanted: DzSet, bound: float) -> None:
        rng = Random(f"peer/{self.terms.seed}/{number}")
        peer = Peer(number, wanted, bound, randomness=rng, settings=self.settings, now=self.world.now)
        self.world.join(peer, place=(0.05 * self.rng.random(), 0.05 * self.rng.random()))

    def join(self) -> None:
        """Add a subscriber."""
        self._start(self._next, DzSet.of(self.rng.choice(WANTS)), 10.0)
        self._next += 1

    @property
    def subscribers(self) -> list[PeerId]:
        """The live subscribers."""
        return [number for number in self.world.peers if number >= 100]

    def _delivered(self, peer: PeerId, event: Deliver) -> None:
        key = (peer, event.publisher, event.number)
        self.got[key] += 1
        if self.got[key] > 1:
            self.broken.append(f"{peer} received {event.number} twice")
        if event.round:
            when = self.world.now + self.rng.choice((0.0, 0.0, 0.001, 0.05, 0.3))
            self._taken.append((when, peer, event.publisher, event.number))

    def _confirmed(self, publisher: PeerId, output: Confirmed) -> None:
        key = (publisher, output.number)
        if output.matched is None:
            self.given_up.add(key)
            return
        self.promised.add(key)
        for peer in sorted(self.owed.get(key, ())):
            if peer in self.world.peers and peer not in self.excused and not self.got[(peer, *key)]:
                self.broken.append(f"{output.number} of {publisher} was confirmed and {peer} has not received it")

    # --- what happens -------------------------------------------------------------------------------------------------

    def step(self, *, publish: bool = True) -> None:
        """Let a moment pass, with an event in it."""
        world = self.world
        world.run(world.now + STEP_S * self.rng.random() * 2)
        due = [each for each in self._taken if each[0] <= world.now and each[1] not in world.paused]
        self._taken = [each for each in self._taken if each not in due]
        for _, peer, publisher, number in due:
            if peer in world.peers:
                world.peers[peer].acknowledge(publisher, number)
                world.flush(peer)
        self.opened |= {number for number in self.subscribers if world.peers[number].open}
        if publish:
            self._publish(self.rng.choice(self.publishers))

    def _publish(self, publisher: PeerId) -> None:
        dz = f"{self.rng.getrandbits(DEPTH):0{DEPTH}b}"
        peers = self.world.peers
        self._numbers[publisher] += 1
        number = self._numbers[publisher]
        owed = {peer for peer in self.opened if peer in peers and covers(peers[peer].state.interest, dz)}
        self.owed[(publisher, number)] = owed
        self.world.publish(publisher, dz, number=number, confirm=True)

    def run(self, seconds: float, *, publish: bool = True) -> None:
        """Let time pass, with events."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.step(publish=publish)

    def crash(self, peer: PeerId, *, reset_connections: bool) -> None:
        """Kill a peer. `reset_connections`: its connections are reset, else its neighbours learn nothing."""
        world = self.world
        others = [*world.peers[peer].parents.by_id, *world.peers[peer].children.by_id]
        world.crash(peer)
        if reset_connections:
            world.refusing.add(peer)
            for other in others:
                world.reset(other, peer)

    def play(self) -> None:
        """Play construction, trouble and peace."""
        self.run(3.0, publish=False)
        self.run(4.0)
        getattr(self, f"_{self.terms.trouble}")()
        for number in sorted(self.world.paused):
            self.world.resume(number)
        self.run(2.0)
        until = self.world.now + QUIET_S
        while self.world.now < until and len(self.promised) < len(self.owed):
            self.step(publish=False)

    def _some(self, share: float) -> list[PeerId]:
        return self.rng.sample(self.subscribers, max(1, round(share * len(self.subscribers))))

    def _none(self) -> None:
        self.run(3.0)

    def _join(self) -> None:
        for _ in range(self.terms.subscribers):
            self.join()
            self.run(0.4 * self.rng.random())

    def _crash(self) -> None:
        for peer in self._some(0.33):
            self.crash(peer, reset_connections=True)

    def _silence(self) -> None:
        for peer in self._some(0.33):
            self.crash(peer, reset_connections=False)

    def _reset(self) -> None:
        for _ in range(10):
            peer = self.world.peers[self.rng.choice(self.subscribers)]
            others = [*peer.parents.by_id, *peer.children.by_id]
            if others:
                self.world.reset(peer.id, self.rng.choice(others))
            self.run(0.6 * self.rng.random())

    def _churn(self) -> None:
        for _ in range(8):
            self.crash(self.rng.choice(self.subscribers), reset_connections=self.rng.random() < 0.5)
            self.join()
            self.run(0.6 * self.rng.random())

    def _pause(self) -> None:
        """Pause peers for long enough that neighbours take them for dead, and publishers do not."""
        for peer in self._some(0.33):
            self.world.pause(peer)
        self.run(self.settings.period_s * (2 + 4 * self.rng.random()))

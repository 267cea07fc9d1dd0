"""A group from its start, period by period: the basis of every figure of thesis 2.8."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from plait_core.space import DzSet
from plait_peer import PLAIT, THESIS, Peer, PeerId, PeerSettings, Policies

from .structure import Convergence, Structure
from .workload import PeerWorkload
from .world import PeerWorld

VARIANTS: Final[dict[str, Policies]] = {"thesis": THESIS, "plait": PLAIT}
FIRST_SUBSCRIBER: Final = 1000
VIEW_SHARE: Final = 0.05
"""Share of the group in pView (2.8.1)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The parameters of a trial."""

    peers: int = 500
    publishers: int = 4
    workload: PeerWorkload = field(default_factory=PeerWorkload)
    variant: str = "plait"
    children_max: int | None = None
    """m; the logarithm of the group's size by default."""
    false_share: float = 0.0625
    events_per_period: int = 5
    seed: int = 1
    encrypted: bool = False
    """Whether links encode and encrypt frames."""

    @property
    def settings(self) -> PeerSettings:
        """The settings of every peer."""
        return PeerSettings(
            policies=VARIANTS[self.variant],
            children_max=self.children_max or round(math.log2(self.peers)),
            false_share=self.false_share,
            view_max=max(20, round(VIEW_SHARE * self.peers)),
        )


class Trial:
    """A group and its rounds of events and churn."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.rng = Random(f"trial/{terms.seed}")
        self.world = PeerWorld(terms.seed, encrypted=terms.encrypted)
        self.settings = terms.settings
        self.events = 0
        self._next = FIRST_SUBSCRIBER
        for number in range(1, terms.publishers + 1):
            self._start(number, DzSet.of([""]), 0.0)
        for _ in range(terms.peers):
            self.subscriber()

    def _start(self, number: PeerId, wanted: DzSet, bound: float) -> None:
        rng = Random(f"peer/{self.terms.seed}/{number}")
        self.world.join(Peer(number, wanted, bound, randomness=rng, settings=self.settings, now=self.world.now))

    def subscriber(self) -> None:
        """Add a subscriber."""
        workload = self.terms.workload
        self._start(self._next, workload.subscription(self.rng), workload.bound(self.rng))
        self._next += 1

    def churn(self, share: float) -> None:
        """Replace a share of the subscribers: some crash, and as many others join."""
        subscribers = [number for number in self.world.peers if number >= FIRST_SUBSCRIBER]
        crashed = self.rng.sample(subscribers, round(share * len(subscribers)))
        for number in crashed:
            self.world.crash(number)
        for _ in crashed:
            self.subscriber()

    def period(self) -> None:
        """Let one period pass, with events in it."""
        world = self.world
        begin = world.now
        for place in range(self.terms.events_per_period):
            world.run(begin + self.settings.period_s * place / self.terms.events_per_period)
            world.publish(1 + int(self.rng.random() * self.terms.publishers), self.terms.workload.event(self.rng))
            self.events += 1
        world.run(begin + self.settings.period_s)

    def state(self) -> Convergence:
        """Return the state of the group."""
        return Structure(self.world.peers).state(self.world.now)

    def periods(self, most: int, *, enough: bool = True) -> Iterator[Convergence]:
        """Yield the state after each period, at most `most`, up to the first in which everyone is notified."""
        for _ in range(most):
            self.period()
            yield (state := self.state())
            if enough and state.notified == state.subscribers:
                return

    def false_positives(self) -> int:
        """Return the false positives that all subscribers have received so far."""
        return sum(peer.counters.false_positives for peer in self.world.peers.values())

    def false_rate(self, periods: int) -> float:
        """Return the mean share of events that a subscriber receives as false positives, over the next periods."""
        before, events = self.false_positives(), self.events
        for _ in range(periods):
            self.period()
        return (self.false_positives() - before) / (self.terms.peers * (self.events - events))

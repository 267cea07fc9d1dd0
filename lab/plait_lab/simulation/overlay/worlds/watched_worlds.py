"""Overlay worlds with additional checks.

Brokers of `WatchedWorld` take charge of events late and in any order, which detects an ack that is sent before its
broker has taken charge. `Ring` has two paths between two brokers and at times cuts the better one, far from the
publisher: events on it are lost, later ones arrive on the other path, and the gap must be closed promptly. The same
holds for gaps made by relays, which sometimes have no room for a copy. `Flux` has long links that come, go and slow
down all the time, so that maps differ while events are in flight. `Absences` stops brokers and partitions the overlay
for so long that brokers are forgotten. In `Returns` a broker returns just when the others are about to forget it, so
that some have and some have not.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

from plait_broker.overlay import ReceivedEvent
from plait_core.filters import parse
from plait_core.wire import Destination, EventFrame

from ..overlay_nodes import Node, Pipe
from ..overlay_oracle import judge
from ..overlays import OverlayWorld, _both, draw_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TAKE_S: Final = 0.05
"""Longest time until a broker takes charge of an event: the time of a disk."""

FULL: Final = 0.01
"""Probability that a relay has no room for a copy that it has not relayed before."""

FULL_UNTIL_S: Final = 24.0
"""Time until which relays may be full: later gaps might have no event behind them, and would show by silence alone."""

GONE_S: Final = 20.0
"""Seconds after which the simulation's brokers forget each other."""

PROMPT_S: Final = 0.4
"""The greatest delay of an event in the ring: missing events are requested after a tenth of a second."""


class DelayedChargeNode(Node):
    """A broker that takes charge of events after a while, and records them."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        super().__init__(number, world)
        self.charge: set[tuple[int, int]] = set()
        self._rng = Random(f"takes/{world.seed}/{number}")

    def start(self) -> None:
        self.charge = set()
        super().start()

    def arrived_(self, arrival: ReceivedEvent) -> None:
        overlay = self.overlay
        assert overlay is not None
        take, overlay.acknowledge = overlay.acknowledge, lambda *_: None  # type: ignore[method-assign]
        super().arrived_(arrival)
        overlay.acknowledge = take  # type: ignore[method-assign]
        later = self._taking(arrival, self.lives)
        self.world.timeline.after(self._rng.choice((0.0, TAKE_S * self._rng.random())), later)

    def _taking(self, arrival: ReceivedEvent, life: int) -> Callable[[], None]:
        def take() -> None:
            if self.overlay is not None and self.lives == life:
                self.charge.add((arrival.root, arrival.position))
                self.overlay.acknowledge(arrival.root, arrival.position, self.now)
                self.settle()

        return take

    def taken(self, home: int, position: int) -> None:
        other = self.world.ids[home]
        assert isinstance(other, DelayedChargeNode)
        assert self.overlay is not None
        if other.lives == self.world.lives[home] and (self.overlay.me, position) not in other.charge:
            self.world.complain(f"custody: {self.name} thinks that {other.name} has charge of {position}")
        super().taken(home, position)


class WatchedWorld(OverlayWorld):
    """A world of such brokers."""

    NODE: ClassVar[type[Node]] = DelayedChargeNode


class NoSourceRoutesNode(DelayedChargeNode):
    """A broker without source routes, which therefore does not correct its own routing errors."""

    def start(self) -> None:
        super().start()
        assert self.overlay is not None
        self.overlay.unicast.by = lambda *_, **__: False  # type: ignore[method-assign]


class NoSourceRoutesWorld(OverlayWorld):
    """A world of such brokers."""

    NODE: ClassVar[type[Node]] = NoSourceRoutesNode


class DeadlineNode(DelayedChargeNode):
    """A broker that detects late events; as a relay it may have no room for a copy."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        super().__init__(number, world)
        self._passed: set[int] = set()

    def forward(
        self,
        link: int,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
    ) -> None:
        anew = len(path) > 1 and frame.sequence not in self._passed
        self._passed.add(frame.sequence)
        if not (anew and self.world.faults and self.now < FULL_UNTIL_S and self._rng.random() < FULL):
            super().forward(link, frame, tree, delay_us, flags, path, destinations)

    def arrived_(self, arrival: ReceivedEvent) -> None:
        super().arrived_(arrival)
        late_s = self.now - self.world.said[arrival.frame.publisher, arrival.frame.sequence].at
        if late_s > PROMPT_S:
            self.world.complain(f"prompt: {self.name} got {arrival.position} after {late_s:.3f} s")


class Ring(OverlayWorld):
    """Paths from 0 through 1 or 2 to 3. The link from 1 to 3, on the better path, is cut and restored."""

    NODE: ClassVar[type[Node]] = DeadlineNode

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        super().__init__(seed, faults=faults, brokers=4)
        delays_s = {(0, 1): 0.01, (1, 3): 0.02, (0, 2): 0.02, (2, 3): 0.03}
        self.pipes = [
            Pipe((self.nodes[near], self.nodes[far]), delay_s * self.rng.uniform(0.8, 1.2), number)
            for number, ((near, far), delay_s) in enumerate(delays_s.items())
        ]

    def play(self) -> list[str]:
        publisher, _, _, subscriber = self.nodes
        for node in self.nodes:
            self.timeline.at(0.0, node.start)
        self.timeline.run(5.0)
        publisher.advertise(parse("x >= 0"))
        subscriber.subscribe(parse("x >= 0"))
        self.timeline.run(10.0)
        for event in range(1500):
            self.timeline.at(10.0 + event * 0.01, lambda: publisher.publish({"x": 1}))
        if self.faults:
            at = 11.0
            while at < 22.0:
                self.timeline.at(at, lambda: self._cut(self.pipes[1], 0.5))
                at += self.rng.uniform(2.0, 4.0)
        self.timeline.run(35.0)
        if len(self.said) < 1500:
            self.complain("the publisher did not publish")
        judge(self)
        return self.complaints


class Flux(WatchedWorld):
    """Six distant brokers whose maps never agree for long."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        super().__init__(seed, faults=faults, brokers=6)
        for pipe in self.pipes:
            pipe.delay_s = self.rng.uniform(0.02, 0.3)

    def play(self) -> list[str]:
        for node in self.nodes:
            self.timeline.at(0.0, node.start)
        self.timeline.run(5.0)
        for node in self.nodes:
            node.advertise(parse("x >= 0"))
            node.subscribe(parse("x >= 0"))
        self.timeline.run(15.0)
        for event in range(400):
            publisher = self.rng.choice(self.nodes)
            self.timeline.at(15.0 + event * 0.02, lambda node=publisher: node.publish({"x": 1}))  # type: ignore[misc]
        for change in range(40 if self.faults else 0):
            kind = self.rng.choice(("slow", "slow", "cut"))
            self.timeline.at(15.0 + change * 0.2, lambda kind=kind: self.fault(kind))  # type: ignore[misc]
        self.timeline.run(23.0)
        self._heal()
        self.timeline.run(60.0)
        judge(self)
        return self.complaints


class Returns(OverlayWorld):
    """A chain whose last broker is cut off repeatedly, about as long as it takes to be forgotten."""

    FORGETS = True

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        super().__init__(seed, faults=faults, brokers=4)
        ends = zip(self.nodes, self.nodes[1:], strict=False)
        self.pipes = [Pipe((near, far), 0.01, number) for number, (near, far) in enumerate(ends)]

    def play(self) -> list[str]:
        for node in self.nodes:
            self.timeline.at(self.rng.uniform(0.0, 0.5), node.start)
        self.timeline.run(3.0)
        for node in self.nodes:
            node.advertise(draw_filter(self.rng, wide=True))
            node.subscribe(draw_filter(self.rng))
        self.timeline.run(6.0)
        for _ in range(4 if self.faults else 0):
            self._cut(self.pipes[-1], GONE_S - 0.3 + self.rng.uniform(0.0, 1.0))
            self.timeline.run(self.timeline.now + GONE_S + 10.0)
        judge(self)
        return self.complaints


class Absences(OverlayWorld):
    """Events; a minute and a half with long outages and changes of interest; events again."""

    NODE: ClassVar[type[Node]] = DelayedChargeNode
    FORGETS = True

    def play(self) -> list[str]:
        for node in self.nodes:
            for _ in range(self.rng.randint(0, 2)):
                node.numbers += 1
                node.offers[node.numbers] = draw_filter(self.rng, wide=True)
            for _ in range(self.rng.randint(0, 3)):
                node.numbers += 1
                node.wants[node.numbers] = draw_filter(self.rng)
            self.timeline.at(self.rng.uniform(0.0, 0.2), node.start)
        self._wait(8.0)
        self._events()
        self._wait(5.0)
        for _ in range(self.rng.randint(1, 4)):
            self.timeline.after(self.rng.uniform(0.0, 60.0), self._absence)
        for _ in range(self.rng.randint(0, 10)):
            self.timeline.after(self.rng.uniform(0.0, 90.0), self._change)
        self._wait(115.0)
        self._heal()
        self._wait(40.0)
        self._events()
        self._wait(20.0)
        judge(self)
        return self.complaints

    def _wait(self, for_s: float) -> None:
        self.timeline.run(self.timeline.now + for_s)

    def _events(self) -> None:
        for _ in range(60):
            self.rng.choice(self.nodes).publish({"x": self.rng.randrange(100), "y": self.rng.randrange(10)})
            self._wait(0.02)

    def _absence(self) -> None:
        node, lasts = self.rng.choice(self.nodes), self.rng.uniform(10.0, 50.0)
        kind = self.rng.choice(("pause", "pause", "crash", "partition", "cut")) if self.faults else ""
        if kind == "pause" and node.overlay is not None and not node.paused:
            node.paused = True
            self.timeline.after(lasts, lambda: node.resume() if node.paused else None)
        elif kind == "crash" and node.overlay is not None and not node.paused:
            node.stop()
            self.timeline.after(lasts, node.start_again)
        elif kind == "partition":
            side = set(self.rng.sample(self.nodes, self.rng.randint(1, len(self.nodes) - 1)))
            for pipe in self.pipes:
                if (pipe.ends[0] in side) != (pipe.ends[1] in side):
                    self._cut(pipe, lasts + self.rng.uniform(0.0, 1.0))
        elif kind == "cut":
            pipe = self.rng.choice(self.pipes)
            self._cut(pipe, lasts, silent=_both(pipe) if self.rng.random() < 0.5 else None)

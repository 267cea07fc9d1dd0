"""The overlay on random graphs: whole histories from seeds, with links and brokers that fail and return.

The overlay's object is driven frame by frame through the wire format. The oracle knows every filter, event and fault.
It checks that events arrive once and in order where they must and nowhere else, that none visits a broker twice, and
that at the end every table equals a fresh build.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar, Final

from plait_broker.overlay import OverlaySettings
from plait_core import Attributes
from plait_core.filters import Filter, parse
from plait_core.matching import Index, new_index
from plait_core.wire import Frame

from ..history import UNKNOWN, History, Kind, type_number
from ..timeline import Timeline
from .bare_ground_truth import BareGroundTruth
from .overlay_nodes import Node, Pipe, Said
from .overlay_oracle import judge, judge_tables

SETTLE_S: Final = 30.0
BROKERS: Final = (3, 4, 5, 6, 8, 12)
LIFE_S: Final = 12.0
"""Seconds in which things happen."""

ON_WIRE: Final = 8
"""One history in so many encodes and decodes every frame. The others pass objects, in half the time."""

SIGNED: Final = 16
"""In one history of so many, brokers sign and verify their messages."""

FAULTS: Final = ("cut", "silence", "one_way", "crash", "slow", "jitter", "partition", "pause")

LARGE: Final = 250
"""One history in so many has more brokers, up to sixty."""

MORE: Final = 40
MORE_S: Final = 5.0
"""Events at the end, when all is healed, and the seconds for their delivery."""


SETTINGS: Final = OverlaySettings(gone_s=20.0)
"""Of all brokers, but for their names."""


class OverlayWorld:
    """One history."""

    NODE: ClassVar[type[Node]] = Node
    """The class of its brokers; subclasses add checks."""
    FORGETS: ClassVar[bool] = False
    """Whether brokers are absent for so long that others may forget them."""

    def __init__(
        self,
        seed: int,
        *,
        faults: bool = True,
        brokers: int | None = None,
        settings: OverlaySettings = SETTINGS,
    ) -> None:
        self.seed = seed
        self.settings = settings
        self.rng = Random(f"overlay/{seed}/{faults}")
        self.timeline = Timeline()
        self.history = History()
        self.new_index: Callable[[], Index] = new_index
        self.complaints: list[str] = []
        self.said: dict[tuple[int, int], Said] = {}
        self.ids: dict[int, Node] = {}
        self.lives: dict[int, int] = {}
        """The incarnation of a node that had a broker's id."""
        self.given_up = 0
        self.truth = BareGroundTruth(self, forgets=self.FORGETS)
        self.settled = False
        """Whether everything healed long ago."""
        self.faults = faults
        self.on_wire = seed % ON_WIRE == 0
        """Whether frames are encoded and decoded in transit."""
        self.signed: bool = seed % SIGNED == 1
        """Whether brokers sign and verify messages."""
        count = brokers or (self.rng.randint(13, 60) if seed % LARGE == LARGE - 1 else self.rng.choice(BROKERS))
        self.nodes = [self.NODE(number, self) for number in range(count)]
        self.pipes: list[Pipe] = []
        for near, far in draw_edges(count, self.rng):
            delay_s = self.rng.choice((0.0005, 0.002, 0.01, 0.05)) * self.rng.uniform(0.8, 1.2)
            self.pipes.append(Pipe((self.nodes[near], self.nodes[far]), delay_s, len(self.pipes)))
        self.spoken: dict[tuple[int, int], int] = {}

    def complain(self, text: str) -> None:
        if len(self.complaints) < 20:
            self.complaints.append(f"{self.timeline.now:.4f} {text}")

    def note(self, kind: Kind, node: Node, *numbers: int) -> None:
        """Add a line to the history."""
        self.history.add(kind, self.timeline.now, node.number, *numbers)

    def number(self, broker: int) -> int:
        """Return the number of the node that has, or had, this id."""
        node = self.ids.get(broker)
        return node.number if node is not None else UNKNOWN

    # --- links --------------------------------------------------------------------------------------------------------

    def carry(self, node: Node, link: int, data: bytes | Frame) -> None:
        self.history.add(Kind.FRAME, self.timeline.now, node.number, link, type_number(data))
        pipe = self.pipes[link]
        other = pipe.ends[node is pipe.ends[0]]
        if not pipe.up or node.number in pipe.silent or other.overlay is None:
            return
        life = other.lives
        delay_s = pipe.delay_s + (self.rng.random() * pipe.jitter_s if pipe.jitter_s else 0.0)
        at = max(self.timeline.now + delay_s, pipe.last.get(node.number, 0.0))
        pipe.last[node.number] = at
        generation = self.spoken.get((link, node.number))

        def deliver() -> None:
            if pipe.up and node.number not in pipe.silent and self.spoken.get((link, node.number)) == generation:
                other.hear(pipe, data, life)

        self.timeline.at(at, deliver)

    def spoken_by(self, pipe: Pipe, node: Node) -> int | None:
        """Return the id that a link's end has introduced itself by."""
        return self.spoken.get((pipe.number, node.number))

    def join(self, pipe: Pipe) -> None:
        """Bring a link up at both ends."""
        near, far = pipe.ends
        if near.overlay is None or far.overlay is None or not pipe.up:
            return
        if near.paused or far.paused:
            self.timeline.after(0.5, lambda: self._dial(pipe))
            return
        pipe.silent = frozenset()
        self.truth.change()
        for node, other in ((near, far), (far, near)):
            assert node.overlay is not None
            assert other.overlay is not None
            former = self.spoken.get((pipe.number, other.number))
            if former not in (None, other.overlay.me):  # its host has no such connection any more, and says so
                node.down(former)
            self.spoken[pipe.number, other.number] = other.overlay.me
        for node, other in ((near, far), (far, near)):
            assert node.overlay is not None
            assert other.overlay is not None
            self.note(Kind.LINK_UP, node, pipe.number)
            node.overlay.link_up(pipe.number, other.overlay.me, other.name, self.timeline.now)
            node.settle()

    def broken(self, pipe: Pipe, by: Node) -> None:
        """Take a link down at both ends after one has given it up, and dial again later."""
        self.truth.change()
        other = pipe.ends[by is pipe.ends[0]]
        me = self.spoken.get((pipe.number, by.number))
        its = self.spoken.get((pipe.number, other.number))
        if me is not None:
            self.timeline.after(0.001, lambda: other.down(me))
        if its is not None:
            self.timeline.after(0.001, lambda: by.down(its))
        self.timeline.after(0.5, lambda: self._dial(pipe))

    def expelled(self, by: Node, other: Node) -> None:
        """Complain that a broker takes an honest one for hostile."""
        self.complain(f"I3: {by.name} expels {other.name}, which is honest")

    def _dial(self, pipe: Pipe) -> None:
        near, far = pipe.ends
        if not pipe.up or pipe.silent or near.overlay is None or far.overlay is None:
            return
        known = (far.overlay.me in near.overlay.neighbours, near.overlay.me in far.overlay.neighbours)
        if not any(known):
            self.join(pipe)
        elif not all(known):  # one of them has not noticed yet
            self.timeline.after(0.5, lambda: self._dial(pipe))

    # --- faults -------------------------------------------------------------------------------------------------------

    def fault(self, kind: str) -> None:
        rng, timeline = self.rng, self.timeline
        pipe = rng.choice(self.pipes)
        node = rng.choice(self.nodes)
        lasts = rng.uniform(0.2, 8.0)
        self.truth.change()
        if kind == "slow":
            pipe.delay_s *= rng.choice((0.1, 3.0, 10.0))
            pipe.delay_s = min(max(pipe.delay_s, 0.0002), 0.4)
        elif kind == "jitter":
            pipe.jitter_s = rng.choice((0.001, 0.02, 0.2))
            timeline.after(lasts, lambda: setattr(pipe, "jitter_s", 0.0))
        elif kind == "one_way":
            self._cut(pipe, lasts, silent=frozenset({rng.choice(pipe.ends).number}))
        elif kind in ("cut", "silence"):
            self._cut(pipe, lasts, silent=_both(pipe) if kind == "silence" else None)
        elif kind == "partition":
            side = set(rng.sample(self.nodes, rng.randint(1, len(self.nodes) - 1)))
            silent = rng.random() < 0.5
            for one in self.pipes:
                if (one.ends[0] in side) != (one.ends[1] in side):
                    self._cut(one, lasts, silent=_both(one) if silent else None)
        elif kind == "crash" and node.overlay is not None:
            node.stop()
            timeline.after(lasts, node.start_again)
        elif kind == "pause" and node.overlay is not None and not node.paused:
            self.note(Kind.PAUSED, node)
            node.paused = True
            timeline.after(lasts, node.resume)

    def _cut(self, pipe: Pipe, lasts: float, *, silent: frozenset[int] | None = None) -> None:
        """Cut a link for a while: it breaks, or frames from its `silent` ends vanish."""
        if not pipe.up or pipe.silent:
            return
        self.truth.change()
        near, far = pipe.ends
        if silent:
            pipe.silent = silent
        else:
            pipe.up = False
            for node, other in ((near, far), (far, near)):
                me = self.spoken.get((pipe.number, other.number))
                if me is not None:
                    self.timeline.after(0.0, lambda node=node, me=me: node.down(me))  # type: ignore[misc]
        self.timeline.after(lasts, lambda: self._mend(pipe))

    def _mend(self, pipe: Pipe) -> None:
        if pipe.silent:  # what was lost on it is lost: as a connection, it is another one
            for end in pipe.ends:
                other = pipe.ends[end is pipe.ends[0]]
                me = self.spoken.get((pipe.number, other.number))
                if me is not None:
                    end.down(me)
        pipe.up, pipe.silent = True, frozenset()
        self.truth.change()
        self.timeline.after(0.3, lambda: self._dial(pipe))

    # --- a history ----------------------------------------------------------------------------------------------------

    def play(self) -> list[str]:
        rng, timeline = self.rng, self.timeline
        for node in self.nodes:
            self.furnish(node, offers_min=0)
            timeline.at(rng.uniform(0, 0.2), node.start)
        timeline.run(8.0)
        begin = timeline.now
        for _ in range(rng.randint(60, 200)):
            node = rng.choice(self.nodes)
            attributes = draw_event(rng)
            timeline.at(begin + rng.uniform(0, LIFE_S), lambda node=node, a=attributes: node.publish(a))  # type: ignore[misc]
        for _ in range(rng.randint(0, 25)):
            timeline.at(begin + rng.uniform(0, LIFE_S), self._change)
        if self.faults:
            for _ in range(rng.randint(1, 6)):
                kind = rng.choice(FAULTS)
                timeline.at(begin + rng.uniform(0, LIFE_S), lambda kind=kind: self.fault(kind))  # type: ignore[misc]
        timeline.run(begin + LIFE_S)
        return self.conclude()

    def furnish(self, node: Node, *, offers_min: int, wants_min: int = 0) -> None:
        """Draw a broker's advertisements and subscriptions for its first start."""
        rng = self.rng
        for _ in range(rng.randint(offers_min, 2)):
            node.numbers += 1
            node.offers[node.numbers] = draw_filter(rng, wide=True)
        for _ in range(rng.randint(wants_min, 3)):
            node.numbers += 1
            node.wants[node.numbers] = draw_filter(rng)

    def conclude(self) -> list[str]:
        """Heal everything, check that tables are right soon, wait until all is settled, publish more, and judge."""
        healed = self.timeline.now
        self._heal()
        self.timeline.run(healed + 1.0)
        while self.timeline.now < min(self.truth.settled_at, healed + SETTLE_S):
            self.timeline.run(self.truth.settled_at)
        self.look()
        self.timeline.run(healed + SETTLE_S)
        self.settled = True
        for _ in range(MORE):
            self.rng.choice(self.nodes).publish(draw_event(self.rng))
        self.timeline.run(healed + SETTLE_S + MORE_S)
        self.judge()
        return self.complaints

    def owes(self, root: Node, home: Node, offers: list[int], wants: list[int]) -> bool:
        """Return whether an event must reach another broker, by these advertisements and subscriptions."""
        return self.truth.owes(root, home, offers, wants)

    def look(self) -> None:
        """Check all tables as soon as they must be right."""
        judge_tables(self)

    def judge(self) -> None:
        """Check the whole history."""
        judge(self)

    def _change(self) -> None:
        node = self.rng.choice(self.nodes)
        if node.paused:
            return
        what = self.rng.choice(("subscribe", "unsubscribe", "advertise", "withdraw"))
        if what == "subscribe":
            node.subscribe(draw_filter(self.rng))
        elif what == "unsubscribe" and node.wants:
            node.unsubscribe(self.rng.choice(sorted(node.wants)))
        elif what == "advertise":
            node.advertise(draw_filter(self.rng, wide=True))
        elif what == "withdraw" and node.offers:
            node.withdraw(self.rng.choice(sorted(node.offers)))

    def _heal(self) -> None:
        for node in self.nodes:
            if node.overlay is None:
                node.start()
            if node.paused:
                node.resume()
        for pipe in self.pipes:
            pipe.jitter_s = 0.0
            if not pipe.up or pipe.silent:
                self._mend(pipe)
            self.timeline.after(1.0, lambda pipe=pipe: self._dial(pipe))  # type: ignore[misc]
            self.timeline.after(6.0, lambda pipe=pipe: self._dial(pipe))  # type: ignore[misc]


def _both(pipe: Pipe) -> frozenset[int]:
    return frozenset(end.number for end in pipe.ends)


def draw_event(rng: Random) -> Attributes:
    """Draw the attributes of an event."""
    return {"x": rng.randrange(100), "y": rng.randrange(10)}


def draw_edges(count: int, rng: Random) -> list[tuple[int, int]]:
    """Return the edges of a connected graph with cycles: a random tree and some more edges."""
    edges = {(rng.randrange(node), node) for node in range(1, count)}
    for _ in range(rng.randint(1, count)):
        near, far = sorted(rng.sample(range(count), 2))
        edges.add((near, far))
    return sorted(edges)


def draw_filter(rng: Random, *, wide: bool = False) -> Filter:
    """Return a filter that some events match; a wide one is for advertisements."""
    low = rng.randrange(0, 90)
    high = low + rng.randrange(30, 100) if wide else low + rng.randrange(5, 40)
    text = f"{low} <= x < {high}"
    if rng.random() < 0.3:
        text += f" and y >= {rng.randrange(0, 6)}"
    return parse(text)

"""Bridges between two worlds on virtual time: events cross once and none returns, even if bridges fail or pause."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from plait.bridge.election import BEACON_S, HELD_S, START_S, BridgeElection, Carried

WORLDS = ("brokers", "peers")
SECONDS = 28.0


@dataclass(frozen=True)
class Said:
    """An event in a world: the world of its origin, and the worlds that it has passed."""

    origin: str
    passed: frozenset[str]


@dataclass
class Worlds:
    """Two worlds that deliver every event to all applications after a delay, and the bridges between them."""

    seed: int
    now: float = 0.0
    bridges: dict[int, BridgeElection[Said]] = field(default_factory=dict)
    asleep: dict[int, float] = field(default_factory=dict)
    heard: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    """Number of times that an application received each event, by world and origin."""

    def __post_init__(self) -> None:
        self.rng = Random(f"bridges/{self.seed}")
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._last: dict[tuple[int, int], float] = {}

    def later(self, after: float, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now + after, self._order, what))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        self.now = until

    def bridge(self) -> int:
        id = int(self.now * 1000) << 20 | self.rng.getrandbits(20)
        self.bridges[id] = BridgeElection(id, WORLDS, self.now)
        self._tell(id)
        return id

    def to(self, id: int, side: int, act: Callable[[BridgeElection[Said]], list[Carried[Said]]]) -> None:
        """Call `act` with a bridge after a random delay: in order for each side, and not while the bridge sleeps."""
        at = max(self.now + 0.001 + 0.1 * self.rng.random(), self._last.get((id, side), 0.0))
        self._last[(id, side)] = at

        def arrive() -> None:
            bridge = self.bridges.get(id)
            if bridge is None:
                return
            if self.asleep.get(id, 0.0) > self.now:
                self.later(self.asleep[id] - self.now, arrive)
                return
            for carried in act(bridge):
                said = carried.event
                self.say(carried.side, Said(said.origin, said.passed | {WORLDS[1 - carried.side]}))

        self.later(at - self.now, arrive)

    def say(self, side: int, said: Said) -> None:
        self.heard[side][said.origin] += 1
        for id in self.bridges:
            self.to(
                id,
                side,
                lambda bridge: bridge.receive(side, said.origin, said.passed | {WORLDS[side]}, said, self.now),
            )

    def _hears(self, bridge: BridgeElection[Said], id: int, number: int) -> list[Carried[Said]]:
        bridge.receive_beacon(id, number, self.now)
        return []

    def _tell(self, id: int) -> None:
        bridge = self.bridges.get(id)
        if bridge is None:
            return
        if self.asleep.get(id, 0.0) <= self.now:
            number = bridge.beacon(self.now)
            for other in self.bridges:
                self.to(other, 0, lambda bridge: self._hears(bridge, id, number))
            for carried in bridge.take_due(self.now):
                said = carried.event
                self.say(carried.side, Said(said.origin, said.passed | {WORLDS[1 - carried.side]}))
        self.later(BEACON_S, lambda: self._tell(id))


def played(seed: int, trouble: str, bridges: int = 3) -> tuple[Worlds, dict[str, float]]:
    worlds = Worlds(seed)
    said: dict[str, float] = {}
    for _ in range(bridges):
        worlds.bridge()
        worlds.run(worlds.now + worlds.rng.random())
    worlds.run(worlds.now + START_S + 1.0)
    begin = worlds.now
    troubled = begin + 5.0
    while worlds.now < begin + SECONDS:
        origin = f"{len(said)}"
        worlds.say(len(said) % 2, Said(origin, frozenset()))
        said[origin] = worlds.now
        worlds.run(worlds.now + 0.05 * worlds.rng.random())
        if trouble and worlds.now >= troubled:
            troubled = worlds.now + 12.0
            leader = next((id for id, bridge in worlds.bridges.items() if bridge.leads(worlds.now)), None)
            if leader is not None and trouble == "death" and len(worlds.bridges) > 1:
                del worlds.bridges[leader]
            elif leader is not None and trouble == "sleep":
                worlds.asleep[leader] = worlds.now + 6 * worlds.rng.random()
            elif trouble == "birth":
                worlds.bridge()
    worlds.run(worlds.now + HELD_S + 2.0)
    return worlds, said


@pytest.mark.parametrize("trouble", ["", "death", "birth", "sleep"])
@pytest.mark.parametrize("seed", range(2))
def test_events_cross_once_whatever_happens_to_bridges(seed: int, trouble: str) -> None:
    worlds, said = played(seed, trouble)
    assert len(said) > 500
    for heard in worlds.heard:
        assert set(heard) == set(said), "everything is heard on both sides"
        again = {origin: count for origin, count in heard.items() if count > 1}
        assert not again, "nothing twice"
    assert all(not bridge.expired for bridge in worlds.bridges.values())


def test_a_bridge_alone_begins_to_carry_what_came_while_it_listened() -> None:
    worlds = Worlds(1)
    worlds.bridge()
    worlds.run(START_S / 2)
    worlds.say(0, Said("early", frozenset()))
    worlds.run(START_S + 2.0)
    assert worlds.heard[1] == {"early": 1}


def test_what_has_been_in_a_world_does_not_come_back_by_way_of_a_third() -> None:
    bridge: BridgeElection[str] = BridgeElection(1, ("a", "b"), 0.0)
    for beat in range(1 + int(START_S / BEACON_S)):
        bridge.receive_beacon(1, bridge.beacon(beat * BEACON_S), beat * BEACON_S)
    assert bridge.leads(START_S)
    assert bridge.receive(1, "x", frozenset({"a", "c", "b"}), "x", START_S) == []
    assert bridge.receive(1, "y", frozenset({"c", "b"}), "y", START_S) == [Carried(0, "y")]


@pytest.mark.parametrize("plant", ["all lead", "none is kept", "all goes back"])
def test_planted_bugs_are_caught(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = BridgeElection.receive
    if plant == "all lead":
        monkeypatch.setattr(BridgeElection, "leads", lambda *_: True)
    elif plant == "none is kept":
        monkeypatch.setattr("plait.bridge.election.HELD_MAX", 0)
    else:
        monkeypatch.setattr(
            BridgeElection,
            "receive",
            lambda self, side, origin, passed, *rest: honest(self, side, origin, frozenset(), *rest),
        )
    with pytest.raises(AssertionError):
        test_events_cross_once_whatever_happens_to_bridges(0, "death")

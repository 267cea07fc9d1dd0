"""Which brokers a broker dials and which links it drops: one decision at a time, on maps built for the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random

import pytest

from plait_broker.overlay.discovery import link_selection as module
from plait_broker.overlay.discovery.link_selection import (
    FORGOTTEN_S,
    GIVEN_UP_S,
    LOST_S,
    PAUSE_MAX_S,
    PLACES_MAX,
    PROBES_MAX,
    LinkSelection,
)
from plait_broker.overlay.topology.link_state import LinkStateDatabase
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.settings import LinkSettings
from plait_core.wire.frame_types.overlay_frames import LinkState

ME = 1
SEED = "10.0.0.99:4680"


def address(broker: int) -> str:
    return f"10.0.0.{broker}:4680"


class Broker:
    """The one that chooses, with the map and the neighbours that a test gives it."""

    def __init__(self, seed: int = 1, **terms: object) -> None:
        given = {"seeds": (SEED,), "address": address(ME)} | terms
        self.terms = LinkSettings(**given)  # type: ignore[arg-type]
        self.map = LinkStateDatabase()
        self.neighbours: dict[int, Neighbour] = {}
        self.link_selection = LinkSelection(ME, self.terms, self.map, self.neighbours, Random(seed), 0.0)
        self.versions = 0

    def knows(self, links: Mapping[int, Iterable[int]], delay_us: int = 1000, born: int = 0) -> None:
        """Put link states into the map, with each link in both directions."""
        both: dict[int, set[int]] = {broker: set(others) for broker, others in links.items()}
        for near, others in links.items():
            for far in others:
                both.setdefault(far, set()).add(near)
        self.versions += 1
        for broker, others in sorted(both.items()):
            delays = (delay_us,) * len(others)
            named = tuple(sorted(others))
            self.map.put(
                LinkState(broker, self.versions, f"b{broker}", named, delays, born=born, address=address(broker))
            )

    def linked(self, broker: int, at: str = "", now: float = 0.0, *, kept: bool = False, delay_us: float = 1.0) -> None:
        self.neighbours[broker] = Neighbour(broker, f"b{broker}", broker, now, delay_us=delay_us)
        self.link_selection.up(broker, at, now, kept=kept)

    def cut(self, broker: int, at: str, now: float, *, given_up: bool = False) -> None:
        del self.neighbours[broker]
        self.link_selection.down(broker)
        self.link_selection.ended(at, broker, now, given_up=given_up)

    def _due(self) -> float:
        """Return when it decides again, after it has looked at the map."""
        self.link_selection.look()
        return self.link_selection.due_at

    def dials(self, until: float, begin: float = 0.0, *, fails: bool = True) -> list[tuple[float, str]]:
        """Return the dialled addresses with their times, while no broker answers."""
        found: list[tuple[float, str]] = []
        now = max(begin, self._due())
        while now <= until:
            for one in self.link_selection.dial(now):
                found.append((now, one))
                if fails:
                    self.link_selection.unreachable(one, now)
            later = self._due()
            assert later > now, "it decides for ever"
            now = later
        return found


def test_alone_it_dials_its_seeds_with_growing_pauses_that_are_drawn() -> None:
    times = [now for now, one in Broker().dials(60.0) if one == SEED]
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert times[0] == 0.0
    assert max(gaps) <= PAUSE_MAX_S + 0.2
    assert len(set(gaps)) > len(gaps) // 2, "full jitter"
    assert sum(gaps[-20:]) > 2 * sum(gaps[:4]) * 20 / 4 / 5
    other = [now for now, _ in Broker(seed=2).dials(60.0)]
    assert other != times


def test_a_link_that_was_configured_is_dialled_for_ever_and_others_are_not() -> None:
    one = Broker(links=("10.0.0.2:4680",), seeds=())
    one.knows({ME: [], 2: [3], 3: [4]})
    assert {place for _, place in one.dials(300.0)} == {"10.0.0.2:4680"}
    assert one.dials(600.0, 300.0)


def test_with_neighbours_a_seed_is_dialled_only_while_it_is_out_of_reach() -> None:
    one = Broker(degree=1)
    one.knows({ME: [2], 2: []})
    one.linked(2)
    assert SEED in [place for _, place in one.dials(5.0)], "nobody knows who is there"
    one.link_selection.found(SEED, 2)
    assert SEED not in [place for _, place in one.dials(300.0, 5.0)]
    one.cut(2, "", 300.0)
    one.knows({ME: [], 2: []})
    assert SEED in [place for _, place in one.dials(310.0, 300.0)]


def test_it_adds_near_ones_until_it_has_its_degree_and_one_drawn_at_random() -> None:
    drawn = set()
    for seed in range(40):
        one = Broker(seed=seed, degree=3, seeds=(SEED,))
        one.link_selection.found(SEED, 2)
        one.knows({ME: [2], 2: [3, 4, 5, 6, 7, 8]})
        one.linked(2, SEED)
        one.map.put(LinkState(3, 9, "b3", (2,), (1,), address=address(3)))  # the nearest
        one.map.put(LinkState(2, 9, "b2", (ME, 3, 4, 5, 6, 7, 8), (1,) * 7, address=address(2)))
        chosen = [place for _, place in one.dials(1.0, fails=False)]
        assert len(chosen) == len(set(chosen)) == 2
        assert address(ME) not in chosen
        assert address(3) in chosen
        drawn.update(chosen)
    assert len(drawn) >= 5, "the other one is any"


def test_it_does_not_ask_those_that_have_as_many_links_as_they_keep() -> None:
    one = Broker(degree=3, links_max=4)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [3], 3: [11, 12, 13, 14]})
    one.linked(2, SEED)
    for full in (11, 12, 13, 14):
        one.map.put(LinkState(full, 9, "full", (3, 21, 22, 23), (1,) * 4, address=address(full)))
    assert not one.dials(30.0)


def test_who_is_out_of_reach_is_dialled_some_at_a_time_and_not_at_once() -> None:
    one = Broker(degree=1)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [], **{far: [far + 1] for far in range(10, 40, 2)}})
    one.linked(2, SEED)
    first = one.dials(LOST_S - 0.5, fails=False)
    assert not first
    later = one.dials(LOST_S + 3.0, fails=False)
    assert len(later) == PROBES_MAX
    assert all(int(place.split(".")[3].split(":")[0]) >= 10 for _, place in later)


def test_dead_brokers_cost_less_and_less_and_are_forgotten_at_last() -> None:
    one = Broker(degree=1)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [], 3: []})
    one.linked(2, SEED)
    early, later = one.dials(60.0), one.dials(660.0, 600.0)
    assert len(early) > len(later) > 0
    one.map.remove(3)
    known = len(one.link_selection)
    one.link_selection.dial(700.0 + FORGOTTEN_S)
    assert len(one.link_selection) < known


def test_a_place_that_leads_here_is_dialled_once() -> None:
    one = Broker()
    assert one.link_selection.dial(0.0) == [SEED]
    one.link_selection.itself(SEED)
    one.link_selection.ended(SEED, 0, 0.1)
    assert not one.dials(300.0, 0.2)


def test_a_duplicate_is_not_dialled_again_while_the_link_stands() -> None:
    one = Broker(links=("10.0.0.2:4680",), seeds=())
    assert one.link_selection.dial(0.0) == ["10.0.0.2:4680"]
    one.linked(2)  # it has dialled us meanwhile
    one.link_selection.found("10.0.0.2:4680", 2)
    one.link_selection.ended("10.0.0.2:4680", 0, 0.1)
    assert not one.dials(300.0, 0.2)
    one.cut(2, "", 300.0)
    assert one.dials(301.0, 300.0)


def test_a_broker_that_starts_anew_is_dialled_at_once_however_long_it_was_dead() -> None:
    one = Broker(degree=1)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [], 3: []})
    one.linked(2, SEED)
    one.dials(2000.0)
    one.link_selection.learn_address(address(3), 33, 2000.0)
    assert address(3) in [place for _, place in one.dials(2000.0 + LOST_S + 1.5, 2000.0)]


def test_two_that_claim_a_dead_address_in_turn_do_not_have_it_dialled_all_the_time() -> None:
    one = Broker(degree=1)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [], 3: []})
    one.linked(2, SEED)
    dialled = 0
    for second in range(120):
        one.link_selection.learn_address(address(3), 33 + second % 2, float(second))
        dialled += sum(place == address(3) for _, place in one.dials(second + 1.0, float(second)))
    assert 3 <= dialled < 60


def test_two_that_say_they_are_at_one_address_do_not_keep_it_busy() -> None:
    """Brokers on different machines may announce the same loopback address; dialling it shows which broker is there."""
    one = Broker(degree=3)
    one.link_selection.found(SEED, 2)
    one.knows({ME: [2], 2: [3, 4]})
    one.linked(2, SEED)
    one.map.put(LinkState(4, 9, "b4", (2,), (1000,), address=address(3)))
    dialled = []
    for now, place in one.dials(60.0, fails=False):
        dialled.append((now, place))
        one.link_selection.found(place, 2)  # a broker that is a neighbour already
        one.link_selection.ended(place, 0, now)
    assert len(dialled) <= 2


@pytest.mark.parametrize("seed", range(10))
def test_what_is_given_up_is_never_the_only_way_to_a_broker(seed: int) -> None:
    """Check on random maps that every broker is still reachable after each dropped link."""
    rng = Random(seed)
    one = Broker(seed=seed, degree=2, links_max=3)
    links: dict[int, set[int]] = {ME: set(range(2, 12))}
    for _ in range(rng.randrange(3, 12)):
        near, far = rng.sample(range(2, 12), 2)
        links.setdefault(near, set()).add(far)
    one.knows(links)
    for broker in range(2, 12):
        one.linked(broker, kept=broker == 2)
    now = 0.0
    while now < 200.0:
        now += 1.0
        given_up = one.link_selection.shed(now)
        if given_up:
            assert given_up != 2, "the other end was configured with it"
            del one.neighbours[given_up]
            one.link_selection.down(given_up)
            links[ME].discard(given_up)
            one.map.put(LinkState(ME, 100 + round(now), "me", tuple(sorted(links[ME])), (1,) * len(links[ME])))
            assert set(one.map.distances(ME)) >= set(range(2, 12)) | {ME}
    assert len(one.neighbours) - 1 <= 3 or len(links) < 8


def test_who_was_given_up_does_not_come_back_at_once() -> None:
    one = Broker(degree=2)
    one.knows({ME: [2, 3], 2: [3]})
    one.linked(2, SEED)
    one.linked(3)
    one.link_selection.dial(0.0)
    one.cut(2, SEED, 1.0, given_up=True)
    one.knows({ME: [3], 3: [2]})
    assert SEED not in [place for _, place in one.dials(GIVEN_UP_S, 1.0)]


def test_it_remembers_no_more_places_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLACES_MAX", 50)
    assert PLACES_MAX > 50
    one = Broker()
    for broker in range(2, 202):
        one.link_selection.learn_address(f"10.1.{broker}.1:4680", broker, float(broker))
    assert len(one.link_selection) == 50
    assert SEED in [place for _, place in one.dials(400.0, 300.0)], "what was configured stays"


def test_a_broker_that_drains_dials_nobody() -> None:
    one = Broker()
    one.link_selection.stop()
    assert not one.dials(1000.0)

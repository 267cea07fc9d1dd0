"""Next hops: the fastest of the strictly closer neighbours, stable under noise, replaced when its link fails."""

from __future__ import annotations

import pytest
from maps import linked

from plait_broker.overlay.topology.forwarding_table import KEEP_RATIO, KEEP_US, ForwardingTable
from plait_broker.overlay.topology.link_state import HOP_US, LinkStateDatabase
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_core.wire.frame_types.overlay_frames import LinkState

ME, FAST, SLOW, BACK, TO = 1, 2, 3, 4, 9


class Table:
    """A broker with three neighbours: two on the way to TO, and one that is further from it than the broker itself."""

    def __init__(self) -> None:
        self.map = linked(
            {(ME, FAST): 1000, (ME, SLOW): 3000, (ME, BACK): 10, (FAST, TO): 1000, (SLOW, TO): 1000, (BACK, FAST): 9000}
        )
        self.neighbours: dict[int, Neighbour] = {}
        for broker, delay_us in ((FAST, 1000), (SLOW, 3000), (BACK, 10)):
            self.neighbours[broker] = Neighbour(broker, f"b{broker}", broker, 0.0, delay_us=delay_us)
        self.routes = ForwardingTable(ME, self.map, self.neighbours)

    def measure(self, broker: int, delay_us: float) -> None:
        self.neighbours[broker].delay_us = delay_us
        self.routes.stale()

    def next(self, *passed: int) -> int | None:
        neighbour = self.routes.next(TO, passed)
        return None if neighbour is None else neighbour.id


def test_only_who_is_strictly_closer_is_feasible() -> None:
    table = Table()
    assert [(one.id, us) for one, us in table.routes.feasible(TO)] == [
        (FAST, 2000 + 2 * HOP_US),
        (SLOW, 4000 + 2 * HOP_US),
    ]


def test_as_close_is_not_closer() -> None:
    map = linked({(ME, TO): 1000, (FAST, TO): 1000, (ME, FAST): 1})
    neighbours = {broker: Neighbour(broker, "", broker, 0.0, delay_us=1) for broker in (TO, FAST)}
    assert [one.id for one, _ in ForwardingTable(ME, map, neighbours).feasible(TO)] == [TO]


def test_who_does_not_reach_it_is_not_feasible() -> None:
    table = Table()
    table.map.put(LinkState(SLOW, 2, "", (ME,), (3000,)))  # it has lost its link
    table.map.put(LinkState(BACK, 2, "", (), ()))
    assert [one.id for one, _ in table.routes.feasible(TO)] == [FAST]
    assert table.routes.next(77) is None, "a broker that no map has"


def test_the_fastest_as_measured_now_is_chosen() -> None:
    table = Table()
    assert table.next() == FAST
    table.measure(FAST, 20_000)
    assert table.next() == SLOW, "by our own measurement, before the map has it"
    assert table.routes.changes == 1


def test_a_choice_is_kept_against_noise() -> None:
    table = Table()
    assert table.next() == FAST
    best_us = 3000 + 1000 + 2 * HOP_US
    limit_us = best_us * KEEP_RATIO + KEEP_US - 1000 - 2 * HOP_US
    table.measure(FAST, limit_us - 1)
    assert table.next() == FAST, "slower than the other, but not by enough"
    table.measure(FAST, limit_us + 2)
    assert table.next() == SLOW
    table.measure(FAST, 2900)
    assert table.next() == SLOW, "and it does not go back for a little"
    table.measure(FAST, 1000)
    assert table.next() == FAST
    assert table.routes.changes == 2


@pytest.mark.parametrize("how", ["link", "map"])
def test_another_takes_over_at_once(how: str) -> None:
    table = Table()
    assert table.next() == FAST
    if how == "link":
        del table.neighbours[FAST]
        table.routes.stale()
    else:
        table.map.put(LinkState(FAST, 2, "", (ME, BACK), (1000, 9000)))
    assert table.next() == SLOW


def test_who_was_passed_is_never_chosen() -> None:
    table = Table()
    assert table.next(FAST) == SLOW
    assert table.next(FAST, SLOW) is None, "rather none than one that it came by"
    assert table.next() == FAST, "and that moved nothing"
    assert table.routes.changes == 0


def test_what_is_forgotten_is_chosen_afresh() -> None:
    table = Table()
    assert table.next() == FAST
    table.measure(FAST, 3100)
    assert table.next() == FAST
    table.routes.forget(TO)
    assert table.next() == SLOW, "there is no choice to keep"
    assert table.routes.changes == 0


def test_a_map_tells_of_links_that_have_gone() -> None:
    map = LinkStateDatabase()
    assert not map.put(LinkState(1, 1, "b1", (2, 3), (10, 10)))
    assert not map.put(LinkState(2, 1, "b2", (1,), (10,)))
    assert not map.put(LinkState(1, 2, "b1", (2, 3), (10, 90))), "slower is not gone"
    assert not map.put(LinkState(1, 3, "b1", (2, 3, 4), (10, 90, 5)))
    assert not map.put(LinkState(1, 4, "b1", (2, 4), (10, 5))), "the other end never had it"
    assert map.put(LinkState(1, 5, "b1", (4,), (5,)))
    assert not map.put(LinkState(2, 2, "b2", (), ())), "the first end has told of it"


def test_what_changes_no_distance_keeps_the_computed_ones() -> None:
    map = LinkStateDatabase()
    map.put(LinkState(1, 1, "b1", (2,), (10,)))
    map.put(LinkState(2, 1, "b2", (1,), (10,)))
    distances, revision = map.distances(1), map.paths_revision
    assert map.distances(3) == {}
    map.put(LinkState(3, 1, "b3", (2,), (10,)))
    map.put(LinkState(1, 2, "another name", (2,), (9,)))
    assert map.distances(1) is distances, "one end alone makes no link, and the greater delay counts"
    assert map.distances(3) == {3: 0}
    assert map.paths_revision == revision
    map.put(LinkState(2, 2, "b2", (1, 3), (10, 10)))
    assert list(map.distances(1)) == [1, 2, 3]
    assert map.paths_revision > revision


def test_a_map_tells_which_link_states_lose_a_link() -> None:
    map = LinkStateDatabase()
    map.put(LinkState(1, 1, "b1", (2, 3), (10, 10)))
    map.put(LinkState(2, 1, "b2", (1,), (10,)))
    assert not map.loses(LinkState(1, 2, "b1", (2,), (10,))), "the link to 3 does not count"
    assert map.loses(LinkState(1, 2, "b1", (3,), (10,)))
    assert not map.loses(LinkState(4, 1, "b4", (), ()))

"""The interface of strategies: what every plan must keep to, and which strategies a configuration may name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from plait_broker.overlay.dissemination.registry import STRATEGIES
from plait_broker.overlay.dissemination.shortest_paths import ShortestPaths
from plait_broker.overlay.dissemination.strategy import (
    Envelope,
    GroupCopy,
    LinkCopy,
    NextHop,
    Plan,
    PlanInvalid,
    check_plan,
)
from plait_core import Event
from plait_core.filters import Filter
from plait_core.wire import Confirm, Publish, encode_block

ME, NEAR, OTHER, FAR, FARTHER = 1, 2, 3, 4, 5
EVENT = Publish(Confirm.NONE, encode_block(Event({"x": 1}, b"", 9, 1, 0)))
TO_FAR, TO_FARTHER = (FAR, 1, 0), (FARTHER, 1, 0)
BOTH = [TO_FAR, TO_FARTHER]


class Square:
    """The topology of one corner: FAR is closer over NEAR and over OTHER, FARTHER over OTHER alone."""

    me = ME
    revision = links_revision = 1
    _ways: Mapping[int, Sequence[int]] = {FAR: (NEAR, OTHER), FARTHER: (OTHER,)}

    def next_hop(self, to: int, passed: Sequence[int] = ()) -> int | None:
        return next((hop for hop in self._ways.get(to, ()) if hop not in passed), None)

    def next_hops(self, to: int, passed: Sequence[int] = ()) -> Sequence[NextHop]:
        return [NextHop(hop, 1) for hop in self._ways.get(to, ()) if hop not in passed]

    def feasible(self, to: int) -> Collection[int]:
        return self._ways.get(to, ())

    def neighbours(self, broker: int) -> Mapping[int, int]:
        return {}

    def cost_us(self, near: int, far: int) -> int | None:
        return None

    def distance_us(self, near: int, far: int) -> int | None:
        return None


class Nothing:
    """Interest without any filters."""

    revision = 0

    def brokers(self) -> Sequence[int]:
        return ()

    def filters(self, broker: int) -> Sequence[Filter]:
        return ()

    def local_advertisements(self) -> dict[int, Filter]:
        return {}

    def local_filters(self) -> dict[int, Filter]:
        return {}


def envelope(*path: int) -> Envelope:
    return Envelope(EVENT, path[0] if path else ME, 0, 0, 0, path)


def shortest_paths() -> ShortestPaths:
    return ShortestPaths(Square(), Nothing())


def test_destinations_are_partitioned_over_next_hops() -> None:
    plan = shortest_paths().plan(envelope(), BOTH, 0.0)
    assert plan.links == [LinkCopy(NEAR, [TO_FAR]), LinkCopy(OTHER, [TO_FARTHER])]
    check_plan(plan, envelope(), BOTH, Square())


def test_a_broker_on_the_path_is_no_next_hop() -> None:
    plan = shortest_paths().plan(envelope(7, NEAR), BOTH, 0.0)
    assert plan.links == [LinkCopy(OTHER, BOTH)]


def test_a_destination_without_a_path_is_unreachable() -> None:
    nowhere = (77, 1, 0)
    plan = shortest_paths().plan(envelope(), [nowhere, TO_FAR], 0.0)
    assert (plan.unreachable, plan.links) == ([nowhere], [LinkCopy(NEAR, [TO_FAR])])
    check_plan(plan, envelope(), [nowhere, TO_FAR], Square())


@pytest.mark.parametrize(
    "plan",
    [
        Plan([LinkCopy(NEAR, [TO_FAR])]),
        Plan([LinkCopy(OTHER, BOTH)], unreachable=[TO_FAR]),
        Plan([LinkCopy(NEAR, [TO_FAR]), LinkCopy(OTHER, BOTH)]),
        Plan([LinkCopy(OTHER, [TO_FAR]), LinkCopy(OTHER, [TO_FARTHER])]),
        Plan([LinkCopy(OTHER, [TO_FAR])], [GroupCopy(("239.255.0.1", 4680), [TO_FAR])]),
        Plan([LinkCopy(OTHER, [*BOTH, (77, 1, 0)])]),
    ],
    ids=["one is missing", "one is twice", "in two copies", "two copies for one", "by link and group", "one is added"],
)
def test_each_destination_is_planned_exactly_once(plan: Plan) -> None:
    with pytest.raises(PlanInvalid):
        check_plan(plan, envelope(), BOTH, None)


def test_a_loop_free_strategy_sends_to_feasible_neighbours_alone() -> None:
    plan = Plan([LinkCopy(NEAR, BOTH)])
    check_plan(plan, envelope(), BOTH, None)  # allowed for strategies that are not declared loop-free
    with pytest.raises(PlanInvalid, match="not closer"):
        check_plan(plan, envelope(), BOTH, Square())


def test_a_loop_free_strategy_never_sends_back() -> None:
    plan = Plan([LinkCopy(OTHER, BOTH)])
    with pytest.raises(PlanInvalid, match="passed"):
        check_plan(plan, envelope(7, OTHER), BOTH, Square())


def test_the_default_is_known_by_its_name() -> None:
    assert STRATEGIES["shortest-paths"] is ShortestPaths
    assert ShortestPaths.loop_free

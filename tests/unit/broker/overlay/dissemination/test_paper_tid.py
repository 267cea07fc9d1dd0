"""Algorithm 1 of the TID paper as printed, and its correction, on the smallest graphs where the former fails.

With constant delays each last hop lies on a shortest path to the home broker, so nothing can loop. The graphs therefore
change a delay between two floods (PAPERS.md, correction 1, and the paper's section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from strategy_net import StrategyNet

from plait_broker.overlay.dissemination.paper_tid import PaperTid
from plait_broker.overlay.dissemination.shortest_paths import ShortestPaths
from plait_broker.overlay.dissemination.strategy import StrategyFactory
from plait_broker.overlay.dissemination.tree_messages import TreeAdvertised, encode_message, tree_id
from plait_broker.overlay.dissemination.tree_tables import TreeTablesStrategy
from plait_core.filters import parse

A, B, C, D = 1, 2, 3, 4
FEASIBLE: list[StrategyFactory] = [TreeTablesStrategy, ShortestPaths]


def named(strategy: StrategyFactory) -> str:
    return strategy.name


def triangle_that_loops(strategy: StrategyFactory) -> StrategyNet:
    """Build a triangle. The tree of A reaches C by B, and that of B reaches C by A."""
    net = StrategyNet({(A, B): 1000, (B, C): 1000, (A, C): 5000}, strategy)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.set_delay(B, C, 10_000)
    net.advertise(B, 1, "x >= 0")
    net.run()
    net.subscribe(C, 1, "x >= 0")
    net.run()
    return net


def ring_that_loops(strategy: StrategyFactory) -> StrategyNet:
    """Build the ring of the correction: S is known at A as {T1 via B, T2 via C} and at B as {T1 via D, T2 via A}."""
    net = StrategyNet({(A, B): 1000, (B, D): 1000, (A, C): 5000, (C, D): 1000}, strategy)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.set_delay(B, D, 10_000)
    net.advertise(B, 1, "x >= 0")
    net.run()
    net.subscribe(D, 1, "x >= 0")
    net.run()
    return net


def triangle_that_loses(strategy: StrategyFactory) -> StrategyNet:
    """Build a triangle. C needs both trees of A: one reaches it directly, the other by B. B needs the first alone."""
    net = StrategyNet({(A, B): 2000, (B, C): 2000, (A, C): 3000}, strategy)
    net.advertise(A, 1, "0 <= x < 100")
    net.run()
    net.set_delay(A, C, 9000)
    net.advertise(A, 2, "50 <= x < 100")
    net.run()
    net.subscribe(B, 1, "0 <= x < 50")
    net.subscribe(C, 1, "0 <= x < 100")
    net.run()
    return net


def hops(net: StrategyNet, at: int, home: int) -> dict[int, int]:
    """Return the last hop of the only subscription of a home broker, by the root of the tree."""
    tables = net.tables(at)
    (entry,) = tables.subscriptions(home)
    return {tables.srt[tree].root: hop.neighbour for tree, hop in entry.last_hops.items()}


def test_the_tables_are_those_of_the_correction() -> None:
    net = ring_that_loops(PaperTid)
    assert hops(net, A, D) == {A: B, B: C}
    assert hops(net, B, D) == {A: D, B: A}
    assert hops(net, D, D) == {A: D, B: D}, "at home: the subscription is its own"


@pytest.mark.parametrize(("build", "home"), [(triangle_that_loops, C), (ring_that_loops, D)])
def test_the_printed_rule_sends_an_event_to_and_fro(build: Callable[[StrategyFactory], StrategyNet], home: int) -> None:
    journey = build(PaperTid).publish(A, {"x": 1}, [home])
    assert journey.looped == {home}
    assert not journey.reached
    assert set(journey.copies) == {(A, B), (B, A)}, "no copy ever leaves the two"


def test_the_printed_rule_needs_a_changed_delay_to_loop() -> None:
    net = StrategyNet({(A, B): 1000, (B, C): 1000, (A, C): 5000}, PaperTid)
    for broker in (A, B):
        net.advertise(broker, 1, "x >= 0")
    net.run()
    net.subscribe(C, 1, "x >= 0")
    net.run()
    assert net.publish(A, {"x": 1}, [C]).copies == [(A, B), (B, C)]


def test_the_printed_rule_loses_a_second_subscription() -> None:
    net = triangle_that_loses(PaperTid)
    assert hops(net, A, B) == {A: B}
    journey = net.publish(A, {"x": 10}, [B, C])
    assert not journey.looped
    assert len(journey.reached) < 2, "the copy for B names a tree under which B does not know the subscription of C"
    assert net.publish(A, {"x": 60}, [C]).reached == {C: 1}, "one subscription alone has a path"


@pytest.mark.parametrize("strategy", FEASIBLE, ids=named)
def test_feasible_links_do_neither(strategy: StrategyFactory) -> None:
    assert triangle_that_loops(strategy).publish(A, {"x": 1}, [C]).reached == {C: 1}
    assert ring_that_loops(strategy).publish(A, {"x": 1}, [D]).reached == {D: 1}
    net = triangle_that_loses(strategy)
    for x in (10, 60):
        assert net.publish(A, {"x": x}, [B, C]).reached == {B: 1, C: 1}


def test_the_correction_follows_the_tables_and_falls_back_to_shortest_paths() -> None:
    """Check that it takes the fastest feasible link that a tree gives, though a faster one is in no tree."""
    net = StrategyNet({(A, B): 1000, (B, D): 1000, (A, C): 1500, (C, D): 1500}, TreeTablesStrategy)
    net.set_delay(A, B, 5000)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.subscribe(D, 1, "x >= 0")
    net.run()
    assert hops(net, A, D) == {A: C}
    net.set_delay(A, B, 1000)
    assert net.sites[A].topology.next_hop(D) == B
    assert net.publish(A, {"x": 1}, [D]).copies == [(A, C), (C, D)], "the tree"
    net.set_delay(C, D, 90_000)
    assert net.publish(A, {"x": 1}, [D]).copies == [(A, B), (B, D)], "C is not closer now, and no tree gives B"
    assert net.publish(A, {"x": 1}, [B]).copies == [(A, B)], "B has no subscription in the tables"


def test_a_lost_tree_at_its_root_raises_nothing() -> None:
    """Check that a neighbour cannot withdraw or take over the tree of the broker that publishes."""
    net = StrategyNet({(A, B): 1000}, PaperTid)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.subscribe(B, 1, "x >= 0")
    net.run()
    for message in (TreeAdvertised(A, 1, 99, None), TreeAdvertised(A, 1, 100, parse("x < 0"))):
        net.inject(B, A, encode_message(message))
    net.run()
    assert net.tables(A).srt[tree_id(A, 1)].filter == parse("x >= 0")
    assert net.publish(A, {"x": 1}, [B]).reached == {B: 1}

"""Strategies on production brokers: the TID paper's rule as printed loops and loses on the smallest graphs (PAPERS.md,
correction 1); with feasible links only, the same tables keep every guarantee.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from plait_broker import BrokerSettings
from plait_broker.overlay.dissemination.paper_tid import PaperTid
from plait_broker.overlay.dissemination.tid_tables import TreeTables
from plait_broker.overlay.dissemination.tree_messages import tree_id
from plait_core.limits import PATH_MAX
from plait_lab.simulation.overlay.random_histories import play_overlay
from plait_lab.simulation.overlay.world import SETTINGS
from plait_lab.simulation.overlay.worlds.given_graph import GivenGraph

A, B, C, D = range(4)
SEEDS = 3_000 if os.environ.get("PLAIT_NIGHTLY") else 100
SHARE = 25


def settings_of(dissemination: str, *, laboratory: bool = False, retransmit: bool = True) -> BrokerSettings:
    linking = replace(SETTINGS.linking, dissemination=dissemination, laboratory=laboratory, retransmit=retransmit)
    return replace(SETTINGS, linking=linking)


AS_PRINTED = settings_of("paper-tid", laboratory=True, retransmit=False)
REPAIRED = settings_of("paper-tid", laboratory=True)
CORRECTED = settings_of("tree-tables")
SHORTEST = settings_of("shortest-paths")


def ring(settings: BrokerSettings) -> GivenGraph:
    """Build a ring of four. The tree of A reaches D by B, and that of B reaches D by A and C: the link from B to
    D has become slow in between."""
    world = GivenGraph({(A, B): 0.001, (B, D): 0.001, (A, C): 0.005, (C, D): 0.001}, settings=settings)
    world.start()
    world.advertise(A, "x >= 0")
    world.run(1.0)
    world.slow(world.links[1], 0.010)
    world.advertise(B, "x >= 0")
    world.run(0.1)
    world.subscribe(D, "x >= 0")
    world.run(1.0)
    return world


def triangle(settings: BrokerSettings) -> GivenGraph:
    """Build a triangle. C needs both trees of A: one reaches it directly, the other by B. B needs the first alone."""
    world = GivenGraph({(A, B): 0.002, (B, C): 0.002, (A, C): 0.003}, settings=settings)
    world.start()
    world.advertise(A, "0 <= x < 100")
    world.run(1.0)
    world.slow(world.links[2], 0.009)
    world.advertise(A, "50 <= x < 100")
    world.run(0.1)
    world.subscribe(C, "0 <= x < 100")
    world.subscribe(B, "0 <= x < 50")
    world.run(1.0)
    return world


def tables(world: GivenGraph, number: int) -> TreeTables:
    strategy = world.nodes[number].overlay.strategy
    assert isinstance(strategy, PaperTid)
    return strategy.tables


def me(world: GivenGraph, number: int) -> int:
    return world.nodes[number].overlay.me


def last_hops(world: GivenGraph, at: int, home: int) -> list[dict[str, int]]:
    """The PRT of a broker for the subscriptions of another: by root of the tree, the node that they came from."""
    srt = tables(world, at).srt
    return [
        {"ABCD"[world.number(srt[tree].root)]: world.number(hop.neighbour) for tree, hop in entry.last_hops.items()}
        for entry in tables(world, at).subscriptions(me(world, home))
    ]


def test_the_tables_are_those_of_the_correction() -> None:
    world = ring(AS_PRINTED)
    assert last_hops(world, A, D) == [{"A": B, "B": C}]
    assert last_hops(world, B, D) == [{"A": D, "B": A}]
    assert last_hops(world, D, D) == [{"A": D, "B": D}], "its home: the subscription is its own"
    assert tables(world, C).srt[tree_id(me(world, B), 1)].last_hop == me(world, A)


def test_algorithm_1_as_printed_loops() -> None:
    world = ring(AS_PRINTED)
    world.publish(A, {"x": 1})
    world.run(2.0)
    assert not world.receptions(D), "D never gets it"
    assert world.copies >= PATH_MAX - 1, "it went to and fro between A and B until its path was full"


def test_algorithm_1_as_printed_loses_a_second_subscription() -> None:
    world = triangle(AS_PRINTED)
    world.publish(A, {"x": 10})
    world.run(2.0)
    assert not (world.receptions(B) and world.receptions(C)), "one of the two does not get it"


def test_retransmission_by_shortest_paths_repairs_both() -> None:
    for world, homes in ((ring(REPAIRED), [D]), (triangle(REPAIRED), [B, C])):
        world.publish(A, {"x": 10})
        world.run(10.0)
        for home in homes:
            assert len(world.receptions(home)) == 1, "exactly once, if late"


@pytest.mark.parametrize("settings", [SHORTEST, CORRECTED], ids=["shortest-paths", "tree-tables"])
def test_feasible_links_neither_loop_nor_lose_on_the_same_graphs(settings: BrokerSettings) -> None:
    for world, homes in ((ring(settings), [D]), (triangle(settings), [B, C])):
        for _ in range(20):
            world.publish(A, {"x": 10})
            world.run(0.1)
        for home in homes:
            assert [one.id for one in world.receptions(home)] == [event.id for event in world.events], "each once"
        world.world.oracle.judge()
        assert not world.world.complaints
        assert not any(node.overlay.counts["again"] for node in world.nodes)


def test_a_strategy_that_may_loop_needs_the_laboratory() -> None:
    with pytest.raises(ValueError, match="laboratory"):
        GivenGraph({(A, B): 0.001}, settings=settings_of("paper-tid")).start()


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_seed_breaks_an_invariant_with_tree_tables(first: int) -> None:
    followed = 0
    for seed in range(first, first + SHARE):
        world = play_overlay(seed, dissemination="tree-tables")
        assert not world.complaints, f"seed {seed}: {world.complaints[0]}"
        for node in world.nodes:
            strategy = node.overlay.strategy
            assert isinstance(strategy, PaperTid)
            followed += len(strategy.tables.prt)
    assert followed > SHARE, "the tables had entries, or shortest paths alone were played"

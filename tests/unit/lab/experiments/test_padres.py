"""The paper's Algorithm 1 loops and loses events on the smallest graphs, and our rule does not (PAPERS.md, correction
1)."""

from __future__ import annotations

from plait_core.filters import parse
from plait_lab.experiments.tid.padres import CLIENT, HOPS_MAX, PaperOverlay
from plait_lab.simulation.overlay.worlds.given_graph import GivenWorld

A, B, C, D = range(4)


def ring() -> PaperOverlay:
    """Four brokers in a ring. S at D is known at A as {T1 via B, T2 via C}, and at B as {T1 via D, T2 via A}."""
    overlay = PaperOverlay({(A, B): 1, (B, D): 1, (A, C): 5, (C, D): 1})
    overlay.advertise("T1", A, parse("x >= 0"))  # reaches D by B
    overlay.set_delay(B, D, 10)
    overlay.advertise("T2", B, parse("x >= 0"))  # reaches D by A and C: the link B-D has become slow
    overlay.subscribe("S", D, parse("x >= 0"))
    return overlay


def test_the_tables_are_those_of_the_correction() -> None:
    overlay = ring()
    (paths,) = overlay.broker(A).prt.values()
    assert paths == {"T1": B, "T2": C}
    (paths,) = overlay.broker(B).prt.values()
    assert paths == {"T1": D, "T2": A}
    (paths,) = overlay.broker(D).prt.values()
    assert paths == {"T1": CLIENT, "T2": CLIENT}


def test_algorithm_1_delivers_where_there_is_but_one_tree() -> None:
    overlay = PaperOverlay({(A, B): 1, (B, D): 1, (A, C): 5, (C, D): 1})
    overlay.advertise("T1", A, parse("x >= 0"))
    overlay.subscribe("S", D, parse("x >= 0"))
    outcome = overlay.publish("T1", {"x": 1})
    assert outcome.delivered == ("S",)
    assert outcome.visits == (A, B, D)


def test_algorithm_1_loops() -> None:
    outcome = ring().publish("T1", {"x": 1})
    assert outcome.looped
    assert outcome.delivered == (), "S never gets it"
    assert set(outcome.visits) == {A, B}
    assert len(outcome.visits) > HOPS_MAX


def test_ours_does_not_loop_on_the_same_graph() -> None:
    world = GivenWorld({(A, B): 0.001, (B, D): 0.001, (A, C): 0.005, (C, D): 0.001})
    world.start()
    world.advertise(A, "x >= 0")
    world.pipes[1].delay_s = 0.010
    world.advertise(B, "x >= 0")
    world.subscribe(D, "x >= 0")
    world.run(8.0)
    for _ in range(20):
        world.nodes[A].publish({"x": 1})
        world.nodes[B].publish({"x": 1})
        world.run(0.1)
    assert sorted(one.id for one in world.receptions(D)) == sorted(world.said), "each once"
    assert {one.path for one in world.receptions(D)} == {(A, C), (B, A, C)}, "around the slow link, and never back"
    assert not world.complaints


def triangle() -> PaperOverlay:
    """S1 at C meets both trees of A, and is known there as {T1 via C, T2 via B}; S2 at B meets T1 alone."""
    overlay = PaperOverlay({(A, B): 2, (B, C): 2, (A, C): 3})
    overlay.advertise("T1", A, parse("0 <= x < 100"))  # reaches C straight
    overlay.set_delay(A, C, 9)
    overlay.advertise("T2", A, parse("50 <= x < 100"))  # reaches C by B
    overlay.subscribe("S1", C, parse("0 <= x < 100"))
    overlay.subscribe("S2", B, parse("0 <= x < 50"))
    return overlay


def test_algorithm_1_loses_a_second_subscription() -> None:
    overlay = triangle()
    known = {one.name: paths for one, paths in overlay.broker(A).prt.items()}
    assert known == {"S1": {"T1": C, "T2": B}, "S2": {"T1": B}}
    outcome = overlay.publish("T1", {"x": 10})
    assert outcome.delivered == ("S1",), "S1 chose T2 for the copy to B, where S2 is known under T1 only"
    assert B in outcome.visits, "the copy did pass the broker of S2"
    assert not outcome.looped


def test_ours_does_not_lose_it_on_the_same_graph() -> None:
    world = GivenWorld({(A, B): 0.002, (B, C): 0.002, (A, C): 0.003})
    world.start()
    world.advertise(A, "0 <= x < 100")
    world.pipes[2].delay_s = 0.009
    world.advertise(A, "50 <= x < 100")
    world.subscribe(C, "0 <= x < 100")
    world.subscribe(B, "0 <= x < 50")
    world.run(8.0)
    for _ in range(20):
        world.nodes[A].publish({"x": 10})
        world.run(0.1)
    for home in (B, C):
        assert sorted(one.id for one in world.receptions(home)) == sorted(world.said), "each once"
    assert {one.path for one in world.receptions(C)} == {(A, B)}, "one copy for both, on the fast links"
    assert not world.complaints

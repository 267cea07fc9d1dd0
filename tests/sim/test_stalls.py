"""`event.delay` is the true delay, not the expected one: it includes stalls, and only for events that stalled."""

from __future__ import annotations

import pytest

from plait_lab.simulation.overlay.worlds.stalls import BEGIN_S, DELAY_S, EventDelay, Stalls

FEW_S = 0.006
"""Tolerated error of a claimed delay: the age of a clock stamp and a little more."""


def held(world: Stalls) -> list[EventDelay]:
    return [journey for journey in world.journeys if journey.true_s > 0.1]


def played(world: Stalls) -> Stalls:
    complaints = world.play()
    assert not complaints, complaints[0]
    assert len({journey.published_s for journey in world.journeys}) == len(world.said_at), "all came"
    return world


@pytest.mark.parametrize("seed", [0, 1, 2], ids=["on the wire", "signed", "plain"])
@pytest.mark.parametrize("every_s", [0.1, 0.002])
def test_what_a_broker_held_while_it_stood_still_says_so_and_nothing_after_it(seed: int, every_s: float) -> None:
    world = Stalls(seed, every_s=every_s, lasts_s=6.0)
    world.pause(3.0, 1.5)
    played(world)
    assert len(held(world)) >= 1.3 / every_s
    for journey in world.journeys:
        assert journey.claimed_s == pytest.approx(journey.true_s, abs=FEW_S), journey


def test_what_goes_a_way_that_is_given_says_it_as_well() -> None:
    world = Stalls(lasts_s=6.0)

    def go_around() -> None:
        first, *_, last = route = [node.overlay.me for node in world.nodes if node.overlay is not None]
        dissemination = world.ids[first].overlay.event_streams  # type: ignore[union-attr]
        outgoing = dissemination.outgoing[last]
        outgoing.detour, outgoing.detour_until = tuple(route), 1e9
        dissemination._detoured[last] = None

    world.plan(0.5, go_around)
    world.pause(3.0, 1.5)
    played(world)
    first = world.nodes[0].overlay
    assert first is not None
    assert first.counts["detours"] >= 50
    for journey in world.journeys:
        assert journey.claimed_s == pytest.approx(journey.true_s, abs=FEW_S), journey


def test_an_event_after_a_long_silence_says_how_long_it_was_held() -> None:
    world = Stalls(every_s=30.0, lasts_s=90.0)
    world.pause(29.5, 1.5)
    played(world)
    assert [round(journey.true_s, 1) for journey in world.journeys] == [0.0, 1.0, 0.0]
    for journey in world.journeys:
        assert journey.claimed_s == pytest.approx(journey.true_s, abs=FEW_S)


@pytest.mark.parametrize("one_way", [False, True])
def test_a_link_that_becomes_slow_is_in_the_delay_of_its_first_event(one_way: bool) -> None:
    world = Stalls(lasts_s=25.0)
    world.slow(3.0, 0.2, one_way=one_way)
    played(world)
    assert len(held(world)) > 200
    for journey in world.journeys:
        if one_way and journey.published_s > BEGIN_S + 11.0:
            assert journey.claimed_s >= journey.true_s / 2, "half the round trip is all that can be known for long"
        else:
            assert journey.claimed_s == pytest.approx(journey.true_s, abs=FEW_S), journey


def test_a_link_that_becomes_fast_again_is_fast_at_once() -> None:
    world = Stalls(lasts_s=40.0)
    world.slow(3.0, 0.2)
    world.slow(20.0, DELAY_S)
    played(world)
    for journey in world.journeys:
        assert journey.claimed_s == pytest.approx(journey.true_s, abs=FEW_S), journey

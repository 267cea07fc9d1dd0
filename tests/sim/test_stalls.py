"""`event.delay` is the true delay, not the expected one: it includes stalls, and only for events that stalled."""

from __future__ import annotations

import pytest

from plait_lab.simulation.overlay.worlds.stalls import BEGIN_S, DELAY_S, EventDelay, Stalls

FEW_S = 0.006
"""Tolerated error of a claimed delay: the age of a clock stamp and a little more."""


def held(stalls: Stalls) -> list[EventDelay]:
    return [delay for delay in stalls.delays if delay.true_s > 0.1]


def played(stalls: Stalls) -> Stalls:
    complaints = stalls.play()
    assert not complaints, complaints[0]
    assert len({delay.published_s for delay in stalls.delays}) == len(stalls.world.events), "all came"
    return stalls


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("every_s", [0.1, 0.002])
def test_what_a_broker_held_while_it_stood_still_says_so_and_nothing_after_it(signed: bool, every_s: float) -> None:
    stalls = Stalls(every_s=every_s, lasts_s=6.0, signed=signed)
    stalls.pause(3.0, 1.5)
    played(stalls)
    assert len(held(stalls)) >= 1.3 / every_s
    for delay in stalls.delays:
        assert delay.claimed_s == pytest.approx(delay.true_s, abs=FEW_S), delay


def test_what_goes_a_way_that_is_given_says_it_as_well() -> None:
    stalls = Stalls(lasts_s=6.0)

    def go_around() -> None:
        *_, last = route = [node.overlay.me for node in stalls.world.nodes]
        streams = stalls.world.nodes[0].overlay.event_streams
        outgoing = streams.outgoing[last]
        outgoing.detour, outgoing.detour_until = tuple(route), 1e9
        streams._detoured[last] = None

    stalls.plan(0.5, go_around)
    stalls.pause(3.0, 1.5)
    played(stalls)
    assert stalls.world.nodes[0].overlay.counts["detours"] >= 50
    for delay in stalls.delays:
        assert delay.claimed_s == pytest.approx(delay.true_s, abs=FEW_S), delay


def test_an_event_after_a_long_silence_says_how_long_it_was_held() -> None:
    stalls = Stalls(every_s=30.0, lasts_s=90.0)
    stalls.pause(29.5, 1.5)
    played(stalls)
    assert [round(delay.true_s, 1) for delay in stalls.delays] == [0.0, 1.0, 0.0]
    for delay in stalls.delays:
        assert delay.claimed_s == pytest.approx(delay.true_s, abs=FEW_S)


@pytest.mark.parametrize("one_way", [False, True])
def test_a_link_that_becomes_slow_is_in_the_delay_of_its_first_event(one_way: bool) -> None:
    stalls = Stalls(lasts_s=25.0)
    stalls.slow(3.0, 0.2, one_way=one_way)
    played(stalls)
    assert len(held(stalls)) > 200
    for delay in stalls.delays:
        if one_way and delay.published_s > BEGIN_S + 11.0:
            assert delay.claimed_s >= delay.true_s / 2, "half the round trip is all that can be known for long"
        else:
            assert delay.claimed_s == pytest.approx(delay.true_s, abs=FEW_S), delay


def test_a_link_that_becomes_fast_again_is_fast_at_once() -> None:
    stalls = Stalls(lasts_s=40.0)
    stalls.slow(3.0, 0.2)
    stalls.slow(20.0, DELAY_S)
    played(stalls)
    for delay in stalls.delays:
        assert delay.claimed_s == pytest.approx(delay.true_s, abs=FEW_S), delay

"""Neighbours: detection of dead ones, measured delays, and when a changed delay is worth announcing."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from plait_broker.overlay.topology.neighbours import DISPUTED_S, PINGS_MAX, PROGRESS_TIMES, Neighbour

BEAT_S, DETECT_S = 0.5, 3.0


def beats(neighbour: Neighbour, delays_s: list[float], start: float) -> list[float]:
    """Ping at each beat over a link with these delays, and return the times at which a new delay was announced."""
    told = []
    for beat, delay_s in enumerate(delays_s):
        at = start + beat * BEAT_S
        neighbour.ping(beat, at)
        neighbour.received_at = now = at + 2 * delay_s
        neighbour.pong(beat, now)
        if neighbour.should_flood(now):
            neighbour.note_flooded(now)
            told.append(now)
    return told


def settled(delay_s: float) -> Neighbour:
    neighbour = Neighbour(2, "b", 0, 0.0)
    beats(neighbour, [delay_s] * 10, 0.0)
    return neighbour


def test_the_first_sample_is_told_and_is_half_the_round_trip() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    assert not neighbour.should_flood(0.0), "nothing is known"
    assert beats(neighbour, [0.02], 0.0) == [0.04]
    assert neighbour.flooded_us == 20_000


def test_a_delay_too_small_to_measure_is_still_one() -> None:
    neighbour = settled(0.0)
    assert neighbour.flooded_us == 1, "0 says that it is not known"


@pytest.mark.parametrize("delay_s", [0.0005, 0.002, 0.05])
def test_a_tenfold_rise_is_told_within_two_seconds(delay_s: float) -> None:
    neighbour = settled(delay_s)
    before, start = neighbour.flooded_us, 10.0
    told = beats(neighbour, [10 * delay_s] * 4, start)
    assert told
    assert told[0] <= start + 2.0
    assert neighbour.flooded_us > 3 * before, "and most of it"


@pytest.mark.parametrize("delay_s", [0.002, 0.05])
@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_fifth_is_told_at_most_once_in_ten_seconds(delay_s: float, seed: int) -> None:
    rng = Random(seed)
    neighbour = settled(delay_s)
    told = beats(neighbour, [delay_s * rng.uniform(0.8, 1.2) for _ in range(200)], 10.0)
    for at in told:
        assert sum(at <= other < at + 10.0 for other in told) <= 1


def test_what_flaps_is_not_told_more_often_than_twice_a_second() -> None:
    neighbour = settled(0.001)
    told = beats(neighbour, [0.001, 0.1] * 50, 10.0)
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(told))


def test_silence_is_death() -> None:
    neighbour = settled(0.001)
    received_at = neighbour.received_at
    assert neighbour.dies_at(DETECT_S) == received_at + DETECT_S


def test_one_direction_that_loses_everything_is_as_dead_as_both() -> None:
    """The neighbour sends frames but answers no ping, because our frames do not reach it."""
    neighbour = settled(0.001)
    lost_at = 10.0
    for beat in range(7):
        neighbour.ping(100 + beat, lost_at + beat * BEAT_S)
        neighbour.received_at = lost_at + beat * BEAT_S + 0.1
    assert neighbour.dies_at(DETECT_S) == lost_at + DETECT_S


def moves_until(neighbour: Neighbour, until: float) -> None:
    """Have events arrive at the neighbour once a second, and frames from it, but no answer to a ping."""
    lane = neighbour.lane
    for second in range(int(until) + 1):
        lane.wrote(100, 1, float(second))
        assert lane.echoed(lane.stamp(float(second))[0], 0, float(second))
        neighbour.received_at = float(second)


def test_a_link_whose_events_move_is_alive_although_a_ping_waits() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    neighbour.ping(1, 0.0)
    moves_until(neighbour, 5.0)
    assert neighbour.dies_at(DETECT_S) == 5.0 + DETECT_S


def test_a_ping_that_never_moves_ends_a_link_whose_events_do() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    neighbour.ping(1, 0.0)
    moves_until(neighbour, 30.0)
    assert neighbour.dies_at(DETECT_S) == PROGRESS_TIMES * DETECT_S


def test_an_answer_answers_all_pings_before_it() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    for beat in range(3):
        neighbour.ping(beat, beat * BEAT_S)
    neighbour.received_at = 1.1
    neighbour.pong(1, 1.1)
    assert neighbour.dies_at(DETECT_S) == 2 * BEAT_S + DETECT_S, "the third is open"
    neighbour.pong(77, 1.2)
    assert list(neighbour.pings) == [2], "an answer to nothing says nothing"


def test_pings_that_nobody_answers_do_not_pile_up() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    for beat in range(2 * PINGS_MAX):
        neighbour.ping(beat, float(beat))
    assert len(neighbour.pings) == PINGS_MAX
    assert neighbour.dies_at(DETECT_S) == DETECT_S, "the oldest counts"


def test_a_claim_far_below_what_is_measured_is_disputed_and_not_at_once() -> None:
    neighbour = settled(0.040)
    neighbour.note_flooded(0.0)
    assert [now for now in range(12) if neighbour.compare(1, float(now))] == [DISPUTED_S], "once"
    assert neighbour.disputed
    assert not neighbour.compare(neighbour.flooded_us, 13.0)
    assert not neighbour.disputed, "whoever tells the truth is believed again"


def test_a_process_that_stood_still_does_not_make_a_liar_of_whoever_measured_nothing() -> None:
    neighbour = settled(0.001)
    claimed_us = round(neighbour.delay_us)
    neighbour.sample(2.5)
    for beat in range(20):
        neighbour.note_flooded(beat / 2)
        assert not neighbour.compare(claimed_us, beat / 2)
        neighbour.sample(0.001)
    assert neighbour.disputable_since is None


def test_claims_that_are_late_longer_or_within_noise_are_not_disputed() -> None:
    neighbour = settled(0.040)
    neighbour.note_flooded(0.0)
    for claimed_us in (None, neighbour.flooded_us * 10, neighbour.flooded_us, neighbour.flooded_us // 3):
        assert not any(neighbour.compare(claimed_us, float(now)) for now in range(100)), claimed_us
    for now in range(100):
        assert not neighbour.compare(1 if now % 5 else neighbour.flooded_us, float(now)), (
            "until it has received the rise"
        )
    near = settled(0.002)
    near.note_flooded(0.0)
    assert not any(near.compare(1, float(now)) for now in range(100)), "a millisecond is nothing to dispute about"

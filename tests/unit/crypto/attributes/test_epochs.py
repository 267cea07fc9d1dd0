"""Epochs that end early: numbers, begins and ends, compared with a walk over all boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_crypto import Epochs, SealInvalid
from plait_crypto.limits import EARLY_ENDS_MAX

START_US, LENGTH_US, OVERLAP_US = 50, 100, 20

ends = st.lists(st.integers(START_US, START_US + 5 * LENGTH_US), max_size=6).map(lambda found: tuple(sorted(found)))
times = st.integers(START_US, START_US + 7 * LENGTH_US)


def epochs(early_ends_us: tuple[int, ...] = (), slot_bits: int = 0) -> Epochs:
    return Epochs(START_US, LENGTH_US, OVERLAP_US, slot_bits, early_ends_us)


def begins(early_ends_us: tuple[int, ...]) -> list[int]:
    """Return the begin of each epoch: the calendar's boundaries and the early ends."""
    return sorted([*(START_US + period * LENGTH_US for period in range(20)), *early_ends_us])


@given(ends, times)
def test_every_boundary_begins_an_epoch(early: tuple[int, ...], at_us: int) -> None:
    assert epochs(early).epoch_at(at_us) == sum(begin <= at_us for begin in begins(early)) - 1


@given(ends, st.integers(0, 8))
def test_an_epoch_begins_where_its_number_does(early: tuple[int, ...], epoch: int) -> None:
    assert epochs(early).begin_us(epoch) == begins(early)[epoch]


@given(ends, times)
def test_accepted_are_the_epochs_within_one_overlap(early: tuple[int, ...], at_us: int) -> None:
    found = epochs(early)
    near = range(max(START_US, at_us - OVERLAP_US), at_us + OVERLAP_US + 1)
    assert set(found.taken_at(at_us)) >= {found.epoch_at(each) for each in near}
    assert found.taken_at(at_us) == tuple(range(found.taken_at(at_us)[0], found.taken_at(at_us)[-1] + 1))
    assert found.issued_at(at_us) == tuple(each for each in found.taken_at(at_us) if each >= found.epoch_at(at_us))


@given(ends, times, st.integers(0, 3))
def test_a_slot_ends_with_its_epoch_at_the_latest(early: tuple[int, ...], at_us: int, slot_bits: int) -> None:
    found = epochs(early, slot_bits)
    epoch, slot = found.epoch_at(at_us), found.slot_at(at_us)
    end_us = found.slot_end_us(epoch, slot)
    assert at_us < end_us <= found.begin_us(epoch + 1)
    last = end_us - 1
    assert (found.epoch_at(last), found.slot_at(last)) == (epoch, slot)


@given(times)
def test_an_early_end_changes_no_number_before_it(at_us: int) -> None:
    before = epochs().epoch_at(at_us)
    assert epochs((at_us + 1,)).epoch_at(at_us) == before
    assert epochs((at_us,)).epoch_at(at_us) == before + 1


def test_early_ends_are_no_part_of_a_schema() -> None:
    assert epochs((70,)).fields() == epochs().fields()


@pytest.mark.parametrize("early", [(80, 70), (START_US - 1,), (1.5,), [70], (60,) * (EARLY_ENDS_MAX + 1)])
def test_invalid_early_ends_are_refused(early: tuple[int, ...]) -> None:
    with pytest.raises(SealInvalid):
        epochs(early)

"""The window of a publisher's sequence numbers that detects duplicates, compared with an unbounded set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait_core.duplicates import DuplicateWindow, Sighting

NEW, BEHIND, DUPLICATE, STALE = Sighting.NEW, Sighting.BEHIND, Sighting.DUPLICATE, Sighting.STALE


def test_in_order_all_are_new_and_again_none() -> None:
    window = DuplicateWindow(8, 10)
    assert [window.see(1, n) for n in (1, 2, 3)] == [NEW] * 3
    assert [window.see(1, n) for n in (3, 1, 2)] == [DUPLICATE] * 3


def test_below_the_window_nothing_can_be_told() -> None:
    window = DuplicateWindow(4, 10)
    window.see(1, 10)
    assert [window.see(1, n) for n in (7, 6)] == [BEHIND, STALE]
    window.see(1, 1000)
    assert [window.see(1, n) for n in (10, 996, 997)] == [STALE, STALE, BEHIND]


def test_publishers_do_not_meet() -> None:
    window = DuplicateWindow(4, 10)
    assert [window.see(publisher, 1) for publisher in (1, 2, 1)] == [NEW, NEW, DUPLICATE]


def test_a_sighting_can_be_taken_back() -> None:
    window = DuplicateWindow(4, 10)
    window.see(1, 5)
    window.forget(1, 5)
    window.forget(1, 1)
    window.forget(2, 1)
    assert [window.see(1, 5), window.see(1, 5)] == [NEW, DUPLICATE]


def test_the_longest_untouched_publisher_is_forgotten_first() -> None:
    window = DuplicateWindow(4, 2)
    window.see(1, 1)
    window.see(2, 1)
    window.touch(1)
    window.see(3, 1)
    assert len(window) == 2
    assert [window.see(1, 1), window.see(2, 1)] == [DUPLICATE, NEW]


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=80))
def test_against_a_set(size: int, steps: list[tuple[int, bool]]) -> None:
    window, seen, highest = DuplicateWindow(size, 10), set[int](), -1
    for sequence, take_back in steps:
        stale = highest >= 0 and sequence <= highest - size
        expected = STALE if stale else DUPLICATE if sequence in seen else BEHIND if sequence < highest else NEW
        assert window.see(7, sequence) is expected
        highest = max(highest, sequence)
        seen.add(sequence)
        if take_back and not stale:
            window.forget(7, sequence)
            seen.discard(sequence)

"""The window of sequence numbers compared with a set of all numbers seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait_core.duplicates import DuplicateWindow, Sighting

WINDOW = 8
steps = st.lists(
    st.sampled_from([1, 1, 1, 1, 1, 1, 2, 3, WINDOW, 2 * WINDOW, 0, -1, -2, 1 - WINDOW, -WINDOW]), max_size=60
)
"""Offsets from the highest number so far; mostly the next, so that windows fill up."""


@given(steps, st.lists(st.integers(0, 59), max_size=3))
def test_a_window_classifies_like_a_set(steps: list[int], taken_back: list[int]) -> None:
    window, seen, highest = DuplicateWindow(WINDOW, 4), set[int](), 100
    assert window.see(1, highest) is Sighting.NEW
    seen.add(highest)
    for number, step in enumerate(steps):
        sequence = highest + step
        if sequence <= highest - WINDOW:
            right = Sighting.STALE
        else:
            new = Sighting.NEW if sequence >= highest else Sighting.BEHIND
            right = Sighting.DUPLICATE if sequence in seen else new
        assert window.see(1, sequence) is right
        if right in (Sighting.NEW, Sighting.BEHIND):
            seen.add(sequence)
            highest = max(highest, sequence)
        if number in taken_back and sequence != highest and sequence in seen and sequence > highest - WINDOW:
            window.forget(1, sequence)
            seen.discard(sequence)

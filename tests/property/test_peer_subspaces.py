"""Sets of sub-spaces against brute force over all cells of a small event space."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from plait_core.space import DzSet
from plait_peer.protocol.subspaces import covered, covers, crowd, merged, related, touched, touches, uncovered, volume

DEPTH = 4
CELLS = ["".join(bits) for bits in product("01", repeat=DEPTH)]
texts = st.text("01", max_size=DEPTH)
sets = st.lists(texts, max_size=6).map(merged)


def cells(*given: str) -> set[str]:
    return {cell for cell in CELLS for dz in given if cell.startswith(dz)}


@given(sets, texts)
def test_covers_and_touches(some: tuple[str, ...], dz: str) -> None:
    assert covers(some, dz) == (cells(dz) <= cells(*some))
    assert touches(some, dz) == bool(cells(dz) & cells(*some))


@given(sets, sets)
def test_between_sets(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert related(one, other) == bool(cells(*one) & cells(*other))
    assert sorted(covered(one, other) + uncovered(one, other)) == sorted(one)
    assert all(cells(dz) <= cells(*other) for dz in covered(one, other))
    assert touched(one, other) == tuple(dz for dz in one if cells(dz) & cells(*other))


@given(st.lists(texts, max_size=8))
def test_the_canonical_set_is_that_of_the_core(some: list[str]) -> None:
    assert merged(some) == tuple(dz.text for dz in DzSet.of(some))
    assert volume(merged(some)) == len(cells(*some)) / len(CELLS)


@given(st.lists(sets, max_size=6))
def test_the_crowd_is_at_the_fullest_point(given_sets: list[tuple[str, ...]]) -> None:
    found = crowd(enumerate(given_sets))
    load = max((sum(cell in cells(*each) for each in given_sets) for cell in CELLS), default=0)
    assert len(found) == load
    if found:
        assert set.intersection(*[cells(*given_sets[number]) for number in found])

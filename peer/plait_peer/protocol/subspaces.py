"""Sets of sub-spaces as peers work on them: sorted tuples of texts, none covering another (thesis 2.3.1).

`plait_core.space` makes and checks these sets. The functions here test coverage thousands of times a second. In sorted
order a text comes just before all that it covers, so each test is one bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Texts: TypeAlias = tuple[str, ...]


def covers(texts: Texts, dz: str) -> bool:
    """Return whether a member covers `dz`: if any does, it is the last member that is not after `dz`."""
    place = bisect_right(texts, dz)
    return place > 0 and dz.startswith(texts[place - 1])


def touches(texts: Texts, dz: str) -> bool:
    """Return whether `texts` and `dz` share a point."""
    place = bisect_left(texts, dz)
    if place < len(texts) and texts[place].startswith(dz):
        return True
    return place > 0 and dz.startswith(texts[place - 1])


def related(one: Texts, other: Texts) -> bool:
    """Return whether a member of one set contains, or is contained in, a member of the other (Algorithm 1, line 3)."""
    if len(one) > len(other):
        one, other = other, one
    return any(touches(other, dz) for dz in one)


def covered(texts: Texts, by: Texts) -> Texts:
    """Return the members of `texts` that `by` covers."""
    return tuple([dz for dz in texts if covers(by, dz)])


def uncovered(texts: Texts, by: Texts) -> Texts:
    """Return the members of `texts` that `by` does not cover."""
    return tuple([dz for dz in texts if not covers(by, dz)])


def touched(texts: Texts, by: Texts) -> Texts:
    """Return the members of `texts` that share a point with `by`."""
    return tuple([dz for dz in texts if touches(by, dz)])


def volume(texts: Texts) -> float:
    """Return the share of the event space that the sub-spaces occupy."""
    return sum(0.5 ** len(dz) for dz in texts)


def merged(texts: Iterable[str]) -> Texts:
    """Return the canonical set of the same points: sorted, siblings merged, no member covering another."""
    kept: list[str] = []
    for dz in sorted(texts):
        if kept and dz.startswith(kept[-1]):
            continue
        kept.append(dz)
        while len(kept) > 1 and kept[-1] and kept[-2] == kept[-1][:-1] + ("1" if kept[-1][-1] == "0" else "0"):
            kept[-2:] = [kept[-1][:-1]]
    return tuple(kept)


def crowd(sets: Iterable[tuple[int, Texts]]) -> tuple[int, ...]:
    """Return the owners of the sets that cover the most covered point: the load of property 4."""
    rows = sorted((dz, owner) for owner, texts in sets for dz in texts)
    most: list[tuple[str, int]] = []
    open_rows: list[tuple[str, int]] = []
    for row in rows:
        while open_rows and not row[0].startswith(open_rows[-1][0]):
            open_rows.pop()
        open_rows.append(row)
        if len(open_rows) > len(most):
            most = open_rows.copy()
    return tuple(owner for _, owner in most)

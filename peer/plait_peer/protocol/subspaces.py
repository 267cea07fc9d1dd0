"""Sets of sub-spaces as peers work on them: tuples of texts, sorted, none covering another (thesis 2.3.1).

`plait_core.space` makes and checks them; here they are asked, thousands of times a second, what they cover. In sorted
order a text comes just before all that it covers, so each question is one bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Texts: TypeAlias = tuple[str, ...]


def covers(texts: Texts, dz: str) -> bool:
    """Whether one of them covers `dz`: the last that is not after it does, if any."""
    place = bisect_right(texts, dz)
    return place > 0 and dz.startswith(texts[place - 1])


def touches(texts: Texts, dz: str) -> bool:
    """Whether some point is in both."""
    place = bisect_left(texts, dz)
    if place < len(texts) and texts[place].startswith(dz):
        return True
    return place > 0 and dz.startswith(texts[place - 1])


def related(one: Texts, other: Texts) -> bool:
    """Whether some member of one contains, or is contained in, a member of the other (Algorithm 1, line 3)."""
    if len(one) > len(other):
        one, other = other, one
    return any(touches(other, dz) for dz in one)


def covered(texts: Texts, by: Texts) -> Texts:
    """Those of `texts` that `by` covers."""
    return tuple([dz for dz in texts if covers(by, dz)])


def uncovered(texts: Texts, by: Texts) -> Texts:
    """Those of `texts` that `by` does not cover."""
    return tuple([dz for dz in texts if not covers(by, dz)])


def touched(texts: Texts, by: Texts) -> Texts:
    """Those of `texts` that share a point with `by`."""
    return tuple([dz for dz in texts if touches(by, dz)])


def volume(texts: Texts) -> float:
    """The share of the event space that they make up."""
    return sum(0.5 ** len(dz) for dz in texts)


def merged(texts: Iterable[str]) -> Texts:
    """The canonical set of the same points: sorted, siblings merged, nothing that another covers."""
    kept: list[str] = []
    for dz in sorted(texts):
        if kept and dz.startswith(kept[-1]):
            continue
        kept.append(dz)
        while len(kept) > 1 and kept[-1] and kept[-2] == kept[-1][:-1] + ("1" if kept[-1][-1] == "0" else "0"):
            kept[-2:] = [kept[-1][:-1]]
    return tuple(kept)


def crowd(sets: Iterable[tuple[int, Texts]]) -> tuple[int, ...]:
    """Who shares the point that most of the sets cover: the load of property 4, and who makes it up."""
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

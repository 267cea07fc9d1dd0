"""Coarsening: covering a target with at most theta dz-expressions, top down (thesis 2.5.1, Algorithm 4).

Two strategies over one view of the tree of sub-spaces: the thesis' breadth-first exploration, and ours, which explores
further where most false volume is and keeps the best theta. Neither computes the exact mapping first.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from heapq import heappop, heappush
from typing import Protocol, Self

from ..errors import SpaceInvalid
from ..limits import DZ_SET_MAX
from .dz_text import canonical
from .thinning import thinned

_LOOKAHEAD = 4
"""Explored for each one kept. More hardly ever finds a better cover: what is worth dividing is found early."""

_EXPLORED_MAX = 1024
"""Beyond it no more are explored than are kept: thinning takes explored * theta steps."""


class Strategy(StrEnum):
    """How to choose the sub-spaces that cover a target."""

    BREADTH_FIRST = "breadth_first"  # Algorithm 4 as the thesis has it: divide the oldest while theta allows
    LEAST_FALSE = "least_false"  # divide the falsest, beyond theta, then merge what adds least false volume


class Node(Protocol):
    """A sub-space that the target reaches into."""

    @property
    def dz(self) -> str: ...

    @property
    def whole(self) -> bool:
        """Whether it is known to lie in the target altogether. At full depth every node does."""
        ...

    @property
    def false_volume(self) -> int:
        """How many of its finest cells are outside the target; it may count too many."""
        ...

    def halves(self) -> tuple[Self, ...]:
        """Those of its two halves that the target reaches into. Not to be asked of a whole node."""
        ...


def cover(root: Node, theta: int, strategy: Strategy) -> list[str]:
    """At most `theta` canonical dz-expressions that cover the target together."""
    if not 1 <= theta <= DZ_SET_MAX:
        raise SpaceInvalid(f"theta is {theta}", hint=f"from 1 to {DZ_SET_MAX} (DZ_SET_MAX) dz-expressions")
    if strategy is Strategy.BREADTH_FIRST:
        found = canonical(_breadth_first(root, theta))
    else:
        explored = max(theta, min(theta * _LOOKAHEAD, _EXPLORED_MAX))
        found = thinned(canonical(_falsest_first(root, explored)), theta)
    assert 1 <= len(found) <= theta, "property 1 of thesis 2.5.1"
    return found


def _breadth_first(root: Node, theta: int) -> list[str]:
    """Algorithm 4. Its lines 11-17 are one test here: the halves that the filter occupies must fit within theta.

    Line 11 as printed leaves the sub-space in hand out of the count and so yields theta + 1 (property 1 fails for f2 of
    figure 2.2 with theta = 1); and lines 14 and 16, strict on both sides, stop at a filter that ends at the midpoint.
    """
    done: list[str] = []
    queue = deque([root])
    while queue:
        node = queue.popleft()
        halves = () if node.whole else node.halves()
        if halves and len(done) + len(queue) + len(halves) <= theta:
            queue.extend(halves)
        else:
            done.append(node.dz)
    return done


def _falsest_first(root: Node, count: int) -> list[str]:
    """Divides the sub-space with most false volume until there are `count`."""
    held = [_ranked(root)]
    done: list[str] = []
    while held and len(done) + len(held) < count:
        _, _, node = heappop(held)
        if node.whole:
            done.append(node.dz)
            continue
        for half in node.halves():
            heappush(held, _ranked(half))
    return done + [dz for _, dz, _ in held]


def _ranked(node: Node) -> tuple[int, str, Node]:
    """The node shrunk as far as it costs no second dz-expression, and its place in the heap. No two share a dz."""
    while not node.whole:
        halves = node.halves()
        if len(halves) != 1:
            break
        node = halves[0]
    return -node.false_volume, node.dz, node

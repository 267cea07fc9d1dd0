"""Coarsening: cover a target with at most theta dz-expressions, top down (thesis 2.5.1, Algorithm 4).

Two strategies use one view of the tree of sub-spaces: the thesis' breadth-first exploration, and Plait's own, which
explores where most false volume is and keeps the best theta. Neither computes the exact mapping first.
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
"""Sub-spaces explored for each one kept. A larger factor hardly ever finds a better cover."""

_EXPLORED_MAX = 1024
"""With more, exploration ends at the number kept, because thinning takes explored * theta steps."""


class Strategy(StrEnum):
    """The choice of the sub-spaces that cover a target."""

    BREADTH_FIRST = "breadth_first"  # Algorithm 4 as printed: divide the oldest while theta allows
    LEAST_FALSE = "least_false"  # divide the one with most false volume, beyond theta, then merge where least is added


class Node(Protocol):
    """A sub-space that intersects the target."""

    @property
    def dz(self) -> str: ...

    @property
    def whole(self) -> bool:
        """True if the sub-space is known to lie wholly in the target. At full depth every node does."""
        ...

    @property
    def false_volume(self) -> int:
        """Number of its finest cells outside the target; an upper bound."""
        ...

    def halves(self) -> tuple[Self, ...]:
        """Return those of its two halves that intersect the target. Not defined for a whole node."""
        ...


def cover(root: Node, theta: int, strategy: Strategy) -> list[str]:
    """Return at most `theta` canonical dz-expressions that together cover the target."""
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
    """Run Algorithm 4. Its lines 11-17 are one test here: the halves that the filter occupies must fit within theta.

    Line 11 as printed does not count the sub-space in hand and so yields theta + 1 (property 1 fails for f2 of figure
    2.2 with theta = 1). Lines 14 and 16, strict on both sides, stop at a filter that ends at the midpoint.
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
    """Divide the sub-space with most false volume until there are `count`."""
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
    """Shrink the node as far as one dz-expression suffices, and return it with its heap key. No two share a dz."""
    while not node.whole:
        halves = node.halves()
        if len(halves) != 1:
            break
        node = halves[0]
    return -node.false_volume, node.dz, node

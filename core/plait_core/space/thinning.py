"""Thinning: cover given dz-expressions by at most theta, with the least volume.

The best cover consists of the smallest sub-spaces around groups of them, and those form a binary tree. So it is a
knapsack on a tree: the best k for a node are the best i for its lower half and the best k - i for its upper one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dz_text import common_prefix


@dataclass(frozen=True, slots=True)
class _Tree:
    dz: str
    volumes: list[int]
    """volumes[k - 1]: volume of the best k dz-expressions that cover its leaves."""
    shares: list[int]
    """shares[k - 1]: number of these that cover the lower half; 0 if the cover is `dz` itself."""
    halves: tuple[_Tree, ...] = ()


def thinned(texts: Sequence[str], theta: int) -> list[str]:
    """Return at most `theta` that cover the canonical `texts`, of least volume, in len(texts) * theta steps."""
    if len(texts) <= theta:
        return list(texts)
    assert theta >= 1, "a cover needs at least one"
    depth = max(map(len, texts))
    trees: list[_Tree] = []
    for text in texts:
        while len(trees) > 1 and _nearer(trees[-1].dz, trees[-2].dz, text):
            trees[-2:] = [_joined(trees[-2], trees[-1], theta, depth)]
        trees.append(_Tree(text, [1 << (depth - len(text))], [0]))
    while len(trees) > 1:
        trees[-2:] = [_joined(trees[-2], trees[-1], theta, depth)]
    return _picked(trees[0], theta)


def _nearer(dz: str, before: str, after: str) -> bool:
    """Return whether the sub-space around `dz` and its predecessor is smaller than that around it and its successor."""
    return len(common_prefix(dz, before)) > len(common_prefix(dz, after))


def _joined(lower: _Tree, upper: _Tree, theta: int, depth: int) -> _Tree:
    dz = common_prefix(lower.dz, upper.dz)
    volumes, shares = [1 << (depth - len(dz))], [0]
    most_lower, most_upper = len(lower.volumes), len(upper.volumes)
    for count in range(2, min(theta, most_lower + most_upper) + 1):
        splits = range(max(1, count - most_upper), min(count - 1, most_lower) + 1)
        volume, share = min((lower.volumes[i - 1] + upper.volumes[count - i - 1], i) for i in splits)
        volumes.append(volume)
        shares.append(share)
    return _Tree(dz, volumes, shares, (lower, upper))


def _picked(root: _Tree, theta: int) -> list[str]:
    picked: list[str] = []
    rest = [(root, theta)]
    while rest:
        tree, count = rest.pop()
        share = tree.shares[count - 1]
        if not share:
            picked.append(tree.dz)
        else:
            lower, upper = tree.halves
            rest += [(lower, share), (upper, count - share)]
    return picked

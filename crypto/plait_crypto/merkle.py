"""Merkle trees over the events of a batch: one signature for all, and for each event a proof of membership.

The last level is padded to a power of two with a digest that no event has.
"""

from __future__ import annotations

from collections.abc import Sequence

from .envelope import proof_digests
from .hazmat.hashing import digest

_NOTHING = digest(b"no leaf")


def grow(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the levels of the tree: the leaves first, the root alone last."""
    assert leaves, "a tree of no leaves has no root"
    level = [*leaves, *[_NOTHING] * ((1 << proof_digests(len(leaves))) - len(leaves))]
    levels = [level]
    while len(level) > 1:
        level = [_join(level[at], level[at + 1]) for at in range(0, len(level), 2)]
        levels.append(level)
    return levels


def proof(levels: Sequence[Sequence[bytes]], leaf: int) -> tuple[bytes, ...]:
    """Return the siblings on the path from a leaf to the root."""
    return tuple(level[(leaf >> height) ^ 1] for height, level in enumerate(levels[:-1]))


def climb(found: bytes, leaf: int, siblings: Sequence[bytes]) -> bytes:
    """Return the root for a leaf at this position with these siblings."""
    for sibling in siblings:
        found = _join(sibling, found) if leaf & 1 else _join(found, sibling)
        leaf >>= 1
    return found


def _join(left: bytes, right: bytes) -> bytes:
    return digest(b"node", left, right)

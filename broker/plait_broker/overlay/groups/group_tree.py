"""The tree of a stream group: the shortest-path tree of its root, in preorder.

A broker comes first, then the subtree of each child. So the members of a subtree are a slice, and so are their bits in
the bit set of the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from plait_core.limits import PATH_MAX

from ..topology.link_state import LinkStateDatabase

DEPTH_MAX: Final = PATH_MAX - 2
"""Links from the root to a broker of a tree, so that a delivery has room for all brokers of the path."""


def bits_of(members: int) -> Iterator[int]:
    """Return the indexes of the bits that are set, in order."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


class Subtree(NamedTuple):
    """A child in a tree, with all brokers below it."""

    broker: int
    start: int
    """Its index in preorder."""
    size: int

    def part_of(self, members: int) -> int:
        """Return the members in this subtree, as a bit set of its own."""
        return (members >> self.start) & ((1 << self.size) - 1)


class GroupTree:
    """A tree as its root made it."""

    def __init__(self, ids: Sequence[int], sizes: Sequence[int], parents: Sequence[int]) -> None:
        self.ids = tuple(ids)
        """The brokers in preorder, the root first."""
        self.sizes = tuple(sizes)
        self.parents = tuple(parents)
        """By index, the broker above; the root is its own."""
        self.index: Mapping[int, int] = {broker: at for at, broker in enumerate(self.ids)}
        self.everyone = (1 << len(self.ids)) - 2
        """The bit set of all members: all but the root."""

    @property
    def children(self) -> list[Subtree]:
        """The children of the root."""
        return children_of(self.ids, self.sizes)

    def subtree(self, at: int) -> int:
        """Return the bit set of a broker and all below it."""
        return ((1 << self.sizes[at]) - 1) << at


def children_of(ids: Sequence[int], sizes: Sequence[int]) -> list[Subtree]:
    """Return the children of the first of these brokers, which are a tree in preorder."""
    found, at = [], 1
    while at < sizes[0]:
        found.append(Subtree(ids[at], at, sizes[at]))
        at += sizes[at]
    return found


def shortest_path_tree(map: LinkStateDatabase, root: int) -> GroupTree:
    """Return the tree of the shortest paths from a broker to all that it reaches."""
    below: dict[int, list[int]] = {root: []}
    depth = {root: 0}
    for broker in map.distances(root):
        if broker == root:
            continue
        parent = map.parent(root, broker)
        if parent in below and depth[parent] < DEPTH_MAX:
            below[parent].append(broker)
            below[broker] = []
            depth[broker] = depth[parent] + 1
    ids: list[int] = []
    parents: list[int] = []
    stack = [(root, root)]
    while stack:
        broker, parent = stack.pop()
        ids.append(broker)
        parents.append(parent)
        stack += [(child, broker) for child in reversed(below[broker])]
    sizes = [1] * len(ids)
    index = {broker: at for at, broker in enumerate(ids)}
    for at in range(len(ids) - 1, 0, -1):
        sizes[index[parents[at]]] += sizes[at]
    return GroupTree(ids, sizes, parents)

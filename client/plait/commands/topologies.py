"""Graphs for `plait up` and `plait gen compose`: who is linked to whom, by number."""

from __future__ import annotations

import random
from typing import Final, TypeAlias

Edges: TypeAlias = list[tuple[int, int]]

TOPOLOGIES: Final = ("ring", "braid", "mesh", "line", "star", "random")
MESH_MAX: Final = 12
"""Brokers of a full mesh: beyond it the links say more than the graph."""


def edges(topology: str, count: int) -> Edges:
    """The links of a topology, each once."""
    if topology == "mesh":
        return [(near, far) for near in range(count) for far in range(near + 1, count)]
    if topology == "star":
        return [(0, far) for far in range(1, count)]
    line = [(near, near + 1) for near in range(count - 1)]
    if topology == "line" or count < 3:
        return line
    if topology == "braid":  # stays in one piece, whichever broker dies
        return sorted(line + [(near, near + 2) for near in range(count - 2)])
    if topology == "ring":
        return [*line, (0, count - 1)]
    drawn = random.Random(count)  # noqa: S311 - the same graph for the same count
    tree = {(drawn.randrange(node), node) for node in range(1, count)}
    more = {tuple(sorted(drawn.sample(range(count), 2))) for _ in range(count // 2)}
    return sorted(tree | {(near, far) for near, far in more})

"""Graphs for `plait up` and `plait gen compose`: who is linked to whom, by number; of a known shape, or from a file."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from ..terminal.failures import WrongUse

Edges: TypeAlias = list[tuple[int, int]]

TOPOLOGIES: Final = ("ring", "braid", "mesh", "line", "star", "random")
MESH_MAX: Final = 12
"""Brokers of a full mesh: beyond it the links say more than the graph."""


SHAPES: Final = f"{'|'.join(TOPOLOGIES)}|FILE"
"""What `--topology` takes."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")


class Graph(NamedTuple):
    """Brokers by name, and the links between them, each once."""

    names: list[str]
    links: Edges


def graph(topology: str, count: int, prefix: str, count_max: int) -> Graph:
    """What `--topology` says: `count` brokers of that shape, or all of a file."""
    if topology not in TOPOLOGIES:
        return _read(Path(topology), count_max)
    if topology == "mesh" and count > MESH_MAX:
        raise WrongUse(f"a mesh of {count} brokers", hint=f"{MESH_MAX} at most; try --topology random")
    return Graph([f"{prefix}-{number + 1}" for number in range(count)], edges(topology, count))


def _read(path: Path, count_max: int) -> Graph:
    try:
        lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(TOPOLOGIES)
        raise WrongUse(
            f"--topology {path} is no topology and cannot be read: {error}", hint=f"known: {known}"
        ) from None
    pairs = [words for words in lines if words]
    names = list(dict.fromkeys(name for words in pairs for name in words))
    for words in pairs:
        if len(words) != 2 or words[0] == words[1] or not all(map(_NAME.match, words)):
            raise WrongUse(
                f"{path}: {' '.join(words)[:80]!r} is no link", hint="two names a line, of small letters, digits and -"
            )
    if not 1 <= len(names) <= count_max:
        raise WrongUse(f"{path} names {len(names)} brokers", hint=f"1 to {count_max}")
    at = {name: number for number, name in enumerate(names)}
    if apart := _unreached(names, pairs):
        raise WrongUse(
            f"{path}: no way leads from {names[0]} to {', '.join(apart)}", hint="give one of them a link to the others"
        )
    return Graph(names, sorted({(min(at[near], at[far]), max(at[near], at[far])) for near, far in pairs}))


def _unreached(names: list[str], pairs: list[list[str]]) -> list[str]:
    """Brokers that no way leads to from the first."""
    reached = set(names[:1])
    while more := {name for pair in pairs if not reached.isdisjoint(pair) for name in pair} - reached:
        reached |= more
    return [name for name in names if name not in reached]


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

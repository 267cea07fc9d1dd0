"""Graphs of brokers and links for `plait up` and `plait gen compose`: of a known shape, or read from a file.

networkx builds and checks them. Its import takes longer than most commands, so it waits until a graph is made.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..terminal.failures import WrongUse

if TYPE_CHECKING:
    import networkx

Edges: TypeAlias = list[tuple[int, int]]

TOPOLOGIES: Final = ("ring", "braid", "mesh", "line", "star", "random")
MESH_MAX: Final = 12
"""Brokers of a full mesh. A larger one has more links than an overlay can use."""

SHAPES: Final = f"{'|'.join(TOPOLOGIES)}|FILE"
"""Values of `--topology`, as help texts list them."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")


class Graph(NamedTuple):
    """Brokers by name, and the links between them as pairs of positions in `names`, each link once."""

    names: list[str]
    links: Edges

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]], first: Sequence[str] = ()) -> Graph:
        """Return the graph with these links: the brokers `first`, then others in the order in which links name them."""
        links = list(pairs)
        names = list(dict.fromkeys([*first, *(name for link in links for name in link)]))
        at = {name: number for number, name in enumerate(names)}
        return cls(names, sorted({(min(at[near], at[far]), max(at[near], at[far])) for near, far in links}))

    @property
    def named_links(self) -> list[tuple[str, str]]:
        return [(self.names[near], self.names[far]) for near, far in self.links]


def graph(topology: str, count: int, prefix: str, count_max: int) -> Graph:
    """Return the graph that `--topology` names: `count` brokers of a known shape, or the contents of a file."""
    if topology not in TOPOLOGIES:
        return _read(Path(topology), count_max)
    if topology == "mesh" and count > MESH_MAX:
        raise WrongUse(f"a mesh of {count} brokers", hint=f"{MESH_MAX} at most; try --topology random")
    return Graph([f"{prefix}-{number + 1}" for number in range(count)], edges(topology, count))


def edges(topology: str, count: int) -> Edges:
    """Return the links of a known shape in ascending order."""
    import networkx

    match topology:
        case "mesh":
            made = networkx.complete_graph(count)
        case "star":
            made = networkx.star_graph(count - 1)
        case "ring" if count > 2:
            made = networkx.cycle_graph(count)
        case "braid":  # each broker is linked to the next two, so no one broker's loss splits the overlay
            made = networkx.power(networkx.path_graph(count), 2)
        case "random":
            made = _random_graph(count)
        case _:
            made = networkx.path_graph(count)
    return sorted((min(near, far), max(near, far)) for near, far in made.edges)


def _random_graph(count: int) -> networkx.Graph:
    """Return a random tree with `count // 2` further links.

    Drawn by Python's generator, because networkx's generators may draw another graph in its next release.
    """
    import networkx

    draw = random.Random(count)  # noqa: S311 - the same graph for the same count
    made = networkx.empty_graph(count)
    made.add_edges_from((draw.randrange(node), node) for node in range(1, count))
    made.add_edges_from(draw.sample(range(count), 2) for _ in range(count // 2))
    return made


def _read(path: Path, count_max: int) -> Graph:
    import networkx

    try:
        lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(TOPOLOGIES)
        raise WrongUse(
            f"--topology {path} is no known shape, and no file that can be read: {error}", hint=f"known: {known}"
        ) from None
    pairs = [words for words in lines if words]
    for words in pairs:
        if len(words) != 2 or words[0] == words[1] or not all(map(_NAME.match, words)):
            raise WrongUse(
                f"{path}: {' '.join(words)[:80]!r} is no link", hint="two names a line, of small letters, digits and -"
            )
    found = Graph.of_pairs((near, far) for near, far in pairs)
    if not 1 <= len(found.names) <= count_max:
        raise WrongUse(f"{path} names {len(found.names)} brokers", hint=f"1 to {count_max}")
    reached = networkx.node_connected_component(networkx.Graph(pairs), found.names[0])
    if apart := [name for name in found.names if name not in reached]:
        raise WrongUse(
            f"{path}: no path leads from {found.names[0]} to {', '.join(apart)}", hint="link one of them to the others"
        )
    return found

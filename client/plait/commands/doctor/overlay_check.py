"""Check of the overlay in `plait doctor`: its single points of failure, found with networkx.

A bridge of the graph is a link, an articulation point is a broker, whose loss alone would split the overlay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..connection.addressing import find_target
from ..connection.http_api import get_object
from ..connection.http_discovery import find_http
from ..terminal.failures import Failure
from .checks import Finding

if TYPE_CHECKING:
    import networkx

LISTED_MAX: Final = 5
"""Names that one line lists. The others are only counted."""


def check_overlay(url: str | None, http: str | None) -> Finding:
    """Read the overlay's topology from one of its brokers, and report its single points of failure."""
    from plait_core import PlaitError

    required = url is not None or http is not None
    try:
        target = find_target(url)
        required |= target.source != "default"
        topology = get_object(find_http(target, http), "/api/v1/topology", target, "links")
    except (Failure, PlaitError) as error:
        return Finding("warn" if required else "ok", f"not checked: {error.message}", error.hint)
    return overlay_finding(topology)


def overlay_finding(topology: Mapping[str, Any]) -> Finding:
    """Report the single points of failure of the part of the overlay that contains the topology's first broker."""
    import networkx

    names = {broker["id"]: str(broker["name"]) for broker in topology["brokers"]}
    reported = dict.fromkeys((link["from"], link["to"]) for link in topology["links"])
    overlay = networkx.Graph()
    overlay.add_nodes_from(names)
    overlay.add_edges_from((near, far) for near, far in reported if (far, near) in reported)  # up in both directions
    reached = networkx.node_connected_component(overlay, topology["brokers"][0]["id"])
    unreachable = [name for id, name in names.items() if id not in reached]
    part = networkx.relabel_nodes(overlay.subgraph(reached), {id: (names[id], id) for id in reached})

    brokers = sorted(name for name, _ in networkx.articulation_points(part))
    links = sorted(_link_text(near, far) for near, far in networkx.bridges(part))
    found = f"{len(reached)} broker{_plural(reached)}, {part.number_of_edges()} link{_plural(part.edges)}"
    hints = []
    if unreachable:
        found += f"; out of reach: {_listed(unreachable)}"
        hints.append("is a broker down, or a link? `plait topo` shows both")
    if brokers or links:
        parts = [f"broker{_plural(brokers)} {_listed(brokers)}"] if brokers else []
        parts += [f"link{_plural(links)} {_listed(links)}"] if links else []
        found += f"; single points of failure: {', '.join(parts)}"
        missing = [_link_text(near, far) for near, far in missing_links(part)]
        hints.append(
            f"to remove them, add link{_plural(missing)} {_listed(missing)}"
            if missing
            else "to remove it, add a third broker with links to both"
        )
    return Finding("warn" if hints else "ok", found, "; ".join(hints))


def missing_links(overlay: networkx.Graph) -> list[tuple[Any, Any]]:
    """Return links that would leave a connected overlay without single points of failure.

    Each round joins two leaf blocks, which are parts behind one articulation point, that lie far apart. That merges all
    blocks between them into one, so the rounds end. Two brokers alone cannot be made safe.
    """
    import networkx

    graph, added = networkx.Graph(overlay), []
    while len(graph) > 2 and not networkx.is_biconnected(graph):
        cuts = set(networkx.articulation_points(graph))
        leaves = [block - cuts for block in networkx.biconnected_components(graph) if len(block & cuts) == 1]
        ends = sorted(min(leaf, key=lambda broker: (graph.degree(broker), broker)) for leaf in leaves)
        distance = networkx.single_source_shortest_path_length(graph, ends[0])
        far = max(ends[1:], key=lambda broker: distance[broker])
        graph.add_edge(ends[0], far)
        added.append((ends[0], far))
    return added


def _link_text(near: tuple[str, Any], far: tuple[str, Any]) -> str:
    return " - ".join(sorted((near[0], far[0])))


def _listed(names: list[str]) -> str:
    more = len(names) - LISTED_MAX
    return ", ".join(names[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _plural(things: Iterable[object]) -> str:
    return "" if len(list(things)) == 1 else "s"

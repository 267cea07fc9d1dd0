"""Link-state databases built from links, random ones, and the same graphs for networkx."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import networkx as nx
from hypothesis import strategies as st

from plait_broker.overlay.topology.link_state import HOP_US, LinkStateDatabase
from plait_core.wire.frame_types.overlay_frames import LinkState


def linked(links: dict[tuple[int, int], int]) -> LinkStateDatabase:
    """Return a link-state database with equal delays in both directions."""
    delays: dict[int, dict[int, int]] = {}
    for (near, far), delay_us in links.items():
        delays.setdefault(near, {})[far] = delay_us
        delays.setdefault(far, {})[near] = delay_us
    map = LinkStateDatabase()
    for broker, to in delays.items():
        map.put(LinkState(broker, 1, f"b{broker}", tuple(to), tuple(to.values())))
    return map


@st.composite
def link_states(draw: st.DrawFn, brokers_max: int = 40) -> list[LinkState]:
    """Draw the link states of an overlay, also in several parts.

    The ends of a link may flood different delays, and many links are equally slow. Some links are flooded by one end
    alone, because the other has not measured them yet or has not sent its link state.
    """
    rng = draw(st.randoms(use_true_random=False))
    count = rng.randint(1, brokers_max)
    delays_us = rng.choice(([1], [1000], [100, 1000, 5000], range(1, 100_000)))
    known: dict[int, dict[int, int]] = {broker: {} for broker in range(1, count + 1)}
    for _ in range(rng.randint(0, 3 * count)):
        near, far = rng.randint(1, count), rng.randint(1, count + 1)
        if near == far:
            continue
        known[near][far] = rng.choice(delays_us)
        if far in known and rng.random() < 0.85:
            known[far][near] = rng.choice((known[near][far], rng.choice(delays_us)))
    return [LinkState(broker, 1, f"b{broker}", tuple(to), tuple(to.values())) for broker, to in known.items()]


def database(states: Iterable[LinkState]) -> LinkStateDatabase:
    """Return a link-state database with these link states."""
    map = LinkStateDatabase()
    for state in states:
        map.put(state)
    return map


def graph_of(states: Iterable[LinkState]) -> nx.Graph:
    """Return the graph that all brokers compute from link states, built by other means than the product's."""
    said = {state.origin: dict(zip(state.neighbours, state.delays_us, strict=True)) for state in states}
    graph = nx.Graph()
    graph.add_nodes_from(said)
    for near, far in combinations(said, 2):
        if far in said[near] and near in said[far]:
            graph.add_edge(near, far, weight=max(said[near][far], said[far][near]) + HOP_US)
    return graph

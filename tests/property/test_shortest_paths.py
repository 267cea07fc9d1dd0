"""Distances, next hops and source routes on random graphs of up to 40 brokers, compared with networkx."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st
from maps import database, graph_of, link_states

from plait_broker.overlay.topology.forwarding_table import KEEP_RATIO, KEEP_US, ForwardingTable
from plait_broker.overlay.topology.link_state import HOP_US, LinkStateDatabase
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.overlay.topology.source_routes import ways_around
from plait_core.wire.frame_types.overlay_frames import LinkState

RANDOMS = st.randoms(use_true_random=False)


def length(graph: nx.Graph, route: tuple[int, ...]) -> int:
    """Return the delay of a route. Raise KeyError if it is no path of the graph."""
    return sum(graph.edges[link]["weight"] for link in pairwise(route))


def dijkstra(graph: nx.Graph, to: int) -> dict[int, int]:
    return dict(nx.single_source_dijkstra_path_length(graph, to))


def table_of(map: LinkStateDatabase, me: int, measured_us: dict[int, int]) -> ForwardingTable:
    neighbours = {broker: Neighbour(broker, "", broker, 0.0, delay_us=us) for broker, us in measured_us.items()}
    return ForwardingTable(me, map, neighbours)


# --- distances --------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(link_states())
def test_distances_are_those_of_dijkstra(states: list[LinkState]) -> None:
    map, graph = database(states), graph_of(states)
    for to in graph:
        assert map.distances(to) == dijkstra(graph, to)
    assert map.distances(len(states) + 7) == {}, "nothing reaches a broker that has no link state"


@given(link_states(), RANDOMS)
def test_a_path_is_a_shortest_one(states: list[LinkState], rng: Random) -> None:
    map, graph = database(states), graph_of(states)
    near, far = rng.choice(states).origin, rng.choice(states).origin
    path = map.path(near, far)
    if not nx.has_path(graph, near, far):
        assert path is None
        return
    assert path is not None
    assert (path[0], path[-1]) == (near, far)
    assert length(graph, path) == nx.dijkstra_path_length(graph, near, far)


@settings(max_examples=60)
@given(link_states(brokers_max=12), RANDOMS)
def test_changes_give_what_a_new_database_gives(states: list[LinkState], rng: Random) -> None:
    """Replace and remove link states in any order. Costs and distances must never be those of an earlier state."""
    map = database(states)
    current = {state.origin: state for state in states}
    for version in range(2, 12):
        broker = rng.randint(1, len(states))
        if rng.random() < 0.3:
            map.remove(broker)
            current.pop(broker, None)
        else:
            links = {
                far: rng.randint(1, 3000) for far in range(1, len(states) + 1) if far != broker and rng.random() < 0.5
            }
            current[broker] = LinkState(broker, version, "", tuple(links), tuple(links.values()))
            map.put(current[broker])
        graph = graph_of(current.values())
        to = rng.randint(1, len(states))
        assert map.distances(to) == (dijkstra(graph, to) if to in graph else {})
        for near, far in graph.edges:
            assert map.cost_us(near, far) == map.cost_us(far, near) == graph.edges[near, far]["weight"]
        assert sum(len(map.costs_us(broker)) for broker in current) == 2 * graph.number_of_edges()


# --- next hops --------------------------------------------------------------------------------------------------------


@given(link_states(), RANDOMS)
def test_feasible_neighbours_are_the_strictly_closer_ones(states: list[LinkState], rng: Random) -> None:
    map, graph = database(states), graph_of(states)
    me, to = rng.choice(states).origin, rng.choice(states).origin
    links = [
        state.origin
        for state in states
        if state.origin != me and (rng.random() < 0.2 or graph.has_edge(me, state.origin))
    ]
    measured_us = {broker: rng.choice((0, 1000, rng.randint(1, 9000))) for broker in links}
    table, distances = table_of(map, me, measured_us), dijkstra(graph, to)
    here = distances.get(me, float("inf"))
    closer = {
        broker: us + HOP_US + distances[broker]
        for broker, us in measured_us.items()
        if distances.get(broker, here) < here
    }
    found = table.feasible(to)
    assert {neighbour.id: cost for neighbour, cost in found} == closer
    assert [cost for _, cost in found] == sorted(closer.values())
    passed = [broker for broker in links if rng.random() < 0.3]
    allowed = [cost for broker, cost in closer.items() if broker not in passed]
    chosen = table.next(to, passed)
    assert (chosen is None) == (not allowed)
    if chosen is not None:
        assert chosen.id not in passed
        assert closer[chosen.id] == min(allowed)


def feasible_by_destination(map: LinkStateDatabase, table: ForwardingTable, me: int, to: int) -> list[tuple[int, int]]:
    """Return the feasible neighbours with the delays through them, from the distances to one destination."""
    distances = map.distances(to)
    here = distances.get(me)
    found = []
    for neighbour in table._neighbours.values():
        distance = distances.get(neighbour.id)
        if distance is not None and (here is None or distance < here):
            found.append((round(neighbour.delay_us) + HOP_US + distance, neighbour.id))
    return [(id, us) for us, id in sorted(found)]


@settings(max_examples=300)
@given(link_states(), RANDOMS)
def test_feasible_neighbours_are_those_of_a_computation_for_each_destination(
    states: list[LinkState], rng: Random
) -> None:
    """A broker computes distances from itself and its neighbours alone, which serve all destinations."""
    map = database(states)
    me = rng.choice(states).origin
    others = [state.origin for state in states if state.origin != me] + [len(states) + 5]
    measured = {broker: rng.choice((1, 500, 20_000)) for broker in rng.sample(others, min(len(others), 6))}
    table = table_of(map, me, measured)
    for to in others:
        found = [(neighbour.id, us) for neighbour, us in table.feasible(to)]
        assert found == feasible_by_destination(map, table_of(map, me, measured), me, to)
        assert table.feasible_ids(to) == [id for id, _ in found], "a table without an earlier choice"


@given(link_states(), RANDOMS)
def test_next_hops_lead_along_a_shortest_path(states: list[LinkState], rng: Random) -> None:
    """Follow next hops broker by broker, each with its own table and equal delays everywhere."""
    map, graph = database(states), graph_of(states)
    start, to = rng.choice(states).origin, rng.choice(states).origin
    route = [start]
    while route[-1] != to:
        me = route[-1]
        measured_us = {broker: graph.edges[me, broker]["weight"] - HOP_US for broker in graph[me]}
        hop = table_of(map, me, measured_us).next_hop(to, route)
        if hop is None:
            assert not nx.has_path(graph, start, to)
            return
        route.append(hop)
    assert length(graph, tuple(route)) == nx.dijkstra_path_length(graph, start, to)


@given(link_states(brokers_max=15), RANDOMS)
def test_any_feasible_neighbours_lead_to_the_destination(states: list[LinkState], rng: Random) -> None:
    """Choose any feasible neighbour at each hop. The remaining distance must fall, so that no choice makes a loop."""
    map, graph = database(states), graph_of(states)
    at, to = rng.choice(states).origin, rng.choice(states).origin
    distances = dijkstra(graph, to)
    while at != to and at in distances:
        feasible = table_of(map, at, dict.fromkeys(graph[at], 1)).feasible_ids(to)
        before, at = distances[at], rng.choice(feasible)
        assert distances[at] < before


@given(link_states(brokers_max=10), RANDOMS)
def test_a_kept_choice_is_feasible_and_hardly_slower_than_the_best(states: list[LinkState], rng: Random) -> None:
    map, graph = database(states), graph_of(states)
    me, to = rng.choice(states).origin, rng.choice(states).origin
    neighbours = {broker: Neighbour(broker, "", broker, 0.0, delay_us=1000) for broker in graph[me]}
    table = ForwardingTable(me, map, neighbours)
    for _ in range(10):
        for neighbour in neighbours.values():
            neighbour.delay_us = rng.choice((neighbour.delay_us, rng.randint(1, 20_000)))
        table.stale()
        costs = {neighbour.id: cost for neighbour, cost in table.feasible(to)}
        chosen = table.next_hop(to)
        assert (chosen is None) == (not costs)
        if chosen is not None:
            assert costs[chosen] <= min(costs.values()) * KEEP_RATIO + KEEP_US
        assert set(table.feasible_ids(to)) == set(costs)


# --- source routes ----------------------------------------------------------------------------------------------------


@given(link_states(), RANDOMS)
def test_no_third_broker_is_on_all_ways_around(states: list[LinkState], rng: Random) -> None:
    map, graph = database(states), graph_of(states)
    near, far = rng.choice(states).origin, rng.choice(states).origin
    if near == far:
        return
    taken = rng.choice([None, *graph[near]])
    routes = ways_around(map, near, far, taken)
    shortest = map.path(near, far)
    assert len(set(routes)) == len(routes)
    for route in routes:
        assert (route[0], route[-1]) == (near, far)
        assert nx.is_simple_path(graph, route)
    if shortest is None:
        assert routes == []
        return
    assert (shortest in routes) == (len(shortest) > 2 or (taken is not None and taken not in shortest))
    for broker in shortest[1:-1]:
        rest = nx.restricted_view(graph, [broker], [])
        avoiding = [length(graph, route) for route in routes if broker not in route]
        assert bool(avoiding) == nx.has_path(rest, near, far), "avoided exactly where that is possible"
        if avoiding:
            assert min(avoiding) == nx.dijkstra_path_length(rest, near, far)


@settings(max_examples=60)
@given(link_states(brokers_max=8), RANDOMS)
def test_the_first_way_around_avoids_as_many_brokers_as_possible(states: list[LinkState], rng: Random) -> None:
    """Compare it with all simple paths, in networkx's order from the shortest to the longest."""
    map, graph = database(states), graph_of(states)
    near, far = rng.choice(states).origin, rng.choice(states).origin
    shortest = map.path(near, far)
    if near == far or shortest is None or len(shortest) == 2:
        return
    avoiding = set(shortest[1:-1])
    paths = [tuple(path) for path in nx.shortest_simple_paths(graph, near, far, weight="weight")]
    assert length(graph, shortest) == length(graph, paths[0])
    best = min((len(avoiding & set(path)), length(graph, path)) for path in paths)
    first = ways_around(map, near, far, shortest[1])[0]
    assert (len(avoiding & set(first)), length(graph, first)) == best

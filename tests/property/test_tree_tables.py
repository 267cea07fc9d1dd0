"""Tree tables on random graphs: what the tables contain, and that events reach every destination with any content.

Advertisements, subscriptions, delays and links change in any order, while messages are under way or after they have
settled. `StrategyNet.publish` checks every plan with `check_plan`, as `Forwarder` does.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_net import Journey, StrategyNet

from plait_broker.overlay.dissemination.paper_tid import PaperTid
from plait_broker.overlay.dissemination.strategy import StrategyFactory
from plait_broker.overlay.dissemination.tree_messages import TreeAdvertised, TreeSubscribed, encode_message, tree_id
from plait_broker.overlay.dissemination.tree_tables import TreeTablesStrategy
from plait_core.errors import FrameError
from plait_core.events import U64_MAX
from plait_core.filters import Filter, parse

RANDOMS = st.randoms(use_true_random=False)
FILTERS = [None, "x >= 0", "x < 0", "-5 <= x < 5", "x >= 50", "true", "y == 1"]
NUMBERS = (1, 2)


def delay(rng: Random) -> int:
    return rng.choice((1000, 1000, 2000, rng.randint(1, 30_000)))


def net_of(rng: Random, strategy: StrategyFactory) -> StrategyNet:
    """Return a connected graph of two to nine brokers, with up to as many links again as a tree has."""
    count = rng.randint(2, 9)
    links = {(rng.randint(1, broker - 1), broker): delay(rng) for broker in range(2, count + 1)}
    pairs = list(combinations(range(1, count + 1), 2))
    links |= {rng.choice(pairs): delay(rng) for _ in range(rng.randint(0, count))}
    return StrategyNet(links, strategy)


def graph_of(net: StrategyNet) -> nx.Graph:
    graph = nx.Graph(net.links.keys())
    graph.add_nodes_from(net.sites)
    return graph


def change_interest(net: StrategyNet, rng: Random) -> None:
    change = rng.choice((net.advertise, net.subscribe))
    change(rng.choice(list(net.sites)), rng.choice(NUMBERS), rng.choice(FILTERS))


def change_links(net: StrategyNet, rng: Random) -> None:
    """Set a delay, cut a link or add one."""
    near, far = rng.sample(list(net.sites), 2)
    linked = tuple(sorted((near, far))) in net.links
    net.set_delay(near, far, None if linked and rng.random() < 0.4 else delay(rng))


def attack(net: StrategyNet, rng: Random) -> None:
    """Inject a message of a hostile broker to a neighbour: about real or invented origins and trees, with any round."""
    near, far = rng.choice(list(net.links) or [(1, 2)])
    if (near, far) not in net.links:
        return
    if rng.random() < 0.5:
        near, far = far, near
    origin, number = rng.choice([*net.sites, 77]), rng.choice(NUMBERS)
    round = rng.choice((0, 1, 3, 50, U64_MAX))
    text = rng.choice(FILTERS)
    filter = None if text is None else parse(text)
    tree = tree_id(rng.choice([*net.sites, 77]), rng.choice(NUMBERS))
    message = rng.choice(
        (TreeAdvertised(origin, number, round, filter), TreeSubscribed(tree, round, origin, number, filter))
    )
    body = encode_message(message)
    if rng.random() < 0.1:
        body = body[: rng.randrange(len(body))]
        with pytest.raises(FrameError):
            net.inject(near, far, body)
    else:
        net.inject(near, far, body)


def assert_all_get_it_once(net: StrategyNet, rng: Random) -> Journey:
    """Publish an event at any broker to any destinations. All that can be reached get it, and no copy is idle."""
    brokers = list(net.sites)
    root = rng.choice(brokers)
    homes = [broker for broker in brokers if broker != root and rng.random() < 0.6]
    connected = nx.node_connected_component(graph_of(net), root)
    journey = net.publish(root, {"x": rng.randint(-60, 60), "y": rng.randint(0, 1)}, homes)
    assert journey.reached == Counter(home for home in homes if home in connected)
    assert journey.unreachable == set(homes) - connected
    assert not journey.looped
    assert len(journey.copies) <= len(homes) * (len(brokers) - 1)
    assert all(tuple(sorted(copy)) in net.links for copy in journey.copies)
    return journey


@given(RANDOMS)
def test_every_destination_is_reached_when_the_tables_have_settled(rng: Random) -> None:
    net = net_of(rng, TreeTablesStrategy)
    for _ in range(rng.randint(1, 12)):
        rng.choice((change_interest, change_interest, change_links))(net, rng)
        net.run()
        assert_all_get_it_once(net, rng)


@given(RANDOMS)
def test_every_destination_is_reached_while_messages_are_under_way(rng: Random) -> None:
    net = net_of(rng, TreeTablesStrategy)
    for _ in range(rng.randint(1, 20)):
        rng.choice((change_interest, change_interest, change_links))(net, rng)
        net.run(rng.randint(0, 10))
        assert_all_get_it_once(net, rng)


@given(RANDOMS)
def test_no_hostile_neighbour_makes_a_loop_or_loses_an_event(rng: Random) -> None:
    net = net_of(rng, TreeTablesStrategy)
    for _ in range(rng.randint(1, 25)):
        rng.choice((change_interest, change_links, attack, attack))(net, rng)
        net.run(rng.randint(0, 10))
        assert_all_get_it_once(net, rng)
    net.run()
    assert_all_get_it_once(net, rng)


# --- the content of the tables ----------------------------------------------------------------------------------------


def intersections(net: StrategyNet) -> list[tuple[int, int, Filter, int, int, Filter]]:
    """Return each advertisement with each subscription that it intersects and reaches: broker, number and filter."""
    graph = graph_of(net)
    return [
        (root, at_root, advertised, home, at_home, subscribed)
        for root, publisher in net.sites.items()
        for at_root, advertised in publisher.interest.advertised.items()
        for home in nx.node_connected_component(graph, root)
        for at_home, subscribed in net.sites[home].interest.subscribed.items()
        if advertised.intersects(subscribed)
    ]


def path_to_root(net: StrategyNet, at: int, tree: int) -> list[int]:
    """Return the brokers from one to the root of a tree, by their SRTs."""
    path = [at]
    while (hop := net.tables(path[-1]).srt[tree].last_hop) != path[-1]:
        assert len(path) <= len(net.sites), "last hops of a tree lead to its root"
        path.append(hop)
    return path


def assert_tables_are_exact(net: StrategyNet) -> None:
    """Compare the tables with the trees and subscriptions that there are. Entries of earlier floods may be left."""
    graph = graph_of(net)
    for at in net.sites:
        reached = nx.node_connected_component(graph, at)
        trees = {tree_id(root, number) for root in reached for number in net.sites[root].interest.advertised}
        assert set(net.tables(at).srt) == trees
    expected = set()
    for root, at_root, advertised, home, at_home, subscribed in intersections(net):
        tree = tree_id(root, at_root)
        path = path_to_root(net, home, tree)
        assert path[-1] == root
        for at, hop in zip(path, [home, *path], strict=False):
            entry = net.tables(at).prt[home, at_home]
            assert entry.filter == subscribed
            assert entry.last_hops[tree].neighbour == hop, "the path leads back to its home"
            assert net.tables(at).srt[tree].filter == advertised
            expected.add((at, home, at_home, tree))
    for at in net.sites:
        tables = net.tables(at)
        for (home, number), entry in tables.prt.items():
            for tree, hop in entry.last_hops.items():
                assert hop.round <= tables.srt[tree].round
                assert hop.round < tables.srt[tree].round or (at, home, number, tree) in expected
        for home in net.sites:
            entries = list(tables.subscriptions(home))
            assert [home for _ in entries] == [key[0] for key in tables.prt if key[0] == home]
            given = {(hop.neighbour, tree) for entry in entries for tree, hop in entry.last_hops.items()}
            assert set(tables.hops(home).items()) <= given
            assert set(tables.hops(home)) == {hop for hop, _ in given}


@given(RANDOMS)
def test_the_tables_have_exactly_the_paths_of_the_trees(rng: Random) -> None:
    net = net_of(rng, TreeTablesStrategy)
    for _ in range(rng.randint(1, 12)):
        rng.choice((change_interest, change_interest, change_links))(net, rng)
        net.run()
        assert_tables_are_exact(net)
    assert not any(site.strategy.counts for site in net.sites.values()), "nothing honest is refused"


@given(RANDOMS)
def test_two_floods_leave_nothing_that_is_gone(rng: Random) -> None:
    """Change everything at once while messages are under way. Two floods later the tables are exact, and quotas too."""
    net = net_of(rng, TreeTablesStrategy)
    for _ in range(rng.randint(1, 12)):
        rng.choice((change_interest, change_interest, change_links))(net, rng)
        net.run(rng.randint(0, 5))
    net.run()
    for site in net.sites.values():
        for number in list(site.interest.advertised):
            for text in ("x >= 1000", "x >= 2000"):
                net.advertise(site.me, number, text)
                net.run()
    assert_tables_are_exact(net)
    for at in net.sites:
        tables = net.tables(at)
        weights = [hop.weight for entry in tables.prt.values() for hop in entry.last_hops.values()]
        assert tables._path_quota.total == sum(weights)
        assert tables._tree_quota.total == sum(entry.weight for entry in tables.srt.values())
        assert all(
            hop.round == tables.srt[tree].round
            for entry in tables.prt.values()
            for tree, hop in entry.last_hops.items()
        )


# --- the printed rule -------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(RANDOMS)
def test_the_printed_rule_does_not_loop_while_delays_are_constant(rng: Random) -> None:
    """Each last hop then lies on a shortest path to the home broker. The rule still loses some second subscriptions."""
    net = net_of(rng, PaperTid)
    for _ in range(rng.randint(2, 12)):
        change_interest(net, rng)
        net.run()
    for root, site in net.sites.items():
        journey = net.publish(root, {"x": rng.randint(-60, 60), "y": 1}, [home for home in net.sites if home != root])
        assert not journey.looped
        assert all(count == 1 for count in journey.reached.values())
        assert site.interest.advertised or not journey.copies, "no tree, no path"

"""SRT and PRT of the TID paper (section 3.1): what builds and renews them, and what hostile messages change."""

from __future__ import annotations

import pytest
from strategy_net import GivenInterest, StrategyNet

from plait_broker.overlay.dissemination.paper_tid import PaperTid
from plait_broker.overlay.dissemination.strategy import SendControl
from plait_broker.overlay.dissemination.tid_tables import FLOOD_DELAY_S, TableLimits, TreeTables
from plait_broker.overlay.dissemination.tree_messages import (
    TreeAdvertised,
    TreeMessage,
    TreeSubscribed,
    decode_message,
    encode_message,
    tree_id,
)
from plait_broker.overlay.dissemination.tree_tables import TreeTablesStrategy
from plait_core.errors import FrameError
from plait_core.events import U64_MAX
from plait_core.filters import parse

A, B, C, D, E = 1, 2, 3, 4, 5
LINE = {(A, B): 1000, (B, C): 1000, (C, D): 1000}
ALL = parse("x >= 0")
TREE = tree_id(A, 1)


def line() -> StrategyNet:
    """Build a line A-B-C-D, with a publisher at A and a subscriber at D."""
    net = StrategyNet(LINE, TreeTablesStrategy)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.subscribe(D, 1, "x >= 10")
    net.run()
    return net


def roots(net: StrategyNet) -> dict[int, int | None]:
    """Return each broker's last hop of the tree of A, None where it has none."""
    entries = {at: net.tables(at).srt.get(TREE) for at in net.sites}
    return {at: None if entry is None else entry.last_hop for at, entry in entries.items()}


def paths(net: StrategyNet, home: int) -> dict[int, list[int]]:
    """Return each broker's last hops for the subscriptions of a home broker."""
    return {
        at: [hop.neighbour for entry in net.tables(at).subscriptions(home) for hop in entry.last_hops.values()]
        for at in net.sites
    }


# --- the paper --------------------------------------------------------------------------------------------------------


def test_an_advertisement_floods_and_a_subscription_follows_its_tree_back() -> None:
    net = line()
    assert roots(net) == {A: A, B: A, C: B, D: C}
    assert paths(net, D) == {A: [B], B: [C], C: [D], D: [D]}
    assert not any(net.tables(at).counts for at in net.sites), "nothing honest is refused"


def test_only_the_first_copy_of_a_flood_counts() -> None:
    net = StrategyNet({(A, B): 1000, (B, C): 1000, (A, C): 5000}, PaperTid)
    net.advertise(A, 1, "x >= 0")
    net.run()
    assert roots(net) == {A: A, B: A, C: B}


def test_a_subscription_follows_the_trees_that_it_intersects_alone() -> None:
    net = line()
    net.subscribe(C, 7, "x < 0")
    net.run()
    assert paths(net, C) == {A: [], B: [], C: [], D: []}
    net.advertise(B, 1, "x < -10")
    net.run()
    assert paths(net, C) == {A: [], B: [C], C: [C], D: []}, "a later advertisement finds the subscription, too"


def test_an_unsubscription_removes_the_path() -> None:
    net = line()
    net.subscribe(D, 1, None)
    net.run()
    assert all(not net.tables(at).prt for at in net.sites)


def test_a_replaced_filter_reaches_all_brokers_of_its_path() -> None:
    net = line()
    net.subscribe(D, 1, "x >= 20")
    net.run()
    for at in net.sites:
        assert [entry.filter for entry in net.tables(at).subscriptions(D)] == [parse("x >= 20")]


def test_a_withdrawn_advertisement_takes_its_paths_along() -> None:
    net = line()
    net.advertise(A, 1, None)
    net.run()
    assert roots(net) == {A: None, B: None, C: None, D: None}
    assert all(not net.tables(at).prt for at in net.sites)


def test_a_late_copy_of_an_earlier_flood_brings_no_tree_back() -> None:
    net = line()
    net.advertise(A, 1, None)
    net.run()
    net.inject(C, D, encode_message(TreeAdvertised(A, 1, 1, ALL)))
    net.run()
    assert roots(net)[D] is None


# --- changes of the topology ------------------------------------------------------------------------------------------


def test_a_new_flood_replaces_links_that_are_gone() -> None:
    net = StrategyNet({**LINE, (A, E): 5000, (E, D): 5000}, TreeTablesStrategy)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.subscribe(D, 1, "x >= 0")
    net.run()
    assert paths(net, D)[A] == [B]
    before = net.now
    net.set_delay(B, C, None)
    net.run()
    assert net.now >= before + FLOOD_DELAY_S
    assert roots(net) == {A: A, B: A, C: D, D: E, E: A}
    assert paths(net, D)[A] == [E]


def test_a_changed_delay_floods_nothing() -> None:
    net = line()
    before = net.now
    net.set_delay(A, B, 9000)
    assert all(site.strategy.next_deadline() is None for site in net.sites.values())
    net.run()
    assert net.now == before


def test_entries_of_brokers_that_are_gone_are_dropped() -> None:
    """Check it for both sides of a cut, so that brokers that come and go do not fill the tables."""
    net = line()
    net.set_delay(B, C, None)
    net.run()
    assert roots(net) == {A: A, B: A, C: None, D: None}
    assert paths(net, D) == {A: [], B: [], C: [], D: []}
    net.set_delay(B, C, 1000)
    net.run()
    assert roots(net) == {A: A, B: A, C: B, D: C}
    assert paths(net, D) == {A: [B], B: [C], C: [D], D: [D]}


def test_paths_that_two_floods_did_not_renew_are_dropped() -> None:
    """Unsubscribe while the flood of a new tree is under way: the message follows the new tree, not the old one."""
    net = StrategyNet({(A, B): 1000, (B, D): 1000, (A, C): 5000, (C, D): 5000}, TreeTablesStrategy)
    net.advertise(A, 1, "x >= 0")
    net.run()
    net.subscribe(D, 1, "x >= 0")
    net.run()
    net.set_delay(A, B, 90_000)
    net.advertise(A, 1, "x >= -1")
    net.run()
    assert paths(net, D) == {A: [C], B: [D], C: [D], D: [D]}, "B has the path of the flood before"
    net.advertise(A, 1, "x >= -2")
    net.run()
    assert paths(net, D) == {A: [C], B: [], C: [D], D: [D]}


# --- hostile neighbours -----------------------------------------------------------------------------------------------


class Victim:
    """The tables of A, with small bounds, beside a neighbour B that sends what it likes, and C, D, E beyond it."""

    def __init__(self, limits: TableLimits) -> None:
        links = {(A, B): 1000, (B, C): 1000, (B, D): 1000, (B, E): 1000}
        self.net = StrategyNet(links, TreeTablesStrategy)
        self.tables = TreeTables(self.net.sites[A].topology, GivenInterest(), limits)

    def take(self, message: TreeMessage, source: int = B) -> None:
        self.tables.receive(source, encode_message(message))

    @property
    def paths(self) -> int:
        return sum(len(entry.last_hops) for entry in self.tables.prt.values())


def test_a_neighbour_fills_half_of_the_trees_and_no_more() -> None:
    victim = Victim(TableLimits(trees_max=20, trees_per_root_max=8))
    for number in range(50):
        victim.take(TreeAdvertised(C, number, 1, ALL))
    assert len(victim.tables.srt) == 8
    for number in range(50):
        victim.take(TreeAdvertised(D, number, 1, ALL))
    assert len(victim.tables.srt) == 10
    assert victim.tables.counts["tree_entries_refused"] == 42 + 48


def test_a_neighbour_fills_half_of_the_paths_and_no_more() -> None:
    victim = Victim(TableLimits(paths_max=20, paths_per_home_max=8))
    for number in range(4):
        victim.take(TreeAdvertised(C, number, 1, ALL))
    for number in range(200):
        victim.take(TreeSubscribed(tree_id(C, number % 4), 1, C + number % 2, number // 8, ALL))
    assert victim.paths == 10
    assert victim.tables.counts["tree_entries_refused"] > 100


def test_one_subscription_cannot_name_trees_without_bound() -> None:
    victim = Victim(TableLimits())
    victim.take(TreeAdvertised(C, 1, 5, ALL))
    for tree in range(1, 1000):
        victim.take(TreeSubscribed(tree, 1, D, 1, ALL))
    victim.take(TreeSubscribed(tree_id(C, 1), 6, D, 1, ALL))
    assert not victim.tables.prt, "the trees do not exist, or have no such round yet"
    victim.take(TreeSubscribed(tree_id(C, 1), 5, D, 1, ALL))
    assert victim.paths == 1


def test_a_broker_that_the_overlay_does_not_have_roots_no_tree() -> None:
    victim = Victim(TableLimits())
    victim.take(TreeAdvertised(77, 1, 1, ALL))
    victim.take(TreeAdvertised(C, 1, 1, ALL))
    victim.take(TreeSubscribed(tree_id(C, 1), 1, 77, 1, ALL))
    assert list(victim.tables.srt) == [tree_id(C, 1)]
    assert not victim.tables.prt


def test_trees_that_come_and_go_leave_a_bounded_memory() -> None:
    victim = Victim(TableLimits(trees_max=20))
    for number in range(100):
        victim.take(TreeAdvertised(C, number, 1, ALL))
        victim.take(TreeAdvertised(C, number, 2, None))
        victim.take(TreeAdvertised(D, number, 1, None))
    assert not victim.tables.srt
    assert len(victim.tables._withdrawn) == 20


def test_replaced_entries_free_their_share() -> None:
    victim = Victim(TableLimits(trees_max=4, trees_per_root_max=2, paths_max=4, paths_per_home_max=2))
    for round in range(1, 50):
        victim.take(TreeAdvertised(C, 1, round, ALL))
        victim.take(TreeSubscribed(tree_id(C, 1), round, D, 1, ALL))
        assert (len(victim.tables.srt), victim.paths) == (1, 1)
    assert not victim.tables.counts


def test_a_renewal_that_no_longer_fits_removes_the_entry() -> None:
    victim = Victim(TableLimits(trees_max=4))
    large = parse(f"x == '{'a' * 5000}'")
    victim.take(TreeAdvertised(C, 1, 1, ALL))
    victim.take(TreeSubscribed(tree_id(C, 1), 1, D, 1, ALL))
    victim.take(TreeAdvertised(C, 1, 2, large))
    assert not victim.tables.srt
    assert not victim.tables.prt
    victim.take(TreeAdvertised(C, 1, 3, ALL))
    assert len(victim.tables.srt) == 1


def test_a_foreign_message_changes_nothing_of_our_own() -> None:
    """Check that neither our trees nor our subscriptions can be taken over, with the highest round there is."""
    net = line()
    net.advertise(D, 1, "x >= 0")
    net.run()
    for message in (
        TreeAdvertised(D, 1, U64_MAX, None),
        TreeAdvertised(D, 1, U64_MAX, parse("x < 0")),
        TreeSubscribed(TREE, 1, D, 1, None),
        TreeSubscribed(tree_id(D, 1), U64_MAX, D, 1, parse("x < 0")),
    ):
        net.inject(C, D, encode_message(message))
    net.run()
    assert net.tables(D).srt[tree_id(D, 1)].filter == ALL
    assert paths(net, D)[D] == [D, D]
    assert [entry.filter for entry in net.tables(D).subscriptions(D)] == [parse("x >= 10")]


def test_a_poisoned_round_ends_when_its_link_ends() -> None:
    """A hostile neighbour blocks later floods of a tree by a round that its root never reaches."""
    net = line()
    net.inject(C, B, encode_message(TreeAdvertised(A, 1, U64_MAX, ALL)))
    assert net.publish(A, {"x": 10}, [D]).reached == {D: 1}
    net.run()
    assert roots(net)[B] == C
    net.set_delay(B, C, None)
    net.run()
    assert roots(net)[B] == A


def test_a_malformed_message_raises_and_changes_nothing() -> None:
    net = line()
    before = {at: (dict(net.tables(at).srt), dict(net.tables(at).prt)) for at in net.sites}
    for body in (b"", b"\x80", encode_message(TreeSubscribed(TREE, 9, C, 9, ALL))[:-1]):
        with pytest.raises(FrameError):
            net.inject(C, D, body)
    assert before == {at: (dict(net.tables(at).srt), dict(net.tables(at).prt)) for at in net.sites}


def test_a_flood_is_encoded_once_for_all_neighbours() -> None:
    net = StrategyNet({(B, A): 1000, (B, C): 1000, (B, D): 1000}, TreeTablesStrategy)
    tables = TreeTables(net.sites[B].topology, GivenInterest())
    tables.receive(A, encode_message(TreeAdvertised(A, 1, 1, ALL)))
    actions = [action for action in tables.take_actions() if isinstance(action, SendControl)]
    assert [action.to for action in actions] == [C, D]
    assert decode_message(actions[0].body) == TreeAdvertised(A, 1, 1, ALL)
    assert actions[0].body is actions[1].body

"""The tree of a stream group: shortest paths in preorder, so that every subtree is a slice."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maps import database, graph_of, link_states, linked

from plait_broker.overlay.groups.group_tree import GroupTree, Subtree, bits_of, children_of, shortest_path_tree
from plait_core.limits import PATH_MAX
from plait_core.wire.frame_types.overlay_frames import LinkState


def below(tree: GroupTree, at: int) -> set[int]:
    """Return a broker and all below it, by their parents alone."""
    found = {tree.ids[at]}
    while (
        more := {broker for broker, parent in zip(tree.ids[1:], tree.parents[1:], strict=True) if parent in found}
        - found
    ):
        found |= more
    return found


@given(link_states())
def test_a_tree_has_the_shortest_path_to_every_broker(states: list[LinkState]) -> None:
    tree, graph = shortest_path_tree(database(states), 1), graph_of(states)
    distances = nx.single_source_dijkstra_path_length(graph, 1)
    assert set(tree.ids) == set(distances)
    assert tree.ids[0] == tree.parents[0] == 1
    for broker, parent in zip(tree.ids[1:], tree.parents[1:], strict=True):
        assert distances[broker] == distances[parent] + graph[parent][broker]["weight"]


@given(link_states())
def test_a_subtree_is_a_slice(states: list[LinkState]) -> None:
    tree = shortest_path_tree(database(states), 1)
    for at, broker in enumerate(tree.ids):
        members = below(tree, at)
        assert tree.index[broker] == at
        assert tree.sizes[at] == len(members)
        assert set(tree.ids[at : at + tree.sizes[at]]) == members
        assert [tree.ids[index] for index in bits_of(tree.subtree(at))] == list(tree.ids[at : at + len(members)])
    assert list(bits_of(tree.everyone)) == list(range(1, len(tree.ids)))


@given(link_states(), st.data())
def test_parts_of_a_bit_set_name_the_members_of_each_subtree(states: list[LinkState], data: st.DataObject) -> None:
    """Hand a set down the tree, from slice to slice, as brokers do."""
    tree = shortest_path_tree(database(states), 1)
    members = data.draw(st.integers(0, 2 ** len(tree.ids) - 1))
    waiting = [(tree.ids, tree.sizes, members)]
    reached = set()
    while waiting:
        ids, sizes, named = waiting.pop()
        assert [ids[index] for index in bits_of(named)] == [
            tree.ids[at] for at in bits_of(members) if tree.ids[at] in ids
        ]
        reached |= {ids[0]} if named & 1 else set()
        children = children_of(ids, sizes)
        assert sum(child.size for child in children) == sizes[0] - 1
        for child in children:
            here = slice(child.start, child.start + child.size)
            assert ids[child.start] == child.broker
            assert set(ids[here]) == below(tree, tree.index[child.broker])
            waiting.append((ids[here], sizes[here], child.part_of(named)))
    assert reached == {tree.ids[at] for at in bits_of(members)}


def test_the_children_of_a_root() -> None:
    tree = shortest_path_tree(linked({(1, 2): 10, (2, 3): 10, (2, 4): 10, (1, 5): 40, (4, 5): 90}), 1)
    assert (tree.ids, tree.sizes, tree.parents) == ((1, 2, 3, 4, 5), (5, 3, 1, 1, 1), (1, 1, 2, 2, 1))
    assert tree.children == [Subtree(2, 1, 3), Subtree(5, 4, 1)]
    assert tree.subtree(1) == 0b1110


def test_a_broker_alone_is_a_tree() -> None:
    tree = shortest_path_tree(database([LinkState(1, 1, "b1", (), ())]), 1)
    assert (tree.ids, tree.children, tree.everyone) == ((1,), [], 0)


@pytest.mark.parametrize("count", [PATH_MAX - 2, PATH_MAX + 10])
def test_paths_of_a_tree_are_as_long_as_an_events_path_may_be(count: int) -> None:
    chain = linked({(at, at + 1): 10 for at in range(1, count + 1)})
    tree = shortest_path_tree(chain, 1)
    assert tree.ids == tuple(range(1, min(count + 1, PATH_MAX - 1) + 1))

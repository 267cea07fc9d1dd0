"""Graphs of known shapes, and graphs from files: an unconnected or malformed one is refused with its place."""

from __future__ import annotations

from pathlib import Path

import networkx
import pytest

from plait.commands.brokers.topologies import TOPOLOGIES, edges, graph
from plait.commands.terminal.failures import WrongUse


def read(path: Path, text: str) -> tuple[list[str], list[tuple[int, int]]]:
    file = path / "links.txt"
    file.write_text(text)
    return graph(str(file), 5, "local", 10)


def test_a_file_names_brokers_and_links(tmp_path: Path) -> None:
    text = "north mid # the first\n\nmid south\nsouth north\nnorth mid\n"
    assert read(tmp_path, text) == (["north", "mid", "south"], [(0, 1), (0, 2), (1, 2)])


def test_brokers_that_no_way_leads_to_are_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"links.txt: no path leads from a to c, d, f, e") as refused:
        read(tmp_path, "a b\nc d\nf e\nd f\n")
    assert "link" in str(refused.value.hint)


@pytest.mark.parametrize("line", ["a", "a b c", "a a", "A b", "a " + "b" * 40])
def test_invalid_links_are_reported_with_their_text(tmp_path: Path, line: str) -> None:
    with pytest.raises(WrongUse, match="is no link"):
        read(tmp_path, f"x y\n{line}\n")


def test_no_more_brokers_than_there_may_be(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="names 11 brokers"):
        read(tmp_path, "".join(f"hub b{number}\n" for number in range(10)))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_known_shape_is_one_piece_and_each_link_is_in_it_once(topology: str, count: int) -> None:
    links = edges(topology, count)
    assert links == sorted({(near, far) for near, far in links if near < far})
    made = networkx.empty_graph(count)
    made.add_edges_from(links)
    assert networkx.is_connected(made)
    assert made.number_of_nodes() == count


def test_a_ring_survives_any_link_and_a_braid_any_broker() -> None:
    for count in (4, 7, 32):
        assert not networkx.has_bridges(networkx.Graph(edges("ring", count)))
        assert networkx.is_biconnected(networkx.Graph(edges("braid", count)))


def test_the_random_graph_depends_on_the_count_alone() -> None:
    assert edges("random", 6) == edges("random", 6)
    assert edges("random", 5) == [(0, 1), (0, 4), (1, 2), (1, 3), (2, 3)]

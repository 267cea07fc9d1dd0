"""Graphs from files: what is no graph of brokers that reach each other is refused, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.commands.brokers.topologies import graph
from plait.commands.terminal.failures import WrongUse


def read(path: Path, text: str) -> tuple[list[str], list[tuple[int, int]]]:
    file = path / "links.txt"
    file.write_text(text)
    return graph(str(file), 5, "local", 10)


def test_a_file_names_brokers_and_links(tmp_path: Path) -> None:
    text = "north mid # the first\n\nmid south\nsouth north\nnorth mid\n"
    assert read(tmp_path, text) == (["north", "mid", "south"], [(0, 1), (0, 2), (1, 2)])


def test_brokers_that_no_way_leads_to_are_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"links.txt: no way leads from a to c, d, f, e") as refused:
        read(tmp_path, "a b\nc d\nf e\nd f\n")
    assert "link" in str(refused.value.hint)


@pytest.mark.parametrize("line", ["a", "a b c", "a a", "A b", "a " + "b" * 40])
def test_what_is_no_link_is_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(WrongUse, match="is no link"):
        read(tmp_path, f"x y\n{line}\n")


def test_no_more_brokers_than_there_may_be(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="names 11 brokers"):
        read(tmp_path, "".join(f"hub b{number}\n" for number in range(10)))

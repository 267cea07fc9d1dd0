"""`plait doctor` names the single points of failure of an overlay, and links that remove them."""

from __future__ import annotations

from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.commands.doctor.overlay_check import check_overlay, missing_links, overlay_finding


def topology(*links: str, brokers: str = "") -> dict[str, Any]:
    """Return a topology as a broker's HTTP side gives it. A link is two letters, each a broker."""
    names = list(dict.fromkeys([*brokers, *"".join(links)]))
    return {
        "brokers": [{"id": name.upper(), "name": name} for name in names],
        "links": [{"from": near.upper(), "to": far.upper()} for link in links for near, far in (link, reversed(link))],
    }


@pytest.mark.parametrize(
    ("links", "found", "hint"),
    [
        (["ab", "bc", "ca"], "3 brokers, 3 links", ""),
        (["ab"], "2 brokers, 1 link; single points of failure: link a - b", "add a third broker"),
        (["ab", "bc"], "3 brokers, 2 links; single points of failure: broker b, links a - b, b - c", "add link a - c"),
        (["ab", "bc", "ca", "cd", "de", "ec"], "single points of failure: broker c", "add link a - d"),
        (
            ["ab", "bc", "ca", "ad", "de", "ef", "fd"],
            "single points of failure: brokers a, d, link a - d",
            "add link b - e",
        ),
        (["ha", "hb", "hc", "hd", "he", "hf"], "broker h, links a - h, b - h, c - h, d - h, e - h and 1 more", "links"),
    ],
)
def test_links_whose_loss_splits_the_overlay_are_named(links: list[str], found: str, hint: str) -> None:
    finding = overlay_finding(topology(*links))
    assert found in finding.found
    assert hint in finding.hint
    assert finding.state == ("warn" if hint else "ok")


def test_one_broker_has_no_single_point_of_failure() -> None:
    assert overlay_finding(topology(brokers="a")).state == "ok"


def test_a_broker_out_of_reach_is_named_and_its_links_do_not_count() -> None:
    finding = overlay_finding(topology("ab", "bc", "ca", "xy"))
    assert (finding.state, finding.found) == ("warn", "3 brokers, 3 links; out of reach: x, y")


def test_a_link_that_one_end_alone_reports_does_not_count() -> None:
    half = topology("ab", "bc", "ca")
    half["links"].pop()
    assert "single points of failure: broker b" in overlay_finding(half).found


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15))
def test_the_missing_links_leave_no_single_point_of_failure(pairs: set[tuple[int, int]]) -> None:
    graph = networkx.Graph()
    graph.add_edges_from((near, far) for near, far in pairs if near != far)
    for brokers in [graph.subgraph(part).copy() for part in networkx.connected_components(graph)]:
        added = missing_links(brokers)
        assert not any(brokers.has_edge(*link) for link in added)
        brokers.add_edges_from(added)
        assert networkx.is_biconnected(brokers)


def test_no_broker_is_a_warning_only_where_one_is_named() -> None:
    assert check_overlay(None, "127.0.0.1:9").state == "warn"
    assert check_overlay("plait://127.0.0.1:9", None).state == "warn"

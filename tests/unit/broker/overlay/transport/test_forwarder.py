"""Copies as the strategy plans them: at the root and at relays, over links, for groups, and where no path may serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from copies import copies_in, forward, publish
from one_overlay import OneOverlay

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.dissemination.registry import STRATEGIES
from plait_broker.overlay.dissemination.shortest_paths import ShortestPaths
from plait_broker.overlay.dissemination.strategy import Envelope, GroupCopy, LinkCopy, Plan, PlanInvalid
from plait_broker.overlay.outputs import CopyDropped, ExpelBroker, Lost
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_core.wire import Destination
from plait_core.wire.frame_types.overlay_frames import LinkState

ME, NEAR, OTHER, FAR, FARTHER = 1, 2, 3, 4, 5
GROUP = ("239.255.0.1", 4680)
TREE = 7


class PartsByDestination(ShortestPaths):
    """Plans each destination into the part that the test names; links are those of shortest paths."""

    name: ClassVar[str] = "parts-by-destination"
    independent: ClassVar[bool] = False
    parts: ClassVar[dict[int, str]] = {}

    def plan(self, envelope: Envelope, to: Sequence[Destination], now: float) -> Plan:
        by: dict[str, list[Destination]] = {"links": [], "groups": [], "forbidden": []}
        for destination in to:
            by[self.parts.get(destination[0], "links")].append(destination)
        plan = super().plan(envelope, by["links"], now)
        links = [LinkCopy(copy.neighbour, copy.destinations, TREE) for copy in plan.links]
        groups = [GroupCopy(GROUP, by["groups"])] if by["groups"] else []
        return Plan(links, groups, plan.unreachable, by["forbidden"])


def broker(monkeypatch: pytest.MonkeyPatch, parts: dict[int, str]) -> OneOverlay:
    """Return a broker with FAR behind NEAR and FARTHER behind OTHER, and a strategy that plans as given."""
    monkeypatch.setitem(STRATEGIES, PartsByDestination.name, PartsByDestination)
    monkeypatch.setattr(PartsByDestination, "parts", parts)
    one = OneOverlay(ME, OverlaySettings(name="b1", dissemination=PartsByDestination.name))
    one.link_up(NEAR, OTHER)
    for near, far in ((NEAR, FAR), (OTHER, FARTHER)):
        one.learn(LinkState(near, 2, f"b{near}", (ME, far), (1000, 1000)), near)
        one.learn(LinkState(far, 1, f"b{far}", (near,), (1000,)), near)
    one.clear()
    return one


def copies(one: OneOverlay) -> list[tuple[int, int, list[int]]]:
    """Return the link, the tree and the destinations of all copies."""
    return [(copy.link, copy.tree, [to[0] for to in copy.destinations]) for copy in copies_in(one.of(CopyRun))]


def test_the_copies_of_a_plan_go_over_its_links_and_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {})
    one.overlay.publish(publish(), [NEAR, FAR, FARTHER], 5, 0, 0.0)
    assert copies(one) == [(NEAR, TREE, [NEAR, FAR]), (OTHER, TREE, [FARTHER])]
    assert all((copy.path, copy.delay_us) == ((ME,), 5) for copy in copies_in(one.of(CopyRun)))


def test_copies_for_groups_go_over_links(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {FAR: "groups", FARTHER: "groups"})
    one.overlay.publish(publish(), [NEAR, FAR, FARTHER], 0, 0, 0.0)
    assert copies(one) == [(NEAR, TREE, [NEAR]), (NEAR, 0, [FAR]), (OTHER, 0, [FARTHER])], "by shortest paths"
    assert one.of(Lost) == []


def test_an_event_that_no_permitted_path_serves_is_lost_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {FARTHER: "forbidden"})
    frame = publish()
    named = one.overlay.publish(frame, [FAR, FARTHER], 5, 0, 0.0)
    positions = {home: position for home, position, _ in named}
    assert copies(one) == [(NEAR, TREE, [FAR])]
    assert one.of(Lost) == [Lost(FARTHER, positions[FARTHER], frame, 5, "forbidden")]
    streams = one.overlay.event_streams.outgoing
    assert list(streams[FARTHER].kept) == [], "it is not retransmitted"
    assert list(streams[FAR].kept) == [positions[FAR]]


def test_a_copy_that_no_permitted_path_serves_is_dropped_at_a_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {FARTHER: "forbidden"})
    frame = forward((9, NEAR), [OTHER, FARTHER], tree=TREE, delay_us=100)
    one.receive(NEAR, frame)
    assert copies(one) == [(OTHER, TREE, [OTHER])], "the other destination is served"
    (dropped,) = one.of(CopyDropped)
    assert (dropped.frame, dropped.reason, [to[0] for to in dropped.destinations]) == (frame, "forbidden", [FARTHER])
    assert dropped.delay_us >= 100
    assert one.overlay.counts["forbidden"] == 1
    assert one.of(Lost) == [], "the publisher's broker counts the loss"


def test_copies_for_groups_at_a_relay_go_over_links(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {FARTHER: "groups"})
    one.receive(NEAR, forward((9, NEAR), [OTHER, FARTHER], tree=TREE))
    assert copies(one) == [(OTHER, TREE, [OTHER]), (OTHER, 0, [FARTHER])]
    assert all(copy.path == (9, NEAR, ME) for copy in copies_in(one.of(CopyRun)))


def test_a_copy_without_a_tree_follows_shortest_paths_at_a_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {FARTHER: "forbidden"})
    one.receive(NEAR, forward((9, NEAR), [FARTHER]))
    assert copies(one) == [(OTHER, 0, [FARTHER])], "it is a retransmission"


def test_an_expired_copy_is_dropped_at_a_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {})
    one.receive(NEAR, forward((9, NEAR), [FARTHER], delay_us=2_000, lifetime_us=1_000))
    assert copies(one) == []
    assert [dropped.reason for dropped in one.of(CopyDropped)] == ["expired"]


def test_a_copy_without_a_next_hop_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {})
    one.overlay.publish(publish(), [99, FAR], 0, 0, 0.0)
    assert copies(one) == [(NEAR, TREE, [FAR])]
    assert one.overlay.counts["no_way"] == 1
    assert list(one.overlay.event_streams.outgoing[99].kept), "it is retransmitted when there is a path"


@pytest.mark.parametrize("path", [(), (9,), (9, ME, NEAR)], ids=["none", "of another neighbour", "through this broker"])
def test_a_neighbour_that_sends_a_copy_with_an_impossible_path_is_expelled(
    monkeypatch: pytest.MonkeyPatch, path: tuple[int, ...]
) -> None:
    one = broker(monkeypatch, {})
    one.receive(NEAR, forward(path, [FARTHER]))
    assert copies(one) == []
    assert [output.link for output in one.of(ExpelBroker)] == [NEAR]


def test_an_invalid_plan_is_refused_before_a_copy_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    one = broker(monkeypatch, {})
    monkeypatch.setattr(PartsByDestination, "plan", lambda *_: Plan([LinkCopy(NEAR, [(FARTHER, 1, 0)])]))
    with pytest.raises(PlanInvalid, match="not closer"):
        one.overlay.publish(publish(), [FARTHER], 0, 0, 0.0)
    assert copies(one) == []

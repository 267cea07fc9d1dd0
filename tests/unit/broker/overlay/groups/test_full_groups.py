"""A stream group that is full lets publishers wait for its members, as a full stream does for its destination."""

from __future__ import annotations

from dataclasses import replace

import pytest
from copies import publish
from one_overlay import OneOverlay

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.groups import group_root
from plait_broker.overlay.groups.group_record import MemberRecord
from plait_broker.overlay.groups.group_root import ACK_CLAIM, PATIENCE_S, ack_claim
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.reliable_stream import ACK_S
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.group_frames import GroupAck
from plait_core.wire.frame_types.overlay_frames import StreamAck
from plait_core.wire.frame_types.session_frames import HoldPublishes
from plait_lab.simulation.overlay.world import SETTINGS, World, WorldTerms

ME, MEMBERS = 1, (2, 3, 4)
EVENTS_MAX = 20


class FullRoot:
    """The overlay of a root whose neighbours are the members of its group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(group_root, "EVENTS_MAX", EVENTS_MAX)
        self.one = OneOverlay(ME, OverlaySettings(name="b1", destinations_max=1))
        self.one.link_up(*MEMBERS)
        self.streams = self.one.overlay.event_streams
        self.records = MemberRecord(0)
        self.published = 0

    def publish(self, count: int) -> None:
        """Publish events for all members."""
        for _ in range(count):
            self.published += 1
            self.one.overlay.publish(publish(self.published), list(MEMBERS), 0, 0, self.one.now)
        self.one.take()

    def ask(self) -> None:
        """Let the root ask for acks."""
        self.one.tick(self.one.now + ACK_S)

    def ack(self, *members: int) -> None:
        """Let members ack all that was published."""
        root = self.one.overlay.groups.root
        assert root is not None
        record = MemberRecord(root.epoch)
        for position in range(root.epoch, root.next):
            record.add(position)
        claim = ack_claim(root.epoch, record.up_to(root.last))
        for member in members:
            proof = MessageAuth(member, None).prove_claim(ME, member, root.last, ACK_CLAIM, claim)
            self.one.receive(member, GroupAck(ME, root.epoch, root.last, b"\1", proof))

    @property
    def full(self) -> set[int]:
        """The destinations whose publishers should wait."""
        return set(self.streams.full)


def test_all_members_are_full_while_too_much_is_not_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    root = FullRoot(monkeypatch)
    root.publish(EVENTS_MAX // 2 - 1)
    assert root.full == set()
    changes = root.streams.full_changes
    root.publish(1)
    assert root.full == set(MEMBERS)
    root.publish(1)
    assert root.streams.full_changes == changes + len(MEMBERS), "once each"
    root.ask()
    root.ack(2, 3)
    assert root.full == set(MEMBERS)
    root.ack(4)
    assert root.full == set()
    assert root.streams.full_changes == changes + 2 * len(MEMBERS)


def test_the_ack_of_an_own_stream_is_no_room_in_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    root = FullRoot(monkeypatch)
    root.one.overlay.publish(publish(1000), [2], 0, 0, root.one.now)
    root.one.take()
    (position,) = root.streams.outgoing[2].kept
    root.publish(EVENTS_MAX // 2)
    root.one.receive(2, envelop_message(StreamAck(ME, 2, position)))
    assert not root.streams.outgoing[2].kept
    assert root.full == set(MEMBERS)


def test_a_slow_member_leaves_and_publishers_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    root = FullRoot(monkeypatch)
    root.publish(EVENTS_MAX // 4)
    for _ in range(4):
        root.ask()
        root.ack(2, 3)
    assert root.one.overlay.counts["group_members_moved"] == 1
    assert root.full == set()
    assert len(root.streams.outgoing[4].kept) == EVENTS_MAX // 4
    root.publish(EVENTS_MAX // 4)
    assert root.full == set()


def test_members_that_have_left_a_full_group_are_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    root = FullRoot(monkeypatch)
    root.publish(EVENTS_MAX // 2)
    root.streams.gone(3, root.one.now)
    root.one.take()
    assert root.full == {2, 4}
    root.ask()
    root.ack(2)
    root.one.tick(root.one.now + PATIENCE_S)
    assert root.full == set(), "4 is served by its own stream, which has room"


@pytest.mark.parametrize("when_full", ["block", "drop"])
def test_publishers_wait_for_a_full_group_if_the_broker_is_set_so(
    when_full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publish more than narrow links carry, to two members behind them."""
    monkeypatch.setattr(group_root, "EVENTS_MAX", 400)
    settings = replace(SETTINGS, linking=replace(SETTINGS.linking, when_full=when_full, destinations_max=1))
    world = World("full group", brokers=3, terms=WorldTerms(settings=settings))
    for far in (1, 2):
        world.link(0, far, 0.005, bytes_per_s=125_000.0)
    world.start()
    publisher = world.client(0)
    publisher.keeps_frames = True
    subscriptions = [world.client(far).subscribe("x >= 0") for far in (1, 2)]
    publisher.advertise("x >= 0")
    world.run(8.0)
    assert all(subscription.installed for subscription in subscriptions)
    for _ in range(400):
        publisher.publish({"x": 1}, payload=bytes(1000))
        world.run(0.004)
    assert world.nodes[0].overlay.counts["groups_opened"] == 1
    held = [frame.held for frame in publisher.frames if isinstance(frame, HoldPublishes)]
    assert held[:1] == ([True] if when_full == "block" else [])
    world.run(20.0)
    held = [frame.held for frame in publisher.frames if isinstance(frame, HoldPublishes)]
    assert held[-1:] == ([False] if when_full == "block" else [])

"""Stream groups with real keys: a place, a batch or an ack that its author did not make is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from group_net import GroupNet, acquainted, identities

from plait_broker.overlay.groups.group_record import EMPTY
from plait_broker.overlay.groups.group_root import ACK_CLAIM, ack_claim
from plait_broker.overlay.security.identity import Forged
from plait_broker.overlay.transport.reliable_stream import ACK_S
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupOpen
from plait_core.wire.group_events import GroupMember, pack_batch, pack_members, unpack_batch, unpack_members

KEYS = identities(4)
ROOT, RELAY, MEMBER, OTHER = (key.id for key in KEYS)
LINKS = {(1, 2): 10, (2, 3): 10, (2, 4): 10}


def net_of_keys() -> GroupNet:
    """Return brokers with keys: a root, a relay below it, and two members below that."""
    return GroupNet(LINKS, all_auth=acquainted(KEYS))


def opened() -> GroupNet:
    net = net_of_keys()
    net.publish(1, 2, 3, 4)
    net.carry()
    assert [net[at].sequences for at in (2, 3, 4)] == [[1], [1], [1]]
    net.acknowledge()
    net.advance(ACK_S)
    assert net[1].groups.root is not None
    assert not net[1].groups.root.kept, "the acks of all were right"
    return net


def waiting_frame(net: GroupNet, sender: int, kind: type[GroupOpen] | type[GroupBatch]) -> GroupOpen | GroupBatch:
    """End the turn, and return the first frame of a type that a broker has sent."""
    net.settle()
    return next(frame for near, _, frame in net.waiting if near == sender and isinstance(frame, kind))


def relayed_open() -> tuple[GroupNet, GroupOpen]:
    """Return brokers, and the frame that makes the first member a part of the group."""
    net = net_of_keys()
    net.publish(1, 2, 3, 4)
    open = waiting_frame(net, ROOT, GroupOpen)
    net[2].receive(ROOT, open, net.now)
    for _, to, frame in net[2].take():
        if to == MEMBER and isinstance(frame, GroupOpen):
            return net, frame
    raise AssertionError("the relay passes each child its part")


def relayed_batch() -> tuple[GroupNet, GroupBatch]:
    """Return brokers, and a batch on its way to the first member: an event for it, and the digest of another's."""
    net = opened()
    net.publish(2, 3)
    net.publish(3, 4)
    net[2].receive(ROOT, waiting_frame(net, ROOT, GroupBatch), net.now)
    (frame,) = [frame for _, to, frame in net[2].take() if to == MEMBER]
    assert isinstance(frame, GroupBatch)
    return net, frame


@pytest.mark.parametrize(
    "field", ["id", "after", "proof", "follows", "epoch", "after_epoch", "after_position"], ids=str
)
def test_a_place_that_the_root_has_not_given_is_refused(field: str) -> None:
    net, open = relayed_open()
    (member,) = unpack_members(open.members)
    if field in GroupMember._fields:
        member = member._replace(**{field: OTHER if field == "id" else getattr(member, field) ^ 1})
        wrong = replace(open, members=pack_members([member]))
    else:
        wrong = replace(open, **{field: getattr(open, field) + 1})
    with pytest.raises(Forged):
        net[3].receive(RELAY, wrong, net.now)
    assert net[3].take() == []
    net[3].receive(RELAY, open, net.now)
    assert len(net[3].groups.branches[ROOT]) == 1


def test_a_place_is_below_one_parent() -> None:
    net, open = relayed_open()
    with pytest.raises(Forged):
        net[3].receive(OTHER, replace(open, path=(ROOT, OTHER)), net.now)
    net[3].receive(OTHER, open, net.now)
    net[3].receive(RELAY, replace(open, path=()), net.now)
    net[3].receive(RELAY, replace(open, path=(ROOT, MEMBER, RELAY)), net.now)
    net[1].receive(RELAY, open, net.now)
    assert not any(net[at].groups.branches.get(ROOT) for at in (1, 3))


def changed(frame: GroupBatch, change: str) -> GroupBatch:
    """Return a batch for two members with a lie in it."""
    read = unpack_batch(frame.events, 1, frame.last)
    event = read.events[0]
    match change:
        case "signature":
            read = read._replace(signature=read.signature[:-1] + bytes([read.signature[-1] ^ 1]))
        case "block":
            read = read._replace(events=[event._replace(block=event.block[:-1] + b"?"), *read.events[1:]])
        case "flags":
            read = read._replace(events=[event._replace(flags=event.flags ^ 1), *read.events[1:]])
        case "digest":
            read = read._replace(digests={position: bytes(16) for position in read.digests})
        case "position":
            read = read._replace(
                events=[event._replace(position=event.position + 1)],
                digests={position - 1: each for position, each in read.digests.items()},
            )
    return replace(frame, events=pack_batch(read, 1))


@pytest.mark.parametrize("change", ["signature", "block", "flags", "digest", "position"])
def test_a_batch_that_the_root_has_not_signed_is_refused(change: str) -> None:
    net, frame = relayed_batch()
    assert len(unpack_batch(frame.events, 1, frame.last).digests) == 1
    with pytest.raises(Forged):
        net[3].receive(RELAY, changed(frame, change), net.now)
    assert net[3].take() == []
    net[3].receive(RELAY, frame, net.now)
    net.carry()
    assert net[3].sequences == [1, 2]


def test_a_batch_without_a_signature_and_without_digests_is_refused() -> None:
    net, frame = relayed_batch()
    read = unpack_batch(frame.events, 1, frame.last)._replace(signature=b"", digests={})
    with pytest.raises(Forged):
        net[3].receive(RELAY, replace(frame, events=pack_batch(read, 1)), net.now)


def test_a_relay_refuses_a_false_batch_before_it_forwards_it() -> None:
    net = opened()
    net.publish(2, 3)
    frame = waiting_frame(net, ROOT, GroupBatch)
    assert isinstance(frame, GroupBatch)
    read = unpack_batch(frame.events, 3, frame.last)
    false = replace(frame, events=pack_batch(read._replace(signature=bytes(64)), 3))
    with pytest.raises(Forged):
        net[2].receive(ROOT, false, net.now)
    assert net[2].take() == []


def test_acks_that_a_relay_makes_up_are_refused() -> None:
    net = opened()
    net.publish(2, 3)
    net.advance(ACK_S)
    root = net[1].groups.root
    assert root is not None
    proof = net[2].auth.prove_claim(ROOT, RELAY, root.last, ACK_CLAIM, ack_claim(root.epoch, EMPTY))
    with pytest.raises(Forged):
        net[1].receive(RELAY, GroupAck(ROOT, root.epoch, root.last, b"\2", proof), net.now)
    assert root.kept


def test_a_member_that_a_relay_keeps_an_event_from_gets_it_by_its_own_stream() -> None:
    """Let the relay remove the member from the set of one event: the record in its ack is wrong then."""
    net = opened()
    net.publish(2, 3, 4)
    frame = waiting_frame(net, ROOT, GroupBatch)
    assert isinstance(frame, GroupBatch)
    read = unpack_batch(frame.events, 3, frame.last)
    less = [event._replace(members=event.members & ~0b010) for event in read.events]
    net.waiting.clear()
    net[2].receive(ROOT, replace(frame, events=pack_batch(read._replace(events=less), 3)), net.now)
    net.carry()
    assert (net[3].sequences, net[4].sequences) == ([1], [1, 2])
    net.acknowledge()
    for _ in range(6):
        try:
            net.advance(ACK_S)
        except Forged:
            net.settle()
    moved = {broker: [each[0].sequence for _, each in events] for broker, events in net[1].groups.moved}
    assert moved[MEMBER] == [2]


def test_a_relay_that_exchanges_the_destinations_of_two_events_is_found_out() -> None:
    """Each member gets as many events as the root has sent it, but not those."""
    net = opened()
    net.publish(2, 3)
    net.publish(3, 4)
    frame = waiting_frame(net, ROOT, GroupBatch)
    assert isinstance(frame, GroupBatch)
    read = unpack_batch(frame.events, 3, frame.last)
    first, second = read.events
    exchanged = [first._replace(members=second.members), second._replace(members=first.members)]
    net.waiting.clear()
    net[2].receive(ROOT, replace(frame, events=pack_batch(read._replace(events=exchanged), 3)), net.now)
    net.carry()
    assert (net[3].sequences, net[4].sequences) == ([1, 3], [1, 2])
    net.acknowledge()
    for _ in range(6):
        try:
            net.advance(ACK_S)
        except Forged:
            net.settle()
    moved = {broker: [each[0].sequence for _, each in events] for broker, events in net[1].groups.moved}
    assert moved[MEMBER] == [2]

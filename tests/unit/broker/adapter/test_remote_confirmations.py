"""Confirmations between brokers: acks and outcomes that this broker awaits, and those that it owes."""

from __future__ import annotations

from random import Random

import pytest

from plait_broker import Broker, BrokerSettings, OpenGate
from plait_broker.clients.confirmations import LOG, Outcome
from plait_broker.drop_reasons import DropReason
from plait_broker.outputs import Persist
from plait_broker.overlay import ReceivedEvent
from plait_broker.overlay.groups.group_branch import GROUP
from plait_broker.overlay.groups.group_record import MemberRecord
from plait_broker.overlay.groups.group_root import ACK_CLAIM, GroupRoot, ack_claim
from plait_broker.overlay.groups.group_tree import GroupTree
from plait_broker.overlay.outputs import Acked, Lost
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.reliable_stream import WINDOW_START_BYTES
from plait_core import Event
from plait_core.wire import Confirm, Publish, encode_block
from plait_core.wire.frame_types.group_frames import GroupAck
from plait_core.wire.frame_types.overlay_frames import CONFIRM, DeliveryOutcome, StreamAck

HOME, PUBLISHER, ROOT = 77, 3, 88
EVENT = Publish(Confirm.SUBSCRIBERS, encode_block(Event({"x": 1}, b"", PUBLISHER, 1, 0)))


@pytest.fixture
def broker() -> Broker:
    return Broker(BrokerSettings(confirm_timeout_s=5.0), Random(1), OpenGate(), now=0.0, wall_us=0)


def send(broker: Broker, confirm: Confirm, homes: tuple[int, ...] = (HOME,)) -> dict[int, int]:
    """Send an event to its home brokers and await them. Return the positions."""
    parties = set(broker._remote_confirmations.publish(EVENT, list(homes), 0, 0.0, confirm))
    broker.confirmations.begin(PUBLISHER, 1, 0, parties, 0.0)
    return {-party[0]: party[1] for party in parties}


def ack(broker: Broker, home: int, position: int) -> None:
    """Deliver a home broker's ack of one position."""
    kept = broker.overlay.event_streams.outgoing[home].give_up(position)
    broker._remote_confirmations.acked(Acked(home, [(position, kept)]), 1.0)


def outcomes(broker: Broker) -> list[tuple[int, str]]:
    """Return how many subscriptions matched and the code of each outcome."""
    return [(outcome.matched, outcome.code) for outcome in broker.confirmations.take()]


def test_an_event_is_confirmed_once_all_home_brokers_have_acked_it(broker: Broker) -> None:
    positions = send(broker, Confirm.BROKER, (HOME, 78))
    ack(broker, HOME, positions[HOME])
    assert outcomes(broker) == []
    ack(broker, 78, positions[78])
    assert outcomes(broker) == [(0, "")]


def test_an_ack_does_not_replace_the_outcome_of_the_subscribers(broker: Broker) -> None:
    position = send(broker, Confirm.SUBSCRIBERS)[HOME]
    ack(broker, HOME, position)
    assert outcomes(broker) == []
    broker._remote_confirmations.receive_outcome(DeliveryOutcome(broker.id, HOME, position, 2, ""), 1.0)
    assert outcomes(broker) == [(2, "")]


def held(broker: Broker) -> int:
    """Send an event while the window of its stream is full. Return the number that names it."""
    streams = broker.overlay.event_streams
    large = Publish(Confirm.NONE, encode_block(Event({"x": 1}, bytes(2 * WINDOW_START_BYTES), PUBLISHER, 2, 0)))
    broker.overlay.publish(large, [HOME], 0, 0, 0.0)
    number = send(broker, Confirm.SUBSCRIBERS)[HOME]
    assert number < 0
    assert len(streams.outgoing[HOME].waiting) == 1
    return number


def move(broker: Broker) -> int:
    """Give the event that waits its position."""
    stream = broker.overlay.event_streams.outgoing[HOME]
    position = stream.next
    broker.overlay.event_streams.receive_ack(StreamAck(broker.id, HOME, position - 1), 0.5)
    assert list(stream.kept) == [position]
    return position


def test_an_event_that_waited_is_confirmed_by_the_outcome_at_its_position(broker: Broker) -> None:
    held(broker)
    position = move(broker)
    ack(broker, HOME, position)
    assert outcomes(broker) == []
    broker._remote_confirmations.receive_outcome(DeliveryOutcome(broker.id, HOME, position, 2, ""), 1.0)
    assert outcomes(broker) == [(2, "")]


def test_an_event_that_waits_is_not_in_the_charge_of_its_destination(broker: Broker) -> None:
    party = (-HOME, held(broker))
    remote, stream = broker._remote_confirmations, broker.overlay.event_streams.outgoing[HOME]
    assert not remote.silent_broker(party).in_charge
    position = move(broker)
    assert not remote.silent_broker(party).in_charge, "nor before it is acked"
    broker.overlay.event_streams.receive_ack(StreamAck(broker.id, HOME, position), 1.0)
    assert remote.silent_broker(party).in_charge
    assert not stream.unsettled


@pytest.mark.parametrize("streams", [False, True], ids=["alone", "beside its own stream"])
def test_a_member_of_a_group_is_in_charge_once_it_has_acked(broker: Broker, streams: bool) -> None:
    if streams:
        broker.overlay.publish(EVENT, [HOME], 0, 0, 0.0)
    me, overlay, remote = broker.id, broker.overlay, broker._remote_confirmations
    root = overlay.groups.root = GroupRoot(me, GroupTree((me, HOME), (2, 1), (me, me)), 5, MessageAuth(me, None))
    party = (-HOME, send(broker, Confirm.SUBSCRIBERS)[HOME])
    assert party == (-HOME, GROUP | 5)
    assert not remote.silent_broker(party).in_charge
    up_to, record = next(frame.last for _, frame in root.batches(0.0)), MemberRecord(5)
    record.add(5)
    claim = ack_claim(5, record.up_to(up_to))
    proof = MessageAuth(HOME, None).prove_claim(me, HOME, up_to, ACK_CLAIM, claim)
    overlay.groups.receive_ack(HOME, GroupAck(me, 5, up_to, b"\1", proof), 0.1)
    assert remote.silent_broker(party).in_charge


def test_a_member_that_has_left_a_group_is_in_charge_once_it_has_acked_by_its_own_stream(broker: Broker) -> None:
    me, overlay, remote = broker.id, broker.overlay, broker._remote_confirmations
    overlay.groups.root = GroupRoot(me, GroupTree((me, HOME), (2, 1), (me, me)), 5, MessageAuth(me, None))
    party = (-HOME, send(broker, Confirm.SUBSCRIBERS)[HOME])
    overlay.groups.leave(HOME, 0.0)
    overlay.event_streams.send_moved(0.0)
    assert not remote.silent_broker(party).in_charge
    ack(broker, HOME, next(iter(overlay.event_streams.outgoing[HOME].kept)))
    assert remote.silent_broker(party).in_charge


def test_what_is_awaited_no_more_leaves_nothing(broker: Broker) -> None:
    party = (-HOME, held(broker))
    remote, position = broker._remote_confirmations, move(broker)
    ack(broker, HOME, position)
    assert remote._moved
    remote.forget(party)
    assert not remote._moved
    assert not remote._moved_to


def test_an_outcome_with_a_code_refuses_the_event(broker: Broker) -> None:
    position = send(broker, Confirm.SUBSCRIBERS)[HOME]
    broker._remote_confirmations.receive_outcome(DeliveryOutcome(broker.id, HOME, position, 0, "timeout"), 1.0)
    assert outcomes(broker) == [(0, "timeout")]


def test_a_lost_event_is_counted_and_refused(broker: Broker) -> None:
    position = send(broker, Confirm.BROKER)[HOME]
    broker._remote_confirmations.lost(Lost(HOME, position, EVENT, 0, "unreachable"), 1.0)
    (outcome,) = broker.confirmations.take()
    assert outcome.code == "unavailable"
    assert "does not get it: unreachable" in outcome.message
    assert broker.counters.dropped[DropReason.UNREACHABLE] == 1


def test_the_ack_of_a_restarted_destination_confirms_the_first_one(broker: Broker) -> None:
    position = send(broker, Confirm.BROKER)[HOME]
    again = (EVENT, 0, 0, 0.0, (HOME, position))
    broker._remote_confirmations.acked(Acked(99, [(5, again)]), 1.0)
    assert outcomes(broker) == [(0, "")]


def test_an_outcome_that_never_comes_is_forgotten(broker: Broker) -> None:
    position = send(broker, Confirm.SUBSCRIBERS)[HOME]
    party = (-HOME, position)
    broker.tick(4.9)
    assert party in broker._remote_confirmations._awaited
    broker.tick(5.1)
    assert not broker._remote_confirmations._awaited


@pytest.mark.parametrize("in_charge", [False, True])
def test_a_silent_broker_is_in_charge_once_it_has_acked(broker: Broker, in_charge: bool) -> None:
    position = send(broker, Confirm.SUBSCRIBERS)[HOME]
    if in_charge:
        ack(broker, HOME, position)
    silent = broker._remote_confirmations.silent_broker((-HOME, position))
    assert (silent.in_charge, silent.reachable) == (in_charge, False)


# --- events of other brokers ------------------------------------------------------------------------------------------


class Owed:
    """What a broker has acked and reported to the publisher's broker."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acks: list[tuple[int, int]] = []
        self.outcomes: list[tuple[int, int, int, str]] = []
        monkeypatch.setattr(
            broker.overlay, "acknowledge", lambda event, now: self.acks.append((event.root, event.position))
        )
        monkeypatch.setattr(broker.overlay, "send_outcome", lambda *fields: self.outcomes.append(fields))


@pytest.fixture
def owed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Owed:
    return Owed(broker, monkeypatch)


def received(flags: int, position: int = 9) -> ReceivedEvent:
    return ReceivedEvent(ROOT, position, EVENT, flags, 0, (ROOT,), 0.0)


def settle(broker: Broker) -> None:
    """Hand settled outcomes on, as the receipts do."""
    for outcome in broker.confirmations.take():
        assert isinstance(outcome, Outcome)
        broker._remote_confirmations.settled(outcome, 1.0)


def test_an_event_that_is_not_stored_is_acked_at_once(broker: Broker, owed: Owed) -> None:
    broker._remote_confirmations.wait_for(received(0), set(), 1, 0.0)
    assert owed.acks == [(ROOT, 9)]
    assert owed.outcomes == [], "its publisher does not wait for subscribers"


def test_an_event_is_acked_once_the_log_has_stored_it(broker: Broker, owed: Owed) -> None:
    broker._remote_confirmations.wait_for(received(0), {(LOG, 4)}, 1, 0.0)
    assert owed.acks == []
    broker.confirmations.acknowledge((LOG, 4))
    settle(broker)
    assert owed.acks == [(ROOT, 9)]
    assert owed.outcomes == []


def test_an_outcome_follows_once_the_subscribers_have_acknowledged(broker: Broker, owed: Owed) -> None:
    broker._remote_confirmations.wait_for(received(CONFIRM), {(LOG, 4), (1, 1)}, 2, 0.0)
    broker.confirmations.acknowledge((LOG, 4))
    settle(broker)
    assert (owed.acks, owed.outcomes) == ([(ROOT, 9)], [])
    broker.confirmations.acknowledge((1, 1))
    settle(broker)
    assert owed.outcomes == [(ROOT, 9, 2, "")]


def test_an_event_that_could_not_be_stored_is_reported_and_acked(broker: Broker, owed: Owed) -> None:
    broker._remote_confirmations.wait_for(received(0), {(LOG, 4)}, 1, 0.0)
    broker.confirmations.fail((LOG, 4), "durability")
    settle(broker)
    assert owed.outcomes == [(ROOT, 9, 0, "durability")]
    assert owed.acks == [(ROOT, 9)], "so that it is not sent again"


def test_an_outcome_waits_for_the_log(broker: Broker, owed: Owed) -> None:
    broker._remote_confirmations.wait_for(received(CONFIRM), {(LOG, 4)}, 0, 0.0)
    settle(broker)
    assert (owed.acks, owed.outcomes) == ([], [])
    broker.confirmations.acknowledge((LOG, 4))
    settle(broker)
    assert (owed.acks, owed.outcomes) == ([(ROOT, 9)], [(ROOT, 9, 0, "")])


def test_a_duplicate_is_acked_with_the_first_copy(broker: Broker, owed: Owed) -> None:
    broker.durables.log(EVENT, 0, 0, [])
    assert broker._durable_delivery.storing(EVENT) == {(LOG, 1)}
    broker._remote_confirmations.wait_for(received(0), {(LOG, 1)}, 1, 0.0)
    broker._pipeline._disseminator.drop(received(0, 10), DropReason.DUPLICATE, 0.0)
    assert owed.acks == []
    (persist,) = broker.durables.take(0.0)
    assert isinstance(persist, Persist)
    broker.persisted(persist.ticket, None, 1.0)
    settle(broker)
    assert owed.acks == [(ROOT, 9), (ROOT, 10)]
    assert broker._durable_delivery.storing(EVENT) == set()

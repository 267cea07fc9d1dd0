"""Interest of durable subscriptions at other brokers: learned, stored, recalled, passed to the next incarnation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_overlay import OneOverlay

from plait_broker.overlay import Incarnation
from plait_broker.overlay.interest.durable_interest import RemoteDurableInterest
from plait_broker.overlay.interest.remote_interest import HomeInterest
from plait_broker.overlay.outputs import StoreDocument
from plait_core import Event
from plait_core.filters import parse
from plait_core.matching import new_index
from plait_core.wire import Confirm, EventFrame, Publish, encode_block
from plait_core.wire.frame_types.envelope_frames import envelop_document, envelop_message
from plait_core.wire.frame_types.overlay_frames import (
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
)

HOME, SUCCESSOR = 7, 8
CHEAP = DurableInterest(HOME, 1, 1, "price < 10")
LINK_STATE = LinkState(HOME, 1, "home", (), (), incarnation=5, born=1)


def event(price: int) -> EventFrame:
    return Publish(Confirm.NONE, encode_block(Event({"price": price}, b"", 1, 1, 0)))


@pytest.fixture
def remote() -> RemoteDurableInterest:
    found = RemoteDurableInterest(new_index)
    found.learn(CHEAP)
    return found


def test_a_home_broker_without_an_interest_update_is_absent(remote: RemoteDurableInterest) -> None:
    remote.review({}, 3)
    assert remote.match(event(5)) == [HOME]
    assert remote.match(event(50)) == []


@pytest.mark.parametrize(("since", "offers", "away"), [(1.0, 3, False), (1.0, 2, True), (float("inf"), 3, True)])
def test_a_home_broker_that_knows_our_advertisements_is_present(
    remote: RemoteDurableInterest, since: float, offers: int, away: bool
) -> None:
    remote.review({HOME: HomeInterest(since=since, offers=offers)}, 3)
    assert bool(remote.match(event(5))) is away


def test_withdrawn_durable_interest_matches_no_event(remote: RemoteDurableInterest) -> None:
    remote.learn(DurableInterest(HOME, CHEAP.number, 2, ""))
    remote.review({}, 0)
    assert remote.match(event(5)) == []
    assert not remote.away
    assert not len(remote)


def test_a_successor_takes_over_until_its_own_interest_is_complete(remote: RemoteDurableInterest) -> None:
    remote.succeed(HOME, SUCCESSOR)
    assert not remote.forget(HOME), "it is kept for the successor"
    remote.review({}, 0)
    assert remote.match(event(5)) == [SUCCESSOR]
    assert remote.complete(SUCCESSOR) == [HOME]
    remote.review({}, 0)
    assert remote.match(event(5)) == []


def test_a_filter_that_cannot_be_parsed_is_reported(remote: RemoteDurableInterest) -> None:
    assert not remote.learn(DurableInterest(HOME, 2, 1, "price <"))


def storing() -> OneOverlay:
    """Return the overlay of a broker with a log."""
    return OneOverlay(incarnation=Incarnation(stores=True))


def test_durable_interest_is_stored_with_the_link_state_that_verifies_it() -> None:
    broker = storing()
    broker.link_up(2)
    for document in (LINK_STATE, CHEAP):
        broker.learn(document, 2)
    assert broker.stored == {(HOME, 0): envelop_document(LINK_STATE), (HOME, CHEAP.number): envelop_document(CHEAP)}
    broker.learn(DurableInterest(HOME, CHEAP.number, 2, ""), 2)
    assert broker.stored == {}, "nothing is kept of a broker without durable interest"


def test_a_broker_without_a_log_stores_nothing() -> None:
    broker = OneOverlay()
    broker.link_up(2)
    for document in (LINK_STATE, CHEAP):
        broker.learn(document, 2)
    assert broker.of(StoreDocument) == []
    assert broker.overlay.destinations(event(5)) == [HOME], "it uses it all the same"


def test_a_restarted_broker_uses_the_stored_interest() -> None:
    broker = storing()
    broker.overlay.recall(map(envelop_document, [CHEAP, LINK_STATE]), 0.0)
    assert broker.overlay.destinations(event(5)) == [HOME]
    assert broker.overlay.meets(parse("price < 3"))
    assert HOME in broker.overlay.map


def test_a_stored_link_state_without_durable_interest_is_deleted() -> None:
    broker = storing()
    broker.overlay.recall([envelop_document(LINK_STATE)], 0.0)
    assert broker.of(StoreDocument) == [StoreDocument((HOME, 0), None)]


def test_stored_documents_that_cannot_be_read_are_counted() -> None:
    broker = storing()
    unreadable = replace(envelop_document(CHEAP), body=b"no map")
    broker.overlay.recall([unreadable, envelop_document(LINK_STATE)], 0.0)
    assert broker.overlay.counts["bad_documents"] == 1
    assert broker.overlay.destinations(event(5)) == []


def test_a_home_broker_gets_its_ack_once_its_durable_interest_is_stored() -> None:
    broker = storing()
    broker.link_up(2)
    broker.learn(LinkState(2, 2, "b2", (1,), (1000,), incarnation=5, born=1), 2)
    broker.learn(DurableInterest(2, 1, 1, "price < 10"), 2)
    broker.receive(2, envelop_message(InterestUpdate((1,), 2, (1,), (0,), True, (1,), ("price < 10",), ())))
    first, last = broker.stored.items()
    assert broker.messages(InterestAck) == []
    broker.overlay.stored(dict([first]), 0.1)
    assert broker.messages(InterestAck) == [], "the other document is not stored yet"
    broker.overlay.stored(dict([last]), 0.2)
    assert [ack.version for ack in broker.messages(InterestAck)] == [1]


def durable_neighbour() -> OneOverlay:
    """Return a broker that has stored the link state and a filter of its neighbour 2."""
    broker = storing()
    broker.link_up(2)
    broker.learn(LinkState(2, 2, "b2", (1,), (1000,), incarnation=5, born=1), 2)
    broker.learn(DurableInterest(2, 1, 1, "price < 10"), 2)
    broker.overlay.stored(broker.stored, 0.0)
    return broker


def update(broker: OneOverlay, version: int, filter: str) -> None:
    """Receive an interest update with a filter of the neighbour."""
    broker.receive(2, envelop_message(InterestUpdate((1,), 2, (version,), (0,), True, (1,), (filter,), ())))


def test_versions_of_a_filter_that_are_stored_together_count_once() -> None:
    broker = durable_neighbour()
    for version, filter in ((2, "price < 20"), (3, "price < 30")):
        broker.learn(DurableInterest(2, 1, version, filter), 2)
    update(broker, 1, "price < 30")
    assert broker.messages(InterestAck) == []
    broker.overlay.stored({(2, 1): broker.stored[2, 1]}, 0.1)
    assert [ack.version for ack in broker.messages(InterestAck)] == [1]


def test_the_ack_waits_for_the_latest_version_of_a_filter() -> None:
    broker = durable_neighbour()
    broker.learn(DurableInterest(2, 1, 2, "price < 20"), 2)
    earlier = dict(broker.stored)
    broker.learn(DurableInterest(2, 1, 3, "price < 30"), 2)
    update(broker, 1, "price < 30")
    broker.overlay.stored(earlier, 0.1)
    assert broker.messages(InterestAck) == []
    broker.overlay.stored({(2, 1): broker.stored[2, 1]}, 0.2)
    assert [ack.version for ack in broker.messages(InterestAck)] == [1]


def test_a_deletion_is_not_taken_for_the_filter_that_is_still_being_stored() -> None:
    broker = durable_neighbour()
    broker.learn(DurableInterest(2, 2, 1, "price > 90"), 2)
    broker.learn(DurableInterest(2, 1, 2, ""), 2)
    update(broker, 1, "price > 90")
    broker.overlay.stored({(2, 1): None}, 0.1)
    assert broker.messages(InterestAck) == []
    broker.overlay.stored({(2, 2): broker.stored[2, 2]}, 0.2)
    assert [ack.version for ack in broker.messages(InterestAck)] == [1]


def test_the_ack_does_not_wait_for_a_filter_that_was_withdrawn_before_it_was_stored() -> None:
    broker = durable_neighbour()
    broker.learn(DurableInterest(2, 2, 1, "price > 90"), 2)
    broker.learn(DurableInterest(2, 2, 2, ""), 2)
    update(broker, 1, "price < 10")
    broker.overlay.stored({(2, 2): None}, 0.1)
    assert [ack.version for ack in broker.messages(InterestAck)] == [1]


def test_a_broker_floods_its_durable_interest_once_there_are_others() -> None:
    broker = OneOverlay()
    broker.overlay.announce_filter(1, parse("price < 10"), durable=True)
    broker.overlay.announce_filter(2, parse("price < 5"), durable=True)
    assert broker.documents(DurableInterest) == []
    broker.link_up(2)
    assert [document.filter for document in broker.documents(DurableInterest)] == ["price < 10"], "it covers the other"
    broker.clear()
    broker.overlay.withdraw_filter(1)
    texts = [document.filter for document in broker.documents(DurableInterest)]
    assert texts == ["price < 5", ""], "the filter that was covered precedes the withdrawal"


def test_a_broker_that_the_operator_gave_up_is_forgotten() -> None:
    broker = storing()
    broker.overlay.recall(map(envelop_document, [LINK_STATE, CHEAP]), 0.0)
    broker.tick(1.0)
    assert broker.overlay.destinations(event(5)) == [HOME]
    broker.overlay.give_up(["home"])
    broker.tick(2.0)
    assert broker.overlay.destinations(event(5)) == []
    deleted = {output.key for output in broker.of(StoreDocument) if output.document is None}
    assert deleted == {(HOME, 0), (HOME, CHEAP.number)}, "the next start does not find it either"

"""Durable subscriptions: cursors, windows, storing, reading, and failures of the disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_broker import BrokerSettings
from plait_broker.clients.access import OpenGate
from plait_broker.clients.durable_subscriptions import RETRY_S, DurableSubscriptions
from plait_broker.clients.sessions import DurableSubscription
from plait_broker.outputs import NOTHING_RECOVERED, Cursor, Fetch, LogRecord, Persist, Recovered
from plait_broker.settings import LiveSettings
from plait_core.events import Event
from plait_core.filters import EVERYTHING
from plait_core.wire import Confirm, Publish, encode_block
from plait_core.wire.frame_types.session_frames import Acknowledge, Start, Unsubscribe
from plait_lab.simulation.one_broker.stage import Stage


def block(number: int) -> bytes:
    return encode_block(Event({"n": number}, publisher=1, sequence=number))


def frame(number: int) -> Publish:
    return Publish(Confirm.NONE, block(number))


def durable(acknowledged: int = 0) -> DurableSubscription:
    return DurableSubscription(1, "me", "d", EVERYTHING, acknowledged)


def persists(durables: DurableSubscriptions, now: float = 0.0) -> list[Persist]:
    return [asked for asked in durables.take(now) if isinstance(asked, Persist)]


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_place_moves_up_to_the_first_that_is_in_flight() -> None:
    place = durable()
    place.in_flight = {1, 2, 3, 4}
    assert place.settle([2, 3, 9], 0, 4) == [2, 3]
    assert (place.acknowledged, place.beyond, place.pending) == (0, {2, 3}, 4)
    assert place.settle([1], 0, 4) == [1]
    assert (place.acknowledged, place.beyond, place.pending) == (3, set(), 1)
    assert place.settle([], 4, 7) == [4]
    assert (place.acknowledged, place.in_flight) == (7, set()), "what did not match is passed as well"


def test_unsent_positions_cannot_be_acknowledged() -> None:
    place = durable(5)
    assert place.settle([6, 7], 100, 5) == []
    assert place.acknowledged == 5


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=40))
def test_a_place_against_sets(steps: list[tuple[bool, int]]) -> None:
    place, sent, settled = durable(), 0, set[int]()
    for send, position in steps:
        if send:
            sent += 1
            place.in_flight.add(sent)
        else:
            place.settle([position], 0, sent)
            settled |= {position} & set(range(1, sent + 1))
        expected = next(p for p in range(sent + 1) if p + 1 not in settled) if sent else 0
        assert place.acknowledged == (expected if place.in_flight else max(expected, place.acknowledged))
        assert place.beyond == {p for p in settled if p > place.acknowledged}


# --- storing ----------------------------------------------------------------------------------------------------------


def test_staged_writes_are_stored_together() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED)
    assert [durables.log(frame(n), 0, 0, []) for n in (1, 2)] == [1, 2]
    (asked,) = persists(durables)
    assert [record.position for record in asked.records] == [1, 2]
    assert (durables.stored, durables.idle) == (0, False)
    durables.persisted(asked.ticket, True, 0.0)
    assert (durables.stored, durables.idle) == (2, True)


def test_unstored_records_leave_positions_that_are_never_read() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED)
    place = durable()
    for number, stored in [(1, True), (2, False), (3, True)]:
        durables.log(frame(number), 0, 0, [])
        durables.persisted(persists(durables)[0].ticket, stored, 0.0)
    place.next_position = 1
    found = durables.readable(place)
    assert found is not None
    assert [entry.position for entry in found[0]] == [1, 3]
    assert found[1] == 3


def test_a_place_that_could_not_be_stored_is_stored_later_and_not_at_once() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED)
    place = durable()
    durables.add(place)
    durables.touch(place, 0.0, (9, 1))
    (asked,) = persists(durables)
    durables.persisted(asked.ticket, False, 10.0)
    assert persists(durables, 10.0) == []
    assert durables.due_at == pytest.approx(10.0 + RETRY_S)
    assert [cursor.name for cursor in persists(durables, 10.0 + RETRY_S)[0].cursors] == ["d"]


def test_a_failed_deletion_is_repeated_later() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED)
    place = durable()
    durables.add(place)
    durables.forget(place, (9, 1))
    (asked,) = persists(durables)
    assert asked.forgotten == (("me", "d"),)
    durables.persisted(asked.ticket, False, 10.0)
    assert persists(durables, 10.0 + RETRY_S)[0].forgotten == (("me", "d"),)


def test_a_new_durable_subscription_survives_the_deletion_of_its_predecessor() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED)
    place = durable()
    durables.add(place)
    durables.forget(place, (9, 1))
    (asked,) = persists(durables)
    durables.add(durable())
    durables.persisted(asked.ticket, False, 10.0)
    assert all(not later.forgotten for later in persists(durables, 10.0 + RETRY_S))


# --- reading ----------------------------------------------------------------------------------------------------------


def fetching(settings: BrokerSettings, stored: int, place: DurableSubscription) -> tuple[DurableSubscriptions, Fetch]:
    durables = DurableSubscriptions(LiveSettings(settings, OpenGate()), Recovered(next_position=stored + 1))
    place.next_position = 1
    assert durables.readable(place) is None
    (asked,) = durables.take(0.0)
    assert isinstance(asked, Fetch)
    return durables, asked


def test_positions_below_the_tail_are_fetched_once() -> None:
    place = durable()
    durables, asked = fetching(BrokerSettings(durable_fetch=2), 5, place)
    assert (asked.position, asked.count) == (1, 2)
    assert durables.readable(place) is None
    assert durables.take(0.0) == []
    found = durables.fetched(asked.ticket, [LogRecord(2, 0, block(1)), LogRecord(3, 0, block(2))])
    assert [entry.position for entry in found[1]] == [2, 3]
    assert found[2] == 3


def test_the_end_of_the_log_is_known_by_what_is_missing() -> None:
    place = durable()
    durables, asked = fetching(BrokerSettings(durable_fetch=2), 5, place)
    assert durables.fetched(asked.ticket, [LogRecord(2, 0, block(1))])[2] == 5


def test_records_that_are_not_known_to_be_stored_wait() -> None:
    place = durable()
    durables, asked = fetching(BrokerSettings(durable_fetch=4), 2, place)
    records = [LogRecord(position, 0, block(position)) for position in (1, 2, 3)]
    _, entries, up_to = durables.fetched(asked.ticket, records)
    assert ([entry.position for entry in entries], up_to) == ([1, 2], 2)


def test_an_answer_to_an_older_question_is_not_taken() -> None:
    place = durable()
    durables, asked = fetching(BrokerSettings(), 9, place)
    place.acknowledged, place.next_position = 4, 7
    durables.rewind(place)
    _, entries, up_to = durables.fetched(asked.ticket, [LogRecord(8, 0, block(8))])
    assert (entries, up_to) == ([], 4), "it goes on from its place, 4"
    assert not place.fetching


def test_a_failed_read_is_tried_again_in_a_while() -> None:
    place = durable()
    durables, asked = fetching(BrokerSettings(), 9, place)
    durables.fetch_failed(asked.ticket, 5.0)
    assert durables.due_at == 5.0 + RETRY_S
    assert durables.retry(5.0) == []
    assert durables.readable(place) is None
    assert durables.retry(5.0 + RETRY_S) == [place]
    assert not place.fetching


def test_a_start_in_time_is_a_place_once_it_was_found() -> None:
    place = durable()
    place.since_us = 77
    durables, asked = fetching(BrokerSettings(), 9, place)
    assert asked.since_us == 77
    durables.fetched(asked.ticket, [LogRecord(6, 80, block(6))])
    assert (place.acknowledged, place.since_us) == (5, 0)


# --- with a broker ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "at", "expected"),
    [(Start.NEW, 0, [5]), (Start.ALL, 0, [1, 2, 3, 4, 5]), (Start.POSITION, 3, [3, 4, 5]), (Start.POSITION, 99, [5])],
)
def test_where_a_new_one_starts(start: Start, at: int, expected: list[int]) -> None:
    stage = Stage(BrokerSettings(log_filter="true"))
    publisher, client = stage.raw("publisher"), stage.raw("client")
    for number in range(4):
        publisher.publish(n=number)
    stage.run(0.1)
    client.subscribe(1, durable="d", start=start, start_at=at)
    stage.run(0.1)
    publisher.publish(n=5)
    stage.run(0.1)
    assert client.sequences(1) == expected


def test_the_window_bounds_what_is_not_settled_in_order() -> None:
    stage = Stage(BrokerSettings(durable_window=3))
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    for number in range(10):
        publisher.publish(n=number)
    stage.run(0.1)
    assert client.positions(1) == [1, 2, 3]
    client.send(Acknowledge(1, (2, 3)))
    stage.run(0.1)
    assert client.positions(1) == [1, 2, 3], "the first still holds the place"
    client.send(Acknowledge(1, (1,)))
    stage.run(0.1)
    assert client.positions(1) == [1, 2, 3, 4, 5, 6]


def test_one_name_serves_one_client_at_a_time() -> None:
    stage = Stage()
    one, two = stage.raw("one"), stage.raw("two")
    one.subscribe(1, durable="d")
    stage.run(0.1)
    asked = two.subscribe(1, durable="d")
    stage.run(0.1)
    assert two.answer(asked) == "taken"


def test_given_up_it_is_gone_also_after_a_restart() -> None:
    stage = Stage()
    client = stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    client.send(Unsubscribe(client.next_request(), 1, forget=True))
    stage.run(0.1)
    stage.node.kill()
    stage.node.start()
    assert stage.broker.durables.all() == []


def test_after_a_restart_nothing_is_logged_behind_a_place() -> None:
    stage = Stage()
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    stage.disk.terms.full = True
    for number in range(5):
        publisher.publish(n=number)
    stage.run(0.1)
    stage.disk.terms.full = False
    client.connection.reset()  # its place moves past the holes
    stage.run(20.0)
    stage.node.kill()
    stage.node.start()
    publisher.connect()
    stage.run(0.1)
    kept = publisher.publish(Confirm.BROKER, n=9)
    stage.run(0.1)
    assert publisher.confirmed() == [kept]
    client.connect()
    stage.run(0.1)
    client.subscribe(2, durable="d")
    stage.run(0.1)
    assert client.sequences(2) == [kept]


def test_a_cursor_is_recovered_with_the_positions_beyond_it() -> None:
    stage = Stage()
    stage.node.kill()
    cursor = Cursor("d", "anyone", "n > 1", 3, (5, 7))
    stage.disk.persist(Persist(1, cursors=(cursor,)), lambda ticket, error: None)
    stage.run(0.1)
    stage.node.start()
    (found,) = stage.broker.durables.all()
    assert found.cursor() == cursor

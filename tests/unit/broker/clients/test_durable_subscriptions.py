"""Durable subscriptions: cursors, windows, storing, reading, and failures of the disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_broker import BrokerSettings
from plait_broker.clients.access import Keyring, OpenGate, Principal
from plait_broker.clients.durable.durable_subscriptions import RETRY_S, DurableSubscriptions
from plait_broker.clients.sessions import EARLIER_FILTERS_MAX, DurableSubscription, EarlierFilter
from plait_broker.context import WallClock
from plait_broker.outputs import NOTHING_RECOVERED, Cursor, Fetch, LogRecord, Persist, Recovered
from plait_broker.settings import LiveSettings
from plait_core.events import Event
from plait_core.filters import EVERYTHING, parse
from plait_core.wire import Confirm, Deliver, Publish, encode_block
from plait_core.wire.frame_types.session_frames import Acknowledge, Failed, Start, Unsubscribe
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

EVEN, ODD = parse("even == true"), parse("even == false")


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
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED, WallClock(0))
    assert [durables.log(frame(n), 0, 0, []) for n in (1, 2)] == [1, 2]
    (asked,) = persists(durables)
    assert [record.position for record in asked.records] == [1, 2]
    assert (durables.stored, durables.idle) == (0, False)
    durables.persisted(asked.ticket, True, 0.0)
    assert (durables.stored, durables.idle) == (2, True)


def test_unstored_records_leave_positions_that_are_never_read() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED, WallClock(0))
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
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED, WallClock(0))
    place = durable()
    durables.add(place)
    durables.touch(place, 0.0, (9, 1))
    (asked,) = persists(durables)
    durables.persisted(asked.ticket, False, 10.0)
    assert persists(durables, 10.0) == []
    assert durables.due_at == pytest.approx(10.0 + RETRY_S)
    assert [cursor.name for cursor in persists(durables, 10.0 + RETRY_S)[0].cursors] == ["d"]


def test_a_failed_deletion_is_repeated_later() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED, WallClock(0))
    place = durable()
    durables.add(place)
    durables.forget(place, (9, 1))
    (asked,) = persists(durables)
    assert asked.forgotten == (("me", "d"),)
    durables.persisted(asked.ticket, False, 10.0)
    assert persists(durables, 10.0 + RETRY_S)[0].forgotten == (("me", "d"),)


def test_a_new_durable_subscription_survives_the_deletion_of_its_predecessor() -> None:
    durables = DurableSubscriptions(LiveSettings(BrokerSettings(), OpenGate()), NOTHING_RECOVERED, WallClock(0))
    place = durable()
    durables.add(place)
    durables.forget(place, (9, 1))
    (asked,) = persists(durables)
    durables.add(durable())
    durables.persisted(asked.ticket, False, 10.0)
    assert all(not later.forgotten for later in persists(durables, 10.0 + RETRY_S))


# --- reading ----------------------------------------------------------------------------------------------------------


def fetching(settings: BrokerSettings, stored: int, place: DurableSubscription) -> tuple[DurableSubscriptions, Fetch]:
    durables = DurableSubscriptions(
        LiveSettings(settings, OpenGate()), Recovered(next_position=stored + 1), WallClock(0)
    )
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


def test_one_name_serves_one_connected_client() -> None:
    stage = Stage()
    one, two = stage.raw("one"), stage.raw("two")
    one.subscribe(1, durable="d")
    stage.run(0.1)
    asked = two.subscribe(1, durable="d")
    stage.run(0.1)
    (refused,) = two.of(Failed)
    assert (refused.request, refused.code, refused.retryable) == (asked, "taken", True)
    assert "'one'" in refused.message
    assert "name" not in refused.hint, "under another name it would lose its place"


def held_by_a_lost_client(stage: Stage, count: int) -> RawClient:
    """Return the client without a connection that holds `d`, with events in flight that it never acknowledged."""
    publisher, holder = stage.raw("publisher"), stage.raw("holder")
    holder.subscribe(1, durable="d")
    stage.run(0.1)
    for number in range(count):
        publisher.publish(n=number, confirm=Confirm.BROKER)
    stage.run(0.1)
    assert holder.positions(1) == list(range(1, count + 1))
    holder.connection.reset()
    stage.run(0.1)
    return holder


def test_the_next_client_takes_over_from_one_that_is_not_connected() -> None:
    stage = Stage(BrokerSettings(resume_s=1000.0))
    held_by_a_lost_client(stage, 3)
    worker = stage.raw("worker")
    asked = worker.subscribe(7, durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "done", "long before the session of the first has expired"
    assert worker.positions(7) == [1, 2, 3]


def test_who_lost_it_learns_that_when_it_resumes() -> None:
    stage = Stage(BrokerSettings(resume_s=1000.0))
    holder, worker = held_by_a_lost_client(stage, 3), stage.raw("worker")
    session = holder.welcome.session
    worker.subscribe(7, durable="d")
    stage.run(0.1)
    holder.frames.clear()
    holder.connect(resume=session)
    stage.run(0.1)
    assert [(n.subscription, n.kind, n.reason) for n in holder.notices()] == [(1, "closed", "taken")]
    assert holder.positions(1) == []
    holder.send(Acknowledge(1, (1, 2, 3)))
    stage.run(0.5)
    assert stage.broker.durables.all()[0].acknowledged == 0, "it no longer speaks for the subscription"
    asked = holder.subscribe(2, durable="d")
    stage.run(0.1)
    assert holder.answer(asked) == "taken"


def test_of_two_that_take_over_at_once_one_gets_it() -> None:
    stage = Stage(BrokerSettings(resume_s=1000.0))
    held_by_a_lost_client(stage, 3)
    workers = [stage.raw("left"), stage.raw("right")]
    asked = [worker.subscribe(1, durable="d") for worker in workers]
    stage.run(0.1)
    answers = [worker.answer(request) for worker, request in zip(workers, asked, strict=True)]
    assert sorted(answers) == ["done", "taken"]
    assert [worker.positions(1) for worker in workers] == [[1, 2, 3] if answer == "done" else [] for answer in answers]


def test_another_principal_takes_nothing_over() -> None:
    stage = Stage(
        BrokerSettings(resume_s=1000.0), gate=Keyring.of_tokens([("a", Principal("a")), ("b", Principal("b"))])
    )
    holder, other = stage.raw("holder", connect=False), stage.raw("other", connect=False)
    holder.connect(token="a")
    other.connect(token="b")
    stage.run(0.1)
    holder.subscribe(1, durable="d")
    stage.run(0.1)
    holder.connection.reset()
    stage.run(0.1)
    other.subscribe(1, durable="d")
    stage.run(0.1)
    held = {durable.owner: durable.subscription.session.name for durable in stage.broker.durables.all()}
    assert held == {"a": "holder", "b": "other"}


def test_a_take_over_that_cannot_be_stored_leaves_the_place() -> None:
    stage = Stage(BrokerSettings(resume_s=1000.0))
    held_by_a_lost_client(stage, 3)
    worker = stage.raw("worker")
    stage.disk.terms.full = True
    asked = worker.subscribe(7, durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "durability"
    stage.disk.terms.full = False
    worker.frames.clear()
    asked = worker.subscribe(8, durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "done"
    assert worker.positions(8) == [1, 2, 3]


# --- another filter ---------------------------------------------------------------------------------------------------


def test_a_position_keeps_the_filter_that_was_in_force() -> None:
    place = durable()
    place.remember_filter(EVEN, 4)
    place.filter = EVEN
    place.remember_filter(ODD, 6)
    place.filter = ODD
    assert [place.filter_at(position) for position in (1, 4, 5, 6, 7)] == [EVERYTHING, EVERYTHING, EVEN, EVEN, ODD]
    place.move_to(5)
    assert place.earlier == [EarlierFilter(6, EVEN)], "the first was passed"


def test_a_filter_that_was_in_force_for_nothing_is_not_kept() -> None:
    place = durable()
    place.remember_filter(EVEN, 4)
    place.filter = EVEN
    place.remember_filter(ODD, 4)
    place.filter = ODD
    assert place.earlier == [EarlierFilter(4, EVERYTHING)]
    place.remember_filter(EVERYTHING, 4)
    assert place.earlier == [], "it is in force again"


def waiting_for_its_worker(stage: Stage) -> RawClient:
    """Return a publisher. `d` waits for events with an even number. Some of them are in the log."""
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, "even == true", durable="d")
    stage.run(0.1)
    worker.connection.reset()
    publish(stage, publisher, 4)
    return publisher


def publish(stage: Stage, publisher: RawClient, count: int) -> None:
    for _ in range(count):
        number = publisher._sequence
        publisher.publish(n=number, even=number % 2 == 0, confirm=Confirm.BROKER)
    stage.run(0.1)


def numbers(client: RawClient, subscription: int) -> list[object]:
    """Return the numbers of the events that were delivered to a subscription."""
    frames = [f for f in client.of(Deliver) if any(number == subscription for number, _, _ in f.deliveries)]
    return [frame.attributes()["n"] for frame in frames]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("tail", [1, 4096])
def test_another_filter_keeps_the_backlog(restart: bool, tail: int) -> None:
    stage = Stage(BrokerSettings(durable_tail=tail))
    publisher = waiting_for_its_worker(stage)
    worker = stage.raw("another")
    asked = worker.subscribe(1, "even == false", durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "done"
    publish(stage, publisher, 4)
    assert numbers(worker, 1) == [0, 2, 5, 7], "what was confirmed for it, and then what it wants now"
    if restart:
        stage.node.kill()
        stage.node.start()
    else:
        worker.connection.reset()
    reader = stage.raw("reader")
    reader.acknowledges = True
    reader.subscribe(9, "n >= 100", durable="d")
    stage.run(1.0)
    assert numbers(reader, 9) == [0, 2, 5, 7]
    (place,) = stage.broker.durables.all()
    assert place.earlier == []


def test_a_confirmed_event_is_acknowledged_by_its_subscriber_after_a_change() -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    worker.subscribe(1, "even == true", durable="d")
    stage.run(0.1)
    sequence = publisher.publish(n=0, even=True, confirm=Confirm.SUBSCRIBERS)
    stage.run(0.1)
    worker.subscribe(1, "even == false", durable="d")
    stage.run(0.1)
    assert publisher.confirmed() == [], "it is still to be acknowledged"
    worker.send(Acknowledge(1, (1,)))
    stage.run(0.1)
    assert publisher.confirmed() == [sequence]


def test_a_change_that_cannot_be_stored_is_undone_and_forgets_nothing() -> None:
    stage = Stage()
    publisher = waiting_for_its_worker(stage)
    worker = stage.raw("another")
    stage.disk.terms.full = True
    asked = worker.subscribe(1, "even == false", durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "durability"
    stage.disk.terms.full = False
    stage.run(2.0)
    publish(stage, publisher, 4)
    worker.frames.clear()
    worker.subscribe(2, "even == true", durable="d")
    stage.run(1.0)
    assert numbers(worker, 2) == [0, 2, 4, 6]


def test_positions_that_an_earlier_filter_names_are_not_assigned_again() -> None:
    stage = Stage()
    publisher = waiting_for_its_worker(stage)
    stage.disk.terms.full = True
    publish(stage, publisher, 2)  # their positions are lost, and lie below the change
    stage.disk.terms.full = False
    worker = stage.raw("another")
    worker.subscribe(1, "n >= 0", durable="d")
    stage.run(0.1)
    stage.node.kill()
    stage.node.start()
    publisher.connect()
    stage.run(0.2)
    publish(stage, publisher, 4)
    reader = stage.raw("reader")
    reader.subscribe(1, "n >= 0", durable="d")
    stage.run(1.0)
    assert numbers(reader, 1) == [0, 2, 6, 7, 8, 9]


def test_too_many_filters_for_one_backlog_are_refused() -> None:
    stage = Stage()
    publisher, worker = stage.raw("publisher"), stage.raw("worker")
    answers = []
    for number in range(EARLIER_FILTERS_MAX + 2):
        asked = worker.subscribe(1, f"n != {-1 - number}", durable="d")
        stage.run(0.1)
        answers.append(worker.answer(asked))
        publish(stage, publisher, 1)
    assert answers == ["done"] * (EARLIER_FILTERS_MAX + 1) + ["limit"]
    (refused,) = worker.of(Failed)
    assert f"n != {-1 - EARLIER_FILTERS_MAX}" in refused.hint, "with that filter it can read on"
    assert numbers(worker, 1) == list(range(EARLIER_FILTERS_MAX + 2))
    worker.send(Acknowledge(1, tuple(worker.positions(1))))
    asked = worker.subscribe(1, "even == true", durable="d")
    stage.run(0.1)
    assert worker.answer(asked) == "done"


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

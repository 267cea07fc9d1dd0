"""Sessions from hello to farewell: refusals, quotas, heartbeats, advertisements, repeated publishes, drain."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest

from plait_broker import BrokerSettings, Caller
from plait_broker.clients.connection import CONTROL_BYTES_MAX, Connection
from plait_core.wire import Close, Confirm, ControlFrame, Deliver, FrameDecoder, Hello, Pong, Role, Welcome
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    Done,
    Matching,
    Notice,
    Receipt,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_lab.simulation.one_broker.network import Path
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

QUICK = BrokerSettings(heartbeat_s=1.0, resume_s=2.0, confirm_timeout_s=2.0, hello_timeout_s=1.0)


def matching(client: RawClient) -> list[tuple[int, bool]]:
    return [(frame.advertisement, frame.matching) for frame in client.of(Matching)]


def hello(**changes: object) -> Hello:
    said = {"version_min": 1, "version_max": 1, "role": Role.CLIENT, "name": "c", "publisher": 7} | changes
    return Hello(**said)  # type: ignore[arg-type]


# --- hello ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (hello(version_min=200, version_max=201), "version"),
        (Pong(1), "protocol"),
        (Subscribe(1, 1, "true"), "protocol"),
        (Welcome(1, (), "b", 1, 1, 1.0), "protocol"),
    ],
)
def test_a_bad_beginning_is_refused_with_a_reason(first: ControlFrame, code: str) -> None:
    stage = Stage(QUICK)
    client = stage.raw("client", connect=False)
    client.connect(hello=False)
    stage.run(0.1)
    client.send(first)
    stage.run(0.1)
    assert (client.closed_for, client.connection, len(stage.broker.sessions)) == (code, None, 0)


def test_a_second_hello_ends_the_connection() -> None:
    stage = Stage(QUICK)
    client = stage.raw("client")
    client.send(hello())
    stage.run(0.1)
    assert client.closed_for == "protocol"


def test_one_publisher_id_is_one_client() -> None:
    stage = Stage(QUICK)
    first, second = stage.raw("first"), stage.raw("second", connect=False)
    second.publisher = first.publisher
    second.connect()
    stage.run(0.1)
    assert second.closed_for == "taken"
    first.connection.reset()
    stage.run(0.1)
    second.frames.clear()
    second.connect()
    stage.run(0.1)
    assert second.welcome is not None, "a session without a connection gives way"


def test_a_session_moves_to_the_connection_that_takes_it_up() -> None:
    stage = Stage(QUICK)
    client, publisher = stage.raw("client"), stage.raw("publisher")
    client.subscribe(1)
    stage.run(0.1)
    again = stage.raw("again", connect=False)
    again.publisher = client.publisher
    again.connect(resume=client.welcome.session)
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.1)
    assert (client.closed_for, again.sequences(1), client.sequences(1)) == ("taken", [1], [])


def test_a_session_of_another_principal_is_not_resumed() -> None:
    stage = Stage(QUICK)
    client, thief = stage.raw("client"), stage.raw("thief", connect=False)
    thief.connect(resume=client.welcome.session)
    stage.run(0.1)
    assert not thief.welcome.resumed
    assert client.closed_for is None


# --- quotas (S12) -----------------------------------------------------------------------------------------------------


def test_every_quota_is_refused_by_its_name() -> None:
    settings = BrokerSettings(
        sessions_max=2,
        session_subscriptions_max=2,
        subscriptions_max=3,
        session_advertisements_max=1,
        durables_max=1,
        unconfirmed_max=1,
    )
    stage = Stage(settings)
    one, two, three = (stage.raw(name) for name in ("one", "two", "three"))
    assert three.closed_for == "limit"
    asked = [one.subscribe(1), one.subscribe(2, durable="d"), one.subscribe(3)]
    stage.run(0.1)
    asked += [two.subscribe(1), two.subscribe(2)]
    one.send(Advertise(91, 1, "true"), Advertise(92, 2, "true"))
    stage.run(0.1)
    assert [one.answer(request) for request in asked[:3]] == ["done", "done", "limit"]
    assert [two.answer(request) for request in asked[3:]] == ["done", "limit"]
    assert (one.answer(91), one.answer(92)) == ("done", "limit")
    two.publish(Confirm.SUBSCRIBERS, n=1)
    second = two.publish(Confirm.SUBSCRIBERS, n=2)
    stage.run(0.1)
    assert two.refused() == {second: "limit"}


def test_a_filter_that_is_too_much_costs_its_sender_an_error_only() -> None:
    stage = Stage(QUICK)
    client = stage.raw("client")
    huge = client.subscribe(1, " or ".join(f"(a{n} == 1 and b{n} == 2)" for n in range(300)))
    wrong = client.subscribe(2, "price <")
    stage.run(0.1)
    assert (client.answer(huge), client.answer(wrong), client.closed_for) == ("filter", "filter", None)
    assert len(stage.broker.interest) == 0


def test_acknowledgements_that_never_come_do_not_pile_up() -> None:
    stage = Stage(QUICK)
    publisher, silent = stage.raw("publisher"), stage.raw("silent")
    silent.subscribe(1)
    stage.run(0.1)
    for number in range(50):
        publisher.publish(Confirm.SUBSCRIBERS, n=number)
    stage.run(QUICK.confirm_timeout_s + 1.0)
    assert set(publisher.refused().values()) == {"timeout"}
    (subscription,) = stage.broker.interest.subscriptions
    assert (len(subscription.awaited), len(stage.broker.confirmations)) == (0, 0)


# --- confirmation and repetition --------------------------------------------------------------------------------------


def test_subscribers_confirm_by_acknowledging() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1)
    client.subscribe(2, durable="d")
    stage.run(0.1)
    number = publisher.publish(Confirm.SUBSCRIBERS, n=1)
    stage.run(0.1)
    assert publisher.confirmed() == []
    client.send(Acknowledge(1, tuple(client.positions(1))))
    stage.run(0.1)
    assert publisher.confirmed() == []
    client.send(Acknowledge(2, tuple(client.positions(2))))
    stage.run(0.1)
    assert [(r.sequences, r.matched) for r in publisher.of(Receipt)] == [((number,), (2,))]


def test_a_repeated_publish_is_confirmed_and_delivered_to_nobody() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    for _ in range(3):
        publisher.publish_as(1, Confirm.BROKER, n=1)
    stage.run(0.1)
    assert (client.sequences(1), publisher.confirmed()) == ([1], [1, 1, 1])
    assert stage.broker.counters.dropped["duplicate"] == 2


def test_refused_events_use_little_memory() -> None:
    stage = Stage(BrokerSettings(unconfirmed_max=1))
    publisher, silent = stage.raw("publisher"), stage.raw("silent")
    silent.subscribe(1, "big")
    stage.run(0.1)
    publisher.publish(Confirm.SUBSCRIBERS, big=True)
    stage.run(0.1)
    tracemalloc.start()
    for _ in range(20):
        publisher.publish(Confirm.SUBSCRIBERS, bytes(1 << 20), big=True)
        stage.run(0.1)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(publisher.refused()) == 20
    assert kept_bytes < 4 << 20


def test_events_logged_before_a_restart_are_neither_duplicated_nor_overtaken() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, "logged", durable="d")
    stage.run(0.1)
    publisher.publish_as(1, n=1)
    publisher.publish_as(2, n=2, logged=True)
    stage.run(0.1)
    stage.node.kill()
    stage.node.start()
    publisher.connect()
    stage.run(0.1)
    publisher.publish_as(1, Confirm.BROKER, n=1)
    publisher.publish_as(2, Confirm.BROKER, n=2, logged=True)
    publisher.publish_as(2, Confirm.SUBSCRIBERS, n=2, logged=True)
    stage.run(0.1)
    assert publisher.confirmed() == [2]
    assert publisher.refused() == {1: "stale", 2: "unknown"}
    assert len(stage.disk.positions) == 1


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_the_end_of_a_subscription_overtakes_nothing_that_was_sent_to_it() -> None:
    stage = Stage(QUICK, tick_s=0.01)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.005)  # half a tick of the broker
    client.send(Unsubscribe(9, 1))
    stage.run(0.1)
    order = [type(frame) for frame in client.frames if isinstance(frame, Deliver | Done)]
    assert order == [Done, Deliver, Done]


def test_a_subscription_that_drains_cannot_be_changed() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=10))
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    client.set_reading(False)
    for number in range(5):
        publisher.publish(n=number)
        stage.run(0.01)
    client.send(Unsubscribe(90, 1, drain=True), Subscribe(91, 1, "n > 3"), Unsubscribe(92, 1))
    stage.run(0.1)
    client.set_reading(True)
    stage.run(0.1)
    assert (client.answer(90), client.answer(91), client.answer(92)) == ("done", "taken", "unknown")
    assert client.sequences(1) == [1, 2, 3, 4, 5], "what was queued still came"


def test_a_change_of_filter_leaves_no_gap() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, "n < 10")
    stage.run(0.1)
    publisher.publish(n=1)
    client.subscribe(1, "n > 0")
    publisher.publish(n=2)
    stage.run(0.1)
    publisher.publish(n=20)
    stage.run(0.1)
    assert client.sequences(1) == [1, 2, 3]


# --- advertisements ---------------------------------------------------------------------------------------------------


def test_advertisers_are_notified_when_matching_interest_changes() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    publisher.send(Advertise(1, 5, "symbol == 'IBM'"))
    stage.run(0.1)
    assert matching(publisher) == []
    client.subscribe(1, "price < 3")
    client.subscribe(2, "symbol == 'SUN'")
    stage.run(0.1)
    assert matching(publisher) == [(5, True)]
    client.send(Unsubscribe(9, 1))
    stage.run(1.0)
    assert matching(publisher) == [(5, True), (5, False)]
    publisher.send(Unadvertise(2, 5), Unadvertise(3, 5))
    stage.run(0.1)
    assert (publisher.answer(2), publisher.answer(3)) == ("done", "unknown")


def test_a_resumed_advertiser_receives_the_present_interest() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    publisher.send(Advertise(1, 5, "true"))
    stage.run(0.1)
    session = publisher.welcome.session
    publisher.connection.reset()
    stage.run(0.1)
    client.subscribe(1)
    stage.run(0.1)
    publisher.connect(resume=session)
    stage.run(0.1)
    assert matching(publisher) == [(5, True)]


# --- heartbeats and drain ---------------------------------------------------------------------------------------------


def test_a_connection_without_pongs_is_closed_after_three_heartbeats() -> None:
    stage = Stage(QUICK)
    alive, dead = stage.raw("alive"), stage.raw("dead")
    dead.answers_pings = False
    stage.run(2.9)
    assert dead.closed_for is None
    stage.run(0.6)
    assert (alive.closed_for, dead.closed_for) == (None, "timeout")


def test_a_drain_delivers_what_is_queued_and_takes_nobody_new() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=10))
    publisher, client = stage.raw("publisher", path=Path()), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    client.set_reading(False)
    for number in range(5):
        publisher.publish(n=number)
    stage.run(0.1)
    stage.broker.drain(stage.node.now)
    stage.node.wake()
    late = stage.raw("late")
    assert (late.closed_for, publisher.closed_for, client.closed_for) == ("draining", "draining", None)
    client.set_reading(True)
    stage.run(1.0)
    assert (client.sequences(1), client.closed_for) == ([1, 2, 3, 4, 5], "draining")
    assert stage.broker.drained


def test_a_drain_does_not_wait_for_the_dead() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=10))
    publisher, client = stage.raw("publisher", path=Path()), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    client.answers_pings = False
    client.set_reading(False)
    for number in range(5):
        publisher.publish(n=number)
    stage.run(0.1)
    stage.broker.drain(stage.node.now)
    stage.node.wake()
    stage.run(10.0)
    assert stage.broker.drained


def test_a_draining_broker_refuses_publishes() -> None:
    stage = Stage(QUICK, path=Path(delay_s=0.05))
    publisher = stage.raw("publisher", connect=False)
    publisher.connect()
    stage.run(1.0)
    number = publisher.publish(Confirm.BROKER, n=1)
    stage.broker.drain(stage.node.now)
    stage.run(1.0)
    assert number not in publisher.confirmed()


# --- links ------------------------------------------------------------------------------------------------------------


def frames_of(chunks: Sequence[bytes]) -> list[object]:
    decoder = FrameDecoder(version=1)
    decoder.feed(b"".join(chunks))
    return list(decoder.take())


def link() -> Connection:
    made = Connection(1, Caller(), (), {}, 0.0)
    made.handshake.receive(hello())
    made.handshake.welcome(broker_name="b", broker=1, session=1, heartbeat_s=1.0)
    return made


def test_control_goes_ahead_of_deliveries_unless_it_must_not() -> None:
    some = link()
    some.send(Done(1), behind=True)
    some.send(Done(2))
    sent = some.take(0.0)
    assert sent is not None
    assert frames_of(sent.chunks) == [Done(2), Done(1)]
    assert some.take(0.0) is None


def test_no_frame_follows_a_close() -> None:
    some = link()
    some.send(Close("bye"))
    some.closing = "bye"
    some.send(Done(1))
    sent = some.take(0.0)
    assert sent is not None
    assert frames_of(sent.chunks) == [Close("bye")]
    assert not some.takes_data


def test_a_connection_with_too_many_unread_control_bytes_is_overdue() -> None:
    some = link()
    some.set_writable(False)
    notice = Notice(1, "slow", "x" * 100)  # type: ignore[arg-type]
    for _ in range(CONTROL_BYTES_MAX // 100):
        some.send(notice)
    assert some.overdue
    some.set_writable(True)
    assert not some.overdue

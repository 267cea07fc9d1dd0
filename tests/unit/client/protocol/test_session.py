"""The client session without I/O on a manual clock, against a broker of hand-made frames."""

from __future__ import annotations

import math
import random
from typing import Any, TypeVar

import pytest

from plait.errors import (
    AuthFailed,
    BufferFull,
    Closed,
    ConnectionLost,
    DeadlineMissed,
    DurabilityFailed,
    EventInvalid,
    NotAllowed,
    Refused,
    Timeout,
)
from plait.options.addresses import Address
from plait.options.settings import NEVER, Buffer, Outbox, Reconnect, SessionSettings
from plait.protocol import hints
from plait.protocol.backoff import Backoff
from plait.protocol.broker_connection import MOVES, State
from plait.protocol.notices import Gap, Late, Rerouted, SlowConsumer
from plait.protocol.outputs import (
    AdvertisementEnded,
    Confirmed,
    Connect,
    Disconnect,
    Ended,
    Lost,
    MatchingChanged,
    NotConfirmed,
    Opened,
    PongReceived,
    PublishesLost,
    Reading,
    RequestCompleted,
    Write,
)
from plait.protocol.session import NO_HEADERS, Session
from plait.protocol.subscription_state import Phase, SubscriptionState, Terms
from plait_core import Event
from plait_core.filters import parse
from plait_core.wire import (
    Close,
    Confirm,
    Deliver,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Publish,
    Welcome,
    deliver_head,
    encode_block,
    encode_frame,
)
from plait_core.wire.frame_types.session_frames import (
    CONFIRM,
    DURABLE,
    LATE,
    REPLAYED,
    Acknowledge,
    Advertise,
    Done,
    Failed,
    HoldPublishes,
    Matching,
    Notice,
    NoticeKind,
    Receipt,
    Refusal,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

HOME = 77
A, B = Address("a"), Address("b")
F = TypeVar("F")


class Story:
    """A session, a clock, and a broker that sends the frames that the test names."""

    def __init__(self, *addresses: Address, token: str | None = None, **settings: Any) -> None:
        self.now = 1000.0
        self.session = Session(addresses or (A,), SessionSettings("ibis", **settings), random.Random(1), lambda: token)
        self.said: list[Any] = []
        self.outputs: list[Any] = []
        self.all_updates: list[Any] = []
        self.decoder = FrameDecoder()
        self.session.start(self.now)
        self.turn()

    def turn(self) -> list[Any]:
        """Carry out the session's outputs. Return the frames that it wrote."""
        written: list[Any] = []
        for output in self.session.take_output(self.now):
            self.outputs.append(output)
            if isinstance(output, Connect):
                self.decoder = FrameDecoder()
            elif isinstance(output, Write):
                self.decoder.feed(b"".join(output.chunks))
                while frames := self.decoder.take():
                    written += frames
                    if isinstance(frames[0], Hello):
                        self.decoder.establish(1)
        self.said += written
        self.all_updates += self.session.take_updates()
        return written

    def connect(self) -> Story:
        self.session.connected(self.now)
        self.turn()
        return self

    def open(
        self, *, session: int = 5, resumed: bool = False, delivered: int = 0, heartbeat_s: float = 5.0, log: int = 0,
        published: int | None = None, report_s: float = 0.0,
    ) -> Story:  # fmt: skip
        """Connect, and answer Hello with Welcome."""
        self.connect()
        welcome = Welcome(
            1, (), "hub", HOME, session, heartbeat_s, resumed, delivered, log, published=published, report_s=report_s
        )
        return self.send(welcome)

    def send(self, *frames: Any) -> Story:
        self.session.receive(b"".join(encode_frame(frame) for frame in frames), self.now)
        self.turn()
        return self

    def deliver(
        self, sequence: int, *, to: int = 1, flags: int = 0, position: int = 0, publisher: int = 9,
        path: tuple[int, ...] = (HOME,), delay_us: int = 0, payload: bytes = b"", priority: int = 0,
    ) -> Story:  # fmt: skip
        block = encode_block(Event({"n": sequence}, payload, publisher, sequence, priority=priority))
        head = deliver_head(block, delay_us, 0, path, [(to, flags, position)])
        self.session.receive(head + block, self.now)
        self.turn()
        return self

    def lose(self, reason: str = "reset") -> Story:
        self.session.disconnected(self.now, reason)
        self.turn()
        return self

    def wait(self, seconds: float) -> Story:
        """Advance the clock, processing every deadline on the way."""
        end = self.now + seconds
        while (at := self.session.next_deadline()) <= end:
            self.now = max(self.now, at)
            self.session.tick(self.now)
            self.turn()
        self.now = end
        return self

    def until_connect(self) -> Address:
        """Wait for the next attempt and return its address."""
        for _ in range(100):
            if self.session.connection.state is State.CONNECTING:
                return self.connects()[-1]
            at = self.session.next_deadline()
            assert at < math.inf, "an attempt is scheduled"
            self.now = max(self.now, at)
            self.session.tick(self.now)
            self.turn()
        raise AssertionError("no attempt came")

    def again(self, **how: Any) -> Story:
        """Break the connection and open the next one."""
        self.lose()
        self.until_connect()
        return self.open(**how)

    def publish(self, confirm: Confirm = Confirm.NONE, lifetime_s: float = 0, **attributes: Any) -> int:
        session = self.session
        if not confirm and not lifetime_s:
            return session.publish(attributes or {"x": 1}, b"", 1, 0, NO_HEADERS)
        return session.publish_retained(
            attributes or {"x": 1}, b"", 1, 0, NO_HEADERS,
            lifetime_us=round(lifetime_s * 1e6), confirm=confirm, now=self.now,
        )  # fmt: skip

    def subscribe(self, filter: str = "true", **terms: Any) -> SubscriptionState:
        """Return a subscription that the broker has installed."""
        subscription, request = self.session.desired.subscribe(Terms(parse(filter), **terms), self.now)
        self.turn()
        self.send(Done(request))
        return subscription

    def received(self, kind: type[F]) -> list[F]:
        return [frame for frame in self.said if isinstance(frame, kind)]

    def updates(self, kind: type[F]) -> list[F]:
        return [piece for piece in self.all_updates if isinstance(piece, kind)]

    def connects(self) -> list[Address]:
        return [output.address for output in self.outputs if isinstance(output, Connect)]

    def forget(self) -> Story:
        self.said, self.outputs, self.all_updates = [], [], []
        return self


def sequences(subscription: SubscriptionState) -> list[int]:
    """Take all queued events. Return their sequence numbers."""
    taken = []
    while subscription.queue:
        taken.append(subscription.take()[0].sequence)
    return taken


# --- the life of a connection -----------------------------------------------------------------------------------------


def test_hello_names_the_client_and_welcome_opens_the_session() -> None:
    story = Story(token="secret").open()
    (hello,) = story.received(Hello)
    assert (hello.name, hello.token, hello.resume) == ("ibis", "secret", None)
    assert hello.publisher == story.session.publisher != 0
    assert story.session.is_open
    assert story.updates(Opened) == [Opened(resumed=False, reconnected=False)]


def test_a_token_in_the_url_comes_before_the_other() -> None:
    story = Story(Address("a", token="mine"), token="general").connect()
    assert story.received(Hello)[0].token == "mine"


@pytest.mark.parametrize("token", ["x" * 5000, "\ud800"])
def test_a_hello_that_cannot_be_sent_is_a_failed_attempt(token: str) -> None:
    story = Story(token=token, reconnect=NEVER).connect()
    (ended,) = story.updates(Ended)
    assert "Hello" in str(ended.error)


def test_the_table_of_states_reaches_every_state_and_ends() -> None:
    reached = {State.IDLE}
    for _ in State:
        reached |= {to for state in reached for to in MOVES[state]}
    assert reached == set(State)
    assert all(State.ENDED in to for state, to in MOVES.items() if state is not State.ENDED)


def test_an_attempt_that_nobody_answers_is_given_up_after_the_timeout() -> None:
    story = Story(A, B, timeout_s=3).wait(2.9)
    assert not story.updates(Lost)
    story.wait(0.2)
    assert isinstance(story.updates(Lost)[0].error, Timeout)
    assert story.until_connect() == B


def test_a_greeting_without_a_welcome_is_given_up_too() -> None:
    story = Story(timeout_s=3).connect().wait(3.1)
    assert isinstance(story.updates(Lost)[0].error, Timeout)


@pytest.mark.parametrize(
    ("code", "kind"), [("auth", AuthFailed), ("not_allowed", NotAllowed), ("never heard of", Refused)]
)
def test_a_refusal_for_good_ends_it(code: str, kind: type[Exception]) -> None:
    story = Story().connect()
    story.session.receive(encode_frame(Close(code, "no"), 0), story.now)
    story.turn()
    (ended,) = story.updates(Ended)
    assert type(ended.error) is kind
    assert story.session.next_deadline() == math.inf


def test_a_draining_broker_sends_us_to_the_next_address() -> None:
    story = Story(A, B).open().send(Close("draining", "stopping", retryable=True))
    assert story.until_connect() == B


def test_after_a_good_connection_the_same_address_comes_first() -> None:
    story = Story(A, B).lose()
    assert story.until_connect() == B
    story.open().lose()
    assert story.until_connect() == B


def test_bytes_that_break_the_protocol_are_answered_and_the_line_comes_back() -> None:
    story = Story().open()
    story.session.receive(b"\0\0\0\0\1\x99\0\0", story.now)
    story.turn()
    assert story.received(Close)[-1].code == "protocol"
    assert not story.session.is_open
    story.until_connect()
    assert story.open().session.is_open


def test_a_frame_that_no_broker_sends_breaks_the_protocol() -> None:
    story = Story().open().send(Subscribe(1, 1, "true"))
    assert story.received(Close)[-1].code == "protocol"


def test_a_refusal_before_the_welcome_is_written_in_the_handshakes_version() -> None:
    story = Story().connect()
    story.session.receive(b"GET / HTTP/1.1\r\n\r\n", story.now)
    (write,) = [output for output in story.session.take_output(story.now) if isinstance(output, Write)]
    assert write.chunks[0][4] == 0


def test_close_sends_a_close_frame_and_ends() -> None:
    story = Story().open()
    story.session.close(story.now)
    story.turn()
    assert story.received(Close) == [Close("bye")]
    assert story.outputs[-1] == Disconnect()
    assert story.updates(Ended) == [Ended(None)]
    with pytest.raises(Closed):
        story.session.desired.subscribe(Terms(parse("true")), story.now)


def test_close_sends_what_was_published_first() -> None:
    story = Story().open()
    story.publish()
    story.session.close(story.now)
    assert [type(frame) for frame in story.turn()] == [Publish, Close]


# --- reconnecting -----------------------------------------------------------------------------------------------------


def test_waits_are_drawn_with_full_jitter_below_a_bound_that_doubles() -> None:
    drawn: list[list[float]] = [[] for _ in range(8)]
    for seed in range(2000):
        backoff = Backoff((A,), Reconnect(first_s=0.1, max_s=2.0), random.Random(seed))
        for waits in drawn:
            waits.append(backoff.wait_after_failure())
    for n, waits in enumerate(drawn):
        bound = min(2.0, 0.1 * 2**n)
        assert 0 <= min(waits) < 0.05 * bound
        assert 0.95 * bound < max(waits) <= bound
        assert abs(sum(waits) / len(waits) - bound / 2) < 0.05 * bound  # uniform: its mean is the middle


def test_the_bound_grows_once_a_round_over_all_addresses_and_never_overflows() -> None:
    backoff = Backoff((A, B), Reconnect(first_s=1, max_s=1e9), random.Random(1))
    bounds = []
    for _ in range(6):
        bounds.append(backoff.wait_max_s())
        backoff.wait_after_failure()
    assert bounds == [1, 1, 2, 2, 4, 4]
    for _ in range(10_000):
        backoff.wait_after_failure()
    assert backoff.wait_max_s() == 1e9


def test_a_session_reconnects_without_limit_by_default() -> None:
    story = Story(A, B, reconnect=Reconnect(0.1, 0.2))
    for n in range(200):
        story.lose("refused")
        assert story.until_connect() == (B, A)[n % 2]


def test_a_session_gives_up_after_its_limit() -> None:
    story = Story(reconnect=Reconnect(give_up_after_s=30)).open()
    subscription = story.subscribe()
    lost_at = story.now
    story.lose()
    while not story.updates(Ended):
        story.until_connect()
        story.lose("refused")
    assert story.now - lost_at <= 30
    assert isinstance(story.updates(Ended)[0].error, ConnectionLost)
    assert subscription.phase is Phase.ENDED
    assert isinstance(subscription.error, ConnectionLost)


def test_never_reconnecting_still_tries_every_address_once() -> None:
    story = Story(A, B, reconnect=NEVER).lose("refused")
    assert story.until_connect() == B
    story.open().lose()
    assert story.updates(Ended)


def test_a_stable_connection_resets_the_backoff() -> None:
    story = Story(reconnect=Reconnect(0.1, 100))
    for _ in range(6):
        story.lose()
        story.until_connect()
    story.open()
    for _ in range(10):
        story.wait(1.0).send(Ping(1))
    story.lose()
    assert story.updates(Lost)[-1].retry_s <= 0.1


# --- heartbeat and round trip -----------------------------------------------------------------------------------------


def test_the_brokers_pings_are_answered() -> None:
    assert Pong(42) in Story().open().send(Ping(42)).said


def test_a_ping_goes_out_every_heartbeat_the_shorter_of_the_two() -> None:
    story = Story(heartbeat_s=2).open(heartbeat_s=1).forget()
    for _ in range(5):
        story.wait(1.0).send(Pong(story.received(Ping)[-1].nonce))
    assert len(story.received(Ping)) == 5


def test_three_silent_heartbeats_end_a_connection() -> None:
    story = Story(heartbeat_s=2).open().wait(5.9)
    assert story.session.is_open
    story.wait(0.2)
    assert isinstance(story.updates(Lost)[0].error, ConnectionLost)
    assert "silent" in str(story.updates(Lost)[0].error)


def test_half_the_round_trip_adds_to_the_delay_and_slow_pongs_hardly_count() -> None:
    story = Story(heartbeat_s=2).open()
    story.now += 0.010
    story.send(Pong(story.received(Ping)[-1].nonce))
    assert story.session.connection.rtt.half_s == pytest.approx(0.005)
    story.wait(2.0)
    story.now += 0.160
    story.send(Pong(story.received(Ping)[-1].nonce))
    assert story.session.connection.rtt.half_s == pytest.approx(0.010)
    subscription = story.subscribe()
    story.deliver(1, delay_us=3000)
    assert subscription.take()[3] == pytest.approx(0.010)


def test_a_pong_that_was_never_asked_for_changes_nothing() -> None:
    assert Story().open().send(Pong(1)).session.connection.rtt.measured_s == 0


# --- publishing -------------------------------------------------------------------------------------------------------


def test_sequence_numbers_count_from_one_and_survive_errors() -> None:
    story = Story().open()
    assert [story.publish(), story.publish(Confirm.BROKER)] == [1, 2]
    with pytest.raises(Exception, match="bytes of attributes"):
        story.publish(**{f"a{n}": "x" * 16_000 for n in range(5)})
    assert story.publish() == 3
    assert [frame.sequence for frame in story.turn()] == [1, 2, 3]


def test_a_broker_can_hold_publishes_and_nothing_else() -> None:
    story = Story().open()
    story.send(HoldPublishes(True))
    story.publish(x=1)
    story.publish(x=2)
    story.turn()
    assert story.received(Publish) == []
    assert not story.session.has_output
    assert story.session.take_single() is None
    story.subscribe("y > 1")
    story.turn()
    assert story.received(Subscribe), "control frames go on"
    story.send(HoldPublishes(False))
    assert [frame.sequence for frame in story.received(Publish)] == [1, 2]


def test_another_connection_holds_nothing() -> None:
    story = Story().open()
    story.send(HoldPublishes(True))
    story.publish(x=1)
    story.turn()
    story.lose()
    story.again()
    story.turn()
    assert [frame.sequence for frame in story.received(Publish)] == [1]


def test_held_publishes_leave_with_a_close() -> None:
    story = Story().open()
    story.send(HoldPublishes(True))
    story.publish(x=1)
    story.session.close(story.now)
    story.turn()
    assert story.received(Publish)


def test_publishes_wait_for_a_connection_in_order() -> None:
    story = Story()
    for _ in range(3):
        story.publish()
    assert not story.turn()
    story.open()
    assert [frame.sequence for frame in story.received(Publish)] == [1, 2, 3]


def test_a_receipt_confirms_and_a_refusal_gives_the_reason() -> None:
    story = Story().open()
    first, second = story.publish(Confirm.BROKER), story.publish(Confirm.SUBSCRIBERS)
    story.turn()
    story.send(Receipt((first, 99), (4, 1)), Refusal(second, "durability", "disk full", True))
    assert story.updates(Confirmed) == [Confirmed(first, 4)]
    (refused,) = story.updates(NotConfirmed)
    assert refused.sequence == second
    assert isinstance(refused.error, DurabilityFailed)
    assert refused.error.retryable
    assert story.session.publishes.items == 0


def test_unconfirmed_publishes_are_retransmitted_first_in_order_with_their_numbers() -> None:
    story = Story().open()
    for confirm in (Confirm.BROKER, Confirm.NONE, Confirm.SUBSCRIBERS, Confirm.BROKER):
        story.publish(confirm)
    story.turn()
    story.send(Receipt((1,), (0,)))
    story.lose()
    story.publish()
    story.publish(Confirm.BROKER)
    story.until_connect()
    story.forget().open()
    assert [frame.sequence for frame in story.received(Publish)] == [3, 4, 5, 6]
    story.forget().again()
    assert [frame.sequence for frame in story.received(Publish)] == [3, 4, 6]
    assert story.send(Receipt((3, 4, 6), (1, 1, 1))).session.publishes.unconfirmed == 0


def test_a_draining_broker_keeps_nothing_so_the_next_one_gets_it() -> None:
    story = Story().open()
    story.publish(Confirm.BROKER)
    story.turn()
    story.send(Refusal(1, "draining", "stopping", True))
    assert not story.updates(NotConfirmed)
    story.forget().again()
    assert [frame.sequence for frame in story.received(Publish)] == [1]


def test_an_event_that_outlives_itself_in_the_outbox_is_not_sent() -> None:
    story = Story()
    story.publish(lifetime_s=1)
    story.publish(Confirm.BROKER, lifetime_s=1)
    story.publish(Confirm.BROKER, lifetime_s=60)
    story.wait(2)
    assert [n.sequence for n in story.updates(NotConfirmed)] == [2]
    assert isinstance(story.updates(NotConfirmed)[0].error, DeadlineMissed)
    story.open()
    (sent,) = story.received(Publish)
    assert sent.sequence == 3
    assert sent.lifetime_us == 58_000_000  # the remaining lifetime
    assert story.session.stats().expired == 2


def test_publishes_beyond_the_duplicate_window_are_not_retransmitted() -> None:
    story = Story(outbox=Outbox(100_000)).open()
    story.publish(Confirm.BROKER)
    for _ in range(5000):
        story.publish()
    while story.session.publishes.queue:
        story.turn()
    story.forget().again()
    assert not story.received(Publish)
    assert isinstance(story.updates(NotConfirmed)[0].error, ConnectionLost)


def test_the_outbox_is_full_at_its_mark_and_has_room_again_at_half() -> None:
    story = Story(outbox=Outbox(items=4)).open()
    for _ in range(4):
        assert not story.session.publishes.full
        story.publish(Confirm.BROKER)
    assert story.session.publishes.full
    story.turn()
    story.send(Receipt((1,), (0,)))
    assert story.session.publishes.full
    story.send(Receipt((2,), (0,)))
    assert not story.session.publishes.full


def test_the_outbox_is_bounded_in_bytes_and_in_what_awaits_confirmation() -> None:
    story = Story(outbox=Outbox(bytes=300)).open()
    story.publish(text="x" * 300)
    assert story.session.publishes.full
    story = Story(outbox=Outbox(100_000)).open()
    for _ in range(4096):
        story.publish(Confirm.BROKER)
    assert story.session.publishes.full


def test_publishes_wait_while_the_transport_takes_none_and_control_frames_do_not() -> None:
    story = Story().open()
    story.session.writable = False
    story.publish()
    story.session.desired.subscribe(Terms(parse("true")), story.now)
    assert [type(frame) for frame in story.turn()] == [Subscribe]
    story.session.writable = True
    assert [type(frame) for frame in story.turn()] == [Publish]


def test_a_barrier_overtakes_no_publish_and_survives_a_reconnect() -> None:
    story = Story().open()
    story.publish(Confirm.BROKER)
    nonce = story.session.barrier()
    assert [type(frame) for frame in story.turn()] == [Publish, Ping]
    story.forget().again()
    assert [type(frame) for frame in story.said if not isinstance(frame, Hello)][-2:] == [Publish, Ping]
    story.send(Pong(nonce))
    assert [reached.nonce for reached in story.updates(PongReceived)] == [nonce]


def test_close_fails_all_waiting_requests() -> None:
    story = Story().open()
    story.publish(Confirm.BROKER)
    _, request = story.session.desired.subscribe(Terms(parse("true")), story.now)
    story.session.close(story.now)
    story.turn()
    assert isinstance(story.updates(NotConfirmed)[0].error, Closed)
    assert isinstance(story.updates(RequestCompleted)[0].error, Closed)
    assert story.updates(RequestCompleted)[0].request == request


# --- subscriptions and advertisements ---------------------------------------------------------------------------------


def test_a_subscription_is_open_after_done() -> None:
    story = Story().open()
    subscription, request = story.session.desired.subscribe(Terms(parse("x > 1"), within_us=50_000), story.now)
    story.turn()
    assert story.received(Subscribe)[0].filter == "x > 1"
    assert subscription.phase is Phase.OPENING
    story.send(Done(request))
    assert subscription.phase is Phase.OPEN
    assert story.updates(RequestCompleted) == [RequestCompleted(request, None)]


def test_a_refused_subscription_is_forgotten() -> None:
    story = Story().open()
    subscription, request = story.session.desired.subscribe(Terms(parse("true")), story.now)
    story.turn()
    story.send(Failed(request, "limit", "too many", "close some"))
    assert subscription.phase is Phase.ENDED
    assert not story.session.desired.subscriptions
    assert story.updates(RequestCompleted)[0].error.hint == "close some"  # type: ignore[union-attr]


def test_invalid_requests_are_refused_without_a_connection_as_well() -> None:
    story = Story()
    for wrong in (Terms(parse("true"), durable="x" * 200), Terms(parse("true"), buffer=Buffer(items=2**40))):
        with pytest.raises(EventInvalid):
            story.session.desired.subscribe(wrong, story.now)
    with pytest.raises(EventInvalid):
        story.session.desired.advertise("true", float("nan"), story.now)
    story.open()
    assert not story.received(Subscribe)
    assert not story.received(Advertise)


def test_a_request_without_an_answer_times_out_and_is_taken_back() -> None:
    story = Story(timeout_s=5, heartbeat_s=100).open(heartbeat_s=100)
    story.session.desired.subscribe(Terms(parse("true")), story.now)
    story.session.desired.advertise("true", 0, story.now)
    story.turn()
    story.wait(6)
    assert [type(answer.error) for answer in story.updates(RequestCompleted)] == [Timeout, Timeout]
    assert story.received(Unsubscribe)
    assert story.received(Unadvertise)
    assert not story.session.desired.subscriptions
    assert not story.session.desired.advertisements


def test_a_new_session_subscribes_again_and_reports_the_gap() -> None:
    story = Story().open()
    subscription, durable = story.subscribe("a == 1"), story.subscribe("b == 2", durable="me")
    _, request = story.session.desired.advertise("c == 3", 7.0, story.now)
    story.turn()
    story.send(Done(request)).forget()
    story.again(session=6)
    assert [(s.subscription, s.filter) for s in story.received(Subscribe)] == [(1, "a == 1"), (2, "b == 2")]
    assert [(a.filter, a.rate) for a in story.received(Advertise)] == [("c == 3", 7.0)]
    assert not subscription.notices, "reported after the re-subscription"
    story.send(*[Done(s.request) for s in story.received(Subscribe)])
    assert list(subscription.notices) == [Gap("reconnected")]
    assert subscription.gaps == 1
    assert not durable.notices  # the log repeats the events
    assert not story.updates(RequestCompleted)  # sent by the session itself


def test_a_request_whose_answer_was_lost_is_asked_again_and_answered_once() -> None:
    story = Story(timeout_s=60).open()
    subscription, request = story.session.desired.subscribe(Terms(parse("a == 1")), story.now)
    story.turn()
    story.forget().again(session=6)
    assert [s.request for s in story.received(Subscribe)] == [request]
    story.send(Done(request))
    assert story.updates(RequestCompleted) == [RequestCompleted(request, None)]
    assert subscription.phase is Phase.OPEN
    assert not subscription.notices  # it was not open before


def test_an_open_subscription_takes_new_routing_tokens_to_a_new_session() -> None:
    story = Story(timeout_s=60).open()
    desired = story.session.desired
    opening, request = desired.subscribe(Terms(parse("a == 1"), routing=b"old"), story.now)
    desired.update_routing(opening, b"new")
    story.turn()
    story.forget().again(session=6)
    assert [(s.request, s.filter, s.routing) for s in story.received(Subscribe)] == [(request, "a == 1", b"new")]
    story.forget().again(session=6, resumed=True)
    assert [(s.request, s.routing) for s in story.received(Subscribe)] == [(request, b"new")], "as it was sent before"


def test_new_routing_tokens_may_bring_a_filter() -> None:
    """The tokens are of another realm, which the filter names."""
    story = Story(timeout_s=60).open()
    desired = story.session.desired
    subscription = story.subscribe("a == 1", routing=b"old")
    desired.update_routing(subscription, b"new", parse("a == 1 or a == 2"))
    story.turn()
    changed = story.received(Subscribe)[-1]
    assert (changed.filter, changed.routing) == ("a == 1 or a == 2", b"new")
    story.forget().again(session=6)
    assert [(s.filter, s.routing) for s in story.received(Subscribe)] == [("a == 1 or a == 2", b"new")]


def test_an_open_change_takes_new_routing_tokens_to_a_new_session() -> None:
    story = Story(timeout_s=60).open()
    desired = story.session.desired
    subscription = story.subscribe("a == 1", routing=b"old")
    request = desired.change(subscription, subscription.terms.with_filter(parse("a == 2")), story.now)
    desired.update_routing(subscription, b"new")
    story.turn()
    story.forget().again(session=6)
    subscribed, changed = story.received(Subscribe)
    assert (subscribed.filter, subscribed.routing) == ("a == 1", b"new")
    assert (changed.request, changed.filter, changed.routing) == (request, "a == 2", b"new")


def test_resuming_asks_for_nothing_again_and_counts_what_was_lost_on_the_way() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1).deliver(2)
    story.forget().again(resumed=True, delivered=5)
    assert story.received(Hello)[0].resume == 5
    assert not story.received(Subscribe)
    assert list(subscription.notices) == [Gap("connection_lost", 3)]
    assert subscription.dropped == 3
    story.deliver(6).forget().again(resumed=True, delivered=6)
    assert subscription.gaps == 1
    assert sequences(subscription) == [1, 2, 6]


def test_unconfirmed_publishes_lost_with_the_connection_are_counted_and_reported() -> None:
    story = Story().open()
    for _ in range(5):
        story.publish()
    story.turn()
    story.publish()  # not written: it waits for the next connection
    story.forget().again(resumed=True, published=2)
    assert story.updates(PublishesLost) == [PublishesLost(3)]
    assert [frame.sequence for frame in story.received(Publish)] == [6]
    assert story.session.stats().publishes_lost == 3
    story.forget().again(resumed=True, published=6)
    assert not story.updates(PublishesLost)
    story.again(resumed=True, published=2)
    assert not story.updates(PublishesLost), "each loss is reported once"


def test_retransmitted_or_reported_publishes_are_not_counted_as_lost() -> None:
    story = Story().open()
    story.publish()
    confirmed = story.publish(Confirm.BROKER)
    story.publish(lifetime_s=60)
    story.turn()
    story.lose()
    mortal = story.publish(lifetime_s=0.001)
    story.now += 0.01
    story.session.tick(story.now)
    story.publish()
    story.until_connect()
    story.open(resumed=True, published=0)
    assert story.updates(PublishesLost) == [PublishesLost(2)], "the first, and the one with a lifetime only"
    assert [frame.sequence for frame in story.received(Publish)][-2:] == [confirmed, mortal + 1]
    story.forget().again(resumed=True, published=0)
    assert story.updates(PublishesLost) == [PublishesLost(1)], "the last; the expired one is already reported"


def test_a_broker_that_knows_nothing_of_the_session_leaves_uncertain_what_its_predecessor_had_not_shown_to_have() -> (
    None
):
    story = Story().open()
    for _ in range(3):
        story.publish()
    story.turn()
    story.session.ping(story.now)
    story.turn()
    story.send(Pong(story.received(Ping)[-1].nonce))
    confirmed = story.publish(Confirm.BROKER)
    story.publish()
    story.turn()
    story.send(Receipt((confirmed,), (1,)))
    story.session.ping(story.now)
    story.publish()  # sent after a ping without an answer
    story.turn()
    story.again(session=6)
    assert story.updates(PublishesLost) == [PublishesLost(2, certain=False)], "those sent after the confirmed one"
    stats = story.session.stats()
    assert (stats.publishes_lost, stats.publishes_uncertain) == (0, 2)


def test_publishes_unknown_to_a_new_broker_are_reported_once() -> None:
    story = Story().open()
    story.publish()
    story.turn()
    story.again(session=6)
    assert story.updates(PublishesLost) == [PublishesLost(1, certain=False)]
    story.publish()
    story.turn()
    story.forget().again(session=6, resumed=True, published=0)
    assert story.updates(PublishesLost) == [PublishesLost(1)]
    story.again(session=6, resumed=True)
    assert story.session.stats().publishes_lost == 1


def test_a_resubscription_that_cannot_be_served_is_tried_again_and_a_refused_one_ends() -> None:
    story = Story(heartbeat_s=100).open(heartbeat_s=100)
    soon, never = story.subscribe("a == 1"), story.subscribe("b == 1")
    story.forget().again(session=6, heartbeat_s=100)
    first, second = story.received(Subscribe)
    story.forget().send(Failed(first.request, "taken", retryable=True), Failed(second.request, "not_allowed"))
    assert never.phase is Phase.ENDED
    assert isinstance(never.error, NotAllowed)
    story.wait(1.1)
    (retried,) = story.received(Subscribe)
    assert retried.filter == "a == 1"
    assert soon.phase is Phase.OPEN


def test_requests_of_a_new_session_are_repeated_when_it_is_resumed() -> None:
    story = Story().open()
    story.subscribe("a == 1")
    story.again(session=6)  # the request is in flight when the connection breaks again
    story.forget().again(session=6, resumed=True)
    assert [s.filter for s in story.received(Subscribe)] == ["a == 1"]


def test_changing_the_filter_is_kept_only_when_the_broker_took_it() -> None:
    story = Story().open()
    subscription = story.subscribe("a == 1")
    for answer, kept in ((Failed, "a == 1"), (Done, "a == 2")):
        request = story.session.desired.change(subscription, subscription.terms.with_filter(parse("a == 2")), story.now)
        story.turn()
        story.send(Failed(request, "limit") if answer is Failed else Done(request))
        assert subscription.terms.filter.text == kept


def test_unsubscribing_from_what_is_gone_is_done() -> None:
    story = Story().open()
    subscription = story.subscribe()
    request = story.session.desired.unsubscribe(subscription, story.now)
    story.turn()
    story.send(Failed(request, "unknown"))
    assert story.updates(RequestCompleted)[-1] == RequestCompleted(request, None)
    subscription = story.subscribe()
    request = story.session.desired.unsubscribe(subscription, story.now)
    story.turn()
    story.again(session=6)
    assert story.updates(RequestCompleted)[-1] == RequestCompleted(request, None)


def test_a_draining_subscription_gets_what_the_broker_had_queued() -> None:
    story = Story().open()
    subscription = story.subscribe()
    request = story.session.desired.unsubscribe(subscription, story.now, drain=True)
    assert story.turn() == [Unsubscribe(request, 1, drain=True)]
    story.deliver(1)
    story.send(Done(request)).deliver(2)
    assert subscription.phase is Phase.ENDED
    assert sequences(subscription) == [1]


def test_abandoning_a_subscription_takes_it_back() -> None:
    story = Story().open()
    subscription, request = story.session.desired.subscribe(Terms(parse("true")), story.now)
    story.turn()
    story.session.desired.cancel(request)
    assert story.turn() == [Unsubscribe(0, subscription.id)]
    story.send(Done(request)).deliver(1)
    assert not subscription.queue
    assert not story.updates(RequestCompleted)


def test_changes_of_matching_and_lost_advertisements_are_reported() -> None:
    story = Story().open()
    offer, request = story.session.desired.advertise("true", 0, story.now)
    story.turn()
    story.send(Done(request), Matching(1, True), Matching(1, True), Matching(1, False), Matching(9, True))
    assert [change.matching for change in story.updates(MatchingChanged)] == [True, False]
    story.forget().again(session=6)
    story.send(Failed(story.received(Advertise)[0].request, "not_allowed"))
    assert story.updates(AdvertisementEnded)[0].advertisement == offer.id


# --- deliveries -------------------------------------------------------------------------------------------------------


def test_a_duplicate_never_reaches_the_application() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1).deliver(2).deliver(2).deliver(1).deliver(1, publisher=8)
    story.again(session=6)  # another broker process, without state
    story.deliver(2).deliver(3)
    assert sequences(subscription) == [1, 2, 1, 3]
    assert subscription.duplicates == 3


def retransmitted(subscription: SubscriptionState) -> list[int]:
    """Return the sequence numbers of queued events that are marked as retransmitted by their publisher."""
    return [frame.sequence for frame, flags, *_ in subscription.queue if flags & REPLAYED]


def test_a_retransmission_after_later_events_is_flagged() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(2).deliver(3).deliver(1).deliver(4).deliver(1, publisher=8)
    assert retransmitted(subscription) == [1]
    assert sequences(subscription) == [2, 3, 1, 4, 1]


def test_an_event_overtaken_by_a_priority_is_in_order() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(4, priority=9).deliver(1).deliver(2).deliver(6, priority=9).deliver(3).deliver(7)
    assert retransmitted(subscription) == []
    story.deliver(5).deliver(8).deliver(5, priority=9, publisher=8)
    assert retransmitted(subscription) == [5], "7 is of its priority"


def test_one_frame_may_be_for_several_subscriptions() -> None:
    story = Story().open()
    one, two = story.subscribe(), story.subscribe()
    block = encode_block(Event({}, b"", 9, 1))
    deliveries = [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
    story.session.receive(deliver_head(block, 0, 0, (HOME,), deliveries) + block, story.now)
    assert sequences(one) == sequences(two) == [1]


def test_events_come_out_the_same_however_the_bytes_are_cut() -> None:
    story = Story().open()
    subscription = story.subscribe()
    data = b""
    for n in range(1, 20):
        block = encode_block(Event({"n": n}, b"x" * n, 9, n))
        data += deliver_head(block, 0, 0, (HOME,), [(1, 0, 0)]) + block
    for byte in data:
        story.session.receive(bytes([byte]), story.now)
    assert sequences(subscription) == list(range(1, 20))


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", [3, 4, 5]), ("drop_newest", [1, 2, 3])])
def test_a_full_buffer_drops_by_policy_and_reports_a_gap(policy: Any, kept: list[int]) -> None:
    story = Story().open()
    subscription = story.subscribe(buffer=Buffer(items=3, full=policy))
    for n in range(1, 6):
        story.deliver(n)
    first, last = (1, 2) if policy == "drop_oldest" else (4, 5)
    assert [n for n in subscription.notices if isinstance(n, Gap)] == [Gap("queue_full", 2, 9, first, last)]
    stats = subscription.stats()
    assert (stats.received, stats.dropped, stats.pending, stats.gaps) == (5, 2, 3, 2)
    assert sequences(subscription) == kept


def test_a_buffer_is_bounded_in_bytes_too() -> None:
    story = Story().open()
    subscription = story.subscribe(buffer=Buffer(bytes=1000))
    for n in range(1, 10):
        story.deliver(n, payload=b"x" * 300)
    assert subscription.stats().pending_bytes <= 1000
    assert sequences(subscription)[-1] == 9
    story.deliver(10, payload=b"x" * 2000)
    assert not subscription.queue


def test_close_ends_a_subscription_that_is_full() -> None:
    story = Story().open()
    subscription = story.subscribe(buffer=Buffer(items=2, full="close"))
    for n in range(1, 4):
        story.deliver(n)
    assert story.received(Unsubscribe)
    assert sequences(subscription) == [1, 2]
    assert isinstance(subscription.error, BufferFull)


def test_block_stops_reading_until_half_is_read_and_is_not_taken_for_dead() -> None:
    story = Story(heartbeat_s=1).open()
    subscription = story.subscribe(buffer=Buffer(items=4, full="block"))
    for n in range(1, 6):
        story.deliver(n)
    assert [o for o in story.outputs if isinstance(o, Reading)] == [Reading(False)]
    story.forget().wait(10)
    assert story.session.is_open
    assert len(story.received(Ping)) == 10  # the pings keep the session alive
    for _ in range(3):
        subscription.take()
    story.turn()
    assert [o for o in story.outputs if isinstance(o, Reading)] == [Reading(True)]
    story.wait(1.5)
    assert story.session.is_open
    assert sequences(subscription) == [4, 5]


def test_a_durable_subscription_blocks_rather_than_drop() -> None:
    story = Story().open()
    subscription = story.subscribe(durable="me", buffer=Buffer(items=2))
    for n in range(1, 5):
        story.deliver(n, flags=DURABLE, position=n)
    assert Reading(False) in story.outputs
    assert sequences(subscription) == [1, 2, 3, 4]


def test_late_events_are_flagged_or_counted() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1, flags=LATE).deliver(2, flags=LATE)
    story.send(Notice(1, NoticeKind.GAP, "late", 3))
    assert list(subscription.notices) == [Late(2, dropped=False), Late(3, dropped=True)]
    stats = subscription.stats()
    assert (stats.late, stats.dropped, stats.pending) == (5, 3, 2)


def test_drops_of_the_broker_are_reported() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.send(
        Notice(1, NoticeKind.SLOW, count=9),
        Notice(1, NoticeKind.GAP, "outbox_items", 2, 9, 4, 5),
        Notice(1, NoticeKind.GAP, "outbox_items", 1, 9, 7, 7),
        Notice(8, NoticeKind.GAP, "outbox_items", 2),
    )
    assert list(subscription.notices) == [SlowConsumer("broker", 9), Gap("outbox_items", 3, 9, 4, 7)]
    assert subscription.dropped == 3


@pytest.mark.parametrize(("reason", "kind"), [("outbox_bytes", BufferFull), ("revoked", Refused)])
def test_a_subscription_closed_by_the_broker_has_the_reason(reason: str, kind: type[Exception]) -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1).send(Notice(1, NoticeKind.CLOSED, reason))
    assert type(subscription.error) is kind
    assert sequences(subscription) == [1]


def test_slow_consumption_and_reroutes_are_reported() -> None:
    story = Story().open()
    subscription = story.subscribe(buffer=Buffer(items=4))
    story.deliver(1).deliver(2, path=(3, HOME)).deliver(3, path=(3, HOME))
    assert list(subscription.notices) == [Rerouted(9, (HOME,), (3, HOME)), SlowConsumer("client", 2)]


def test_notices_that_nobody_reads_are_bounded() -> None:
    story = Story().open()
    subscription = story.subscribe()
    for n in range(3000):
        story.deliver(n + 1, path=(n, HOME))
    assert len(subscription.notices) == 1024


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_acknowledgements_go_out_together_once() -> None:
    story = Story().open()
    subscription = story.subscribe(durable="me")
    for n in range(1, 4):
        story.deliver(n, flags=DURABLE, position=10 * n)
    subscription.acknowledge(10)
    subscription.acknowledge(30)
    subscription.acknowledge(10)
    assert story.turn() == [Acknowledge(1, (10, 30))]
    assert story.turn() == []
    subscription.acknowledge_up_to(30)
    assert story.turn() == [Acknowledge(1, (20,))]


def test_deliveries_without_confirm_are_not_acknowledged() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1).deliver(2, flags=CONFIRM, position=7)
    subscription.acknowledge(0)
    subscription.acknowledge(7)
    assert story.turn() == [Acknowledge(1, (7,))]


def test_a_repeated_delivery_is_acknowledged_again_if_it_was_dealt_with() -> None:
    story = Story().open()
    subscription = story.subscribe(durable="me")
    story.deliver(1, flags=DURABLE, position=1).deliver(2, flags=DURABLE, position=2)
    subscription.acknowledge(1)
    story.again(session=6)  # the ack may be lost
    story.forget().deliver(1, flags=DURABLE, position=1).deliver(2, flags=DURABLE, position=2)
    assert story.received(Acknowledge) == [Acknowledge(1, (1,))]
    assert sequences(subscription) == [1, 2]


def test_confirmations_of_a_session_that_is_no_more_are_void() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1, flags=CONFIRM, position=7)
    story.forget().again(session=6)
    subscription.acknowledge(7)
    story.turn()
    assert not story.received(Acknowledge)


def test_an_acknowledgement_may_ask_for_an_answer_over_reconnects() -> None:
    story = Story(timeout_s=60).open()
    subscription = story.subscribe(durable="me")
    story.deliver(1, flags=DURABLE, position=1)
    subscription.acknowledge(1)
    request = story.session.desired.acknowledge(subscription, story.now)
    story.turn()
    story.forget().again(session=6)
    assert Acknowledge(1, (), 0, request) in story.said
    story.send(Done(request))
    assert story.updates(RequestCompleted) == [RequestCompleted(request, None)]


def test_positions_of_another_log_are_discarded_and_the_loss_is_reported() -> None:
    story = Story().open(log=1)
    subscription = story.subscribe(durable="me")
    story.deliver(1, flags=DURABLE, position=1).deliver(2, flags=DURABLE, position=2)
    held = [subscription.take()[2], subscription.take()[2]]
    subscription.acknowledge(held[0])  # the connection breaks before the ack is sent
    story.forget().lose()
    story.until_connect()
    story.open(session=6, log=2)
    assert story.updates(Opened) == [Opened(resumed=False, reconnected=True, log_changed=True)]
    assert not subscription.notices, "it is not subscribed yet"
    story.deliver(3, flags=DURABLE, position=2)
    story.send(Done(story.received(Subscribe)[-1].request))
    assert list(subscription.notices) == [Gap("log_lost")]
    assert subscription.gaps == 1
    subscription.acknowledge(held[1])
    story.turn()
    assert not story.received(Acknowledge), "both positions are of the old log"
    subscription.acknowledge_up_to(subscription.take()[2])
    story.turn()
    assert story.received(Acknowledge) == [Acknowledge(1, (2,))]
    story.forget().deliver(3, flags=DURABLE, position=2)
    assert story.received(Acknowledge) == [Acknowledge(1, (2,))], "sent again: the first ack was lost"


@pytest.mark.parametrize(
    ("logs", "lost"),
    [((1, 1), 0), ((1, 2), 1), ((1, 2, 3), 2), ((0, 1), 0), ((1, 0), 0), ((1, 0, 1), 0), ((1, 0, 2), 1)],
)
def test_a_broker_without_a_log_takes_none_away(logs: tuple[int, ...], lost: int) -> None:
    story = Story().open(log=logs[0])
    subscription = story.subscribe(durable="me")
    for session, log in enumerate(logs[1:], 6):
        story.again(session=session, log=log)
        story.send(Done(story.received(Subscribe)[-1].request))
    assert [notice for notice in subscription.notices if notice == Gap("log_lost")] == [Gap("log_lost")] * bool(lost)
    assert subscription.gaps == lost


def test_an_acknowledgement_that_waits_fails_when_the_log_is_another_one() -> None:
    story = Story(timeout_s=60).open(log=1)
    subscription = story.subscribe(durable="me")
    story.deliver(1, flags=DURABLE, position=1)
    subscription.acknowledge(1)
    request = story.session.desired.acknowledge(subscription, story.now)
    story.forget().again(session=6, log=2)
    (answered,) = story.updates(RequestCompleted)
    assert answered.request == request
    assert isinstance(answered.error, DurabilityFailed)
    assert not story.received(Acknowledge)


def test_a_token_of_a_session_that_is_no_more_settles_none_of_the_next() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1, flags=CONFIRM, position=7)
    before = subscription.take()[2]
    story.forget().again(session=6).deliver(2, flags=CONFIRM, position=7)
    subscription.acknowledge(before)
    story.turn()
    assert not story.received(Acknowledge)
    subscription.acknowledge(subscription.take()[2])
    assert story.turn() == [Acknowledge(1, (7,))]


def test_a_refused_publish_has_a_hint() -> None:
    story = Story().open()
    sequence = story.publish(Confirm.SUBSCRIBERS)
    story.turn()
    story.send(Refusal(sequence, "timeout", "not confirmed within 30 s", hint="it is stored"))
    ((said, error),) = [(piece.sequence, piece.error) for piece in story.updates(NotConfirmed)]
    assert said == sequence
    assert (str(error), error.hint) == ("not confirmed within 30 s (it is stored)", "it is stored")


@pytest.mark.parametrize(
    ("reason", "before", "after"),
    [
        ("Connection refused", hints.NO_LISTENER, hints.BROKER_GONE),
        ("closed by the other end", hints.PERHAPS_TLS, hints.BROKER_GONE),
        ("certificate has expired", hints.OUT_OF_DATE, hints.OUT_OF_DATE),
    ],
)
def test_the_hint_of_a_lost_connection_depends_on_the_reason(reason: str, before: str, after: str) -> None:
    story = Story()
    story.connect()
    story.lose(reason)
    (failed,) = story.updates(Lost)
    assert failed.error.hint == before
    (lost,) = Story().open().lose(reason).updates(Lost)
    assert lost.error.hint == after, "TLS is not in question once a connection has worked"


def test_a_requeued_event_comes_again_after_the_others() -> None:
    story = Story().open()
    subscription = story.subscribe()
    story.deliver(1).deliver(2)
    arrival = subscription.take()
    assert isinstance(arrival[0], Deliver)
    subscription.requeue(arrival)
    assert sequences(subscription) == [2, 1]
    assert subscription.delivered == 2


def test_two_runs_with_one_seed_write_the_same_bytes() -> None:
    def run() -> list[Any]:
        story = Story(A, B).open()
        story.subscribe()
        story.publish(Confirm.BROKER)
        story.again().wait(30)
        return story.outputs

    assert run() == run()

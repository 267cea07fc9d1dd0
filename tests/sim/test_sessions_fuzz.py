"""Any message in any state, from two clients at once: the broker answers or closes, and never fails (D4, D5).

A rule-based state machine sends well-formed frames in orders that no client would use. An honest pair of clients runs
in parallel; its events must not be affected.
"""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plait_broker import BrokerSettings
from plait_core.events import Event
from plait_core.wire import Close, Confirm, ControlFrame, Deliver, Forward, Hello, Ping, Pong, Role, Welcome
from plait_core.wire.event_block import encode_block
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    ClientReport,
    Done,
    Failed,
    Full,
    Matching,
    Notice,
    NoticeKind,
    Receipt,
    Refusal,
    Start,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_lab.simulation.one_broker.invariants.bounds import check_bounds
from plait_lab.simulation.one_broker.network import Path
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

SETTINGS = BrokerSettings(
    heartbeat_s=1.0,
    resume_s=1.0,
    hello_timeout_s=1.0,
    confirm_timeout_s=1.0,
    outbox_items_max=3,
    session_outbox_bytes_max=400,
    session_subscriptions_max=4,
    session_advertisements_max=2,
    durables_max=3,
    durable_window=2,
    durable_fetch=1,
    durable_tail=2,
    unconfirmed_max=3,
)
NUMBERS = st.integers(0, 2)
FILTERS = st.sampled_from(["true", "n > 2", "n <= 2 or has(x)", "false", "n ==", "x like 'a%'"])
BLOCK = encode_block(Event({"n": 1}, publisher=1, sequence=1))
WHO = st.sampled_from([0, 1])

out_of_place = st.sampled_from(
    [
        Done(1),
        Failed(1, "limit"),
        Receipt((1,), (1,)),
        Refusal(1, "limit"),
        Notice(1, NoticeKind.GAP),
        Matching(1, True),
        Forward(1, 0, 0, (), (), BLOCK),
        Deliver(0, 0, (), ((1, 0, 0),), BLOCK),
        Welcome(1, (), "broker", 1, 1, 1.0),
        Hello(1, 1, Role.CLIENT, "again", 5),
    ]
)


class Sessions(RuleBasedStateMachine):
    """Two misbehaving clients and an honest pair."""

    @initialize(small=st.booleans())
    def begin(self, small: bool) -> None:
        self.stage = Stage(SETTINGS, path=Path(buffer_bytes=200 if small else 1 << 20))
        self.clients = [self.stage.raw(name) for name in ("one", "two")]
        self.speaker = self.stage.raw("speaker", path=Path())
        self.listener = self.stage.raw("listener", path=Path())
        self.listener.subscribe(1, "honest")
        self.stage.run(0.05)
        self.said = 0

    def client(self, who: int) -> RawClient:
        return self.clients[who]

    @rule(who=WHO, subscription=NUMBERS, filter=FILTERS, full=st.sampled_from(Full), durable=st.sampled_from(["", "d"]))
    def subscribe(self, who: int, subscription: int, filter: str, full: Full, durable: str) -> None:
        client = self.client(who)
        start = Start.ALL if durable else Start.NEW
        frame = Subscribe(client.next_request(), subscription, filter, 0, items_max=2, full=full)
        client.send(frame if not durable else Subscribe(frame.request, subscription, filter, durable="d", start=start))

    @rule(who=WHO, reported=NUMBERS, count=st.sampled_from([0, 1, 2**64 - 1]), reason=st.sampled_from(["waiting", "?"]))
    def report(self, who: int, reported: int, count: int, reason: str) -> None:
        one = (count,)
        self.client(who).send(ClientReport((reported,), one, one, (reported,), (reason,), one, one, one))

    @rule(who=WHO, subscription=NUMBERS, drain=st.booleans(), forget=st.booleans())
    def unsubscribe(self, who: int, subscription: int, drain: bool, forget: bool) -> None:
        client = self.client(who)
        client.send(Unsubscribe(client.next_request(), subscription, drain, forget))

    @rule(who=WHO, subscription=NUMBERS, drain=st.booleans(), filter=FILTERS)
    def end_and_begin_again_at_once(self, who: int, subscription: int, drain: bool, filter: str) -> None:
        self.unsubscribe(who, subscription, drain, False)
        self.subscribe(who, subscription, filter, Full.DROP_OLDEST, "")

    @rule(who=WHO, advertisement=NUMBERS, filter=FILTERS)
    def advertise(self, who: int, advertisement: int, filter: str) -> None:
        client = self.client(who)
        client.send(Advertise(client.next_request(), advertisement, filter))

    @rule(who=WHO, advertisement=NUMBERS)
    def unadvertise(self, who: int, advertisement: int) -> None:
        client = self.client(who)
        client.send(Unadvertise(client.next_request(), advertisement))

    @rule(who=WHO, n=st.integers(0, 4), confirm=st.sampled_from(Confirm), priority=st.integers(0, 2))
    def publish(self, who: int, n: int, confirm: Confirm, priority: int) -> None:
        self.client(who).publish(confirm, n=n, priority_=priority)

    @rule(who=WHO, sequence=st.integers(0, 9000), confirm=st.sampled_from(Confirm))
    def publish_out_of_turn(self, who: int, sequence: int, confirm: Confirm) -> None:
        self.client(who).publish_as(sequence, confirm, n=sequence)

    @rule(who=WHO)
    def publish_as_another(self, who: int) -> None:
        self.client(who).publisher ^= 1
        self.client(who).publish(Confirm.BROKER, n=1, honest=True)
        self.client(who).publisher ^= 1

    @rule(who=WHO, subscription=NUMBERS, positions=st.lists(st.integers(0, 30), max_size=4), up_to=st.integers(0, 30))
    def acknowledge(self, who: int, subscription: int, positions: list[int], up_to: int) -> None:
        client = self.client(who)
        request = client.next_request() if up_to % 2 else 0
        client.send(Acknowledge(subscription, tuple(positions), up_to, request))

    @rule(who=WHO, frame=st.sampled_from([Ping(7), Pong(7)]))
    def beat(self, who: int, frame: Ping | Pong) -> None:
        self.client(who).send(frame)

    @rule(who=WHO, offence=st.one_of(st.just(Close("bye")), out_of_place, st.binary(min_size=1, max_size=40)))
    def offend(self, who: int, offence: ControlFrame | bytes) -> None:
        if isinstance(offence, bytes):
            self.client(who).send_bytes(offence)
        else:
            self.client(who).send(offence)

    @rule(who=WHO, resume=st.booleans(), hello=st.booleans(), steal=st.booleans())
    def connect_again(self, who: int, resume: bool, hello: bool, steal: bool) -> None:
        client = self.client(who)
        known = self.client(1 - who if steal else who).welcome
        client.connect(hello=hello, resume=known.session if resume and known is not None else None)
        self.stage.run(0.01)

    @rule(who=WHO, on=st.booleans())
    def read_or_not(self, who: int, on: bool) -> None:
        self.client(who).set_reading(on)

    @rule(who=WHO)
    def fall_behind(self, who: int) -> None:
        self.client(who).set_reading(False)
        for n in range(6):
            self.client(1 - who).publish(n=n, x="a", payload=bytes(60))
        self.stage.run(0.01)

    @rule(who=WHO)
    def reset(self, who: int) -> None:
        connection = self.client(who).connection
        if connection is not None:
            connection.reset()

    @rule(full=st.booleans(), failing=st.sampled_from([0.0, 1.0]))
    def trouble_the_disk(self, full: bool, failing: float) -> None:
        self.stage.disk.terms.full, self.stage.disk.terms.failing = full, failing

    @rule(seconds=st.sampled_from([0.001, 0.1, 1.1, 4.0]))
    def wait(self, seconds: float) -> None:
        self.stage.run(seconds)

    @precondition(lambda self: self.said < 100)
    @rule()
    def honest_people_talk(self) -> None:
        self.said += 1
        self.speaker.publish(honest=True)
        self.stage.run(0.02)
        assert self.listener.sequences(1) == list(range(1, self.said + 1)), "honest clients are not affected"

    @invariant()
    def within_bounds(self) -> None:
        if hasattr(self, "stage"):
            self.stage.run(0.0)
            check_bounds(self.stage.broker)

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.disk.terms.full, self.stage.disk.terms.failing = False, 0.0
            self.stage.run(10.0)
            assert self.speaker.lost_count == self.listener.lost_count == 0, "honest connections stay open"


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=2_000 if os.environ.get("PLAIT_NIGHTLY") else 120, stateful_step_count=50, deadline=None
)

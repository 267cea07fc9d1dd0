"""The system stream: telemetry records as events, for subscriptions with `$` names and the permission for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from plait_broker import BrokerSettings, DropReason
from plait_broker.clients.access import ALL, NONE, Caller, OpenGate, Principal, Rules
from plait_broker.telemetry import system_events
from plait_core.filters import EVERYTHING, parse
from plait_core.native import kernel
from plait_core.space import IntRange, Schema
from plait_core.telemetry import KIND, RECORD, RecordKind, record_attributes, record_dtype
from plait_core.values import Attributes
from plait_core.wire import Confirm, Deliver, Hello
from plait_core.wire.frame_types.session_frames import Advertise, Failed, Refusal
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage
from plait_telemetry.recorder import new_recorder
from plait_telemetry.telemetry import Telemetry, TelemetrySettings


class Everyone:
    """A gate that gives every client the same principal."""

    def __init__(self, allow: Sequence[str] = ("true",), deny: Sequence[str] = ()) -> None:
        rules = Rules(tuple(map(parse, allow)), tuple(map(parse, deny)))
        self.principal = Principal("someone", ALL, *rules.split())

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        return self.principal


def delivered(client: RawClient, subscription: int = 1) -> list[Attributes]:
    """Return the events delivered to a subscription."""
    return [
        frame.attributes()
        for frame in client.of(Deliver)
        if any(number == subscription for number, _, _ in frame.deliveries)
    ]


def leave(client: RawClient) -> None:
    assert client.connection is not None
    client.connection.reset()


def now_recorded(stage: Stage) -> Telemetry | None:
    return stage.broker.telemetry


def kinds(client: RawClient, subscription: int = 1) -> list[object]:
    return [said[KIND] for said in delivered(client, subscription)]


def test_drops_are_events_for_who_asks_for_them() -> None:
    stage = Stage(BrokerSettings(name="north"))
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    publisher.publish(n=0)  # no subscription yet
    stage.run(0.2)
    watcher.subscribe(1, "$kind == 'drop' and $reason == 'late'")
    watcher.subscribe(2, "n > 0", within_us=1)
    stage.run(0.2)
    publisher.publish(n=1)
    stage.run(0.2)
    assert delivered(watcher, 2) == []
    [said] = delivered(watcher)
    assert (said[KIND], said["$broker"], said["$reason"], said["$sequence"]) == ("drop", "north", "late", 2)
    assert (said["$bound_us"], said["$to_broker"], said["$weight"]) == (1, False, 1)
    [frame] = [frame for frame in watcher.of(Deliver)]
    assert (frame.publisher, frame.sequence) == (stage.broker.id, 1)


def test_telemetry_runs_only_while_a_system_subscription_is_open() -> None:
    stage = Stage()
    watcher = stage.raw("watcher")
    assert now_recorded(stage) is None
    request = watcher.subscribe(1, "has($kind)")
    stage.run(1.5)
    assert watcher.answer(request) == "done"
    assert stage.broker.telemetry is not None
    assert kinds(watcher).count("queue") == 2, "samples come with it"
    leave(watcher)
    stage.run(120)
    assert now_recorded(stage) is None
    assert stage.broker.system.next_deadline() is None


def test_system_events_make_no_records_and_match_no_plain_filter() -> None:
    stage = Stage()
    publisher, watcher, other = stage.raw("publisher"), stage.raw("watcher"), stage.raw("other")
    watcher.subscribe(1, "has($kind)")
    watcher.subscribe(2, "$kind == 'delivery'")
    other.subscribe(1, "true")
    other.subscribe(2, "$kind is null or n > 5")
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.3)
    events = [kind for kind in kinds(watcher) if kind not in ("queue", "membership")]
    assert events == ["publish", "delivery"], "of the client's event, not of its own"
    assert kinds(watcher, 2) == ["delivery"]
    assert delivered(other) == [{"n": 1}]
    assert delivered(other, 2) == [], "a filter that names $ is about the system's events alone"
    watcher.set_reading(False)
    publisher.publish(n=2)
    stage.run(0.3)
    watcher.set_reading(True)
    stage.run(0.3)
    assert kinds(watcher, 2) == ["delivery"] * 2, "though it had waited"
    assert stage.broker.telemetry is not None
    written = stage.broker.telemetry.ring.written
    stage.run(0.5)
    assert stage.broker.telemetry.ring.written - written <= 1, "a sample of the queues, and nothing else"


def test_a_queue_that_overflows_makes_no_records_of_it_either() -> None:
    stage = Stage()
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    watcher.subscribe(1, "$kind in ['publish', 'drop']", items_max=2)
    watcher.subscribe(2, "n >= 0", items_max=10_000)
    stage.run(0.1)
    watcher.set_reading(False)
    for n in range(200):
        publisher.publish(n=n, payload=bytes(10_000))
        stage.run(0.01)
    stage.run(2)
    assert stage.broker.counters.dropped[DropReason.OUTBOX_ITEMS] > 50, "its own"
    watcher.set_reading(True)
    stage.run(1)
    assert len(delivered(watcher, 2)) == 200
    assert set(kinds(watcher)) == {"publish"}


def test_where_there_are_rules_one_has_to_allow_it() -> None:
    stage = Stage(gate=Everyone())
    watcher = stage.raw("watcher")
    request = watcher.subscribe(1, "$kind == 'drop'")
    stage.run(0.1)
    assert watcher.answer(request) == "not_allowed"
    assert "has($kind)" in watcher.of(Failed)[0].hint
    assert stage.broker.telemetry is None


def test_access_rules_select_system_events() -> None:
    stage = Stage(gate=Everyone(["true", "$kind in ['publish', 'drop']"], ["$sequence == 2"]))
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    refused, granted = watcher.subscribe(1, "$kind == 'link'"), watcher.subscribe(2, "has($kind)")
    watcher.subscribe(3, "true")
    stage.run(0.1)
    assert (watcher.answer(refused), watcher.answer(granted)) == ("not_allowed", "done")
    for n in range(3):
        publisher.publish(n=n)
    stage.run(0.2)
    assert [(said[KIND], said["$sequence"]) for said in delivered(watcher, 2)] == [("publish", 1), ("publish", 3)]
    assert len(delivered(watcher, 3)) == 3
    assert stage.broker.counters.dropped[DropReason.FORBIDDEN] > 0


def test_a_rule_for_it_allows_nothing_else() -> None:
    assert not parse("$reply == 'x' or $sealed == 'y'").system, "which clients' own sides say"
    ordinary, own = Rules((parse("$kind is null"), parse("x > 1")), (parse("secret"),)).split()
    assert (ordinary.permit({"x": 1}), ordinary.permit({"x": 2})) == (False, True)
    assert not ordinary.permit({"x": 2, "secret": True})
    assert own.allow == (parse("$kind is null"),)
    assert Rules((EVERYTHING,)).split() == (ALL, NONE)
    assert OpenGate().admit(Hello(1, 1, 0, "x", 1), Caller()) == Principal("anyone", system=ALL)  # type: ignore[arg-type]


def test_a_revoked_right_ends_system_events() -> None:
    gate = Everyone(["has($kind)"])
    stage = Stage(gate=gate)
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    gate.principal = Principal("someone", ALL, ALL, NONE)
    watcher.subscribe(1, "$kind == 'publish'")
    stage.run(0.1)
    assert watcher.welcome is not None
    watcher.connect(resume=watcher.welcome.session)
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.2)
    assert delivered(watcher) == []


def test_a_client_cannot_publish_system_attributes() -> None:
    stage = Stage()
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    watcher.subscribe(1, "$kind == 'drop'")
    watcher.subscribe(2, "true")
    stage.run(0.1)
    forged: Attributes = {"$kind": "drop"}
    sealed: Attributes = {"$sealed": "ab", "$reply": "cd"}
    publisher.publish(Confirm.BROKER, b"", **forged)
    publisher.publish(Confirm.BROKER, b"$kind", n="$5")
    publisher.publish(Confirm.BROKER, b"", **sealed)
    stage.run(0.2)
    [refusal] = publisher.of(Refusal)
    assert (refusal.sequence, refusal.code, refusal.hint) == (1, "not_allowed", "choose another name")
    assert delivered(watcher, 2) == [{"n": "$5"}, {"$sealed": "ab", "$reply": "cd"}]
    assert [(said["$sequence"], said["$reason"]) for said in delivered(watcher)] == [(1, "not_allowed")]


def test_clients_promise_nothing_in_its_name() -> None:
    stage = Stage()
    client = stage.raw("client")
    request = client.next_request()
    client.send(Advertise(request, 1, "$kind == 'drop'", 0.0))
    durable = client.subscribe(1, "$kind == 'drop'", durable="d")
    stage.run(0.1)
    assert (client.answer(request), client.answer(durable)) == ("not_allowed", "not_allowed")


def test_no_client_publishes_under_the_id_of_the_broker() -> None:
    stage = Stage()
    client = stage.raw("client", connect=False)
    client.publisher = stage.broker.id
    client.connect()
    stage.run(0.1)
    assert (client.welcome, client.closed_for) == (None, "taken")


def test_a_surplus_of_system_events_is_sampled_with_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_events, "EVENTS_MAX", 20)
    stage = Stage()
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    watcher.subscribe(1, "$kind in ['publish', 'delivery']", items_max=10_000)
    watcher.subscribe(2, "n >= 0", items_max=10_000)
    stage.run(0.2)
    for n in range(300):
        publisher.publish(n=n)
    stage.run(0.5)
    assert len(delivered(watcher, 2)) == 300
    said = delivered(watcher)
    assert 0 < len(said) < 150
    by_kind = {kind: {each["$sequence"] for each in said if each[KIND] == kind} for kind in ("publish", "delivery")}
    thinned = {each["$sequence"] for each in said if each["$weight"] != 1}
    assert thinned
    assert by_kind["publish"] & thinned == by_kind["delivery"] & thinned, "all records of an event, or none"
    stands_for = sum(int(str(each["$weight"])) for each in said)
    assert 300 < stands_for + stage.broker.system.missed < 1200


def test_kind_and_sequence_are_read_at_their_offsets() -> None:
    dtype = record_dtype()
    assert dtype.fields is not None
    assert (dtype.fields["kind"][1], dtype.fields["sequence"][1]) == (system_events._KIND_AT, 24)
    assert system_events._SEQUENCE.size == dtype.itemsize


@pytest.mark.parametrize("native", [False, True])
def test_the_ring_is_read_behind_its_writer(native: bool) -> None:
    if native and kernel is None:
        pytest.skip("there is no kernel here")
    ring = new_recorder(0, 8, native=native)
    for n in range(20):
        ring.put(n, *[0] * 9, 1, 1, 0, 0, 0)
        ring.release(1)
    assert np.frombuffer(ring.copy(12, 20), record_dtype())["ts_us"].tolist() == list(range(12, 20))
    assert np.frombuffer(ring.copy(15, 17), record_dtype())["ts_us"].tolist() == [15, 16]
    assert ring.copy(20, 20) == b""
    with pytest.raises((ValueError, AssertionError)):
        ring.copy(11, 13)
    with pytest.raises((ValueError, AssertionError)):
        ring.copy(19, 21)


def test_every_kind_of_record_becomes_attributes() -> None:
    for kind in RecordKind:
        said = record_attributes((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, kind, 0, 2, 255), "north")
        assert (said[KIND], said["$broker"], said["$delay_us"]) == (kind.name.lower(), "north", 6)
        assert all(name.startswith("$") for name in said)
    assert RECORD.size == record_dtype().itemsize


def test_the_same_seed_gives_the_same_system_events() -> None:
    def history() -> list[Attributes]:
        stage = Stage(seed=7)
        publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
        watcher.subscribe(1, "has($kind)", items_max=10_000)
        watcher.subscribe(2, "n > 10", within_us=1)
        for n in range(50):
            publisher.publish(n=n)
            stage.run(stage.rng.random() / 20)
        return delivered(watcher)

    assert history() == history() != []


def test_the_system_stream_shares_configured_telemetry() -> None:
    stage = Stage()
    telemetry = stage.broker.observe(TelemetrySettings())
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    publisher.publish(n=0)
    watcher.subscribe(1, "$kind == 'publish'")
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.1)
    assert [said["$sequence"] for said in delivered(watcher)] == [2]
    assert telemetry.ring.taken == 0, "that is for who writes it"
    leave(watcher)
    stage.run(120)
    assert stage.broker.telemetry is telemetry


@pytest.mark.parametrize("filters", [(), ("n >= 0",), ("n >= 0", "has(n)")])
def test_events_are_located_in_an_event_space_that_telemetry_is_given(filters: tuple[str, ...]) -> None:
    stage = Stage()
    space = Schema.of({"n": IntRange(0, 7), "m": IntRange(0, 2**20 - 1)})
    telemetry = stage.broker.observe(TelemetrySettings(space=space))
    publisher, watcher = stage.raw("publisher"), stage.raw("watcher")
    for number, filter in enumerate(filters):
        watcher.subscribe(1 + number, filter)
    for outside in ({"n": 8, "m": 0}, {"n": 1}, {"n": "seven", "m": 0}):
        publisher.publish(**outside)
    publisher.publish(n=7, m=0)
    publisher.publish(n=1, m=2**19)
    publisher.publish(n=2)
    stage.run(0.1)
    records = np.frombuffer(telemetry.ring.copy(0, telemetry.ring.written), record_dtype())
    published = records[records["kind"] == RecordKind.PUBLISH]
    assert published["subject"].tolist() == [0, 0, 0, 0b1_101010000000, 0b1_010010000000, 0]

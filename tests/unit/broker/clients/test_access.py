"""Access control: connecting, publishing and subscribing. Deny wins, and a broker without configuration refuses."""

from __future__ import annotations

import pytest

from plait_broker.clients.access import ALL, NONE, Caller, Gate, Keyring, OpenGate, Principal, Rules
from plait_core.filters import EVERYTHING, parse
from plait_core.wire import Confirm, Hello, Role
from plait_core.wire.frame_types.session_frames import Advertise, Code, Failed, Refusal
from plait_lab.simulation.one_broker.stage import Stage


def hello(token: str | None = None) -> Hello:
    return Hello(1, 1, Role.CLIENT, "c", 1, (), token)


def rules(allow: list[str], deny: list[str]) -> Rules:
    return Rules(tuple(map(parse, allow)), tuple(map(parse, deny)))


def test_nothing_configured_refuses() -> None:
    assert not NONE.permit({"a": 1})
    assert not NONE.may_permit(EVERYTHING)
    assert not NONE.open
    assert Keyring().admit(hello(), Caller()) is None
    assert Keyring().admit(hello("guess"), Caller(certificate="me")) is None


def test_deny_wins() -> None:
    some = rules(["price < 100", "symbol == 'IBM'"], ["symbol == 'IBM' and secret"])
    assert some.permit({"symbol": "IBM"})
    assert not some.permit({"symbol": "IBM", "price": 5, "secret": True})
    assert not some.permit({"symbol": "SUN", "price": 100})


def test_a_rule_that_cannot_be_decided_does_not_allow() -> None:
    assert not rules(["price < 100"], []).permit({"price": "cheap"})
    assert not rules(["price != 100"], []).permit({})


@pytest.mark.parametrize(
    ("filter", "may"),
    [("price < 5", True), ("price > 200", False), ("secret", False), ("true", True), ("secret or price < 1", True)],
)
def test_rules_tell_whether_they_permit_any_event_of_a_filter(filter: str, may: bool) -> None:
    assert rules(["price < 100"], ["secret"]).may_permit(parse(filter)) is may


def test_only_everything_without_a_but_is_open() -> None:
    assert ALL.open
    assert not Rules((EVERYTHING,), (parse("secret"),)).open
    assert not rules(["price < 100"], []).open


def test_tokens_and_certificates_name_principals() -> None:
    alice, bob = Principal("alice"), Principal("bob")
    keyring = Keyring.of_tokens([("t0ken", alice), ("", bob)], [bob])
    assert keyring.admit(hello("t0ken"), Caller()) is alice
    assert keyring.admit(hello("T0ken"), Caller()) is None
    assert keyring.admit(hello(""), Caller()) is None
    assert keyring.admit(hello(), Caller(certificate="bob")) is bob
    assert keyring.admit(hello("wrong"), Caller(certificate="bob")) is None
    assert b"t0ken" not in repr(keyring).encode()


class BrokenGate:
    """A gate whose authentication backend is down."""

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        raise ConnectionRefusedError("backend")


def test_a_gate_that_fails_lets_nobody_in() -> None:
    stage = Stage(gate=BrokenGate())
    client = stage.raw("client")
    assert (client.welcome, client.closed_for) == (None, "auth")
    assert stage.broker.counters.rejected == {"gate": 1, "auth": 1}


class OneRule:
    """A gate that maps every client to one principal, whose rules a test may change."""

    def __init__(self, publish: Rules = ALL, subscribe: Rules = ALL) -> None:
        self.principal = Principal("someone", publish, subscribe)

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        return self.principal


def test_every_forbidden_publish_is_refused() -> None:
    stage = Stage(gate=OneRule(publish=rules(["price < 100"], [])))
    publisher, listener = stage.raw("publisher"), stage.raw("listener")
    listener.subscribe(1)
    stage.run(0.1)
    publisher.publish(Confirm.BROKER, price=5)
    publisher.publish(Confirm.BROKER, price=500)
    publisher.publish_as(2, Confirm.BROKER, price=500)
    stage.run(0.1)
    assert (listener.sequences(1), publisher.confirmed()) == ([1], [1])
    assert [refusal.code for refusal in publisher.of(Refusal)] == ["not_allowed"] * 2


def test_forbidden_events_are_withheld_on_every_delivery_path() -> None:
    stage = Stage(gate=OneRule(subscribe=rules(["true"], ["secret"])))
    publisher, listener = stage.raw("publisher"), stage.raw("listener")
    listener.subscribe(1)
    listener.subscribe(2, durable="d")
    stage.run(0.1)
    listener.set_reading(False)
    publisher.publish(n=1, secret=True)
    publisher.publish(n=2)
    stage.run(0.1)
    listener.set_reading(True)
    stage.run(0.1)
    assert (listener.sequences(1), listener.sequences(2)) == ([2], [2])
    listener.connect()
    stage.run(0.1)
    listener.frames.clear()
    listener.subscribe(3, durable="d")  # replayed from the log
    stage.run(0.1)
    assert listener.sequences(3) == [2]


@pytest.mark.parametrize("gate", [OpenGate(), OneRule(rules(["price < 100"], []), rules(["price < 100"], []))])
@pytest.mark.parametrize("filter", ["price < 3 and price > 5", "false"])
def test_a_filter_that_no_event_can_match_is_refused_for_that_reason(gate: Gate, filter: str) -> None:
    stage = Stage(gate=gate)
    client = stage.raw("client")
    stage.run(0.1)
    client.subscribe(1, filter)
    client.send(Advertise(client.next_request(), 1, filter))
    stage.run(0.1)
    subscribed, advertised = client.of(Failed)
    assert subscribed.code == advertised.code == Code.FILTER
    assert "no event can match" in subscribed.message
    if "and" in filter:
        assert "`price < 3` and `price > 5` exclude each other" in advertised.message


def test_a_filter_beyond_the_rules_is_refused_for_lack_of_rights() -> None:
    stage = Stage(gate=OneRule(subscribe=rules(["price < 100"], [])))
    client = stage.raw("client")
    stage.run(0.1)
    client.subscribe(1, "price > 200")
    stage.run(0.1)
    (failed,) = client.of(Failed)
    assert (failed.code, failed.message) == (Code.NOT_ALLOWED, "no rule permits this client any event of that filter")


def test_a_session_that_is_taken_up_again_has_the_permissions_of_now() -> None:
    gate = OneRule()
    stage = Stage(gate=gate)
    publisher, listener = stage.raw("publisher"), stage.raw("listener")
    listener.subscribe(1)
    stage.run(0.1)
    assert listener.welcome is not None
    session = listener.welcome.session
    listener.connection.reset()
    stage.run(0.1)
    publisher.publish(secret=True)
    publisher.publish(secret=False)
    stage.run(0.1)
    gate.principal = Principal("someone", ALL, rules(["true"], ["secret"]))
    listener.connect(resume=session)
    publisher.publish(secret=True)
    stage.run(0.2)
    assert listener.welcome.resumed
    assert listener.sequences(1) == [2]
    assert listener.notices() == [], "a notice about forbidden events would reveal them"
    assert stage.broker.counters.dropped["forbidden"] == 2


def test_open_gate_is_one_shared_principal() -> None:
    assert OpenGate().admit(hello(), Caller()) == Principal("anyone", system=ALL)

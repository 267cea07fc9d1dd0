"""The join gate: clients of a starting broker wait for its neighbours and their interest, and not for ever."""

from __future__ import annotations

import pytest
from two_brokers import Wire, broker, frames

from plait_broker import Broker, BrokerSettings, Caller
from plait_broker.adapter.join_gate import CALM_S
from plait_broker.outputs import Send
from plait_broker.settings import LinkSettings
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    VERSION_MIN,
    Frame,
    Handshake,
    Hello,
    Role,
    Welcome,
    encode_frame,
)

ONE, TWO = ("10.0.0.2:4680",), ("10.0.0.2:4680", "10.0.0.3:4680")
JOIN_S = 2 * BrokerSettings().hello_timeout_s
"""The gate may be closed for longer than a client has for its hello."""


def starting(links: tuple[str, ...]) -> Broker:
    """Return a broker that has just started and is configured to have these links."""
    return broker("near", 1, LinkSettings(links=links, join_s=JOIN_S))


def hello(to: Broker, number: int, now: float = 0.0) -> list[Frame]:
    """Connect a client, send its Hello and return the answer."""
    to.connected(number, Caller("127.0.0.1:9"), now)
    handshake = Handshake.initiator(Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "early", number, (), None, None))
    to.receive(number, encode_frame(handshake.start(), HANDSHAKE_VERSION), now)
    return answers(to, number)


def answers(of: Broker, number: int) -> list[Frame]:
    """Return the frames that a broker has sent to a client."""
    chunks = [output.chunks for output in of.take_output() if isinstance(output, Send) and output.connection == number]
    return frames([chunk for each in chunks for chunk in each])


def test_a_broker_that_expects_no_neighbours_admits_clients_at_once() -> None:
    (welcome,) = hello(broker("alone", 1), 77)
    assert isinstance(welcome, Welcome)


@pytest.mark.parametrize(("links", "opens"), [(ONE, True), (TWO, False)])
def test_a_starting_broker_waits_for_all_its_neighbours(links: tuple[str, ...], opens: bool) -> None:
    near, far = starting(links), broker("far", 2)
    wire = Wire(near, far).settle()
    gate = near._join_gate
    assert not gate.is_open(0.0)
    for tenth in range(1, 20):
        wire.tick(tenth / 10)
        wire.settle()
        gate.is_open(tenth / 10)
    assert wire.up
    assert gate.is_open(2.0) is opens, "one neighbour is up, and has sent its interest"
    assert gate.is_open(JOIN_S), "the time is over"


def test_an_early_client_is_admitted_when_the_time_is_over() -> None:
    near = starting(ONE)
    assert hello(near, 77) == []
    assert near.next_deadline() <= CALM_S / 2, "the gate is asked again soon"
    near.tick(JOIN_S - CALM_S)
    assert answers(near, 77) == []
    near.tick(JOIN_S)
    (welcome,) = answers(near, 77)
    assert isinstance(welcome, Welcome)
    assert not near._join_gate.waiting


def test_an_early_client_that_has_gone_is_forgotten() -> None:
    near = starting(ONE)
    hello(near, 77)
    near.disconnected(77, 1.0)
    assert not near._join_gate.waiting
    near.tick(JOIN_S)
    assert answers(near, 77) == []
    assert len(near.sessions) == 0


def test_the_gate_opens_after_a_calm_time() -> None:
    near, far = starting(ONE), broker("far", 2)
    gate = near._join_gate
    wire = Wire(near, far).settle()
    for tenth in range(1, 20):
        wire.tick(tenth / 10)
        wire.settle()
    assert near.overlay.informed
    assert not gate.is_open(2.0), "link states of further brokers may follow"
    assert not gate.is_open(2.0 + CALM_S / 2)
    assert gate.is_open(2.0 + 1.5 * CALM_S)


def test_a_neighbour_that_goes_meanwhile_restarts_the_calm_time() -> None:
    near, far = starting(ONE), broker("far", 2)
    gate = near._join_gate
    wire = Wire(near, far).settle()
    for tenth in range(1, 20):
        wire.tick(tenth / 10)
        wire.settle()
    assert not gate.is_open(2.0)
    wire.gone()
    assert not gate.is_open(2.0 + 1.5 * CALM_S)
    assert gate.is_open(JOIN_S)

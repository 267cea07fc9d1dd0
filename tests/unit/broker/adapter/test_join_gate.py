"""The join gate: clients of a starting broker wait for its neighbours and their interest, and not for ever."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_broker.adapter.join_gate import CALM_S
from plait_broker.settings import LinkSettings
from plait_lab.simulation.overlay.held_connection import HELD, HeldConnection, running_broker
from plait_lab.simulation.overlay.world import World

ONE, TWO = ("10.0.0.2:4680",), ("10.0.0.2:4680", "10.0.0.3:4680")
JOIN_S = 2 * BrokerSettings().hello_timeout_s
"""The gate may be closed for longer than a client has for its hello."""


def starting(links: tuple[str, ...]) -> World:
    """Return a world where a broker has just started that is configured to have these links."""
    world = World("join gate", brokers=0, terms=HELD)
    running_broker(world, "near", LinkSettings(links=links, join_s=JOIN_S))
    return world


def linked(links: tuple[str, ...]) -> HeldConnection:
    """Return the connection of such a broker to a neighbour."""
    world = starting(links)
    return HeldConnection(world, world.nodes[0], running_broker(world, "far")).open()


def test_a_broker_that_expects_no_neighbours_admits_clients_at_once() -> None:
    client = starting(()).connected_client(0)
    assert client.node.broker is not None
    assert len(client.node.broker.sessions) == 1


@pytest.mark.parametrize(("links", "opens"), [(ONE, True), (TWO, False)])
def test_a_starting_broker_waits_for_all_its_neighbours(links: tuple[str, ...], opens: bool) -> None:
    wire = linked(links)
    world, gate = wire.world, wire.brokers[0]._join_gate
    assert not gate.is_open(world.now)
    client = world.client(0)
    world.run(2.0)
    assert wire.up
    assert (client.welcome is not None) is opens, "one neighbour is up, and has sent its interest"
    assert gate.is_open(world.now) is opens
    world.run(JOIN_S - 2.0 + CALM_S)
    assert client.welcome is not None, "the time is over"


def test_an_early_client_is_admitted_when_the_time_is_over() -> None:
    world = starting(ONE)
    client, near = world.client(0), world.broker(0)
    world.run(0.01)
    assert client.connection is not None
    assert near._join_gate.waiting
    assert near.next_deadline() <= world.now + CALM_S / 2, "the gate is asked again soon"
    world.run(JOIN_S - CALM_S)
    assert client.welcome is None
    world.run(CALM_S)
    assert client.welcome is not None
    assert not near._join_gate.waiting
    assert not world.complaints


def test_an_early_client_that_has_gone_is_forgotten() -> None:
    world = starting(ONE)
    client, near = world.client(0), world.broker(0)
    world.run(1.0)
    assert near._join_gate.waiting
    client.leave()
    world.run(0.01)
    assert not near._join_gate.waiting
    world.run(JOIN_S)
    assert client.welcome is None
    assert len(near.sessions) == 0


def test_the_gate_opens_after_a_calm_time() -> None:
    wire = linked(ONE)
    world, near = wire.world, wire.brokers[0]
    assert world.run_until(lambda: near.overlay.informed, 2.0)
    at = world.now
    assert not near._join_gate.is_open(at), "link states of further brokers may follow"
    assert not near._join_gate.is_open(at + CALM_S / 2)
    assert near._join_gate.is_open(at + 1.5 * CALM_S)


def test_a_neighbour_that_goes_meanwhile_restarts_the_calm_time() -> None:
    wire = linked(ONE)
    world, near = wire.world, wire.brokers[0]
    assert world.run_until(lambda: near.overlay.informed, 2.0)
    assert not near._join_gate.is_open(world.now)
    wire.reset()
    assert not near._join_gate.is_open(world.now + 1.5 * CALM_S)
    assert near._join_gate.is_open(JOIN_S)

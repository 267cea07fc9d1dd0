"""Joining an overlay: acks awaited by no publisher are dropped, and a starting broker waits for its links."""

from __future__ import annotations

from random import Random

import pytest
from two_brokers import Wire, broker

from plait_broker import Broker, BrokerSettings
from plait_broker.clients.access import OpenGate
from plait_broker.settings import LinkSettings


def test_an_answer_that_never_comes_is_not_waited_for_for_ever() -> None:
    broker = Broker(BrokerSettings(confirm_timeout_s=5.0), Random(1), OpenGate(), now=0.0, wall_us=0)
    party = (-77, 9)
    broker.joining._awaited[party] = None
    broker.confirmations.begin(3, 1, 0, {party}, 0.0)
    broker.tick(4.9)
    assert party in broker.joining._awaited
    broker.tick(5.1)
    assert not broker.joining._awaited


@pytest.mark.parametrize(
    ("links", "at_once"), [(("10.0.0.2:4680",), True), (("10.0.0.2:4680", "10.0.0.3:4680"), False)]
)
def test_a_broker_that_starts_waits_for_all_it_is_to_be_linked_to(links: tuple[str, ...], at_once: bool) -> None:
    near, far = broker("near", 1, LinkSettings(links=links, join_s=5.0)), broker("far", 2)
    wire = Wire(near, far).settle()
    for tenth in range(1, 20):
        wire.tick(tenth / 10)
        wire.settle()
        near.joining.look_joined(tenth / 10)
    assert wire.up
    assert near.joining.joined is at_once, "one neighbour is there and has told what it wants"
    assert near.joining.look_joined(5.0), "and it does not wait for ever"

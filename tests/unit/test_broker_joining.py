"""What joins a broker to the overlay: it holds nothing for what nobody waits for."""

from __future__ import annotations

from random import Random

from plait_broker import Broker, BrokerSettings
from plait_broker.access import OpenGate


def test_an_answer_that_never_comes_is_not_waited_for_for_ever() -> None:
    broker = Broker(BrokerSettings(confirm_timeout_s=5.0), Random(1), OpenGate(), now=0.0, wall_us=0)
    party = (-77, 9)
    broker.joining._awaited[party] = None
    broker.confirmations.begin(3, 1, 0, {party}, 0.0)
    broker.tick(4.9)
    assert party in broker.joining._awaited
    broker.tick(5.1)
    assert not broker.joining._awaited

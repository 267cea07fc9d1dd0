"""Two brokers with one link between them, in memory: all bytes arrive at once, and stores succeed at once."""

from __future__ import annotations

from random import Random
from typing import Final

from plait_broker.broker import Broker
from plait_broker.clients.access import Caller, OpenGate
from plait_broker.outputs import Output, Persist, Send
from plait_broker.settings import BrokerSettings

LINK: Final = 1
"""The id of the link's connection at both brokers."""

TURN_S: Final = 0.05
TURNS_MAX: Final = 200


class TwoBrokers:
    """Two brokers that are linked and know each other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.brokers = [
            Broker(BrokerSettings(name=name), Random(seed), OpenGate(), now=0.0, wall_us=10**15)
            for seed, name in enumerate(("here", "there"))
        ]
        self.here, self.there = self.brokers
        self.here.connected(LINK, Caller("127.0.0.1:1", dialled="127.0.0.1:2"), 0.0)
        self.there.connected(LINK, Caller("127.0.0.1:3"), 0.0)
        self.run(2.0)
        assert all(len(broker.overlay.neighbours) == 1 for broker in self.brokers), "they are linked"

    def run(self, for_s: float) -> None:
        """Let time pass, with all that happens in it."""
        until = self.now + for_s
        self.settle()
        while self.now < until:
            self.now += TURN_S
            for broker in self.brokers:
                if broker.next_deadline() <= self.now:
                    broker.tick(self.now)
            self.settle()

    def settle(self) -> None:
        """Exchange what the brokers send, until both are quiet."""
        for _ in range(TURNS_MAX):
            if not any([self._carry_out(broker, broker.take_output()) for broker in self.brokers]):
                return
        raise AssertionError("they do not become quiet")

    def _carry_out(self, broker: Broker, outputs: list[Output]) -> bool:
        """Carry out outputs. Return whether there is input because of them."""
        other = self.there if broker is self.here else self.here
        moved = False
        for output in outputs:
            if isinstance(output, Send) and output.connection == LINK:
                other.receive(LINK, b"".join(output.chunks), self.now)
                moved = True
            elif isinstance(output, Persist):
                broker.persisted(output.ticket, None, self.now)
                moved = True
        return moved

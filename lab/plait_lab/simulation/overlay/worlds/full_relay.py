"""A relay that has no room for the messages of others, while clients subscribe behind it.

Interest updates are lost, and their retransmission timeout doubles. Once there is room again and a link elsewhere
changes, they must get through promptly: `InterestSync.retransmit_soon` shortens the timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from plait_broker.overlay.interest.peer_interest import AGAIN_S
from plait_core.wire import Frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, SourceRouted

from ..broker_node import OverlayNode
from ..network import LinkConnection
from ..world import World

SUBSCRIPTIONS: Final = 3
"""Requests in one history, each while the relay is full anew."""

FULL_S: Final = (1.0, 9.0)
"""Shortest and longest time for which the relay is full."""

TRIPS: Final = 4
"""Transits of the chain until an update that gets through is installed: link state, update, ack, and one in reserve."""

MARGIN_S: Final = 0.05
"""Rounding of timers, and the client's own link."""


class FullRelay:
    """A chain 0 - 1 - 2, and 3 linked to 1. Broker 1 is full; clients of 0 subscribe to what is published at 2. Then
    broker 3 is killed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"full-relay/{seed}")
        self._full = False
        self._dropped = 0
        self.world = World(f"full-relay/{seed}", brokers=4)
        for near, far in ((0, 1), (1, 2), (1, 3)):
            self.world.link(near, far, self._rng.uniform(0.001, 0.05))
        self._transit_s = sum(link.delay_s for link in self.world.network.links)

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        world = self.world
        world.start()
        publisher, subscriber = world.client(2), world.client(0)
        publisher.advertise("x >= 0")
        world.wire.intercept(world.nodes[1], self._relay)
        world.run(10.0)
        for number in range(SUBSCRIPTIONS):
            self._full, self._dropped = True, 0
            subscription = subscriber.subscribe(f"x == {number}")  # no earlier one covers it
            world.run(self._rng.uniform(*FULL_S))
            if subscription.installed or not self._dropped:
                world.complain("the relay was not full")
            self._full = False
            self._change_link(world.nodes[3])
            world.run(AGAIN_S + TRIPS * self._transit_s + MARGIN_S)
            if not subscription.installed:
                world.complain(f"prompt: {subscription.filter.text} is not installed")
            world.run(10.0)
        return world.complaints

    def _change_link(self, node: OverlayNode) -> None:
        """Kill a broker, or start it again and wait until it is linked: either way its neighbour's links change."""
        if node.broker is not None:
            node.kill()
            return
        node.start()
        self.world.run_until(lambda: node.links == 1, 5.0, step_s=0.01)

    def _relay(self, connection: LinkConnection, frame: Frame) -> Sequence[Frame]:
        me = self.world.nodes[1].overlay.me
        relayed = frame.source != me if isinstance(frame, EndToEnd) else isinstance(frame, SourceRouted)
        if self._full and relayed:
            self._dropped += 1
            return ()
        return (frame,)

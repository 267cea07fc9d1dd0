"""Two paths between two brokers. The better one is cut at times, far from the publisher.

Events on it are lost, later ones arrive by the other path, and the gap must be closed promptly. The same holds for
gaps made by relays, which sometimes have no room for a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from plait_core.wire import Deliver, Delivery, Forward, Frame

from ..faults import Faults
from ..frame_client import FrameSubscription
from ..network import LinkConnection
from ..world import World

PROMPT_S: Final = 0.5
"""The greatest delay of an event: missing events are requested after a tenth of a second, and a cut may take the first
request with it. The publisher's broker would retransmit by itself after 0.6 s and two round trips."""

FULL: Final = 0.01
"""Probability that a relay has no room for a copy that it has not relayed before."""

DELAYS_S: Final = {(0, 1): 0.01, (1, 3): 0.02, (0, 2): 0.02, (2, 3): 0.03}
EVENTS: Final = 1_500
EVERY_S: Final = 0.01

FULL_EVENTS: Final = 1_400
"""Events in which relays may be full: later gaps might have no event behind them, and would show by silence alone."""

CUT_S: Final = 0.5
CUTS_FROM_S: Final = 1.0
CUTS_UNTIL_S: Final = 12.0


class Ring:
    """Paths from 0 by 1 or 2 to 3. The link from 1 to 3, on the better path, is cut and restored."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self._rng = Random(f"ring/{seed}/{faults}")
        self._faults = faults
        self.world = World(f"ring/{seed}", brokers=4)
        self._links = [
            self.world.link(near, far, delay_s * self._rng.uniform(0.8, 1.2))
            for (near, far), delay_s in DELAYS_S.items()
        ]
        self._relayed: set[tuple[int, int]] = set()
        """Relays, with the numbers of events that they have relayed or had no room for."""
        self._published: list[float] = []
        self.world.on_delivered.append(self._delivered)

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        world, rng = self.world, self._rng
        world.start()
        publisher, subscriber = world.client(0), world.client(3)
        publisher.advertise("x >= 0")
        subscriber.subscribe("x >= 0")
        world.run(10.0)
        for node in world.nodes[1:3] if self._faults else ():
            world.wire.intercept(node, partial(self._relay, node.number))

        def publish() -> None:
            self._published.append(world.now)
            publisher.publish({"x": 1})

        for event in range(EVENTS):
            world.timeline.after(event * EVERY_S, publish)
        at_s = CUTS_FROM_S
        faults = Faults(world, rng)
        while at_s < CUTS_UNTIL_S and self._faults:
            world.timeline.after(at_s, partial(faults.cut, self._links[1], CUT_S))
            at_s += rng.uniform(2.0, 4.0)
        world.run(EVENTS * EVERY_S + 10.0)
        if len(world.events) < EVENTS:
            world.complain("the publisher did not publish")
        world.oracle.judge()
        return world.complaints

    def _relay(self, relay: int, connection: LinkConnection, frame: Frame) -> Sequence[Frame]:
        """Have no room for a copy now and then, when it is relayed for the first time."""
        if not isinstance(frame, Forward) or (relay, frame.sequence) in self._relayed:
            return (frame,)
        self._relayed.add((relay, frame.sequence))
        full = frame.sequence <= FULL_EVENTS and self._rng.random() < FULL
        return () if full else (frame,)

    def _delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        late_s = self.world.now - self._published[frame.sequence - 1]
        if late_s > PROMPT_S:
            self.world.complain(f"prompt: event {frame.sequence} came after {late_s:.3f} s")

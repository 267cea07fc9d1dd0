"""Random histories of whole brokers with clients: links break and recover, delays change, clients subscribe and
publish.

`overlays.py` plays the overlay alone. Here brokers take part as in production: handshakes, sessions, advertisements,
confirmations and deliveries. No oracle checks these histories; their hashes are compared.
"""

from __future__ import annotations

from random import Random
from typing import Final

from plait_core.events import Event
from plait_core.wire import Confirm, encode_block
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, StreamSkip

from ..sorted_index import SortedIndex
from .insider import Insider
from .linked_brokers import FrameClient, LinkedBrokers, LinkWire
from .overlays import draw_edges, draw_event, draw_filter

LIFE_S: Final = 10.0
"""Seconds in which things happen."""

CALM_S: Final = 10.0
"""Seconds after that in which links are up and waiting events are delivered or given up."""

DELAYS_S: Final = (0.001, 0.005, 0.02)
AWAY_S: Final = (0.2, 1.0, 4.0)
"""Durations of a broken link."""

INSIDER_SHARE: Final = 0.7
"""Share of the disturbances that the insider causes, in a history with one."""


class LinkedHistory:
    """One history."""

    def __init__(self, seed: int, *, insider: bool = False) -> None:
        """`insider`: a hostile broker beside the first one sends frames that an honest one would not."""
        self.rng = Random(f"joined history/{seed}")
        self.ends = draw_edges(self.rng.randint(2, 5), self.rng)
        self.world = LinkedBrokers(
            {ends: self.rng.choice(DELAYS_S) for ends in self.ends}, seed=seed, index=SortedIndex
        )
        self.links: list[LinkWire] = [self.world.wire(*ends) for ends in self.ends]
        self.clients: list[FrameClient] = []
        self.insider: Insider | None = None
        self._with_insider = insider
        self._requests = 0
        self._positions = 0

    def play(self) -> LinkedBrokers:
        """Play it and return the world."""
        world, rng = self.world, self.rng
        world.run()
        for broker in range(len(world.brokers)):
            self.clients += [world.client(broker, f"client{broker}{letter}") for letter in "ab"]
        if self._with_insider:
            self.insider = Insider(world, world.brokers[0])
        for client in self.clients:
            self._subscribe(client)
        steps = (self._subscribe, self._advertise, *[self._publish] * 6, self._disturb)
        for _ in range(rng.randint(100, 200)):
            step, client = rng.choice(steps), rng.choice(self.clients)
            at = world.now + rng.uniform(0, LIFE_S)
            world.timeline.at(at, lambda step=step, client=client: step(client))  # type: ignore[misc]
        world.run(LIFE_S + CALM_S)
        return world

    def _subscribe(self, client: FrameClient) -> None:
        self._requests += 1
        client.subscribe(draw_filter(self.rng).text, self._requests)

    def _advertise(self, client: FrameClient) -> None:
        self._requests += 1
        client.advertise(draw_filter(self.rng, wide=True).text, self._requests)

    def _publish(self, client: FrameClient) -> None:
        client.publish(draw_event(self.rng), self.rng.choice(list(Confirm)))

    def _disturb(self, _: FrameClient) -> None:
        """Break a link for a while, change its delay, or let the insider send something."""
        place = self.rng.randrange(len(self.links))
        link = self.links[place]
        if self.insider is not None and self.rng.random() < INSIDER_SHARE:
            self._harm(self.insider)
        elif self.rng.random() < 0.5:
            link.delay_s = self.rng.choice(DELAYS_S)
        elif link.open:
            self.world.hang_up(link)
            self.world.timeline.after(self.rng.choice(AWAY_S), lambda: self._restore(place))

    def _restore(self, place: int) -> None:
        near, far = (self.world.brokers[broker] for broker in self.ends[place])
        self.links[place] = self.world.link(near, far, self.links[place].delay_s)

    def _harm(self, insider: Insider) -> None:
        """Advertise without ever publishing, publish in its own stream with a gap, or request all documents again."""
        me, to = insider.me, self.rng.choice(self.world.brokers).broker.id
        self._positions += 2
        block = encode_block(Event(draw_event(self.rng), b"made up", me.id, self._positions))
        insider.say(
            *self.rng.choice(
                (
                    (me.trust.envelop(Advertisement(me.id, self._positions, 1, "x >= 0")),),
                    (
                        me.trust.envelop_message(StreamSkip(to, me.id, self._positions - 1)),
                        me.event(to, self._positions, block),
                    ),
                    (me.event(to, self._positions, block),),
                    (DatabaseSummary(True, True, (), (), (), ()),),
                )
            )
        )

"""Histories with an insider: it sends what no honest broker sends, while links of honest brokers break and recover.

Events among honest brokers are judged as ever (`honest_oracle.py`). The insider advertises and never acks an interest
update, so subscribers wait for it once; it leaves gaps in its own stream, and requests all documents again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from plait_core.events import Event
from plait_core.matching import Index, new_index
from plait_core.wire import encode_block
from plait_core.wire.frame_types.overlay_frames import Advertisement, StreamSkip

from ..broker_node import OverlayNode
from ..enemies.honest_oracle import HonestOracle
from ..enemies.insider import EVERYTHING, Insider
from ..faults import RELINK_MAX_S
from ..random_histories import LATE_S, MORE, MORE_S, RandomHistory, draw_event
from ..world import World, WorldTerms

BEGIN_S: Final = 3.0
"""Time in which brokers link to each other, before the insider comes."""

LIFE_S: Final = 10.0
"""Seconds in which things happen."""

UNACKED_S: Final = 14.0
"""Longest time for which subscribers wait for a broker that does not ack."""

DELAYS_S: Final = (0.001, 0.005, 0.02)
AWAY_S: Final = (0.2, 1.0, 4.0)
"""Durations of a broken link."""


class InsiderHistory:
    """A history with an insider beside the first broker."""

    def __init__(self, seed: int, *, index: Callable[[], Index] = new_index) -> None:
        name = f"insider/{seed}"
        self.rng = Random(name)
        self.history = RandomHistory(
            name, brokers=self.rng.choice((3, 4, 5)), terms=WorldTerms(signed=True, index=index)
        )
        self.history.build()
        self._links = self.world.network.links
        self.insider = Insider(self.world, self.world.nodes[0])
        self.oracle = HonestOracle(self.world, self.insider)
        self.harmed = 0
        """Times that the insider has sent something."""
        self._positions = 0

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, world, history = self.rng, self.world, self.history
        world.start()
        world.run(BEGIN_S)
        self.insider.link()
        history.add_clients(advertisements_min=1, subscriptions_min=1)
        world.run(BEGIN_S)
        history.publish_within(LIFE_S, rng.randint(60, 120))
        for act, most in ((history.change, 15), (self._harm, 30), (self._disturb, 6)):
            for _ in range(rng.randint(most // 3, most)):
                world.timeline.after(rng.uniform(0, LIFE_S), act)
        world.run(LIFE_S)
        return self._conclude()

    def _conclude(self) -> list[str]:
        """Heal all links, wait for what is owed, publish more, and judge."""
        world, history = self.world, self.history
        history.faults.heal()
        if not world.run_until(lambda: history.linked, RELINK_MAX_S):
            world.complain("I7: brokers do not link to each other again")
        world.run_until(lambda: world.ready, UNACKED_S)
        world.run_until(lambda: not world.oracle.outstanding, LATE_S, step_s=0.5)
        world.run_until(lambda: world.truth.calm, LATE_S)
        for _ in range(MORE):
            history.publish()
        world.run(0.5)
        world.run_until(lambda: not world.oracle.outstanding, MORE_S)
        self.oracle.judge()
        return world.complaints

    def _disturb(self) -> None:
        """Break a link of honest brokers for a while, or change its delay."""
        link = self.rng.choice(self._links)
        if self.rng.random() < 0.5:
            link.delay_s = self.rng.choice(DELAYS_S)
            self.world.truth.change()
        else:
            self.history.faults.cut(link, self.rng.choice(AWAY_S))

    def _harm(self) -> None:
        """Advertise without ever publishing, publish in its own stream with a gap, or request all documents again."""
        me, rng = self.insider.persona, self.rng
        honest: OverlayNode = rng.choice(self.world.nodes)
        to = honest.overlay.me
        self._positions += 2
        self.harmed += 1
        block = encode_block(Event(draw_event(rng), b"made up", me.id, self._positions))
        self.insider.send(
            *rng.choice(
                (
                    (me.auth.envelop(Advertisement(me.id, self._positions, 1, "x >= 0")),),
                    (
                        me.auth.envelop_message(StreamSkip(to, me.id, self._positions - 1)),
                        me.event(to, self._positions, block),
                    ),
                    (me.event(to, self._positions, block),),
                    (EVERYTHING,),
                )
            )
        )

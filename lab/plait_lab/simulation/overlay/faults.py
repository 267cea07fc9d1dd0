"""The faults of a simulated overlay, and how everything is healed."""

from __future__ import annotations

from random import Random
from typing import Final

from .broker_node import OverlayNode
from .network import Link
from .world import World

FAULTS: Final = ("cut", "silence", "one_way", "crash", "slow", "jitter", "partition", "pause")

RELINK_MAX_S: Final = 12.0
"""Time in which brokers that heal have linked to each other again: the pause between two attempts, a connection attempt
that times out, and handshakes."""


class Faults:
    """Causes faults in a world, and heals them."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    def cause(self, kind: str, lasts_s: float | None = None) -> None:
        """Cause a fault at a random place, for a random time unless it is given."""
        world, rng = self._world, self._rng
        links = world.network.links
        link, node = rng.choice(links), rng.choice(world.nodes)
        lasts_s = rng.uniform(0.2, 8.0) if lasts_s is None else lasts_s
        if kind == "slow":
            link.delay_s = min(max(link.delay_s * rng.choice((0.1, 3.0, 10.0)), 0.0002), 0.4)
            world.truth.change()
        elif kind == "jitter":
            self.jitter(link, rng.choice((0.001, 0.02, 0.2)), lasts_s)
        elif kind == "cut":
            self.cut(link, lasts_s)
        elif kind == "silence":
            self.silence(link, lasts_s)
        elif kind == "one_way":
            self.silence(link, lasts_s, rng.choice(link.ends).number)
        elif kind == "partition":
            self.partition(set(rng.sample(world.nodes, rng.randint(1, len(world.nodes) - 1))), lasts_s)
        elif kind == "crash":
            self.crash(node, lasts_s)
        elif kind == "pause":
            self.pause(node, lasts_s)
        else:
            raise ValueError(kind)

    def jitter(self, link: Link, most_s: float, lasts_s: float) -> None:
        """Delay each write by a random time more."""
        link.jitter_s = most_s
        self._world.truth.change()

        def end() -> None:
            link.jitter_s = 0.0
            self._world.truth.change()

        self._world.timeline.after(lasts_s, end)

    def cut(self, link: Link, lasts_s: float) -> None:
        """Cut a link for a while, unless it has a fault already."""
        if link.sound:
            self._world.network.cut(link)
            self._begin(link, lasts_s)

    def silence(self, link: Link, lasts_s: float, *numbers: int) -> None:
        """Hold back what a link's ends send for a while; these ends, or both. Half of the time, its connections do not
        survive that."""
        if link.sound:
            self._world.network.silence(link, *(end for end in link.ends if not numbers or end.number in numbers))
            self._begin(link, lasts_s)

    def partition(self, side: set[OverlayNode], lasts_s: float) -> None:
        """Cut or silence all links between these brokers and the others for a while."""
        part = self.silence if self._rng.random() < 0.5 else self.cut
        for link in self._world.network.links:
            if (link.ends[0] in side) != (link.ends[1] in side):
                part(link, lasts_s)

    def crash(self, node: OverlayNode, lasts_s: float) -> None:
        """Kill a broker, and start it again later."""
        if node.broker is None:
            return
        node.kill()
        self._world.timeline.after(lasts_s, node.start)

    def pause(self, node: OverlayNode, lasts_s: float) -> None:
        """Pause a broker for a while."""
        if not node.runs:
            return
        node.pause()
        life = node.lives
        self._world.timeline.after(lasts_s, lambda: node.resume() if node.lives == life else None)

    def heal(self) -> None:
        """End all faults."""
        world = self._world
        for node in world.nodes:
            node.start()
            node.resume()
        for link in world.network.links:
            link.jitter_s = 0.0
            if not link.sound:
                world.network.mend(link, reset=self._rng.random() < 0.5)
        world.truth.change()

    def _begin(self, link: Link, lasts_s: float) -> None:
        self._world.truth.change()
        self._world.timeline.after(lasts_s, lambda: self._mend(link))

    def _mend(self, link: Link) -> None:
        if not link.sound:
            self._world.network.mend(link, reset=self._rng.random() < 0.5)
            self._world.truth.change()

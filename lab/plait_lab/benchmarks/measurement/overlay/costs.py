"""Control traffic in a simulated overlay of 60 brokers: python -m plait_lab.benchmarks.measurement.overlay.costs

Counts frames on each link for one advertisement, one subscription that meets several publishers, and its withdrawal,
and compares them with the bounds of the design.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from plait_core.wire.frame_types.frame_schema import Body
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestAck, InterestUpdate

from ....simulation.overlay.worlds.given_graph import GivenGraph

BROKERS: Final = 60
LINKS: Final = 120
PUBLISHERS: Final = 8
QUIET_S: Final = 3.0
"""Seconds, longer than the effects of any change."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The frames counted in one graph."""

    links: int
    advertisement_frames: int
    advertisement_frames_on_a_link: int
    """The maximum over links, both directions together."""
    tree_hops: int
    """Hops from the subscriber's broker to each publisher's broker along its tree, added up."""
    update_frames: int
    update_frames_beyond_trees: int
    """Frames in excess of one for each tree that uses a link in that direction, added up."""
    ack_frames: int
    ack_hops: int
    """Hops from each publisher's broker to the subscriber's broker, added up."""
    withdrawal_frames: int

    @property
    def holds(self) -> bool:
        """Return whether the bounds hold."""
        flooding = self.advertisement_frames_on_a_link <= 2
        return flooding and self.update_frames_beyond_trees == 0 and self.ack_frames <= self.ack_hops


def measure_costs(seed: int, *, brokers: int = BROKERS, links: int = LINKS, publishers: int = PUBLISHERS) -> Costs:
    """Build an overlay from a seed and count its frames."""
    rng = Random(f"costs/{seed}")
    world = GivenGraph(random_graph(rng, brokers, links), seed=seed)
    world.start()
    world.count_frames()
    roots = rng.sample(range(brokers), publishers)
    for root in roots[1:]:
        world.advertise(root, "x >= 0")
    world.run(QUIET_S)
    advertisements = _frames(world, Advertisement, lambda: world.advertise(roots[0], "x >= 0"))
    home = rng.choice([number for number in range(brokers) if number not in roots])
    hops = sum((_hops(world, home, root) for root in roots), Counter())
    back = sum(_hops(world, root, home).total() for root in roots)
    acks_before = _count(world, InterestAck)
    updates = _frames(world, InterestUpdate, lambda: world.subscribe(home, "x >= 7"))
    acks = _count(world, InterestAck) - acks_before
    (subscription,) = world.client(home).subscriptions.values()
    assert subscription.installed, "every publisher's broker knows it"
    withdrawals = _frames(world, InterestUpdate, lambda: world.client(home).unsubscribe(subscription))
    by_link: Counter[int] = Counter()
    for (link, _), count in advertisements.items():
        by_link[link] += count
    return Costs(
        links,
        advertisements.total(),
        max(by_link.values()),
        hops.total(),
        updates.total(),
        (updates - hops).total(),
        acks.total(),
        back,
        withdrawals.total(),
    )


def random_graph(rng: Random, brokers: int, links: int) -> dict[tuple[int, int], float]:
    """Return a random tree with random additional links, with delays from 1 to 50 ms."""
    edges = {(rng.randrange(node), node) for node in range(1, brokers)}
    while len(edges) < links:
        near, far = sorted(rng.sample(range(brokers), 2))
        edges.add((near, far))
    return {edge: 0.001 * 50 ** rng.random() for edge in sorted(edges)}


def _frames(world: GivenGraph, kind: type[Body], change: Callable[[], object]) -> Counter[tuple[int, int]]:
    """How many frames of a kind a change sets off, by link and sender."""
    before = _count(world, kind)
    change()
    world.run(QUIET_S)
    return _count(world, kind) - before


def _count(world: GivenGraph, kind: type[Body]) -> Counter[tuple[int, int]]:
    return Counter({(link, node): count for (link, node, name), count in world.frames.items() if name == kind.__name__})


def _hops(world: GivenGraph, at: int, to: int) -> Counter[tuple[int, int]]:
    """Return the links, with directions, from one broker to another along the tree in use."""
    links = {frozenset(end.number for end in link.ends): link.number for link in world.links}
    root = world.nodes[to].overlay.me
    hops: Counter[tuple[int, int]] = Counter()
    while at != to:
        parent = world.nodes[at].overlay.routes.next(root)
        assert parent is not None, "the graph is connected"
        onward = world.number(parent.id)
        hops[links[frozenset((at, onward))], at] += 1
        at = onward
    return hops


def main(arguments: list[str] | None = None) -> int:
    """Measure some graphs and print them beside the bounds."""
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.benchmarks.measurement.overlay.costs", description=__doc__
    )
    parser.add_argument("--graphs", type=int, default=5)
    options = parser.parse_args(arguments)
    print(f"{BROKERS} brokers, {LINKS} links, {PUBLISHERS} publishers' brokers; one subscription that meets them all")
    print(
        "graph | advertisement: frames, most on a link (bound 2) | subscription: frames (bound: hops of trees), ",
        end="",
    )
    print("answers | unsubscription: frames")
    held = True
    for seed in range(options.graphs):
        costs = measure_costs(seed)
        held &= costs.holds
        print(
            f"{seed:5} | {costs.advertisement_frames:4} of {2 * costs.links},"
            f" {costs.advertisement_frames_on_a_link} (2)"
            f" | {costs.update_frames:3} ({costs.tree_hops}), {costs.ack_frames} ({costs.ack_hops})"
            f" | {costs.withdrawal_frames} | {'holds' if costs.holds else 'DOES NOT HOLD'}"
        )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())

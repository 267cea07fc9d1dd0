"""Whole overlays in single situations: message costs, detection of dead links, and brokers after long absences."""

from __future__ import annotations

import pytest

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.transport.reliable_stream import DOUBT_S
from plait_core.filters import parse
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement
from plait_lab.benchmarks.measurement.overlay_costs import measure_costs
from plait_lab.simulation.overlay.overlay_nodes import Node
from plait_lab.simulation.overlay.overlay_oracle import judge
from plait_lab.simulation.overlay.worlds.given_graph import GivenWorld

DETECT_S = OverlaySettings().detect_s
GONE_S = 20.0
"""Absence after which brokers are forgotten, as in the simulation."""


def chain(brokers: int) -> GivenWorld:
    world = GivenWorld({(near, near + 1): 0.002 for near in range(brokers - 1)})
    world.start()
    return world


@pytest.mark.parametrize(
    ("seed", "brokers"), [(1, 24), (2, 24), *(pytest.param(seed, 60, marks=pytest.mark.nightly) for seed in range(5))]
)
def test_an_offer_costs_two_messages_a_link_and_a_want_one_a_hop(seed: int, brokers: int) -> None:
    costs = measure_costs(seed, brokers=brokers, links=2 * brokers, publishers=6)
    assert costs.advertisement_frames_on_a_link <= 2
    assert costs.advertisement_frames == 2 * costs.links - (brokers - 1), "each broker tells all but who told it"
    assert costs.update_frames_beyond_trees == 0
    assert 0 < costs.update_frames < costs.tree_hops, "where trees share a link, so does the frame"
    assert costs.withdrawal_frames == costs.update_frames
    assert costs.ack_frames == costs.ack_hops


@pytest.mark.parametrize("phase", range(10))
def test_a_silent_link_is_dead_within_the_bound(phase: int) -> None:
    world = chain(2)
    world.run(0.07 * phase)
    world.pipes[0].silent = frozenset({0, 1})
    world.run(DETECT_S + 0.05)
    for node in world.nodes:
        assert node.overlay is not None
        assert node.overlay.neighbours == {}
        assert node.overlay.counts["links_dead"] <= 1


def test_what_is_not_silent_is_not_dead() -> None:
    world = chain(3)
    world.run(100.0)
    assert all(node.overlay is not None and not node.overlay.counts["links_dead"] for node in world.nodes)


class Sleeper:
    """Two brokers that publish to each other over a third; one of them is stopped, and sees it when it goes on."""

    def __init__(self) -> None:
        self.world = chain(3)
        self.near, _, self.far = self.world.nodes
        for node in (self.near, self.far):
            node.advertise(parse("x >= 0"))
            node.subscribe(parse("5 <= x < 10"))
        self.world.run(4.0)
        self.both_publish(7)

    def both_publish(self, x: int) -> None:
        before = [sum(node.arrived.values()) for node in (self.near, self.far)]
        self.near.publish({"x": x})
        self.far.publish({"x": x})
        self.world.run(5.0)
        after = [sum(node.arrived.values()) for node in (self.near, self.far)]
        self.got = [now - then for then, now in zip(before, after, strict=True)]

    def sleep(self, for_s: float) -> None:
        """Pause the process for a while. It receives no frames and no closing of links until it resumes."""
        downs: list[int] = []
        node, down = self.near, self.near.down
        node.paused = True
        node.down = downs.append  # type: ignore[method-assign]
        self.world.run(for_s)
        node.down = down  # type: ignore[method-assign]
        for broker in downs:
            node.down(broker)
        node.resume()
        self.world._heal()
        self.world.run(20.0)


@pytest.mark.parametrize("for_s", [1.0, DETECT_S + 1.0, GONE_S - 1.0, GONE_S + 20.0])
def test_who_was_away_is_back_with_all_it_wants(for_s: float) -> None:
    sleeper = Sleeper()
    assert sleeper.got == [1, 1]
    sleeper.sleep(for_s)
    sleeper.both_publish(7)
    assert sleeper.got == [1, 1]
    judge(sleeper.world)
    assert not sleeper.world.complaints


def test_what_changed_meanwhile_is_known_afterwards() -> None:
    sleeper = Sleeper()
    far: Node = sleeper.far
    sleeper.world.timeline.after(GONE_S + 10.0, lambda: far.unsubscribe(next(iter(far.wants))))
    sleeper.world.timeline.after(GONE_S + 10.1, lambda: far.subscribe(parse("50 <= x < 60")))
    sleeper.sleep(GONE_S + 20.0)
    sleeper.both_publish(7)
    assert sleeper.got == [1, 0]
    sleeper.both_publish(55)
    assert sleeper.got == [0, 1]
    judge(sleeper.world)
    assert not sleeper.world.complaints


def test_an_offer_that_someone_else_withdraws_in_our_name_stands() -> None:
    world = chain(3)
    world.advertise(0, "x >= 0")
    world.run(2.0)
    victim, liar, other = (node.overlay for node in world.nodes)
    assert victim is not None
    assert liar is not None
    assert other is not None
    (key,) = other.offers
    for neighbour in (victim, other):
        neighbour.hear(liar.me, envelop_document(Advertisement(*key, 50, "")), world.now)
    world.run(2.0)
    assert list(other.offers) == [key]
    world.nodes[0].withdraw(key[1])
    world.run(2.0)
    assert not other.offers, "and its owner can still withdraw it"


@pytest.mark.parametrize(("cut", "most_s"), [((0, 1), 0.012), ((1, 3), 0.012 + 3 * DOUBT_S)], ids=["near", "far"])
def test_what_was_on_a_link_that_goes_comes_soon_by_another(cut: tuple[int, int], most_s: float) -> None:
    """The publisher's broker retransmits at once on its own link's failure, else when the new link state arrives."""
    delays_s = {(0, 1): 0.002, (1, 3): 0.002, (0, 2): 0.003, (2, 3): 0.003}
    world = GivenWorld(delays_s)
    world.start()
    world.advertise(0, "x >= 0")
    world.subscribe(3, "x >= 0")
    world.run(1.0)
    for event in range(200):
        if event == 100:
            world._cut(world.pipes[list(delays_s).index(cut)], 100.0, silent=False)
        world.nodes[0].publish({"x": event})
        world.run(0.001)
    world.run(1.0)
    came = world.receptions(3)
    assert [reception.path[-1] for reception in came] == sorted(reception.path[-1] for reception in came)
    assert len(came) == 200
    assert came[0].path == (0, 1)
    assert came[-1].path == (0, 2)
    assert max(reception.delay_s for reception in came) < most_s

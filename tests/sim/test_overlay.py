"""Production brokers in random overlays with cycles, where links and brokers fail and return, break no invariant.

`make test` plays 1,000 seeds, `make nightly` 30,000. In half of them links have bandwidths, and bursts fill them.
`play_overlay(seed)` replays one.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from plait_core.wire import Forward, Frame
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.network import Link, LinkConnection
from plait_lab.simulation.overlay.random_histories import SIGNED, is_narrow, overlay_history, play_overlay
from plait_lab.simulation.overlay.world import World, WorldTerms

SEEDS = 30_000 if os.environ.get("PLAIT_NIGHTLY") else 1_000
SHARE = 25

FILLED_MIN = 5
"""Of the dozen of histories in a share whose links have bandwidths, those in which lanes must have had queues."""

WASTE_MAX = 0.05
"""Retransmissions for each event that is owed, without faults, on links with bandwidths. Events that queue behind
others further on, or change their path there, are taken for lost at times."""


def retransmitted(world: World) -> int:
    return sum(node.overlay.counts["again"] for node in world.nodes)


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    due = again = confirmed = filled = 0
    for seed in range(first, first + SHARE):
        history = overlay_history(seed)
        assert not history.play(faults=True), f"seed {seed}: {history.world.complaints[0]}"
        world, narrow = history.world, history.narrow
        due += world.oracle.due
        filled += narrow is not None and narrow.lanes_queued > 0
        again += retransmitted(world)
        confirmed += sum(event.confirmed for event in world.events)
    assert due > 200, "events were due, or nothing is proved"
    assert again > 10, "some had to be sent again"
    assert confirmed > 100, "and some were confirmed"
    assert filled >= FILLED_MIN, "and links were full"


@pytest.mark.parametrize("first", range(0, SEEDS // 10, SHARE))
def test_without_faults_nothing_travels_twice(first: int) -> None:
    due = again = pongs = 0
    for seed in range(first, first + SHARE):
        history = overlay_history(seed, faults=False)
        assert not history.play(faults=False), f"seed {seed}: {history.world.complaints[0]}"
        if history.narrow is None:
            assert not retransmitted(history.world)
        else:
            due += history.world.oracle.due
            again += retransmitted(history.world)
            pongs += history.narrow.oracle.pongs
    assert again <= WASTE_MAX * due, "and hardly anything where links are full"
    assert pongs > 1_000, "the delay of control frames was checked"


def test_half_of_the_histories_fill_lanes_streams_and_buffers() -> None:
    assert sum(map(is_narrow, range(1_000))) == 500
    assert sum(is_narrow(seed) for seed in range(1, 1_000, SIGNED)) in range(30, 34), "of those that sign, too"
    narrow = [history for seed in range(40) if (history := overlay_history(seed)).narrow is not None]
    for history in narrow:
        assert not history.play(faults=True), f"{history.world.seed}: {history.world.complaints[0]}"
    links = [history.narrow for history in narrow if history.narrow is not None]
    counts = [
        sum(one.lanes_queued > 0 for one in links),
        sum(one.streams_waited > 0 for one in links),
        sum(one.writes_refused > 0 for one in links),
        sum(one.slow for one in links),
    ]
    assert all(count >= 0.1 * len(links) for count in counts), counts
    drops = sum((one.oracle.drops for one in links), Counter[str]())
    assert drops["expired"] > 0
    assert drops["overlay_full"] > 0


def test_a_history_without_bandwidths_is_played_as_before() -> None:
    seed = next(seed for seed in range(1, 100) if not is_narrow(seed))
    assert overlay_history(seed).narrow is None
    assert not any(link.bottlenecks for link in overlay_history(seed).world.network.links)
    assert all(link.bottlenecks for link in overlay_history(seed + 1).world.network.links)


def test_sixty_brokers() -> None:
    seed = 61
    assert not is_narrow(seed), "with bandwidths it takes minutes"
    world = play_overlay(seed, brokers=60)
    assert not world.complaints, world.complaints[0]
    assert world.oracle.due > 100, "something was to be delivered"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_is_always_the_same_history(seed: int) -> None:
    first, second = (play_overlay(seed) for _ in range(2))
    assert first.history.hash() == second.history.hash()
    assert first.timeline.steps == second.timeline.steps
    assert first.history.hash() != play_overlay(seed + SIGNED).history.hash()


@pytest.mark.parametrize("seed", range(8))
def test_a_link_that_both_ends_dial_is_not_replaced_after_one_returns_with_another_id(seed: int) -> None:
    """The end that stayed does not know yet that its new neighbour is the broker at the configured address."""
    world = World(seed, brokers=2, terms=WorldTerms(logs=lambda number: False))
    world.link(0, 1, 0.02, both_dial=True)
    world.start()
    world.run(3.0)
    stayed, returned = world.nodes
    returned.kill()
    world.run(5.0)
    returned.start()
    assert world.run_until(lambda: stayed.links == returned.links == 1, 4.0)
    world.run(0.5)
    (link,), dials = stayed.overlay.neighbours.values(), len(stayed.dialled)
    world.run(10.0)
    assert stayed.overlay.neighbours == {returned.overlay.me: link}
    assert len(stayed.dialled) <= dials + 1, "once its neighbour has answered there, it knows"


# --- the world itself -------------------------------------------------------------------------------------------------


def chain(*, signed: bool = False) -> World:
    """Three brokers in a chain, linked."""
    world = World("chain", brokers=3, terms=WorldTerms(signed=signed))
    for near in range(2):
        world.link(near, near + 1, 0.002)
    world.start()
    world.run(3.0)
    return world


def test_the_end_of_a_silent_link_is_noticed_by_nobody_until_it_is_mended() -> None:
    world = chain()
    link = world.network.links[0]
    world.network.silence(link)
    world.run(1.0)
    assert [node.links for node in world.nodes] == [1, 2, 1]
    world.network.mend(link, reset=True)
    world.run(0.01)
    assert [node.links for node in world.nodes] == [0, 1, 1]
    assert world.run_until(lambda: [node.links for node in world.nodes] == [1, 2, 1], 4.0), "it is dialled again"


def test_what_a_silent_link_holds_back_arrives_late_and_in_order() -> None:
    world = chain()
    publisher, subscriber = world.client(0), world.client(2)
    subscription = subscriber.subscribe("x >= 0")
    publisher.advertise("x >= 0")
    assert world.run_until(lambda: world.ready, 2.0)
    link = world.network.links[0]
    world.network.silence(link)
    for x in range(3):
        publisher.publish({"x": x})
    world.run(1.0)
    assert not subscription.received
    world.network.mend(link)
    world.run(0.1)
    assert [id.sequence for id in subscription.received] == [1, 2, 3]
    assert not world.complaints


@pytest.mark.parametrize("signed", [False, True])
def test_a_killed_broker_loses_its_clients_and_they_come_back(signed: bool) -> None:
    world = chain(signed=signed)
    publisher, subscriber = world.client(0), world.client(2)
    publisher.advertise("x >= 0")
    before = subscriber.subscribe("x >= 0")
    assert world.run_until(lambda: world.ready, 2.0)
    world.nodes[2].kill()
    world.run(1.0)
    assert before.ended
    assert not subscriber.ready
    world.nodes[2].start()
    assert world.run_until(lambda: world.ready and world.nodes[2].links == 1, 8.0)
    world.run(1.0)
    publisher.publish({"x": 1})
    world.run(1.0)
    (after,) = subscriber.subscriptions.values()
    assert after is not before
    assert len(after.received) == 1


def test_copies_are_seen_and_frames_are_changed_on_their_way() -> None:
    world = chain()
    copies: list[tuple[int, str, int]] = []

    def see(link: Link, sender: OverlayNode, copy: Forward) -> None:
        copies.append((link.number, sender.name, copy.sequence))

    def lose_events(connection: LinkConnection, frame: Frame) -> list[Frame]:
        return [] if isinstance(frame, Forward) else [frame]

    publisher, subscriber = world.client(0), world.client(2)
    publisher.advertise("x >= 0")
    subscription = subscriber.subscribe("x >= 0")
    assert world.run_until(lambda: world.ready, 2.0)
    world.wire.on_copy(see)
    publisher.publish({"x": 1})
    world.run(0.1)
    assert copies == [(0, "b0", 1), (1, "b1", 1)]
    world.wire.intercept(world.nodes[1], lose_events)
    publisher.publish({"x": 2})
    world.run(0.5)
    assert len(subscription.received) == 1
    world.wire.intercept(world.nodes[1], None)
    world.run(5.0)
    assert len(subscription.received) == 2, "it is retransmitted"

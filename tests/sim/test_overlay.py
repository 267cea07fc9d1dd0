"""Production brokers in random overlays with cycles, where links and brokers fail and return, break no invariant.

`make test` plays 1,000 seeds, `make nightly` 30,000. `play_overlay(seed)` replays one.
"""

from __future__ import annotations

import os

import pytest

from plait_core.wire import Forward, Frame
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.network import Link, LinkConnection
from plait_lab.simulation.overlay.random_histories import SIGNED, play_overlay
from plait_lab.simulation.overlay.world import World, WorldTerms

SEEDS = 30_000 if os.environ.get("PLAIT_NIGHTLY") else 1_000
SHARE = 25


def retransmitted(world: World) -> int:
    return sum(node.overlay.counts["again"] for node in world.nodes)


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    due = again = confirmed = 0
    for seed in range(first, first + SHARE):
        world = play_overlay(seed)
        assert not world.complaints, f"seed {seed}: {world.complaints[0]}"
        due += world.oracle.due
        again += retransmitted(world)
        confirmed += sum(event.confirmed for event in world.events)
    assert due > 200, "events were due, or nothing is proved"
    assert again > 10, "some had to be sent again"
    assert confirmed > 100, "and some were confirmed"


@pytest.mark.parametrize("first", range(0, SEEDS // 10, SHARE))
def test_without_faults_nothing_travels_twice(first: int) -> None:
    for seed in range(first, first + SHARE):
        world = play_overlay(seed, faults=False)
        assert not world.complaints, f"seed {seed}: {world.complaints[0]}"
        assert not retransmitted(world)


def test_sixty_brokers() -> None:
    world = play_overlay(60, brokers=60)
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

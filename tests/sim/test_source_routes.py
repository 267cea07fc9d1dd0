"""Source routes around lossy brokers, over long histories: the delay of events, and bounded retransmission."""

from __future__ import annotations

import pytest

from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_core.wire import ControlFrame, Ping, encode_frame
from plait_core.wire.frame_types.envelope_frames import SourceRouted
from plait_core.wire.frame_types.overlay_frames import ClockStamp, DatabaseSummary, StreamAck
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.enemies.attacks import ATTACKS
from plait_lab.simulation.overlay.enemies.hostile_soak import DIAMOND, FORK, LADDER, HostileSoak, Links, beads
from plait_lab.simulation.overlay.world import linked_world

PATIENCE_S = 8.0
"""Upper bound for the delay of an event: the longest round of attempts over all source routes."""


def besieged(links: Links, hostile: int, attack: str, first_s: float = 8.0, lasts_s: float = 40.0) -> HostileSoak:
    soak = HostileSoak(links, hostile, attack, first_s=first_s, lasts_s=lasts_s)
    assert soak.play() == []
    assert soak.attacker is not None
    assert soak.attacker.counts.total() > 0, "the attack has an effect"
    assert len(soak.world.events) > 0.9 * lasts_s / 0.1, "the publisher published"
    return soak


@pytest.mark.parametrize("attack", ATTACKS)
def test_events_are_not_kept_for_long(attack: str) -> None:
    assert besieged(DIAMOND, 1, attack).worst_s < PATIENCE_S
    assert besieged(LADDER, 2, attack).worst_s < PATIENCE_S


@pytest.mark.parametrize("attack", ["drop", "drop_events", "one_by_one"])
def test_someone_further_on_may_choose_the_hostile_one(attack: str) -> None:
    soak = HostileSoak(FORK, 2, attack)
    world = soak.world
    straight = world.network.link(world.nodes[1], world.nodes[3])
    assert straight is not None
    world.timeline.at(2.0, lambda: setattr(straight, "delay_s", 0.009))
    assert soak.play() == []
    publisher, choosing, _, subscriber = (node.overlay for node in world.nodes)
    assert publisher.map.path(publisher.me, subscriber.me) == (publisher.me, choosing.me, subscriber.me)
    assert 0.1 < soak.worst_s < PATIENCE_S


def test_without_answers_by_the_way_that_something_came_nobody_would_hear_of_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ControlUnicast, "_learn_reverse_route", lambda *_: None)
    assert any(" I1: " in complaint for complaint in HostileSoak(DIAMOND, 1, "drop").play())


def test_a_long_way_is_not_tried_broker_by_broker() -> None:
    assert besieged(beads(8), 22, "drop", first_s=50.0).worst_s < PATIENCE_S


def test_what_came_around_is_not_answered_around_for_ever() -> None:
    """A pause makes both sides try other ways; once it is over they end with that, though both go on speaking."""
    soak = HostileSoak(DIAMOND, 1, None, lasts_s=150.0)
    world, last = soak.world, soak.world.nodes[-1]
    world.timeline.at(12.0, last.pause)
    world.timeline.at(14.9, last.resume)
    counts: list[int] = []
    for at in (90.0, 150.0):
        world.timeline.at(at, lambda: counts.append(sum(node.overlay.counts["detours"] for node in world.nodes)))
    assert soak.play(both=True) == []
    assert counts[0] == counts[1] > 0


def write(node: OverlayNode, neighbour: int, frame: ControlFrame) -> None:
    """Have a broker write any frame to a neighbour."""
    node.overlay.sender.send(neighbour, frame)
    node.overlay.pending = True
    node.act()


def test_who_hands_on_nonsense_that_it_cannot_read_is_not_shunned() -> None:
    world = linked_world({(0, 1): 0.010, (1, 2): 0.020})
    liar, between, last = (node.overlay for node in world.nodes)
    write(world.nodes[0], between.me, SourceRouted((liar.me, between.me, last.me), 1, 0, b"garbage!"))
    world.run(1.0)
    assert last.counts["unexpected"] == 1
    assert between.me in last.neighbours


@pytest.mark.parametrize("said", [ClockStamp(0), DatabaseSummary(True, True, (), (), (), ())])
def test_nobody_speaks_in_the_name_of_the_last_on_the_way(said: ControlFrame) -> None:
    """Forged link-local frames would make the last broker of the route look slow, or like one that floods."""
    world = linked_world({(0, 1): 0.010, (1, 2): 0.020})
    liar, between, last = (node.overlay for node in world.nodes)
    answered = last.counts.copy()
    write(world.nodes[0], between.me, SourceRouted((liar.me, between.me, last.me), 1, 0, encode_frame(said)))
    world.run(0.05)
    assert last.counts["unexpected"] == 1
    assert {name for name in last.counts if last.counts[name] > answered[name]} <= {"unexpected", "Ping", "Pong"}
    assert last.neighbours[between.me].transit.us(last.now) < 25_000


def test_a_way_is_believed_that_its_first_broker_has_chosen_and_no_other() -> None:
    world = linked_world({(0, 1): 0.010, (1, 2): 0.020, (0, 2): 0.050})
    liar, between, last = (node.overlay for node in world.nodes)
    made_up = SourceRouted((between.me, liar.me, last.me), 2, 0, encode_frame(Ping(1)))
    write(world.nodes[0], last.me, made_up)
    world.run(1.0)
    assert not last.unicast._back_to(between.me, world.now)
    ack = between.message_auth.envelop_message(StreamAck(last.me, between.me, 0))
    assert between.unicast.send_along(made_up.route, ack, world.now)
    between.pending = True
    world.nodes[1].act()
    world.run(1.0)
    assert last.unicast._back_to(between.me, world.now) == made_up.route[::-1]

"""Brokers that are away: how long their state is kept, what is given up, and which broker takes it over."""

from __future__ import annotations

import pytest
from copies import copies_in, publish
from one_overlay import OneOverlay

from plait_broker.overlay import Incarnation, OverlaySettings
from plait_broker.overlay.outputs import Acked, CloseLink, LogRemark, Lost
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_core.filters import parse
from plait_core.wire import Pong
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.overlay_frames import LOGGED, Advertisement, DurableInterest, InterestUpdate, LinkState

ME, NEAR, FAR, SUCCESSOR = 1, 2, 3, 4
LOG = 77
SETTINGS = OverlaySettings(name="b1")
GONE_S, DURABLE_GONE_S = SETTINGS.gone_s, SETTINGS.durable_gone_s


def chain(incarnation: Incarnation | None = None) -> OneOverlay:
    """Return a broker with NEAR as its neighbour and FAR behind it, whose clients want x >= 0."""
    one = OneOverlay(ME, SETTINGS, incarnation)
    one.link_up(NEAR)
    one.learn(LinkState(NEAR, 2, "near", (ME, FAR), (1000, 1000)), NEAR)
    one.learn(LinkState(FAR, 1, "far", (NEAR,), (1000,), incarnation=LOG, born=1), NEAR)
    one.receive(NEAR, envelop_message(InterestUpdate((ME,), FAR, (1,), (0,), True, (1,), ("x >= 0",), ())))
    one.clear()
    return one


def depart(one: OneOverlay) -> None:
    """Have NEAR report that its link to FAR has failed."""
    one.learn(LinkState(NEAR, 3, "near", (ME,), (1000,)), NEAR)


def wait(one: OneOverlay, until: float) -> None:
    """Tick at a time. NEAR has answered the pings, and has sent a frame just before."""
    neighbour = one.overlay.neighbours[NEAR]
    one.receive(NEAR, *[Pong(nonce) for nonce in neighbour.pings])
    one.now = until
    one.receive(NEAR, Pong(0))
    one.tick(until)


def test_a_broker_out_of_reach_is_forgotten_with_its_unacked_events() -> None:
    one = chain()
    frame = publish()
    ((_, position, _),) = one.overlay.publish(frame, [FAR], 0, 0, 0.0)
    depart(one)
    wait(one, GONE_S - 1.0)
    assert FAR in one.overlay.map
    assert one.overlay.destinations(frame) == [FAR]
    wait(one, GONE_S + 1.0)
    assert FAR not in one.overlay.map
    assert one.overlay.destinations(frame) == []
    (lost,) = one.of(Lost)
    assert (lost.destination, lost.position, lost.frame, lost.reason) == (FAR, position, frame, "unreachable")
    assert FAR not in one.overlay.event_streams.outgoing


def test_a_broker_that_returns_in_time_keeps_its_state() -> None:
    one = chain()
    frame = publish()
    one.overlay.publish(frame, [FAR], 0, 0, 0.0)
    depart(one)
    wait(one, GONE_S - 1.0)
    one.clear()
    one.learn(LinkState(NEAR, 4, "near", (ME, FAR), (1000, 1000)), NEAR)
    wait(one, GONE_S + 1.0)
    assert FAR in one.overlay.map
    assert one.of(Lost) == []
    assert frame in [copy.frame for copy in copies_in(one.of(CopyRun))], "the unacked event is retransmitted"


def test_a_broker_with_durable_interest_keeps_the_events_that_match_it() -> None:
    one = chain()
    one.learn(DurableInterest(FAR, 1, 1, "x >= 10"), NEAR)
    durable, other = publish(1, x=11), publish(2, x=5)
    for frame in (durable, other):
        one.overlay.publish(frame, [FAR], 0, 0, 0.0)
    depart(one)
    wait(one, GONE_S + 1.0)
    assert [lost.frame for lost in one.of(Lost)] == [other]
    assert [kept[0] for kept in one.overlay.event_streams.outgoing[FAR].kept.values()] == [durable]
    assert one.overlay.destinations(durable) == [FAR]
    assert one.overlay.destinations(other) == []
    wait(one, DURABLE_GONE_S + 1.0)
    assert [lost.frame for lost in one.of(Lost)] == [other, durable]
    assert FAR not in one.overlay.map


def test_a_broker_with_a_log_is_kept_for_our_durable_subscriptions() -> None:
    one = chain()
    one.overlay.announce_filter(1, parse("x > 1"), durable=True)
    depart(one)
    wait(one, GONE_S + 1.0)
    assert FAR in one.overlay.map, "its log may have events for them"
    wait(one, DURABLE_GONE_S + 1.0)
    assert FAR not in one.overlay.map


def test_a_broker_that_the_operator_gave_up_is_forgotten_while_it_is_away() -> None:
    one = chain()
    one.overlay.give_up(["far"])
    wait(one, 1.0)
    assert FAR in one.overlay.map, "it is in reach"
    depart(one)
    wait(one, 2.0)
    assert FAR not in one.overlay.map
    one.learn(LinkState(FAR, 2, "far", (NEAR,), (1000,), incarnation=LOG, born=1), NEAR)
    assert FAR not in one.overlay.map, "and does not return under this id"


def test_the_successor_of_a_restarted_broker_gets_its_unacked_events() -> None:
    one = chain()
    frame = publish()
    ((_, position, _),) = one.overlay.publish(frame, [FAR], 0, 0, 0.0)
    one.clear()
    one.learn(LinkState(NEAR, 3, "near", (ME, SUCCESSOR), (1000, 1000)), NEAR)
    one.learn(LinkState(SUCCESSOR, 1, "far", (NEAR,), (1000,), incarnation=LOG, born=2), NEAR)
    assert FAR not in one.overlay.map
    assert one.of(Lost) == []
    ((kept, flags, _, _, party),) = one.overlay.event_streams.outgoing[SUCCESSOR].kept.values()
    assert (kept, party) == (frame, (FAR, position))
    assert flags & LOGGED, "it is for the log alone"
    assert [copy.destinations[0][0] for copy in copies_in(one.of(CopyRun))] == [SUCCESSOR]
    assert one.overlay.destinations(frame) == [SUCCESSOR], "it has the interest of its predecessor"


def test_events_since_the_interest_of_the_successor_are_not_sent_twice() -> None:
    one = chain()
    one.learn(LinkState(NEAR, 3, "near", (ME, FAR, SUCCESSOR), (1000, 1000, 1000)), NEAR)
    update = InterestUpdate((ME,), SUCCESSOR, (1,), (0,), True, (1,), ("x >= 0",), ())
    one.receive(NEAR, envelop_message(update))
    one.now = 1.0
    frame = publish()
    one.overlay.publish(frame, [FAR, SUCCESSOR], 0, 0, 1.0)
    one.clear()
    one.learn(LinkState(SUCCESSOR, 1, "far", (NEAR,), (1000,), incarnation=LOG, born=2), NEAR)
    assert [kept[0] for kept in one.overlay.event_streams.outgoing[SUCCESSOR].kept.values()] == [frame]
    assert [output.destination for output in one.of(Acked)] == [FAR], "the successor's own copy stands for it"


def test_a_link_to_an_earlier_run_is_closed() -> None:
    one = OneOverlay(ME, SETTINGS)
    one.link_up(NEAR, FAR)
    one.learn(LinkState(FAR, 2, "far", (ME,), (1000,), incarnation=LOG, born=1), FAR)
    one.learn(LinkState(SUCCESSOR, 1, "far", (NEAR,), (1000,), incarnation=LOG, born=2), NEAR)
    assert one.of(CloseLink) == [CloseLink(FAR, "b3 has restarted")]
    assert list(one.overlay.neighbours) == [NEAR]


@pytest.mark.parametrize(("born", "claimed"), [(5, False), (11, True)], ids=["earlier", "later"])
def test_a_later_run_with_our_log_is_reported(born: int, claimed: bool) -> None:
    one = chain(Incarnation(log=5, born=10))
    for version in (1, 2):
        one.learn(LinkState(9, version, "copy", (NEAR,), (1000,), incarnation=5, born=born), NEAR)
    remarks = [remark.text for remark in one.of(LogRemark)]
    assert len(remarks) == claimed, "once"
    assert bool(one.overlay.counts["incarnation_claimed"]) is claimed
    assert ME in one.overlay.map


def test_a_forgotten_broker_takes_its_advertisements_along() -> None:
    one = chain()
    one.learn(Advertisement(FAR, 1, 1, "y > 1"), NEAR)
    assert list(one.overlay.remote_advertisements) == [(FAR, 1)]
    depart(one)
    wait(one, GONE_S + 1.0)
    assert one.overlay.remote_advertisements == {}
    assert FAR not in one.overlay.interest_sync.announced

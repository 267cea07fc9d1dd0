"""Marked events: every step is reported to the publisher; unmarked events leave no trace."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plait.commands.observe.trace_steps import Steps
from plait_broker import BrokerSettings
from plait_broker.tracing.tracing import LIVE_S, MARKS_BURST, STEPS_MAX
from plait_core import Event
from plait_core.wire import Deliver, encode_block
from plait_core.wire.frame_types.session_frames import Brokers, Code, Done, Failed, Late
from plait_core.wire.frame_types.trace_frames import PARTIES_MAX, StepKind, Trace, TraceStep
from plait_lab.simulation.overlay.frame_client import FrameClient
from plait_lab.simulation.overlay.world import World, linked_world

CHAIN = {(0, 1): 0.010, (1, 2): 0.020}
FORK = {(0, 1): 0.010, (1, 2): 0.020, (1, 3): 0.030}


class Traced:
    """A client that publishes marked events and receives their steps."""

    def __init__(self, world: World, broker: int = 0) -> None:
        self.world = world
        self.client = world.connected_client(broker)
        self.client.advertise("price >= 0")  # otherwise the first event waits until others know the advertisement
        self.names = {world.broker(number).id: number for number in range(len(world.nodes))}
        world.run(5.0)  # it receives the brokers' names

    def publish(self, attributes: dict[str, Any], for_s: float = 1.0, **parts: Any) -> list[TraceStep]:
        """Publish a marked event; return its steps."""
        client = self.client
        client.sequence += 1
        event = Event.checked(attributes, publisher=client.publisher, sequence=client.sequence, **parts)
        client.write(Trace(client.sequence, encode_block(event)))
        self.world.run(for_s)
        return self.steps(client.sequence)

    def steps(self, sequence: int) -> list[TraceStep]:
        return [step for step in self.client.heard(TraceStep) if step.sequence == sequence]

    def story(self, steps: list[TraceStep]) -> list[tuple[int, str]]:
        return [(self.names[step.source], step.kind) for step in steps]

    def judge(self, steps: list[TraceStep]) -> Steps:
        """Return the steps as `plait trace` shows them."""
        seen = Steps()
        received: list[TraceStep | Brokers] = [*self.client.heard(Brokers), *steps]
        for one in received:
            list(seen.add(one))
        return seen


def subscribed(world: World, broker: int, filter: str = "price > 10", **terms: Any) -> FrameClient:
    client = world.connected_client(broker, f"at {broker}")
    subscription = client.subscribe(filter, **terms)
    world.run(1.0)
    assert subscription.installed
    return client


def test_every_hop_reports_its_steps() -> None:
    world = linked_world(FORK)
    traced = Traced(world)
    subscribers = [subscribed(world, broker) for broker in (0, 2, 3)]
    steps = traced.publish({"price": 11})
    assert sorted(traced.story(steps)) == sorted(
        [
            (0, "published"),
            (0, "arrived"),
            (0, "sent"),
            (0, "delivered"),
            (1, "came"),
            (1, "sent"),
            (1, "sent"),
            (2, "arrived"),
        ]
        + [(2, "delivered"), (3, "arrived"), (3, "delivered")]
    )
    sent = {traced.names[step.peer]: step for step in steps if step.kind == StepKind.SENT}
    assert {traced.names[home] for home in sent[1].parties} == {2, 3}
    assert [traced.names[home] for home in sent[2].parties] == [2]
    assert sent[2].link_us == pytest.approx(20_000, rel=0.05)
    assert sent[3].link_us == pytest.approx(30_000, rel=0.05)
    assert sent[3].delay_us == pytest.approx(10_000, rel=0.05), "its age before that link"
    arrived = {traced.names[step.source]: step for step in steps if step.kind == StepKind.ARRIVED}
    assert arrived[3].delay_us == pytest.approx(40_000, rel=0.05)
    assert traced.names[arrived[3].peer] == 1
    (came,) = [step for step in steps if step.kind == StepKind.CAME]
    assert came.delay_us == pytest.approx(10_000, rel=0.05)
    assert traced.names[came.peer] == 0
    assert {traced.names[home] for home in came.parties} == {2, 3}, "one copy for both"
    assert traced.judge(steps).complete
    assert not traced.judge(steps[:-1]).complete
    for subscriber in subscribers:
        assert subscriber.delivered == [{"price": 11}], "it is a real event"
    assert Done(traced.client.sequence) in traced.client.frames


@pytest.mark.parametrize("seed", range(20))
def test_causes_are_shown_before_effects_in_any_order_of_arrival(seed: int) -> None:
    world = linked_world(FORK)
    traced = Traced(world)
    for broker in (0, 2, 3):
        subscribed(world, broker)
    received = traced.publish({"price": 11})
    Random(seed).shuffle(received)
    steps = Steps()
    list(steps.add(traced.client.heard(Brokers)[-1]))
    shown = [facts for step in received for facts, _ in steps.add(step)]
    assert steps.done
    assert list(steps.remaining()) == []
    assert len(shown) == len(received)
    assert not any(facts["again"] for facts in shown)
    places = {(facts["broker"], facts["kind"], facts["peer"]): at for at, facts in enumerate(shown)}
    for chain in (
        [("b0", "published", None), ("b0", "sent", "b1"), ("b1", "came", "b0"), ("b1", "sent", "b2")],
        [("b1", "sent", "b2"), ("b2", "arrived", "b1"), ("b2", "delivered", None)],
        [("b1", "came", "b0"), ("b1", "sent", "b3"), ("b3", "arrived", "b1"), ("b3", "delivered", None)],
    ):
        assert [places[one] for one in chain] == sorted(places[one] for one in chain)


def test_steps_without_a_known_cause_are_shown_at_the_end() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    subscribed(world, 2)
    received = [step for step in traced.publish({"price": 11}) if traced.names[step.source] != 1]
    steps = Steps()
    list(steps.add(traced.client.heard(Brokers)[-1]))
    shown = [facts["kind"] for step in received for facts, _ in steps.add(step)]
    assert shown == ["published", "sent"]
    assert steps.complete
    assert not steps.done, "a step of b1 may still arrive"
    assert [facts["kind"] for facts, _ in steps.remaining()] == ["arrived", "delivered"]
    assert steps.done


def test_a_retransmitted_copy_is_marked() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    subscribed(world, 2)
    link = world.link_of(1, 2)
    world.network.silence(link)
    traced.publish({"price": 11}, for_s=1.0)
    world.network.mend(link, reset=True)  # what was written meanwhile is lost
    world.run(3.0)
    received = traced.steps(traced.client.sequence)
    steps = Steps()
    list(steps.add(traced.client.heard(Brokers)[-1]))
    lines = [line.strip() for step in received for _, line in steps.add(step)]
    assert len(set(lines)) == len(lines), "no line is printed twice"
    assert sum(line.startswith("b0: -> b1") for line in lines) == 1
    assert any(line.startswith("b0: again -> b1 for b2 after ") for line in lines)
    assert sum(line.startswith("b1: in after 10") for line in lines) == 1
    assert any(line.startswith("b1: again in after ") for line in lines)
    assert sum("b2: delivered" in line for line in lines) == 1
    assert steps.end()[0]["delivered"] == 1


def test_an_event_without_matches_is_reported_at_once() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    steps = traced.publish({"price": 1})
    assert traced.story(steps) == [(0, "published")]
    assert traced.judge(steps).complete


def test_late_and_expired_deliveries_are_named_at_their_broker() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    hasty = subscribed(world, 2, within_us=25_000, late=Late.DROP)
    steps = traced.publish({"price": 11})
    assert traced.story(steps)[-1] == (2, "dropped")
    assert steps[-1].reason == "late"
    assert traced.judge(steps).complete
    assert hasty.heard(Deliver) == []
    steps = traced.publish({"price": 11}, lifetime_us=15_000)
    ended = [(traced.names[step.source], step.reason) for step in steps if step.kind == StepKind.LOST]
    assert ended[0] == (2, "expired"), "the second link makes it too old"
    judged = traced.judge(steps)
    assert judged.complete
    facts, line = judged.end()
    assert facts["lost_for"] == ["b2"]
    assert line == "delivered 0, dropped 0; its copy for b2 lost on the path"


def test_an_event_that_expires_while_its_destination_is_unreachable_reports_its_age() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    subscribed(world, 2)
    world.cut(1, 2)
    steps = traced.publish({"price": 11}, for_s=5.0, lifetime_us=2_000_000)
    (lost,) = [step for step in steps if step.kind == StepKind.LOST]
    assert (traced.names[lost.source], lost.reason) == (0, "expired")
    assert lost.delay_us >= 2_000_000
    assert world.broker(0).counters.dropped["expired"] == 1


def test_an_event_that_expires_in_transit_is_counted_once() -> None:
    world = linked_world({(0, 1): 0.020, (1, 2): 0.020})
    traced = Traced(world)
    subscribed(world, 2)
    steps = traced.publish({"price": 11}, for_s=5.0, lifetime_us=15_000)
    assert (1, "expired") in [(traced.names[step.source], step.reason) for step in steps if step.kind == StepKind.LOST]
    assert [world.broker(number).counters.dropped["expired"] for number in range(3)] == [1, 0, 0]


def test_a_queued_delivery_is_reported_twice() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    slow = subscribed(world, 2)
    assert slow.connection is not None
    world.broker(2).set_writable(slow.connection.ids[1], False, world.now)
    steps = traced.publish({"price": 11})
    assert traced.story(steps)[-1] == (2, "queued")
    assert not traced.judge(steps).complete
    world.broker(2).set_writable(slow.connection.ids[1], True, world.now)
    world.nodes[2].act()
    world.run(1.0)
    steps = traced.steps(traced.client.sequence)
    assert traced.story(steps)[-1] == (2, "delivered")
    assert steps[-1].took_us == pytest.approx(1_000_000, rel=0.1), "what it waited"
    assert traced.judge(steps).complete


def test_durable_subscriptions_with_and_without_a_client() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    durable = subscribed(world, 2, durable="ledger")
    durable.acknowledges = False
    steps = traced.publish({"price": 11})
    assert traced.story(steps)[-2:] == [(2, "queued"), (2, "delivered")]
    durable.leave()
    world.run(BrokerSettings().resume_s + 5.0)
    steps = traced.publish({"price": 12})
    assert traced.story(steps)[-1] == (2, "stored")
    assert traced.judge(steps).complete


def test_marking_is_for_who_may_publish_and_not_too_often() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    stranger = Event.checked({"price": 11}, publisher=4711, sequence=1)
    traced.client.write(Trace(900, encode_block(stranger)))
    world.run(0.1)
    (failed,) = traced.client.heard(Failed)
    assert failed.code == Code.NOT_ALLOWED, "the id is another's"
    assert world.broker(0).explainer.tracing.live == {}
    for _ in range(round(MARKS_BURST) + 5):
        traced.publish({"price": 1}, for_s=0.001)
    world.run(0.1)
    limited = [failed for failed in traced.client.heard(Failed) if failed.code == Code.LIMIT]
    assert limited
    assert all(failed.retryable for failed in limited)


def test_tracing_is_bounded_in_steps_and_time() -> None:
    world = linked_world({(0, 1): 0.001})
    traced = Traced(world)
    crowd = world.connected_client(1)
    for _ in range(PARTIES_MAX + 10):
        crowd.subscribe("price > 10")
    world.run(1.0)
    steps = traced.publish({"price": 11})
    (delivered,) = [step for step in steps if step.kind == StepKind.DELIVERED]
    assert len(delivered.parties) == PARTIES_MAX
    assert delivered.count == PARTIES_MAX + 10
    assert traced.judge(steps).complete
    tracing = world.broker(1).explainer.tracing
    (trail,) = tracing.live.values()
    before = len(traced.client.heard(TraceStep))
    trail.steps = STEPS_MAX
    tracing.dropped(world.broker(1).explainer.history.events[0][1], "late", 0, 1)
    world.nodes[1].act()
    world.run(1.0)
    assert len(traced.client.heard(TraceStep)) == before, "tracing of one event ends"
    world.run(LIVE_S + 1.0)
    assert not any(world.broker(number).explainer.tracing.live for number in range(len(world.nodes)))


def test_unmarked_events_leave_no_trace() -> None:
    world = linked_world(CHAIN)
    traced = Traced(world)
    subscriber = subscribed(world, 2)
    traced.client.publish({"price": 11})
    world.run(1.0)
    assert subscriber.delivered == [{"price": 11}]
    assert traced.client.heard(TraceStep) == []
    assert not any(world.broker(number).explainer.tracing.live for number in range(len(world.nodes)))

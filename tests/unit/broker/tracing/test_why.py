"""`plait why`: the explanation of each possible outcome of an event, requested at any broker of an overlay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from plait_broker import BrokerSettings
from plait_broker.tracing.delivery_explanation import explain_delivery
from plait_broker.tracing.event_history import EVENTS_MAX
from plait_broker.web.explain_api import ExplainApi
from plait_core import Event
from plait_core.events import EventId
from plait_core.wire import encode_publish
from plait_core.wire.frame_types.session_frames import Late
from plait_lab.simulation.overlay.linked_brokers import FrameClient, LinkedBrokers

CHAIN = {(0, 1): 0.010, (1, 2): 0.020}


class Overlay(LinkedBrokers):
    """A chain of brokers with a publisher at one end, which has advertised, and a subscriber at the other."""

    def __init__(self) -> None:
        super().__init__(CHAIN)
        self.run()
        self.publisher, self.subscriber = self.client(0, "publisher"), self.client(2, "subscriber")
        self.publisher.advertise("price >= 0")
        self.run(1.0)

    def subscribe(self, number: int = 1, **terms: Any) -> None:
        self.subscriber.subscribe("price > 10", number, **terms)
        self.run(1.0)
        assert self.subscriber.done(number)

    def publish(self, price: int = 11, for_s: float = 1.0) -> EventId:
        event = EventId(self.publisher.publisher, self.publisher.publish({"price": price}))
        self.run(for_s)
        return event

    def why(self, event: EventId, number: int = 1, home: int = 2, at: int = 0) -> dict[str, Any]:
        face = self.brokers[at]

        async def ask(brokers: Iterable[int], topic: str, question: dict[str, Any]) -> dict[int, dict[str, Any]]:
            answers: list[dict[int, dict[str, Any]]] = []
            face.broker.explainer.queries.start(brokers, topic, question, self.now, answers.append)
            face.act()
            self.run(3.0)
            return answers[0]

        explain = ExplainApi(lambda: face.broker, dict, ask).explain
        return asyncio.run(explain(event, self.brokers[home].broker.id, number))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_broker_explains_a_delivery_alike(at: int) -> None:
    world = Overlay()
    world.subscribe()
    right, wrong = world.publish(11), world.publish(5)
    verdict = world.why(right, at=at)
    assert (verdict["verdict"], verdict["why"]) == ("delivered", ["price > 10 is true: price is 11"])
    assert verdict["facts"]["client"] == "subscriber"
    assert verdict["reports"]["b2"]["event"]["path"] == ["b0", "b1"]
    verdict = world.why(wrong, at=at)
    assert (verdict["verdict"], verdict["why"]) == ("not_matched", ["price > 10 is false: price is 5"])
    assert "b0" in verdict["reports"], "who had it explains it, though the subscription lives elsewhere"


def test_an_event_before_the_subscription_is_explained() -> None:
    world = Overlay()
    event = world.publish()
    world.subscribe()
    verdict = world.why(event)
    assert verdict["verdict"] == "not_subscribed_yet"
    other = world.client(0)
    other.subscribe("price > 10", 1)
    world.run(0.1)
    number = world.brokers[0].broker.interest.subscriptions[-1].number
    assert world.why(event, number, home=0)["verdict"] == "not_subscribed_yet"


def test_drops_have_their_reasons() -> None:
    world = Overlay()
    world.subscribe(within_us=25_000, late=Late.DROP)
    verdict = world.why(world.publish())
    assert (verdict["verdict"], verdict["facts"]["reason"], verdict["facts"]["at"]) == ("dropped", "late", "b2")


def test_an_expired_event_is_explained_with_its_broker() -> None:
    world = Overlay()
    world.subscribe()
    for lifetime_us, where in ((5_000, "b1"), (20_000, "b2")):
        client = world.publisher
        client.sequence += 1
        parts = {"publisher": client.publisher, "sequence": client.sequence, "lifetime_us": lifetime_us}
        world.carry(client.wire, client, encode_publish(Event.checked({"price": 11}, **parts)))  # type: ignore[arg-type]
        world.run(2.0)
        verdict = world.why(EventId(client.publisher, client.sequence))
        assert verdict["verdict"] == "dropped"
        assert verdict["facts"]["reason"] == "expired"
        dropped_at = {name for name, said in verdict["reports"].items() if said["drops"]}
        assert where in dropped_at


def test_a_waiting_event_is_explained_with_its_queue() -> None:
    world = Overlay()
    world.subscribe()
    link = world.subscriber.wire.number
    world.brokers[2].broker.set_writable(link, False, world.now)
    event = world.publish()
    verdict = world.why(event)
    assert (verdict["verdict"], verdict["facts"]["reason"], verdict["facts"]["before"]) == ("waiting", "behind", 0)
    world.brokers[2].broker.set_writable(link, True, world.now)
    world.brokers[2].act()
    verdict = world.why(event)
    assert verdict["verdict"] == "delivered"
    assert verdict["facts"]["waited_ms"] > 1000


def test_an_event_in_transit_is_in_a_stream() -> None:
    world = Overlay()
    world.subscribe()
    home = world.brokers[2].broker.id
    world.publish(12)
    streams = world.brokers[0].broker.overlay.event_streams
    between = world.brokers[1].broker.overlay
    between.event_streams.receive = between._messages._receive_routed = lambda *_: None  # type: ignore[method-assign]
    event = world.publish()
    verdict = world.why(event)
    assert verdict["verdict"] == "on_its_way"
    assert verdict["facts"]["position"] == next(iter(streams.outgoing[home].kept))
    assert verdict["facts"]["reachable"]


def test_a_broker_that_does_not_answer_is_named() -> None:
    world = Overlay()
    world.subscribe()
    taken, unwanted = world.publish(), world.publish(5)
    world.hang_up(world.wire(1, 2))
    world.run(1.0)
    for event, text in ((taken, "b0 reports that it has acknowledged"), (EventId(4711, 1), "no other broker")):
        verdict = world.why(event)
        assert verdict["verdict"] == "unanswered"
        assert "b2, where the subscription lives, does not answer" in verdict["text"]
        assert text in verdict["text"]
    assert "b0 knew of no matching subscription there" in world.why(unwanted)["text"]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("at", [0, 1])
def test_an_event_kept_for_a_silent_broker_is_in_transit(at: int, cut: bool) -> None:
    world = Overlay()
    world.subscribe(durable="ledger")
    home = world.brokers[2]
    if cut:
        world.hang_up(world.wire(1, 2))
    else:
        home.broker.receive = lambda *_: None  # type: ignore[method-assign]  # as one that was stopped
    world.run(0.5)
    event = world.publish(for_s=0.5)
    verdict = world.why(event, at=at)
    assert verdict["verdict"] == "on_its_way"
    assert "in b0's stream to b2, at position" in verdict["text"]
    assert verdict["text"].endswith("; b0 cannot reach b2 now"), "a link is given up while it is waited for an answer"
    assert "b2, where the subscription lives, does not answer" in verdict["hint"]
    assert not verdict["why"], "no answering broker knows the filter"
    assert verdict["reports"]["b2"] is None


def test_an_event_lost_on_the_way_to_a_silent_broker_is_explained() -> None:
    world = Overlay()
    world.subscribe()
    world.hang_up(world.wire(1, 2))
    world.run(0.5)
    client = world.publisher
    client.sequence += 1
    parts = {"publisher": client.publisher, "sequence": client.sequence, "lifetime_us": 5_000}
    world.carry(client.wire, client, encode_publish(Event.checked({"price": 11}, **parts)))  # type: ignore[arg-type]
    world.run(5.0)
    verdict = world.why(EventId(client.publisher, client.sequence))
    assert (verdict["verdict"], verdict["facts"]["reason"]) == ("dropped", "expired")


def test_durable_subscriptions() -> None:
    world = Overlay()
    world.subscribe(durable="ledger")
    event = world.publish()
    assert world.why(event)["verdict"] == "sent", "it has not acknowledged it"
    world.hang_up(world.subscriber.wire)
    world.run(BrokerSettings().resume_s + 5.0)
    verdict = world.why(world.publish())
    assert (verdict["verdict"], verdict["facts"]["reason"]) == ("waiting", "away")


def test_a_drop_for_another_broker_does_not_explain_this_one() -> None:
    home = {"subscription": {"filter": "price > 10", "since_s": 9.0}, "history": {"full": True, "events": 1}}
    lost = {"reason": "unreachable", "ago_s": 1.0, "subscription": None}
    published = {
        "event": {"saw": "published", "ago_s": 1.0},
        "matches": {"result": True, "why": []},
        "sent": {"for_it": True, "waiting": False},
    }
    for elsewhere, verdict in (("other", "too_long_ago"), ("home", "dropped")):
        said = {"root": published | {"drops": [lost | {"for": elsewhere}]}}
        assert explain_delivery(home, said, ("event", "home"))["verdict"] == verdict


def test_unknown_subscriptions_and_unseen_events_are_explained() -> None:
    world = Overlay()
    world.subscribe()
    event = world.publish()
    assert world.why(event, number=99)["verdict"] == "no_subscription"
    assert world.why(EventId(4711, 1))["verdict"] == "never_seen"
    flood(world, world.publisher)
    verdict = world.why(event)
    assert verdict["verdict"] == "too_long_ago"
    assert f"b0 remembers the last {EVENTS_MAX} events" in verdict["text"]


def flood(world: LinkedBrokers, client: FrameClient) -> None:
    """Publish more events than a broker's history holds."""
    for _ in range(EVENTS_MAX + 1):
        client.publish({"price": 11})
    world.run(5.0)

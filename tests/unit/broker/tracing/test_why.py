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
from plait_core.events import EventId
from plait_core.wire import Forward, Frame
from plait_core.wire.frame_types.envelope_frames import SourceRouted
from plait_core.wire.frame_types.session_frames import Late
from plait_lab.simulation.overlay.network import LinkConnection
from plait_lab.simulation.overlay.world import linked_world

CHAIN = {(0, 1): 0.010, (1, 2): 0.020}


class Explained:
    """A chain of brokers with a publisher at one end, which has advertised, and a subscriber at the other."""

    def __init__(self) -> None:
        self.world = linked_world(CHAIN)
        self.publisher = self.world.connected_client(0, "publisher")
        self.subscriber = self.world.connected_client(2, "subscriber")
        self.subscriber.acknowledges = False
        self.publisher.advertise("price >= 0")
        self.world.run(1.0)

    def subscribe(self, **terms: Any) -> None:
        subscription = self.subscriber.subscribe("price > 10", **terms)
        self.world.run(1.0)
        assert subscription.installed

    def publish(self, price: int = 11, for_s: float = 1.0, *, lifetime_us: int = 0) -> EventId:
        event = self.publisher.publish({"price": price}, lifetime_us=lifetime_us)
        assert event is not None
        self.world.run(for_s)
        return event.id

    def why(self, event: EventId, number: int = 1, home: int = 2, at: int = 0) -> dict[str, Any]:
        node, broker = self.world.nodes[at], self.world.broker(at)

        async def ask(brokers: Iterable[int], topic: str, question: dict[str, Any]) -> dict[int, dict[str, Any]]:
            answers: list[dict[int, dict[str, Any]]] = []
            broker.explainer.queries.start(brokers, topic, question, self.world.now, answers.append)
            node.act()
            self.world.run(3.0)
            return answers[0]

        explain = ExplainApi(lambda: broker, dict, ask).explain
        return asyncio.run(explain(event, self.world.broker(home).id, number))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_broker_explains_a_delivery_alike(at: int) -> None:
    chain = Explained()
    chain.subscribe()
    right, wrong = chain.publish(11), chain.publish(5)
    verdict = chain.why(right, at=at)
    assert (verdict["verdict"], verdict["why"]) == ("delivered", ["price > 10 is true: price is 11"])
    assert verdict["facts"]["client"] == "subscriber"
    assert verdict["reports"]["b2"]["event"]["path"] == ["b0", "b1"]
    verdict = chain.why(wrong, at=at)
    assert (verdict["verdict"], verdict["why"]) == ("not_matched", ["price > 10 is false: price is 5"])
    assert "b0" in verdict["reports"], "who had it explains it, though the subscription lives elsewhere"


def test_an_event_before_the_subscription_is_explained() -> None:
    chain = Explained()
    event = chain.publish()
    chain.subscribe()
    verdict = chain.why(event)
    assert verdict["verdict"] == "not_subscribed_yet"
    other = chain.world.connected_client(0)
    other.subscribe("price > 10")
    chain.world.run(0.1)
    number = chain.world.broker(0).interest.subscriptions[-1].number
    assert chain.why(event, number, home=0)["verdict"] == "not_subscribed_yet"


def test_drops_have_their_reasons() -> None:
    chain = Explained()
    chain.subscribe(within_us=25_000, late=Late.DROP)
    verdict = chain.why(chain.publish())
    assert (verdict["verdict"], verdict["facts"]["reason"], verdict["facts"]["at"]) == ("dropped", "late", "b2")


def test_an_expired_event_is_explained_with_its_broker() -> None:
    chain = Explained()
    chain.subscribe()
    for lifetime_us, where in ((5_000, "b1"), (20_000, "b2")):
        verdict = chain.why(chain.publish(for_s=2.0, lifetime_us=lifetime_us))
        assert verdict["verdict"] == "dropped"
        assert verdict["facts"]["reason"] == "expired"
        dropped_at = {name for name, said in verdict["reports"].items() if said["drops"]}
        assert where in dropped_at


def test_a_waiting_event_is_explained_with_its_queue() -> None:
    chain = Explained()
    chain.subscribe()
    assert chain.subscriber.connection is not None
    link = chain.subscriber.connection.ids[1]
    chain.world.broker(2).set_writable(link, False, chain.world.now)
    event = chain.publish()
    verdict = chain.why(event)
    assert (verdict["verdict"], verdict["facts"]["reason"], verdict["facts"]["before"]) == ("waiting", "behind", 0)
    chain.world.broker(2).set_writable(link, True, chain.world.now)
    chain.world.nodes[2].act()
    verdict = chain.why(event)
    assert verdict["verdict"] == "delivered"
    assert verdict["facts"]["waited_ms"] > 1000


def test_an_event_in_transit_is_in_a_stream() -> None:
    chain = Explained()
    chain.subscribe()
    home = chain.world.broker(2).id
    chain.publish(12)
    streams = chain.world.broker(0).overlay.event_streams
    chain.world.wire.intercept(chain.world.nodes[0], lose_events)
    event = chain.publish()
    verdict = chain.why(event)
    assert verdict["verdict"] == "on_its_way"
    assert verdict["facts"]["position"] == next(iter(streams.outgoing[home].kept))
    assert verdict["facts"]["reachable"]


def test_a_broker_that_does_not_answer_is_named() -> None:
    chain = Explained()
    chain.subscribe()
    taken, unwanted = chain.publish(), chain.publish(5)
    chain.world.cut(1, 2)
    chain.world.run(1.0)
    for event, text in ((taken, "b0 reports that it has acknowledged"), (EventId(4711, 1), "no other broker")):
        verdict = chain.why(event)
        assert verdict["verdict"] == "unanswered"
        assert "b2, where the subscription lives, does not answer" in verdict["text"]
        assert text in verdict["text"]
    assert "b0 knew of no matching subscription there" in chain.why(unwanted)["text"]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("at", [0, 1])
def test_an_event_kept_for_a_silent_broker_is_in_transit(at: int, cut: bool) -> None:
    chain = Explained()
    chain.subscribe(durable="ledger")
    if cut:
        chain.world.cut(1, 2)
    else:
        chain.world.nodes[2].pause()
    chain.world.run(0.5)
    event = chain.publish(for_s=0.5)
    verdict = chain.why(event, at=at)
    assert verdict["verdict"] == "on_its_way"
    assert "in b0's stream to b2, at position" in verdict["text"]
    assert verdict["text"].endswith("; b0 cannot reach b2 now"), "a link is given up while it is waited for an answer"
    assert "b2, where the subscription lives, does not answer" in verdict["hint"]
    assert not verdict["why"], "no answering broker knows the filter"
    assert verdict["reports"]["b2"] is None


def test_an_event_lost_on_the_way_to_a_silent_broker_is_explained() -> None:
    chain = Explained()
    chain.subscribe()
    chain.world.cut(1, 2)
    chain.world.run(0.5)
    verdict = chain.why(chain.publish(for_s=5.0, lifetime_us=5_000))
    assert (verdict["verdict"], verdict["facts"]["reason"]) == ("dropped", "expired")


def test_durable_subscriptions() -> None:
    chain = Explained()
    chain.subscribe(durable="ledger")
    event = chain.publish()
    assert chain.why(event)["verdict"] == "sent", "it has not acknowledged it"
    chain.subscriber.leave()
    chain.world.run(BrokerSettings().resume_s + 5.0)
    verdict = chain.why(chain.publish())
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
    chain = Explained()
    chain.subscribe()
    event = chain.publish()
    assert chain.why(event, number=99)["verdict"] == "no_subscription"
    assert chain.why(EventId(4711, 1))["verdict"] == "never_seen"
    flood(chain)
    verdict = chain.why(event)
    assert verdict["verdict"] == "too_long_ago"
    assert f"b0 remembers the last {EVENTS_MAX} events" in verdict["text"]


def lose_events(connection: LinkConnection, frame: Frame) -> list[Frame]:
    return [] if isinstance(frame, Forward | SourceRouted) else [frame]


def flood(chain: Explained) -> None:
    """Publish more events than a broker's history holds."""
    for _ in range(EVENTS_MAX + 1):
        chain.publisher.publish({"price": 11})
    chain.world.run(5.0)

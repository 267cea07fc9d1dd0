"""An overlay starts from cold with many subscriptions, and then lives through churn: time, memory, and agreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from plait_core.filters import Filter, parse

from ...simulation.overlay.broker_node import OverlayNode
from ...simulation.overlay.frame_client import FrameClient, FrameSubscription, PublishedEvent
from .many_brokers import ManyBrokers, memory_mb

TOPICS: Final = 1000
TOPICS_A_BROKER: Final = 100
"""Distinct filters of one broker's subscriptions. Its others repeat them: other brokers get each filter once."""
PUBLISHERS: Final = 3
"""Brokers with an advertisement, which get the interest of all others. They stay up."""
LOOK_S: Final = 0.5
CONVERGE_S: Final = 60.0
FAULT_S: Final = 10.0
"""Time from one fault to the next."""
MEND_S: Final = 20.0
RESTART_S: Final = 10.0
CHANGED: Final = 10
"""Subscriptions that are withdrawn and added in place of a fault."""
SETTLE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ColdStart:
    """A start from cold, and the churn after it."""

    brokers: int
    links: int
    subscriptions: int
    filters: int
    """Filters of other brokers at all publishers' brokers together."""
    converged_s: float
    """Virtual time until all brokers have the same map and all interest; inf if they have not."""
    converge_cpu_s: float
    churn_s: float
    """Virtual time of churn."""
    faults: int
    """Links cut, brokers restarted, and changes of subscriptions."""
    again_s: float
    """Virtual time from the end of churn until all agree again; inf if they do not."""
    cpu_s: float
    """Processor time of everything."""
    memory_mb: float

    @property
    def agreed(self) -> bool:
        """Whether all brokers agreed at the start, and after churn."""
        return max(self.converged_s, self.again_s) < float("inf")


class Complaints:
    """The observer of clients that publish nothing."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def published(self, event: PublishedEvent) -> None: ...
    def delivered(self, *delivery: object) -> None: ...
    def confirmed(self, event: PublishedEvent) -> None: ...

    def complain(self, text: str) -> None:
        """Note a failed request."""
        self.texts.append(text)


class Subscribers:
    """One client at each broker with many subscriptions."""

    def __init__(self, many: ManyBrokers, subscriptions: int) -> None:
        self._many = many
        self._topics = [parse(f"topic = {topic}") for topic in range(TOPICS)]
        self.complaints = Complaints()
        self.clients: list[FrameClient] = []
        each, more = divmod(subscriptions, len(many.nodes))
        for place in range(len(many.nodes)):
            client = self.client(place)
            filters = many.rng.sample(self._topics, TOPICS_A_BROKER)
            for number in range(each + (place < more)):
                client.subscribe(filters[number % len(filters)])
            self.clients.append(client)
        self.publishers = [self.client(place) for place in range(PUBLISHERS)]
        for publisher in self.publishers:
            publisher.advertise("topic >= 0")

    def client(self, place: int) -> FrameClient:
        """Return a client of a broker. It connects once the broker takes it."""
        many = self._many
        return FrameClient(many.nodes[place], many.world.network, many.rng, self.complaints, f"client{place}")

    @property
    def ready(self) -> bool:
        """Whether all requests are answered."""
        return all(client.ready for client in (*self.clients, *self.publishers))

    def change(self) -> None:
        """Withdraw some subscriptions of one broker, and add others."""
        rng = self._many.rng
        client = rng.choice([client for client in self.clients if client.welcome is not None])
        before: list[FrameSubscription] = list(client.subscriptions.values())
        for subscription in rng.sample(before, min(CHANGED, len(before))):
            client.unsubscribe(subscription)
        for _ in range(CHANGED):
            client.subscribe(self._draw())

    def _draw(self) -> Filter:
        return self._many.rng.choice(self._topics)


def measure_cold_start(
    seed: int, brokers: int, subscriptions: int, churn_s: float, progress: Callable[[str], None] = lambda text: None
) -> ColdStart:
    """Start all brokers at once, wait until they agree, and then play churn."""
    many = ManyBrokers(seed, brokers)
    many.world.start()
    subscribers = Subscribers(many, subscriptions)
    agreed_s = _agree(many, subscribers, CONVERGE_S)
    converge_cpu_s = many.cpu_s
    progress(
        f"{brokers:,} brokers, {subscriptions:,} subscriptions: agreed after {agreed_s:.1f} s,"
        f" {converge_cpu_s:.0f} s of processor time, {memory_mb():.0f} MB"
    )
    filters = sum(node.overlay.remote_interest.count for node in many.nodes)
    faults = _churn(many, subscribers, churn_s, progress)
    again_s = _agree(many, subscribers, SETTLE_S) if faults else 0.0
    assert not subscribers.complaints.texts, subscribers.complaints.texts[:3]
    return ColdStart(
        *(brokers, len(many.links), subscriptions, filters, agreed_s, converge_cpu_s),
        *(churn_s, faults, again_s, many.cpu_s, memory_mb()),
    )


def _agree(many: ManyBrokers, subscribers: Subscribers, at_most_s: float) -> float:
    """Return the virtual time until all clients are served and all brokers agree."""
    begun = many.world.now
    agreed = many.world.run_until(lambda: subscribers.ready and many.converged, at_most_s, step_s=LOOK_S)
    return many.world.now - begun if agreed else float("inf")


def _churn(many: ManyBrokers, subscribers: Subscribers, churn_s: float, progress: Callable[[str], None]) -> int:
    """Cut links, kill brokers and change subscriptions in turn. Return how often; all is repaired afterwards."""
    world, rng, faults = many.world, many.rng, 0
    end = world.now + churn_s
    while world.now < end:
        kind = faults % 3
        if kind == 0:
            link = rng.choice(many.links)
            many.cut(link)
            world.timeline.after(MEND_S, partial(many.mend, link))
        elif kind == 1:
            node: OverlayNode = rng.choice(many.nodes[PUBLISHERS:])
            node.kill()
            world.timeline.after(RESTART_S, node.start)
        else:
            subscribers.change()
        faults += 1
        world.run(FAULT_S)
        if faults % 30 == 0:
            progress(f"{churn_s - (end - world.now):,.0f} s of churn, {faults} faults, {many.cpu_s:.0f} s")
    if faults:
        world.run(max(MEND_S, RESTART_S))
    return faults

"""A world of production brokers on virtual time, with links between them and clients that exchange frames.

    world = World(seed=1, brokers=3)
    world.link(0, 1, delay_s=0.002)                    # broker 0 is configured to dial broker 1
    world.link(1, 2, delay_s=0.010)
    world.start()
    world.run(3.0)                                     # they dial, measure their links, and learn of each other
    publisher, subscriber = world.client(0), world.client(2)
    world.run(0.1)
    publisher.advertise("x >= 0")
    subscription = subscriber.subscribe("x > 1")
    world.run(1.0)
    assert subscription.installed                      # the broker has answered Done
    publisher.publish({"x": 2})
    world.run(1.0)
    assert len(subscription.received) == 1
    assert not world.complaints

Each part is in a file of its own:

- `broker_node.py`: `OverlayNode` runs one production `Broker`, over all its lives: `start`, `kill`, `pause`, `resume`.
  `node.broker` is the broker, `node.overlay` its overlay's state for oracles, `node.disk` its log.
  `node.set_processing` makes it slow (`processing.py`).
- `network.py`: `Link` and `LinkConnection`, and what goes wrong with them: `world.network.cut`, `silence`, `mend`,
  `reset`; `link.delay_s`, `link.jitter_s`, `link.slower_s`. `world.network.limit_rate` gives a link a bandwidth
  (`bandwidth.py`); `world.network.set_write_limit` sets when a connection asks its writer to stop.
- `frame_client.py`: `FrameClient` subscribes, advertises, publishes with confirmation, and reconnects.
- `oracle.py` checks each delivery at once, and the whole history and all tables when it is asked to.
- `ground_truth.py`: which subscription is owed which event.
- `wire_tap.py`: `world.wire` decodes what passes between brokers. `world.wire.intercept(node, change)` changes what a
  broker writes, frame by frame; `world.wire.on_copy(see)` reports each copy of an event on a link.
- `worlds/narrow_links.py` gives random histories bandwidths, and fills the links.
- `random_histories.py` and `worlds/` play histories from seeds; `faults.py` has the faults.

Functions in `world.on_published`, `world.on_delivered` and `world.on_confirmed` are called for each event, each
delivery and each receipt. Nothing here is meant to be subclassed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from plait_broker import Broker, BrokerSettings
from plait_broker.overlay.security.identity import Identity
from plait_broker.settings import LinkSettings
from plait_core.matching import Index, new_index
from plait_core.wire import Deliver, Delivery

from ..history import History, Kind, weights_in
from ..timeline import Timeline
from .broker_node import NodeTerms, OverlayNode, no_identity
from .frame_client import FrameClient, FrameSubscription, PublishedEvent
from .ground_truth import GroundTruth
from .network import Link, LinkConnection, OverlayNetwork
from .oracle import DeliveryOracle
from .wire_tap import WireTap

COMPLAINTS_MAX: Final = 20

FORGET_S: Final = 20.0
"""Time after which simulated brokers forget each other."""

SETTINGS: Final = BrokerSettings(
    heartbeat_s=20.0,  # a client pings no broker here, so this only sets how often the broker looks at its connections
    overlay_gone_s=FORGET_S,
    linking=LinkSettings(secret="the overlay's secret"),  # noqa: S106 - brokers authenticate each other with it
)
"""Settings of all brokers, but for their names, addresses and links."""


LINKED_S: Final = 3.0
"""Time until brokers without faults have measured their links and know each other."""

CONNECT_S: Final = 60.0
CONNECT_STEP_S: Final = 0.001
"""Longest time until a client is connected, and how often that is looked at."""


@dataclass(frozen=True, slots=True)
class WorldTerms:
    """What a world is made of."""

    settings: BrokerSettings = SETTINGS
    signed: bool = False
    """Whether brokers sign and check their messages. It costs most of the time of a history."""
    logs: Callable[[int], bool] = field(default=lambda number: number % 2 == 1)
    """Whether the broker of a number has a log."""
    index: Callable[[], Index] = new_index
    forgets: bool = False
    """Whether brokers are absent for so long that others may forget them."""


def address_of(number: int) -> str:
    """Return the address that a broker listens at."""
    return f"127.0.0.1:{4700 + number}"


class World:
    """Brokers, their network, and their clients."""

    def __init__(self, seed: int | str, *, brokers: int, terms: WorldTerms | None = None) -> None:
        terms = terms or WorldTerms()
        self.seed = seed
        self.terms = terms
        self.rng = Random(f"world/{seed}")
        """Draws what happens. Brokers have generators of their own, so they do not change it."""
        self.timeline = Timeline()
        self.history = History()
        self.complaints: list[str] = []
        self.events: list[PublishedEvent] = []
        """All published events."""
        self.on_published: list[Callable[[PublishedEvent], None]] = []
        self.on_delivered: list[Callable[[FrameSubscription, Deliver, Delivery], None]] = []
        self.on_confirmed: list[Callable[[PublishedEvent], None]] = []
        self.network = OverlayNetwork(self.timeline, self.rng)
        self.nodes: list[OverlayNode] = []
        self.clients: list[FrameClient] = []
        forget_s = terms.settings.overlay_gone_s if terms.forgets else float("inf")
        self.truth = GroundTruth(self.timeline, self.network, self.nodes, forget_s=forget_s)
        self.oracle = DeliveryOracle(self.timeline, self.truth, self.clients, self.complain)
        self.wire = WireTap(self.network, self.nodes)
        for _ in range(brokers):
            self.add_broker()

    # --- building -----------------------------------------------------------------------------------------------------

    def add_broker(self, settings: BrokerSettings | None = None) -> OverlayNode:
        """Add a broker that does not run yet, with settings of its own if they are given."""
        number, terms = len(self.nodes), self.terms
        address = address_of(number)
        if settings is None:
            linking = replace(terms.settings.linking, address=address)
            settings = replace(terms.settings, name=f"b{number}", linking=linking)
        identity = Identity if terms.signed else no_identity
        node_terms = NodeTerms(settings, address, terms.logs(number), identity, terms.index, str(self.seed))
        node = OverlayNode(number, self.network, node_terms, self.history, self.truth.change)
        self.nodes.append(node)
        return node

    def link(
        self, near: int, far: int, delay_s: float, *, both_dial: bool = False, bytes_per_s: float | None = None
    ) -> Link:
        """Add a link. The first broker is configured to dial the second, and the second the first if `both_dial`.
        `bytes_per_s` is the bandwidth of each direction; None: unlimited. Call it before they start."""
        first, second = self.nodes[near], self.nodes[far]
        first.dials.append(second.address)
        if both_dial:
            second.dials.append(first.address)
        link = self.network.add_link(first, second, delay_s)
        if bytes_per_s is not None:
            self.network.limit_rate(link, bytes_per_s)
        return link

    def client(self, broker: int, name: str = "", *, publisher: int = 0) -> FrameClient:
        """Add a client, which connects to its broker at once. `publisher` is its id in all sessions, if given."""
        name = name or f"client{len(self.clients)} of b{broker}"
        client = FrameClient(self.nodes[broker], self.network, self.rng, self, name, publisher)
        self.clients.append(client)
        return client

    def connected_client(self, broker: int, name: str = "", *, publisher: int = 0) -> FrameClient:
        """Add a client that keeps all frames, and wait until it is connected."""
        client = self.client(broker, name, publisher=publisher)
        client.keeps_frames = True
        connected = self.run_until(lambda: client.welcome is not None, CONNECT_S, step_s=CONNECT_STEP_S)
        assert connected, f"{client.name} is not connected"
        return client

    def broker(self, number: int) -> Broker:
        """Return a running broker."""
        broker = self.nodes[number].broker
        assert broker is not None, "it does not run"
        return broker

    def link_of(self, near: int, far: int) -> Link:
        """Return the link between two brokers."""
        link = self.network.link(self.nodes[near], self.nodes[far])
        assert link is not None, "there is none"
        return link

    def cut(self, near: int, far: int) -> None:
        """Cut the link between two brokers."""
        self.network.cut(self.link_of(near, far))
        self.truth.change()

    def mend(self, near: int, far: int) -> None:
        """Mend the link between two brokers."""
        self.network.mend(self.link_of(near, far))
        self.truth.change()

    def record_writes(self) -> None:
        """Add all that brokers write to each other to the history, for its hash."""
        self.wire.see_writes(self._record_write)

    @property
    def ready(self) -> bool:
        """Whether all clients are connected and all their requests are answered."""
        return all(client.ready for client in self.clients)

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The present time."""
        return self.timeline.now

    def start(self) -> None:
        """Start all brokers."""
        for node in self.nodes:
            node.start()

    def run(self, for_s: float) -> None:
        """Let time pass."""
        self.timeline.run(self.now + for_s)

    def run_until(self, condition: Callable[[], bool], at_most_s: float, step_s: float = 0.1) -> bool:
        """Let time pass until a condition holds, but not for longer than `at_most_s`. Return whether it holds."""
        end = self.now + at_most_s
        while not (holds := condition()) and self.now < end:
            self.run(step_s)
        return holds

    # --- what happens -------------------------------------------------------------------------------------------------

    def complain(self, text: str) -> None:
        """Note that something is wrong."""
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(f"{self.now:.4f} {text}")

    def published(self, event: PublishedEvent) -> None:
        """Take an event that a client publishes."""
        self.history.add(Kind.PUBLISHED, self.now, event.client.node.number, *event.id, event.confirm)
        self.events.append(event)
        self.oracle.published(event)
        for see in self.on_published:
            see(event)

    def delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        """Take a delivery at a client."""
        node = subscription.client.node.number
        self.history.add(Kind.RECEIVED, self.now, node, subscription.number, *frame.id, frame.delay_us, delivery[1])
        self.oracle.delivered(subscription, frame, delivery)
        for see in self.on_delivered:
            see(subscription, frame, delivery)

    def confirmed(self, event: PublishedEvent) -> None:
        """Take a receipt at a publisher."""
        self.history.add(Kind.TAKEN, self.now, event.client.node.number, *event.id)
        self.oracle.confirmed(event)
        for see in self.on_confirmed:
            see(event)

    def _record_write(self, connection: LinkConnection, side: int, data: bytes) -> None:
        self.history.add(Kind.WRITE, self.now, connection.link.number, connection.ends[side].number, *weights_in(data))


LINKED: Final = WorldTerms(settings=BrokerSettings(), signed=True, logs=lambda number: True)
"""Brokers as they are configured by default, with keys and logs."""


def linked_world(delays_s: Mapping[tuple[int, int], float], *, seed: int = 0, terms: WorldTerms = LINKED) -> World:
    """Return a world with these links, once its brokers have measured them and know each other."""
    count = 1 + max((max(ends) for ends in delays_s), default=0)
    world = World(seed, brokers=count, terms=terms)
    for (near, far), delay_s in delays_s.items():
        world.link(near, far, delay_s)
    world.start()
    world.run(LINKED_S)
    assert sum(node.links for node in world.nodes) == 2 * len(delays_s), "they are linked"
    return world

"""Random histories: graphs with cycles, where links and brokers fail and return while clients publish and subscribe.

`play_overlay(seed)` plays one. Its brokers have one or two clients each. Filters and advertisements change; at the end
all faults are healed, all tables must be right soon, and more events are published. In half of the histories links have
bandwidths, and bursts of events fill them (`worlds/narrow_links.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import networkx as nx

from plait_core import Attributes
from plait_core.filters import Filter, parse
from plait_core.matching import Index
from plait_core.wire import Confirm

from .faults import FAULTS, RELINK_MAX_S, Faults
from .ground_truth import CALM_S
from .oracle import CopyOracle, TableOracle
from .world import SETTINGS, World, WorldTerms
from .worlds.narrow_links import NarrowLinks

BROKERS: Final = (3, 4, 5, 6, 8, 12)
DELAYS_S: Final = (0.0005, 0.002, 0.01, 0.05)

BEGIN_S: Final = 12.0
"""Time in which all brokers know each other and the first subscriptions are installed."""

LIFE_S: Final = 10.0
"""Seconds in which things happen."""

SIGNED: Final = 16
"""In one history of so many, brokers sign and check their messages."""

GROUPED: Final = 4
"""In one history of so many, events travel in stream groups."""

LARGE: Final = 250
"""One history in so many has more brokers, up to sixty."""

LATE_S: Final = 30.0
"""Longest time after healing until all owed events are delivered."""

NOTICED_S: Final = 0.1
"""Time until brokers notice that connections did not survive a fault."""

MORE: Final = 40
MORE_S: Final = 5.0
"""Events at the end, when all is healed, and the longest time for their delivery."""

DELAYS_AGREE_S: Final = 10.0
"""Time until all maps have the same delays, which brokers smooth and flood at most twice a second."""

BOTH_DIAL: Final = 0.3
"""Share of the links that both ends are configured to dial."""

CONFIRMS: Final = (Confirm.NONE, Confirm.NONE, Confirm.NONE, Confirm.BROKER, Confirm.SUBSCRIBERS)


class RandomHistory:
    """What happens in one history, and the world that it happens in."""

    def __init__(self, name: str, *, brokers: int, terms: WorldTerms, advertised: bool = True) -> None:
        """`name` seeds all that is drawn. `advertised`: clients publish only what they have advertised."""
        self.advertised = advertised
        self.draw_event: Callable[[Random], Attributes] = draw_event
        self.rng = Random(name)
        self.world = World(name, brokers=brokers, terms=terms)
        self.faults = Faults(self.world, self.rng)
        self.narrow: NarrowLinks | None = None
        """Fills the links, if they have a bandwidth."""

    # --- building -----------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Draw the links."""
        for near, far in draw_edges(len(self.world.nodes), self.rng):
            delay_s = self.rng.choice(DELAYS_S) * self.rng.uniform(0.8, 1.2)
            self.world.link(near, far, delay_s, both_dial=self.rng.random() < BOTH_DIAL)

    def narrow_links(self, *, faults: bool) -> None:
        """Give the links bandwidths, and check what follows from them. Call it once they are built."""
        rng = Random(f"{self.world.seed}/narrow")  # its own, so that the rest of the history is drawn as without
        self.narrow = NarrowLinks(self.world, rng, self.draw_event, faults=faults)

    def add_clients(self, *, advertisements_min: int = 0, subscriptions_min: int = 0) -> None:
        """Give each broker one or two clients, with up to two advertisements and three subscriptions between them."""
        rng = self.rng
        for node in self.world.nodes:
            clients = [self.world.client(node.number) for _ in range(rng.choice((1, 1, 2)))]
            for _ in range(rng.randint(advertisements_min, 2)):
                rng.choice(clients).advertise(draw_filter(rng, wide=True))
            for _ in range(rng.randint(subscriptions_min, 3)):
                rng.choice(clients).subscribe(draw_filter(rng))

    def begin(self) -> None:
        """Wait until all brokers are linked and all first requests are answered, and then until nothing changes."""
        world = self.world
        world.run(0.5)
        if not world.run_until(lambda: self.linked and self.world.ready, BEGIN_S):
            world.complain("I7: brokers do not come up")
        world.run_until(lambda: world.truth.calm, CALM_S)

    def play(self, *, faults: bool) -> list[str]:
        """Play a history to its end, and return the complaints."""
        world, rng = self.world, self.rng
        for node in world.nodes:
            world.timeline.at(rng.uniform(0, 0.2), node.start)
        self.add_clients()
        self.begin()
        self.publish_within(LIFE_S, rng.randint(40, 120))
        for _ in range(rng.randint(0, 25)):
            world.timeline.after(rng.uniform(0, LIFE_S), self.change)
        if faults:
            for _ in range(rng.randint(1, 6)):
                kind = rng.choice(FAULTS)
                world.timeline.after(rng.uniform(0, LIFE_S), lambda kind=kind: self.faults.cause(kind))  # type: ignore[misc]
        if self.narrow is not None:
            self.narrow.load(LIFE_S)
        world.run(LIFE_S)
        return self.conclude()

    # --- what clients do ----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish an event at a random client, with an advertisement that covers it if it has to have one."""
        attributes, confirm = self.draw_event(self.rng), self.rng.choice(CONFIRMS)
        connected = [client for client in self.world.clients if client.welcome is not None]
        clients = [client for client in connected if not self.advertised or client.may_publish(attributes)]
        if clients:
            self.rng.choice(clients).publish(attributes, confirm)

    def change(self) -> None:
        """Change what a random client advertises or subscribes to."""
        rng = self.rng
        client = rng.choice(self.world.clients)
        what = rng.choice(("subscribe", "change", "unsubscribe", "advertise", "withdraw"))
        plain = [one for one in client.subscriptions.values() if not one.durable]
        if client.welcome is None or client.node.paused:
            return
        if what == "subscribe":
            client.subscribe(draw_filter(rng))
        elif what == "change" and plain:
            client.change(rng.choice(plain), draw_filter(rng))
        elif what == "unsubscribe" and plain:
            client.unsubscribe(rng.choice(plain))
        elif what == "advertise":
            client.advertise(draw_filter(rng, wide=True))
        elif what == "withdraw" and client.advertisements:
            client.withdraw(rng.choice(list(client.advertisements.values())))

    def publish_within(self, for_s: float, count: int) -> None:
        """Schedule events at random times."""
        for _ in range(count):
            self.world.timeline.after(self.rng.uniform(0, for_s), self.publish)

    # --- the end ------------------------------------------------------------------------------------------------------

    def conclude(self) -> list[str]:
        """Heal everything, check that tables are right soon, wait for what is owed, publish more, and judge."""
        world = self.world
        self.faults.heal()
        healed = world.now
        world.run(NOTICED_S)
        if not world.run_until(lambda: self.linked, RELINK_MAX_S):
            world.complain("I7: brokers do not link to each other again")
        world.run_until(lambda: world.ready, RELINK_MAX_S)
        while world.now < min(world.truth.settled_at, healed + LATE_S):
            world.timeline.run(world.truth.settled_at)
        tables = TableOracle(world.nodes, world.clients, world.network, world.complain, inferred=not self.advertised)
        tables.judge()
        world.run_until(lambda: not world.oracle.outstanding, LATE_S, step_s=0.5)
        world.run(max(0.0, 2.0 - (world.now - healed)))
        for _ in range(MORE):
            self.publish()
        world.run(0.5)
        world.run_until(lambda: not world.oracle.outstanding, MORE_S if self.narrow is None else LATE_S)
        world.oracle.judge()
        tables.judge()
        if not world.run_until(lambda: tables.delays_agree, DELAYS_AGREE_S):
            world.complain("I7: maps have different delays")
        return world.complaints

    @property
    def linked(self) -> bool:
        """Whether each broker has all its links."""
        wanted = dict.fromkeys(self.world.nodes, 0)
        for link in self.world.network.links:
            for node in self.world.nodes:
                wanted[node] += node in link.ends
        return all(node.links == count for node, count in wanted.items())


def play_overlay(
    seed: int,
    *,
    faults: bool = True,
    brokers: int | None = None,
    dissemination: str = "shortest-paths",
    index: type[Index] | None = None,
) -> World:
    """Play a seed, and return the world with its complaints."""
    history = overlay_history(seed, faults=faults, brokers=brokers, dissemination=dissemination, index=index)
    history.play(faults=faults)
    return history.world


def overlay_history(
    seed: int,
    *,
    faults: bool = True,
    brokers: int | None = None,
    dissemination: str = "shortest-paths",
    index: type[Index] | None = None,
) -> RandomHistory:
    """Return a history that has not begun."""
    name = f"overlay/{seed}/{faults}"
    rng = Random(f"{name}/size")
    count = brokers or (rng.randint(13, 60) if seed % LARGE == LARGE - 1 else rng.choice(BROKERS))
    linking = replace(SETTINGS.linking, dissemination=dissemination)
    if is_grouped(seed):
        linking = replace(linking, destinations_max=1 + seed // GROUPED % 2)
    settings = replace(SETTINGS, linking=linking)
    terms = WorldTerms(settings, signed=seed % SIGNED == 1)
    if index is not None:
        terms = replace(terms, index=index)
    history = RandomHistory(name, brokers=count, terms=terms)
    history.build()
    if is_narrow(seed):
        history.narrow_links(faults=faults)
    elif not faults:
        history.world.wire.on_copy(CopyOracle(history.world.complain).see)
    return history


def is_narrow(seed: int) -> bool:
    """Return whether the links of a history have bandwidths: in half of those that sign, and of the others."""
    return (seed + seed // SIGNED) % 2 == 1


def is_grouped(seed: int) -> bool:
    """Return whether the brokers of a history send events in stream groups, from two or three destinations on."""
    return seed % GROUPED == 2


def draw_event(rng: Random) -> Attributes:
    """Draw the attributes of an event."""
    return {"x": rng.randrange(100), "y": rng.randrange(10)}


def draw_edges(count: int, rng: Random) -> list[tuple[int, int]]:
    """Return the edges of a connected graph with cycles: a random tree and some more edges, each in random order."""
    graph = nx.random_labeled_tree(count, seed=rng)
    for _ in range(rng.randint(1, count)):
        graph.add_edge(*rng.sample(range(count), 2))
    return [(near, far) if rng.random() < 0.5 else (far, near) for near, far in sorted(map(sorted, graph.edges))]


def draw_filter(rng: Random, *, wide: bool = False) -> Filter:
    """Return a filter that some events match; a wide one is for advertisements."""
    low = rng.randrange(0, 90)
    high = low + rng.randrange(30, 100) if wide else low + rng.randrange(5, 40)
    text = f"{low} <= x < {high}"
    if rng.random() < 0.3:
        text += f" and y >= {rng.randrange(0, 6)}"
    return parse(text)

"""Brokers that find each other: many whole brokers on virtual time and a plain network.

    crowd = WholeBrokers(20, seed=1)          # each has one seed: the first
    crowd.start()
    crowd.run(20)
    assert crowd.whole

The network makes connections, delivers bytes in order and delayed, cuts connections across a partition, and refuses
those without a listener. Everything else is up to the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import hypot
from random import Random
from typing import Final

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.outputs import Close, Dial, Send
from plait_broker.settings import LinkSettings

from ..timeline import CALENDAR_US, Timeline

FARTHEST_S: Final = 0.05
"""Delay between opposite corners of the plane that brokers are on."""

ATTEMPT_S: Final = 2.0
"""Seconds until a connection attempt across a partition times out."""


@dataclass(slots=True, eq=False)
class SiteWire:
    """A connection; its ends are sites, each with the connection's number there."""

    ends: tuple[tuple[Site, int, int], tuple[Site, int, int]]
    """Site, number, and incarnation of the site."""
    open: bool = True


@dataclass(slots=True, eq=False)
class Site:
    """A broker, or the place where it ran."""

    name: str
    address: str
    at: tuple[float, float]
    settings: BrokerSettings
    broker: Broker | None = None
    life: int = 0
    numbers: int = 0
    wires: dict[int, SiteWire] = field(default_factory=dict)
    side: int = 0
    wake_at: float = float("inf")


class WholeBrokers:
    """All brokers and their network."""

    def __init__(self, count: int, *, seed: int, seeds: int = 1, degree: int = 3, links_max: int = 8) -> None:
        """The first `seeds` brokers are the seeds of all."""
        self.rng = Random(f"crowd/{seed}")
        self.timeline = Timeline()
        self.dials = 0
        """Connection attempts of all brokers."""
        self.sites: list[Site] = []
        addresses = [f"127.0.0.1:{4680 + number}" for number in range(count)]
        for number, address in enumerate(addresses):
            linking = LinkSettings(seeds=tuple(addresses[:seeds]), address=address, degree=degree, links_max=links_max)
            settings = BrokerSettings(name=f"b{number}", linking=linking)
            where = (self.rng.random(), self.rng.random())
            self.sites.append(Site(f"b{number}", address, where, settings))
        self._by_address = {site.address: site for site in self.sites}

    # --- what is done to them -----------------------------------------------------------------------------------------

    def start(self, within_s: float = 2.0) -> None:
        """Start all brokers at random times."""
        for site in self.sites:
            self.timeline.at(self.timeline.now + self.rng.uniform(0, within_s), lambda site=site: self.begin(site))  # type: ignore[misc]

    def begin(self, site: Site) -> None:
        """Start a new incarnation."""
        now = self.timeline.now
        site.life += 1
        site.wake_at = float("inf")
        site.broker = Broker(site.settings, self.rng, OpenGate(), now=now, wall_us=CALENDAR_US + round(now * 1_000_000))
        self._act(site)

    def kill(self, site: Site) -> None:
        """Stop a broker; its kernel closes the connections."""
        site.broker = None
        for wire in list(site.wires.values()):
            self._cut(wire)

    def part(self, sites: Iterable[Site]) -> None:
        """Partition these brokers from the others."""
        side = set(sites)
        for site in self.sites:
            site.side = int(site in side)
            for wire in list(site.wires.values()):
                if (wire.ends[0][0] in side) != (wire.ends[1][0] in side):
                    self._cut(wire)

    def heal(self) -> None:
        """End the partition."""
        for site in self.sites:
            site.side = 0

    def run(self, for_s: float) -> None:
        """Let time pass."""
        self.timeline.run(self.timeline.now + for_s)

    # --- what has become of them --------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[Site]:
        return [site for site in self.sites if site.broker is not None]

    def degree(self, site: Site) -> int:
        """Return a broker's number of links."""
        return len(site.broker.broker_connections) if site.broker is not None else 0

    @property
    def links(self) -> int:
        return sum(map(self.degree, self.alive)) // 2

    @property
    def whole(self) -> bool:
        """Whether each broker reaches all others by its own map."""
        ids = {site.broker.id for site in self.alive if site.broker is not None}
        return all(self._reached(site) >= ids for site in self.alive)

    def islands(self) -> list[set[str]]:
        """Return the connected components by the links that are up."""
        left, found = dict.fromkeys(self.alive), []
        while left:
            ahead = [next(iter(left))]
            island: set[str] = set()
            while ahead:
                site = ahead.pop()
                if site in left:
                    del left[site]
                    island.add(site.name)
                    ahead += self._neighbours(site)
            found.append(island)
        return found

    def _neighbours(self, site: Site) -> list[Site]:
        ids = {other.broker.id: other for other in self.alive if other.broker is not None}
        links = site.broker.broker_connections.links() if site.broker is not None else []
        return [ids[link.neighbour] for link in links if link.neighbour in ids]

    @staticmethod
    def _reached(site: Site) -> set[int]:
        assert site.broker is not None, "who is alive has a map"
        return set(site.broker.overlay.map.distances(site.broker.id))

    # --- the network --------------------------------------------------------------------------------------------------

    def _delay_s(self, near: Site, far: Site) -> float:
        return 0.0002 + FARTHEST_S * hypot(near.at[0] - far.at[0], near.at[1] - far.at[1]) / hypot(1, 1)

    def _dial(self, near: Site, address: str) -> None:
        self.dials += 1
        far, life = self._by_address[address], near.life
        once_s = self._delay_s(near, far)

        def arrive() -> None:
            if near.side != far.side:
                self.timeline.after(ATTEMPT_S, lambda: self._unreachable(near, life, address))
            elif far.broker is None:
                self.timeline.after(once_s, lambda: self._unreachable(near, life, address))
            elif near.life == life and near.broker is not None:
                self._connect(near, far, once_s)

        self.timeline.after(once_s, arrive)

    def _connect(self, near: Site, far: Site, once_s: float) -> None:
        near.numbers += 1
        far_number = far.numbers = far.numbers + 1
        near_number = near.numbers
        if near is far:
            near_number, far_number = near.numbers - 1, near.numbers
        wire = SiteWire(((near, near_number, near.life), (far, far_number, far.life)))
        near.wires[near_number] = far.wires[far_number] = wire
        assert far.broker is not None, "somebody listens"
        far.broker.connected(far_number, Caller(near.address.replace(":4", ":5")), self.timeline.now)
        self._act(far)

        def answered() -> None:
            if wire.open and near.broker is not None and near.life == wire.ends[0][2]:
                near.broker.connected(near_number, Caller(far.address, dialled=far.address), self.timeline.now)
                self._act(near)

        self.timeline.after(once_s, answered)

    def _unreachable(self, site: Site, life: int, address: str) -> None:
        if site.broker is not None and site.life == life:
            site.broker.broker_connections.unreachable(address, self.timeline.now)
            self._act(site)

    def _write(self, site: Site, number: int, data: bytes) -> None:
        wire = site.wires.get(number)
        if wire is None or not wire.open:
            return
        near_first = wire.ends[0][:2] == (site, number)
        far, far_number, life = wire.ends[near_first]

        def deliver() -> None:
            if wire.open and far.broker is not None and far.life == life:
                far.broker.receive(far_number, data, self.timeline.now)
                self._act(far)

        self.timeline.after(self._delay_s(site, far), deliver)

    def _cut(self, wire: SiteWire) -> None:
        if not wire.open:
            return
        wire.open = False
        for site, number, life in wire.ends:
            site.wires.pop(number, None)
            self.timeline.after(0.0, lambda site=site, number=number, life=life: self._lost(site, number, life))  # type: ignore[misc]

    def _lost(self, site: Site, number: int, life: int) -> None:
        if site.broker is not None and site.life == life:
            site.broker.disconnected(number, self.timeline.now)
            self._act(site)

    # --- one broker ---------------------------------------------------------------------------------------------------

    def _act(self, site: Site) -> None:
        broker = site.broker
        assert broker is not None, "who acts is alive"
        for output in broker.take_output():
            match output:
                case Send(number, chunks):
                    self._write(site, number, b"".join(chunks))
                case Close(number):
                    wire = site.wires.get(number)
                    if wire is not None:  # after what was sent before, which is under way for as long
                        self.timeline.after(FARTHEST_S + 0.001, lambda wire=wire: self._cut(wire))  # type: ignore[misc]
                case Dial(address):
                    self._dial(site, address)
                case _:
                    raise AssertionError("nobody publishes here, so nothing is stored")
        self._wake_later(site, broker.next_deadline())

    def _wake_later(self, site: Site, when: float) -> None:
        when = max(when, self.timeline.now + 1e-6)
        if when < site.wake_at:
            site.wake_at, life = when, site.life
            self.timeline.at(when, lambda: self._wake(site, life, when))

    def _wake(self, site: Site, life: int, when: float) -> None:
        if site.broker is None or site.life != life or site.wake_at != when:
            return
        site.wake_at = float("inf")
        site.broker.tick(self.timeline.now)
        self._act(site)

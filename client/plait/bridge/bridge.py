"""A bridge between brokers and a group of peers: one client of each; `BridgeElection` decides which bridge carries.

Carried events keep their attributes, payload, headers, priority and remaining lifetime. Two headers are added: the id
of the original event, and the networks that the event has passed. Sealed events are not carried: the signature names
the publisher, and the bridge is another publisher.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from plait_core.sealed_opening import SEALED

from ..client import Client
from ..errors import Error
from ..event import Event
from ..options.settings import Buffer
from .election import BEACON_S, LEASE_S, BridgeElection, Carried
from .interest import PROBE, BridgeInterest, cells_filter

ORIGIN: Final = "plait-origin"
PASSED: Final = "plait-passed"
BEACON: Final = "plait.bridge"
"""The attribute of beacons. They are sent among the brokers, which have no event space that could exclude them."""
_ID: Final = "plait.bridge_id"
_NUMBER: Final = "plait.bridge_beacon"
BUFFER: Final = 16_384
"""Events that wait to be carried."""


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """The events that a bridge carries, and the names of its networks."""

    to_peers: str = "true"
    to_brokers: str = "true"
    brokers: str = "brokers"
    """Name of the brokers' network. Networks that bridges join in a ring need different names."""
    peers: str = "peers"
    by_interest: bool = False
    """Whether the bridge carries only events that match a subscription on the other side. A new subscription then
    takes effect across the bridge a moment later than on its own side."""
    cells: tuple[str, ...] = ("true",)
    """Filters that together match everything. Interest is exchanged for each of them."""


class Bridge:
    """One running bridge: `async with Bridge(...)`."""

    def __init__(self, brokers: Client, peers: Client, settings: BridgeSettings) -> None:
        self.counts: Counter[str] = Counter()
        """Counters: carried events by target network, and events not carried: refused by the other side, expired,
        sealed."""
        self._clients = (brokers, peers)
        self._settings = settings
        id = time.time_ns() // 1_000_000 << 20 | secrets.randbits(20)
        self._election: BridgeElection[Event] = BridgeElection(id, (settings.brokers, settings.peers), time.monotonic())
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def leads(self) -> bool:
        """Whether this bridge is the leader, which carries, now."""
        return self._election.leads(time.monotonic())

    async def __aenter__(self) -> Bridge:
        settings, (brokers, peers) = self._settings, self._clients
        self._beacons = await brokers.subscribe(f"{BEACON} == '{settings.peers}' and not has({PROBE})")
        to_peers, cells = f"({settings.to_peers}) and not has({BEACON})", settings.cells
        first_cells = () if settings.by_interest else cells
        buffer = Buffer(items=BUFFER)
        from_brokers = await brokers.subscribe(cells_filter(0, to_peers, first_cells), buffer=buffer)
        from_peers = await peers.subscribe(cells_filter(1, settings.to_brokers, first_cells), buffer=buffer)
        # A publisher that the group does not know yet reaches only the first peers that connect to it. Other bridges
        # have to receive every carried event, or they carry it again after a failure. So announce the publisher now.
        await peers.advertise(settings.to_peers)
        coroutines = [
            ("beacons", self._send_beacons()),
            ("others", self._receive_beacons()),
            ("from brokers", self._carry_from(0, from_brokers)),
            ("from peers", self._carry_from(1, from_peers)),
        ]
        if settings.by_interest:
            peer_interest = BridgeInterest(peers, from_brokers, 0, to_peers, cells)
            broker_interest = BridgeInterest(brokers, from_peers, 1, settings.to_brokers, cells)
            coroutines += [("peers' interest", peer_interest.run()), ("brokers' interest", broker_interest.run())]
        for name, coroutine in coroutines:
            self._tasks.append(asyncio.create_task(coroutine, name=f"plait bridge: {name}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self) -> None:
        """Run until a task fails for good."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def _send_beacons(self) -> None:
        """Send beacons, and carry held events after becoming the leader."""
        brokers = self._clients[0]
        while True:
            number = self._election.beacon(time.monotonic())
            beacon = {BEACON: self._settings.peers, _ID: f"{self._election.id:x}", _NUMBER: number}
            await brokers.publish(beacon, ttl=LEASE_S)
            await self._publish(self._election.take_due(time.monotonic()))
            await asyncio.sleep(BEACON_S)

    async def _receive_beacons(self) -> None:
        async for beacon in self._beacons:
            try:
                other, number = int(str(beacon[_ID]), 16), int(str(beacon[_NUMBER]))
            except (KeyError, ValueError):
                continue
            self._election.receive_beacon(other, number, time.monotonic())

    async def _carry_from(self, side: int, events: Any) -> None:
        here = self._election.networks[side]
        async for event in events:
            headers = event.headers
            origin = headers.get(ORIGIN, str(event.id))
            passed = frozenset(headers.get(PASSED, "").split()) | {here}
            await self._publish(self._election.receive(side, origin, passed, event, time.monotonic()))

    async def _publish(self, carried: list[Carried[Event]]) -> None:
        for each in carried:
            event, side = each.event, each.side
            if SEALED in event:
                self.counts["sealed"] += 1
                continue
            headers = event.headers
            passed = [*headers.get(PASSED, "").split(), self._election.networks[1 - side]]
            headers |= {ORIGIN: headers.get(ORIGIN, str(event.id)), PASSED: " ".join(passed)}
            left = event.lifetime_left
            if left is not None and left <= 0:
                self.counts["expired"] += 1
                continue
            try:
                await self._clients[side].publish(
                    dict(event), event.payload, ttl=left, priority=event.priority, headers=headers
                )
            except Error:
                self.counts["refused"] += 1
            else:
                self.counts[f"to {self._election.networks[side]}"] += 1

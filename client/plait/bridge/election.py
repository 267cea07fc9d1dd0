"""Leader election among the bridges between two networks, and duplicate suppression. No I/O.

The two networks are side 0, brokers, and side 1, a group of peers. Any number of bridges may join them. Bridges send
beacons in one network, and the bridge with the least id leads. The leader carries events. The others hold each event
until they see it on the other side.

A leader needs a lease: one of its own beacons, received back recently. So a bridge that was suspended or is cut off
stops by itself, before another bridge starts. A carried event names the networks that it has passed and never returns
to one of them. So no event loops, through any number of networks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

E = TypeVar("E")

BEACON_S: Final = 0.5
"""Seconds between two beacons."""
LEASE_S: Final = 2.0
"""Lease: seconds after sending a beacon, received back since, during which a bridge may lead."""
SILENCE_S: Final = LEASE_S + 1.0
"""Seconds without beacons after which a bridge counts as gone. Its last carried events have arrived by then."""
START_S: Final = LEASE_S + SILENCE_S
"""Seconds that a new bridge waits before it may lead: the previous leader has then received its beacons."""
HELD_S: Final = 2 * SILENCE_S + LEASE_S
"""Seconds that an event is held: longer than detecting a failed leader and taking over."""
HELD_MAX: Final = 16_384
"""Events held for each direction. The oldest is dropped first, and counted."""
CARRIED_MAX: Final = 65_536
"""Carried events that are remembered for each direction."""
BEACONS_MAX: Final = 16
"""Own beacons that are remembered: those of several leases."""
BRIDGES_MAX: Final = 64
"""Bridges that are tracked at a time."""


@dataclass(frozen=True, slots=True)
class Carried(Generic[E]):
    """An event to be published on a side."""

    side: int
    event: E


class BridgeElection(Generic[E]):
    """The election state of one bridge. Ids order bridges by age; the least is the oldest."""

    def __init__(self, id: int, networks: tuple[str, str], now: float) -> None:
        assert networks[0] != networks[1], "a bridge joins two networks"
        self.id = id
        self.networks = networks
        self.expired = 0
        """Held events that were dropped: no bridge was the leader in time."""
        self._since = now
        self._beacons: dict[int, float] = {}
        self._sent: dict[int, float] = {}
        self._number = 0
        self._held: tuple[OrderedDict[str, tuple[E, float]], ...] = (OrderedDict(), OrderedDict())
        self._carried: tuple[OrderedDict[str, None], ...] = (OrderedDict(), OrderedDict())

    def beacon(self, now: float) -> int:
        """Return the number of the next beacon. If the last own beacon is too old, restart the waiting time of a new
        bridge."""
        if now - self._beacons.get(self.id, self._since) >= LEASE_S:
            self._since = now
        self._number += 1
        self._sent[self._number] = now
        if len(self._sent) > BEACONS_MAX:
            del self._sent[next(iter(self._sent))]
        return self._number

    def receive_beacon(self, bridge: int, number: int, now: float) -> None:
        """Process a beacon. An own beacon counts from its sending time: this bridge may have been suspended since."""
        at = now if bridge != self.id else self._sent.get(number, self._since)
        self._beacons[bridge] = max(at, self._beacons.get(bridge, at))
        if len(self._beacons) > BRIDGES_MAX:
            del self._beacons[max(self._beacons)]

    def leads(self, now: float) -> bool:
        """Return whether this bridge is the leader."""
        leased = now - self._beacons.get(self.id, self._since) < LEASE_S
        if not leased or now - self._since < START_S:
            return False
        return all(bridge >= self.id or now - at >= SILENCE_S for bridge, at in self._beacons.items())

    def receive(self, side: int, origin: str, passed: frozenset[str], event: E, now: float) -> list[Carried[E]]:
        """Process an event received on a side, with the networks that it has passed. Return the events to publish."""
        other = 1 - side
        if self.networks[other] in passed:
            self._mark_carried(other, origin)
            return []
        if origin in self._carried[side] or origin in self._held[side]:
            return []
        self._held[side][origin] = (event, now)
        if len(self._held[side]) > HELD_MAX:
            self._held[side].popitem(last=False)
            self.expired += 1
        return self.take_due(now)

    def take_due(self, now: float) -> list[Carried[E]]:
        """Remove and return the held events that are to be published now: all of them if this bridge leads."""
        found: list[Carried[E]] = []
        leads = self.leads(now)
        for side, held in enumerate(self._held):
            while held:
                origin, (event, since) = next(iter(held.items()))
                old = now - since > HELD_S
                if not leads and not old:
                    break
                del held[origin]
                if leads:
                    self._mark_carried(side, origin)
                    found.append(Carried(1 - side, event))
                else:
                    self.expired += 1
        return found

    def _mark_carried(self, side: int, origin: str) -> None:
        """Record that an event of this side was carried."""
        self._held[side].pop(origin, None)
        carried = self._carried[side]
        carried[origin] = None
        if len(carried) > CARRIED_MAX:
            carried.popitem(last=False)

"""Who carries an event from one world to the other, and which have been carried: a bridge, without I/O.

Two networks, side 0 and side 1: brokers, and a group of peers. Any number of bridges may join them. They hear each
other's beacons in one world, and the eldest *leads*: it carries, the others keep what they hear until they see that it
has come out on the other side. Who leads does so only for a while after a beacon of its own that came back to it, so
that one that was asleep, or is cut off, stops by itself, and earlier than another begins. What has been carried says
which networks it has been in and never goes back to one of them: so nothing loops, through however many networks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

E = TypeVar("E")

BEACON_S: Final = 0.5
"""Between two beacons."""
LEASE_S: Final = 2.0
"""For so long after it has sent a beacon, one may lead that has heard it itself."""
SILENCE_S: Final = LEASE_S + 1.0
"""Without another's beacons for so long that one is gone, and what it carried last has come out on the other side."""
START_S: Final = LEASE_S + SILENCE_S
"""A bridge that has just begun listens for so long before it may lead: whoever led has then heard of it, ..."""
HELD_S: Final = 2 * SILENCE_S + LEASE_S
"""... and what others may have failed to carry is kept for longer than it takes to notice and to take over."""
HELD_MAX: Final = 16_384
"""Events kept in each direction; the oldest goes first, and is counted."""
CARRIED_MAX: Final = 65_536
"""Events that are known to have been carried, in each direction."""
BEACONS_MAX: Final = 16
"""Beacons of our own that are remembered: those of several leases."""
BRIDGES_MAX: Final = 64
"""Bridges that are known at a time."""


@dataclass(frozen=True, slots=True)
class Carried(Generic[E]):
    """An event to publish on a side."""

    side: int
    event: E


class BridgeElection(Generic[E]):
    """One of the bridges between two networks. Ids order bridges by age: the least is the eldest."""

    def __init__(self, id: int, networks: tuple[str, str], now: float) -> None:
        assert networks[0] != networks[1], "a bridge joins two networks"
        self.id = id
        self.networks = networks
        self.expired = 0
        """Events that nobody was there to carry while there was time."""
        self._since = now
        self._beacons: dict[int, float] = {}
        self._sent: dict[int, float] = {}
        self._number = 0
        self._held: tuple[OrderedDict[str, tuple[E, float]], ...] = (OrderedDict(), OrderedDict())
        self._carried: tuple[OrderedDict[str, None], ...] = (OrderedDict(), OrderedDict())

    def beacon(self, now: float) -> int:
        """The number of a beacon that goes out now. Who finds that he was away begins anew."""
        if now - self._beacons.get(self.id, self._since) >= LEASE_S:
            self._since = now
        self._number += 1
        self._sent[self._number] = now
        if len(self._sent) > BEACONS_MAX:
            del self._sent[next(iter(self._sent))]
        return self._number

    def receive_beacon(self, bridge: int, number: int, now: float) -> None:
        """A beacon came. Of our own what counts is when it was sent: we may have been asleep since."""
        at = now if bridge != self.id else self._sent.get(number, self._since)
        self._beacons[bridge] = max(at, self._beacons.get(bridge, at))
        if len(self._beacons) > BRIDGES_MAX:
            del self._beacons[max(self._beacons)]

    def leads(self, now: float) -> bool:
        """Whether it is for us to carry."""
        leased = now - self._beacons.get(self.id, self._since) < LEASE_S
        if not leased or now - self._since < START_S:
            return False
        return all(bridge >= self.id or now - at >= SILENCE_S for bridge, at in self._beacons.items())

    def receive(self, side: int, origin: str, passed: frozenset[str], event: E, now: float) -> list[Carried[E]]:
        """An event was heard on a side, with where it has been before; what to publish now."""
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
        """What to publish: all that is held, if it is for us."""
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
        """An event of this side has been carried."""
        self._held[side].pop(origin, None)
        carried = self._carried[side]
        carried[origin] = None
        if len(carried) > CARRIED_MAX:
            carried.popitem(last=False)

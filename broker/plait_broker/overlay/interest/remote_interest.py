"""Incoming interest: the filters of other brokers' subscribers for the events that are published here.

All filters are in one index. An event is matched once, and the result is the set of brokers that it must reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat

from plait_core.filters import Filter, parse_indexable
from plait_core.matching import Index
from plait_core.values import Attributes
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.overlay_frames import InterestUpdate

from ...deposits import BROKER, Deposit, Deposits


@dataclass(slots=True)
class HomeInterest:
    """The interest of one home broker, as of its last applied update."""

    version: int = 0
    since: float = math.inf
    """When its interest was complete for the first time."""
    offers: int = 0
    """The fingerprint of our advertisements that its last update was computed against."""
    repeats: int = 0
    """Duplicate updates in a row: our acks may be lost."""
    handles: dict[int, int] = field(default_factory=dict)
    """By its number for a filter, our handle."""
    filters: dict[int, Filter] = field(default_factory=dict)
    within_us: dict[int, int] = field(default_factory=dict)
    """By its number for a filter, the delay bound of the subscription, where it has one."""
    stale: list[int] = field(default_factory=list)
    """Our handles of the filters that a whole update replaces. They are dropped with its last part."""


class RemoteInterest:
    """The interest of all other brokers."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._homes: dict[int, HomeInterest] = {}
        self._index = new_index()
        self.system = new_index()
        """Interest in system events, apart from interest in our clients' events."""
        self.system_revision = 0
        """Counts changes of `system`."""
        self.home_of: dict[int, int] = {}
        self._handles = 0
        self.deposits = Deposits()
        self.changes = 0
        """Counts changes of all interest."""

    def __len__(self) -> int:
        return len(self.home_of)

    @property
    def homes(self) -> dict[int, HomeInterest]:
        return self._homes

    def apply(self, update: InterestUpdate, version: int, offers: int) -> int:
        """Apply an update that was computed against our advertisements with the fingerprint `offers`.

        Return the version to ack: the last one applied. Raise PlaitError if a filter cannot be parsed.
        """
        home = self._homes.get(update.source)
        if home is None:
            home = self._homes[update.source] = HomeInterest()
        home.repeats = home.repeats + 1 if version <= home.version else 0
        if version <= home.version or not (update.whole or version == home.version + 1):
            return home.version
        filters = [parse_indexable(text) for text in update.filters]
        if update.whole:
            home.stale += home.handles.values()
            home.handles.clear()
            home.filters.clear()
            home.within_us.clear()
        routing = update.routing or repeat(b"")
        for number, filter, deposit in zip(update.added, filters, routing, strict=False):
            self._add(update.source, home, number, filter, deposit)
        home.within_us |= {number: us for number, us in zip(update.added, update.within_us, strict=False) if us}
        for number in update.removed:
            self._drop(home, number)
        if not update.more:
            self._drop_stale(home)
        home.version, home.offers = version, offers
        self.changes += 1
        return version

    def complete(self, source: int, now: float) -> None:
        """Note that the interest of a home broker is complete."""
        home = self._homes[source]
        home.since = min(home.since, now)

    def meets(self, filter: Filter) -> bool:
        """Return whether another broker's filter meets an advertisement."""
        return bool(self._index.intersecting(filter))

    def intersecting(self, filter: Filter) -> dict[int, list[Filter]]:
        """Return the brokers that events of a filter may have to reach, each with its filters that intersect it."""
        found = set(self._index.intersecting(filter))
        meeting = {
            source: [home.filters[number] for number, handle in home.handles.items() if handle in found]
            for source, home in self._homes.items()
        }
        return {source: filters for source, filters in meeting.items() if filters}

    def asking(self, frame: EventFrame) -> list[Deposit]:
        """Return the deposits of the filters that match a sealed event."""
        return self.deposits.among(self._index.match_frame(frame))

    def match(self, frame: EventFrame, fits: Callable[[Deposit], bool] | None = None) -> list[int]:
        """Return the brokers that an event must reach. `fits` tells whether a deposit fits a sealed event's tags."""
        found = self._index.match_frame(frame)
        if fits is not None:
            deposits = self.deposits.by_number
            found = [handle for handle in found if handle not in deposits or fits(deposits[handle])]
        if not found:
            return []
        home_of = self.home_of
        if len(found) == 1:
            return [home_of[found[0]]]
        return list(dict.fromkeys([home_of[handle] for handle in found]))

    def match_system(self, attributes: Attributes) -> list[int]:
        """Return the brokers that a system event of ours must reach."""
        return list(dict.fromkeys([self.home_of[handle] for handle in self.system.match(attributes)]))

    def succeed(self, before: int, source: int) -> None:
        """Move the interest of a restarted broker to its new id `source`, until updates from there replace it.

        The restarted broker still has its durable subscriptions.
        """
        home = self._homes.get(before)
        if home is None or source in self._homes:
            return
        self.changes += 1
        successor = self._homes[source] = HomeInterest(
            handles=home.handles, filters=home.filters, within_us=home.within_us, stale=home.stale
        )
        for handle in [*successor.handles.values(), *successor.stale]:
            self.home_of[handle] = source
        del self._homes[before]

    def gone(self, source: int) -> None:
        """Forget a broker."""
        self.changes += 1
        home = self._homes.pop(source, None)
        if home is not None:
            for number in list(home.handles):
                self._drop(home, number)
            self._drop_stale(home)

    def _drop_stale(self, home: HomeInterest) -> None:
        for handle in home.stale:
            self._forget(handle)
        home.stale.clear()

    def _add(self, source: int, home: HomeInterest, number: int, filter: Filter, deposit: bytes) -> None:
        self._drop(home, number)
        self._handles += 1
        self.system_revision += filter.system
        (self.system if filter.system else self._index).add(self._handles, filter)
        self.home_of[self._handles] = source
        self.deposits.add(self._handles, deposit, (BROKER, source))
        home.handles[number] = self._handles
        home.filters[number] = filter

    def _drop(self, home: HomeInterest, number: int) -> None:
        handle = home.handles.pop(number, None)
        if handle is not None:
            del home.filters[number]
            home.within_us.pop(number, None)
            self._forget(handle)

    def _forget(self, handle: int) -> None:
        own = handle in self.system
        self.system_revision += own
        (self.system if own else self._index).remove(handle)
        del self.home_of[handle]
        self.deposits.remove(handle)

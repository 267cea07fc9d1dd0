"""Interest on its way in: what each other broker's subscribers want of the events that are published here.

All filters are in one index; an event is matched once, and the answer is the set of brokers that it must reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat

from plait_core.filters import Filter, parse
from plait_core.limits import DEPOSITS_BYTES_MAX
from plait_core.matching import Index
from plait_core.values import Attributes
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.overlay_frames import InterestUpdate


@dataclass(slots=True)
class HomeInterest:
    """One broker with subscribers, as far as it has told us."""

    version: int = 0
    since: float = math.inf
    """When it had said all that it wants, for the first time."""
    offers: int = 0
    """The fingerprint of our offers that its wants were made from."""
    repeats: int = 0
    """How often in a row it has told what we had heard: our answers may be lost."""
    handles: dict[int, int] = field(default_factory=dict)
    """By its number for a filter, ours."""
    filters: dict[int, Filter] = field(default_factory=dict)
    stale: list[int] = field(default_factory=list)
    """Our handles of what it wanted before it began to say everything anew."""


class RemoteInterest:
    """The interest of all other brokers."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._homes: dict[int, HomeInterest] = {}
        self._index = new_index()
        self.system = new_index()
        """What is wanted of our own records, apart from what is wanted of our clients' events."""
        self.system_revision = 0
        """How often that has changed."""
        self.home_of: dict[int, int] = {}
        self._handles = 0
        self.deposits: dict[int, bytes] = {}
        """By handle, the routing keys that came with a filter."""
        self._deposits_bytes = 0
        self.changes = 0
        """Counts what changes who has told us what."""

    def __len__(self) -> int:
        return len(self.home_of)

    @property
    def homes(self) -> dict[int, HomeInterest]:
        return self._homes

    def hear(self, want: InterestUpdate, version: int, offers: int) -> int:
        """A home broker tells a change, made from what it knows of our offers; the version that we are at. PlaitError
        when a filter of it is none."""
        home = self._homes.get(want.source)
        if home is None:
            home = self._homes[want.source] = HomeInterest()
        home.repeats = home.repeats + 1 if version <= home.version else 0
        if version <= home.version or not (want.whole or version == home.version + 1):
            return home.version
        filters = [parse(text) for text in want.filters]
        if want.whole:
            home.stale += home.handles.values()
            home.handles.clear()
            home.filters.clear()
        routing = want.routing or repeat(b"")
        for number, filter, deposit in zip(want.added, filters, routing, strict=False):
            self._keep(want.source, home, number, filter, deposit)
        for number in want.removed:
            self._drop(home, number)
        if not want.more:
            self._drop_stale(home)
        home.version, home.offers = version, offers
        self.changes += 1
        return version

    def complete(self, source: int, now: float) -> None:
        """A home broker has said all that it wants."""
        home = self._homes[source]
        home.since = min(home.since, now)

    def meets(self, filter: Filter) -> bool:
        """Whether another broker wants something that an advertisement promises."""
        return bool(self._index.intersecting(filter))

    def meeting(self, filter: Filter) -> dict[int, list[Filter]]:
        """The brokers that events of a filter may have to reach, each with those of its filters that meet it."""
        found = set(self._index.intersecting(filter))
        meeting = {
            source: [home.filters[number] for number, handle in home.handles.items() if handle in found]
            for source, home in self._homes.items()
        }
        return {source: filters for source, filters in meeting.items() if filters}

    def asking(self, frame: EventFrame) -> list[bytes]:
        """What came with the filters that match a sealed event."""
        return [self.deposits[handle] for handle in self._index.match_frame(frame) if handle in self.deposits]

    def match(self, frame: EventFrame, fits: Callable[[bytes], bool] | None = None) -> list[int]:
        """The brokers that an event must reach. `fits`: of a sealed event, whether its tags fit a deposit."""
        found = self._index.match_frame(frame)
        if fits is not None:
            found = [handle for handle in found if handle not in self.deposits or fits(self.deposits[handle])]
        if not found:
            return []
        home_of = self.home_of
        if len(found) == 1:
            return [home_of[found[0]]]
        return list(dict.fromkeys([home_of[handle] for handle in found]))

    def match_system(self, attributes: Attributes) -> list[int]:
        """The brokers that want to hear of a record of ours."""
        return list(dict.fromkeys([self.home_of[handle] for handle in self.system.match(attributes)]))

    def succeed(self, before: int, source: int) -> None:
        """A broker has started anew: until it says what it wants now, it wants what it did before, since its durable
        subscriptions are still there."""
        home = self._homes.get(before)
        if home is None or source in self._homes:
            return
        self.changes += 1
        anew = self._homes[source] = HomeInterest(handles=home.handles, filters=home.filters, stale=home.stale)
        for handle in [*anew.handles.values(), *anew.stale]:
            self.home_of[handle] = source
        del self._homes[before]

    def gone(self, source: int) -> None:
        """A broker is no more."""
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

    def _keep(self, source: int, home: HomeInterest, number: int, filter: Filter, deposit: bytes) -> None:
        """Deposits beyond what may be held are as none: more is sent than is wanted, and nothing less."""
        self._drop(home, number)
        self._handles += 1
        self.system_revision += filter.system
        (self.system if filter.system else self._index).add(self._handles, filter)
        self.home_of[self._handles] = source
        if deposit and self._deposits_bytes + len(deposit) <= DEPOSITS_BYTES_MAX:
            self.deposits[self._handles] = deposit
            self._deposits_bytes += len(deposit)
        home.handles[number] = self._handles
        home.filters[number] = filter

    def _drop(self, home: HomeInterest, number: int) -> None:
        handle = home.handles.pop(number, None)
        if handle is not None:
            del home.filters[number]
            self._forget(handle)

    def _forget(self, handle: int) -> None:
        own = handle in self.system
        self.system_revision += own
        (self.system if own else self._index).remove(handle)
        del self.home_of[handle]
        self._deposits_bytes -= len(self.deposits.pop(handle, b""))

"""Incoming interest: the filters of other brokers' subscribers for the events that are published here.

All filters are in one index. An event is matched once, and the result is the set of brokers that it must reach. The
index alone keeps the filters, each under an id of two parts: the number of a table, whose home broker is known, and the
home broker's number for the filter. So a million filters need no table from an id to its home broker or back.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Final

from plait_core.errors import IndexMisuse
from plait_core.filters import Filter, parse, parse_indexable
from plait_core.matching import Index
from plait_core.values import Attributes
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.overlay_frames import InterestUpdate

from ...deposits import BROKER, Deposit, Deposits

NUMBER_BITS: Final = 40
"""Bits of a home broker's number for a filter. Brokers count their subscriptions: a million a second for twelve days.
The other 23 bits of an id are for tables, two for each home broker."""

NUMBERS_SPARE: Final = 64
"""Outdated numbers that a table may keep, however short it is."""


@dataclass(slots=True)
class FilterTable:
    """The filters of a home broker since its last whole update."""

    id: int = 0
    """Part of the ids of its filters in the index."""
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    """The home broker's numbers for its filters as they arrived; some may be outdated."""
    outdated: int = 0
    """Entries of `numbers` whose filters were removed or replaced."""
    within_us: dict[int, int] = field(default_factory=dict)
    """By its number for a filter, the delay bound of the subscription, where it has one."""

    def id_of(self, number: int) -> int:
        """Return the id of a filter in the index."""
        return self.id << NUMBER_BITS | number


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
    table: FilterTable = field(default_factory=FilterTable)
    stale: list[FilterTable] = field(default_factory=list)
    """Tables that a whole update replaces. They are dropped with its last part."""


class RemoteInterest:
    """The interest of all other brokers."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._homes: dict[int, HomeInterest] = {}
        self._index = new_index()
        self.system = new_index()
        """Interest in system events, apart from interest in our clients' events."""
        self.system_revision = 0
        """Counts changes of `system`."""
        self._source_of: dict[int, int] = {}
        """By table, its home broker."""
        self._free_tables: list[int] = []
        self.count = 0
        """Number of filters."""
        self.deposits = Deposits()
        self.changes = 0
        """Counts changes of all interest."""

    def __len__(self) -> int:
        return self.count

    @property
    def homes(self) -> dict[int, HomeInterest]:
        return self._homes

    def apply(self, update: InterestUpdate, version: int, offers: int) -> int:
        """Apply an update that was computed against our advertisements with the fingerprint `offers`.

        Return the version to ack: the last one applied. Raise PlaitError if a filter cannot be parsed, or its number
        is too large.
        """
        source = update.source
        home = self._homes.get(source)
        if home is None:
            home = self._homes[source] = HomeInterest(table=self._new_table(source))
        home.repeats = home.repeats + 1 if version <= home.version else 0
        if version <= home.version or not (update.whole or version == home.version + 1):
            return home.version
        if max(chain(update.added, update.removed), default=0) >> NUMBER_BITS:
            raise IndexMisuse(f"a number of a filter is not below 2**{NUMBER_BITS}")
        filters = [parse_indexable(text) for text in update.filters]
        if update.whole and home.table.numbers:
            home.stale.append(home.table)
            home.table = self._new_table(source)
        table = home.table
        routing = update.routing or repeat(b"")
        for number, filter, deposit in zip(update.added, filters, routing, strict=False):
            self._add(source, table, number, filter, deposit)
        table.within_us |= {number: us for number, us in zip(update.added, update.within_us, strict=False) if us}
        for number in update.removed:
            self._drop(table, number)
        if not update.more:
            self._drop_stale(home)
        home.version, home.offers = version, offers
        self.changes += 1
        return version

    def complete(self, source: int, now: float) -> None:
        """Note that the interest of a home broker is complete."""
        home = self._homes[source]
        home.since = min(home.since, now)

    def texts(self, source: int) -> Iterator[tuple[int, str]]:
        """Yield the filters of a home broker as texts: its number for each, and the text."""
        home = self._homes.get(source)
        if home is not None:
            for number in self._numbers(home.table):
                id = home.table.id_of(number)
                yield number, self._index_with(id).text(id)

    def filters(self, source: int) -> Iterator[tuple[int, Filter]]:
        """Yield the filters of a home broker, each parsed again: its number for each, and the filter."""
        return ((number, parse(text)) for number, text in self.texts(source))

    def meets(self, filter: Filter) -> bool:
        """Return whether another broker's filter meets an advertisement."""
        return bool(self._index.intersecting(filter))

    def intersecting(self, filter: Filter) -> list[int]:
        """Return the brokers that events of a filter may have to reach."""
        return self._sources(self._index.intersecting(filter))

    def asking(self, frame: EventFrame) -> list[Deposit]:
        """Return the deposits of the filters that match a sealed event."""
        return self.deposits.among(self._index.match_frame(frame))

    def match(self, frame: EventFrame, fits: Callable[[Deposit], bool] | None = None) -> list[int]:
        """Return the brokers that an event must reach. `fits` tells whether a deposit fits a sealed event's tags."""
        found = self._index.match_frame(frame)
        if fits is not None:
            deposits = self.deposits.by_number
            found = [id for id in found if id not in deposits or fits(deposits[id])]
        if not found:
            return []
        if len(found) == 1:
            return [self._source_of[found[0] >> NUMBER_BITS]]
        return self._sources(found)

    def match_system(self, attributes: Attributes) -> list[int]:
        """Return the brokers that a system event of ours must reach."""
        return self._sources(self.system.match(attributes))

    def succeed(self, before: int, source: int) -> None:
        """Move the interest of a restarted broker to its new id `source`, until updates from there replace it.

        The restarted broker still has its durable subscriptions.
        """
        home = self._homes.get(before)
        if home is None or source in self._homes:
            return
        self.changes += 1
        del self._homes[before]
        self._homes[source] = HomeInterest(table=home.table, stale=home.stale)
        for table in (home.table, *home.stale):
            self._source_of[table.id] = source

    def gone(self, source: int) -> None:
        """Forget a broker."""
        self.changes += 1
        home = self._homes.pop(source, None)
        if home is not None:
            self._drop_stale(home)
            self._drop_table(home.table)

    # --- filters and tables -------------------------------------------------------------------------------------------

    def _sources(self, ids: Iterable[int]) -> list[int]:
        """Return the home brokers of some filters."""
        source_of = self._source_of
        return list(dict.fromkeys([source_of[table] for table in dict.fromkeys([id >> NUMBER_BITS for id in ids])]))

    def _new_table(self, source: int) -> FilterTable:
        id = self._free_tables.pop() if self._free_tables else len(self._source_of)
        self._source_of[id] = source
        return FilterTable(id)

    def _drop_table(self, table: FilterTable) -> None:
        for number in self._numbers(table):
            self._forget(table.id_of(number))
        del self._source_of[table.id]
        self._free_tables.append(table.id)

    def _drop_stale(self, home: HomeInterest) -> None:
        for table in home.stale:
            self._drop_table(table)
        home.stale.clear()

    def _numbers(self, table: FilterTable) -> Iterable[int]:
        """Return the numbers of a table's filters, each once, in the order of their last arrival."""
        if not table.outdated:
            return table.numbers
        last = reversed(dict.fromkeys(reversed(table.numbers)))
        return [number for number in last if self._holds(table.id_of(number))]

    def _add(self, source: int, table: FilterTable, number: int, filter: Filter, deposit: bytes) -> None:
        self._drop(table, number)
        id = table.id_of(number)
        self.system_revision += filter.system
        (self.system if filter.system else self._index).add(id, filter)
        self.deposits.add(id, deposit, (BROKER, source))
        self.count += 1
        table.numbers.append(number)

    def _drop(self, table: FilterTable, number: int) -> None:
        id = table.id_of(number)
        if not self._holds(id):
            return
        self._forget(id)
        table.within_us.pop(number, None)
        table.outdated += 1
        if table.outdated > NUMBERS_SPARE + len(table.numbers) // 2:
            table.numbers, table.outdated = array("Q", self._numbers(table)), 0

    def _forget(self, id: int) -> None:
        index = self._index_with(id)
        index.remove(id)
        self.system_revision += index is self.system
        self.deposits.remove(id)
        self.count -= 1

    def _holds(self, id: int) -> bool:
        return id in self._index or id in self.system

    def _index_with(self, id: int) -> Index:
        return self.system if id in self.system else self._index

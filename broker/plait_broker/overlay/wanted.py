"""Interest on its way in: what each other broker's subscribers want of the events that are published here.

All filters are in one index; an event is matched once, and the answer is the set of brokers that it must reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from plait_core.filters import Filter, parse
from plait_core.matching import Index
from plait_core.wire import EventFrame
from plait_core.wire.overlay_frames import Want


@dataclass(slots=True)
class Home:
    """One broker with subscribers, as far as it has told us."""

    version: int = 0
    handles: dict[int, int] = field(default_factory=dict)
    """By its number for a filter, ours."""
    filters: dict[int, Filter] = field(default_factory=dict)


class Wanted:
    """The interest of all other brokers."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._homes: dict[int, Home] = {}
        self._index = new_index()
        self._home_of: dict[int, int] = {}
        self._handles = 0

    def __len__(self) -> int:
        return len(self._home_of)

    @property
    def homes(self) -> dict[int, Home]:
        return self._homes

    def hear(self, want: Want, version: int) -> int:
        """A home broker tells a change; the version that we are at. PlaitError when a filter of it is none."""
        home = self._homes.get(want.source)
        if home is None:
            home = self._homes[want.source] = Home()
        if version <= home.version or not (want.whole or version == home.version + 1):
            return home.version
        filters = [parse(text) for text in want.filters]
        if want.whole:
            for number in list(home.handles):
                self._drop(home, number)
        for number, filter in zip(want.added, filters, strict=True):
            self._keep(want.source, home, number, filter)
        for number in want.removed:
            self._drop(home, number)
        home.version = version
        return version

    def meets(self, filter: Filter) -> bool:
        """Whether another broker wants something that an advertisement promises."""
        return bool(self._index.intersecting(filter))

    def match(self, frame: EventFrame) -> list[int]:
        """The brokers that an event must reach."""
        found = self._index.match_frame(frame)
        if not found:
            return []
        home_of = self._home_of
        return list(dict.fromkeys([home_of[handle] for handle in found]))

    def gone(self, source: int) -> None:
        """A broker is no more."""
        home = self._homes.pop(source, None)
        if home is not None:
            for number in list(home.handles):
                self._drop(home, number)

    def _keep(self, source: int, home: Home, number: int, filter: Filter) -> None:
        self._drop(home, number)
        self._handles += 1
        self._index.add(self._handles, filter)
        self._home_of[self._handles] = source
        home.handles[number] = self._handles
        home.filters[number] = filter

    def _drop(self, home: Home, number: int) -> None:
        handle = home.handles.pop(number, None)
        if handle is not None:
            del home.filters[number]
            self._index.remove(handle)
            del self._home_of[handle]

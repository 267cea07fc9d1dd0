"""Interest of durable subscriptions: flooded to all brokers, and used for home brokers that cannot send updates now.

A home broker sends each publisher's broker the filters that meet its advertisements (`interest_sync.py`). While the
home broker is away, a broker that starts or advertises something new gets no such update. It would confirm events that
the home broker's durable subscriptions never get. So the filters of durable subscriptions flood, signed by their home
broker. All other brokers store them, in their logs too. They match them for every home broker that has not acked their
present advertisements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from plait_core import PlaitError
from plait_core.filters import Filter, parse, parse_indexable
from plait_core.matching import Index
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.envelope_frames import DURABLE_INTEREST
from plait_core.wire.frame_types.overlay_frames import DurableInterest

from ..topology.flooding import Flooding
from .covering_set import CoveringSet
from .remote_interest import HomeInterest


class LocalDurableInterest:
    """The interest of our own durable subscriptions, which floods."""

    def __init__(self, me: int, flooding: Flooding, new_index: Callable[[], Index]) -> None:
        self._me = me
        self._flooding = flooding
        self._exports = CoveringSet(new_index)
        self._exported: dict[int, None] = {}
        self._flooded = False

    def __len__(self) -> int:
        return len(self._exports)

    def __contains__(self, number: int) -> bool:
        return number in self._exports

    def add(self, number: int, filter: Filter) -> None:
        """Add the filter of a durable subscription, or replace it."""
        self._announce(*self._exports.add(number, filter))

    def remove(self, number: int) -> None:
        """Remove a filter."""
        self._announce(*self._exports.remove(number))

    def begin(self) -> None:
        """Flood all filters, once there is another broker."""
        if not self._flooded:
            self._flooded = True
            self._announce(list(self._exported), [])

    def _announce(self, added: Sequence[int], removed: Iterable[int]) -> None:
        """Flood new filters before withdrawals, so that no event falls between them."""
        for number in added:
            self._exported[number] = None
            self._flood(number, self._exports[number].text)
        for number in removed:
            if number not in added:
                del self._exported[number]
                self._flood(number, "")

    def _flood(self, number: int, text: str) -> None:
        if self._flooded:
            version = self._flooding.next_version((self._me, DURABLE_INTEREST, number))
            self._flooding.originate(DurableInterest(self._me, number, version, text))


class RemoteDurableInterest:
    """The interest of other brokers' durable subscriptions."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._index = new_index()
        self._handle_of: dict[tuple[int, int], int] = {}
        """By origin and number, our handle of the filter, which the index alone keeps."""
        self._key_of: dict[int, tuple[int, int]] = {}
        self._handles = 0
        self._origins: dict[int, dict[int, None]] = {}
        """By origin, the numbers of its filters."""
        self._successors: dict[int, int] = {}
        """By the old id of a restarted broker, its new id, until the interest of the new id is complete."""
        self.away: dict[int, None] = {}
        """Home brokers that have not acked our present advertisements: their durable interest is matched here."""

    def __contains__(self, broker: int) -> bool:
        return broker in self._origins

    def __len__(self) -> int:
        return len(self._handle_of)

    def learn(self, document: DurableInterest) -> bool:
        """Take a filter or its withdrawal. Return whether the filter can be parsed."""
        key = (document.origin, document.number)
        self._drop(key)
        if not document.filter:
            return True
        try:
            filter = parse_indexable(document.filter)
        except PlaitError:
            return False
        self._handles += 1
        self._index.add(self._handles, filter)
        self._handle_of[key] = self._handles
        self._key_of[self._handles] = key
        self._origins.setdefault(document.origin, {})[document.number] = None
        return True

    def succeed(self, before: int, broker: int) -> None:
        """Note a restart: the interest of `before` counts for its successor until the successor's own is complete."""
        self._successors = {
            one: broker if successor == before else successor for one, successor in self._successors.items()
        }
        if before in self._origins:
            self._successors[before] = broker

    def complete(self, home: int) -> list[int]:
        """Forget the predecessors of a home broker, whose own interest is complete now. Return them."""
        former = [one for one, successor in self._successors.items() if successor == home]
        for one in former:
            del self._successors[one]
            self.forget(one)
        return former

    def forget(self, broker: int) -> bool:
        """Forget a broker. Return False when its interest is kept for its successor."""
        if broker in self._successors:
            return False
        for number in list(self._origins.get(broker, ())):
            self._drop((broker, number))
        for former in [one for one, successor in self._successors.items() if successor == broker]:
            del self._successors[former]
            self.forget(former)
        return True

    def review(self, homes: dict[int, HomeInterest], offers: int) -> None:
        """Compute which home brokers are away, given the fingerprint of our advertisements."""
        for home in dict.fromkeys(self._successors.get(origin, origin) for origin in self._origins):
            known = homes.get(home)
            if known is not None and known.since < math.inf and known.offers == offers:
                self.away.pop(home, None)
            else:
                self.away[home] = None
        for home in [home for home in self.away if home not in self._origins and home not in self._successors.values()]:
            del self.away[home]

    def match(self, frame: EventFrame) -> list[int]:
        """Return the home brokers that are away and have durable subscriptions that match an event."""
        return [home for home in self._homes(self._index.match_frame(frame)) if home in self.away]

    def matches(self, home: int, frame: EventFrame) -> bool:
        """Return whether durable subscriptions of a home broker match an event, away or not."""
        return home in self._homes(self._index.match_frame(frame))

    def intersecting(self, filter: Filter) -> dict[int, list[Filter]]:
        """Return the home brokers that are away, each with its filters that intersect this one."""
        found: dict[int, list[Filter]] = {}
        for handle in sorted(self._index.intersecting(filter)):
            key = self._key_of[handle]
            home = self._successors.get(key[0], key[0])
            if home in self.away:
                found.setdefault(home, []).append(parse(self._index.text(handle)))
        return found

    def _homes(self, handles: Iterable[int]) -> dict[int, None]:
        origins = (self._key_of[handle][0] for handle in handles)
        return dict.fromkeys(self._successors.get(origin, origin) for origin in origins)

    def _drop(self, key: tuple[int, int]) -> None:
        handle = self._handle_of.pop(key, None)
        if handle is None:
            return
        self._index.remove(handle)
        del self._key_of[handle]
        origin, number = key
        del self._origins[origin][number]
        if not self._origins[origin]:
            del self._origins[origin]

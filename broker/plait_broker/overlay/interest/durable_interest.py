"""What durable subscriptions want of everyone: told to all brokers and kept by them, for homes that cannot say it now.

A home broker tells each publisher's broker what meets its offers (`interest_sync.py`). Whoever starts anew while that
home is away, or offers something new, would not be told, and would confirm events that its durable subscriptions never
get. So their filters flood, signed by their home; all others keep them, in their logs too, and go by them for every
home that has not answered to their present offers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from plait_core import PlaitError
from plait_core.filters import Filter, parse
from plait_core.matching import Index
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.overlay_frames import DURABLE_NUMBERS_FROM, DurableInterest

from ..topology.flooding import Flooding, Key
from .covering_set import CoveringSet
from .remote_interest import HomeInterest


class LocalDurableInterest:
    """What our own durable subscriptions want, as all others are told."""

    def __init__(self, me: int, flooding: Flooding, new_index: Callable[[], Index]) -> None:
        self._me = me
        self._flooding = flooding
        self._exports = CoveringSet(new_index)
        self._exported: dict[int, None] = {}
        self._telling = False

    def __len__(self) -> int:
        return len(self._exports)

    def __contains__(self, number: int) -> bool:
        return number in self._exports

    def add(self, number: int, filter: Filter) -> None:
        """A durable subscription, or another filter of one."""
        self._tell(*self._exports.add(number, filter))

    def remove(self, number: int) -> None:
        """It wants that no more."""
        self._tell(*self._exports.remove(number))

    def begin(self) -> None:
        """There is someone to tell: a broker alone signs nothing."""
        if not self._telling:
            self._telling = True
            self._tell(list(self._exported), [])

    def _tell(self, added: Iterable[int], removed: Iterable[int]) -> None:
        """What is new before what goes, so that nothing is missed between."""
        for number in added:
            self._exported[number] = None
            self._say(number, self._exports[number].text)
        for number in removed:
            del self._exported[number]
            self._say(number, "")

    def _say(self, number: int, text: str) -> None:
        if self._telling:
            number += DURABLE_NUMBERS_FROM
            self._flooding.say(DurableInterest(self._me, number, self._flooding.next_version((self._me, number)), text))


class RemoteDurableInterest:
    """What other brokers' durable subscriptions want, as far as it is known here."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._index = new_index()
        self._filters: dict[Key, tuple[int, Filter]] = {}
        """By origin and number, our handle and the filter."""
        self._key_of: dict[int, Key] = {}
        self._handles = 0
        self._origins: dict[int, dict[int, None]] = {}
        """By origin, its numbers."""
        self._heirs: dict[int, int] = {}
        """By a broker that has started anew, the one that it is now, until that has said what it wants itself."""
        self.away: dict[int, None] = {}
        """Homes that have not told us what they want of our present offers: what is known here goes for them."""

    def __contains__(self, broker: int) -> bool:
        return broker in self._origins

    def __len__(self) -> int:
        return len(self._filters)

    def learn(self, document: DurableInterest) -> bool:
        """What one wants, or wants no more; whether that can be read."""
        key = (document.origin, document.number)
        self._drop(key)
        if not document.filter:
            return True
        try:
            filter = parse(document.filter)
        except PlaitError:
            return False
        self._handles += 1
        self._index.add(self._handles, filter)
        self._filters[key] = (self._handles, filter)
        self._key_of[self._handles] = key
        self._origins.setdefault(document.origin, {})[document.number] = None
        return True

    def succeed(self, before: int, broker: int) -> None:
        """A broker has started anew: what it wanted holds until it says what it wants now."""
        self._heirs = {one: broker if heir == before else heir for one, heir in self._heirs.items()}
        if before in self._origins:
            self._heirs[before] = broker

    def told(self, home: int) -> list[int]:
        """A home has said all that it wants: its former lives, for which nothing is kept any more."""
        former = [one for one, heir in self._heirs.items() if heir == home]
        for one in former:
            del self._heirs[one]
            self.forget(one)
        return former

    def forget(self, broker: int) -> bool:
        """A broker is no more; False when what it wanted is kept for the one that it is now."""
        if broker in self._heirs:
            return False
        for number in list(self._origins.get(broker, ())):
            self._drop((broker, number))
        for former in [one for one, heir in self._heirs.items() if heir == broker]:
            del self._heirs[former]
            self.forget(former)
        return True

    def review(self, homes: dict[int, HomeInterest], offers: int) -> None:
        """Who is away, given what others have told of our offers with this fingerprint."""
        for home in dict.fromkeys(self._heirs.get(origin, origin) for origin in self._origins):
            known = homes.get(home)
            if known is not None and known.since < math.inf and known.offers == offers:
                self.away.pop(home, None)
            else:
                self.away[home] = None
        for home in [home for home in self.away if home not in self._origins and home not in self._heirs.values()]:
            del self.away[home]

    def match(self, frame: EventFrame) -> list[int]:
        """Of those that are away, the homes whose durable subscriptions want an event."""
        return [home for home in self._homes(self._index.match_frame(frame)) if home in self.away]

    def wants(self, home: int, frame: EventFrame) -> bool:
        """Whether durable subscriptions of a home want an event, away or not."""
        return home in self._homes(self._index.match_frame(frame))

    def meeting(self, filter: Filter) -> dict[int, list[Filter]]:
        """Of those that are away, each with those of its filters that meet one."""
        found: dict[int, list[Filter]] = {}
        for handle in sorted(self._index.intersecting(filter)):
            key = self._key_of[handle]
            home = self._heirs.get(key[0], key[0])
            if home in self.away:
                found.setdefault(home, []).append(self._filters[key][1])
        return found

    def _homes(self, handles: Iterable[int]) -> dict[int, None]:
        origins = (self._key_of[handle][0] for handle in handles)
        return dict.fromkeys(self._heirs.get(origin, origin) for origin in origins)

    def _drop(self, key: Key) -> None:
        handle, filter = self._filters.pop(key, (0, None))
        if filter is None:
            return
        self._index.remove(handle)
        del self._key_of[handle]
        origin, number = key
        del self._origins[origin][number]
        if not self._origins[origin]:
            del self._origins[origin]

"""What this broker offers to the others: what its clients advertise, and what follows from what they publish.

Other brokers say what they want only of what is offered. So an event that is beyond what all of them have seen waits
here, with all that its publisher sends after it, until the advertisement that has it has been seen by all: for a client
that advertises that is once, before its first event; for one that does not, whenever it publishes another kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from plait_core.filters import Filter
from plait_core.matching import Index
from plait_core.wire import Publish

from ..clients.sessions import Session
from ..overlay import Overlay
from .inferred_advertisements import ANYTHING, InferredAdvertisements

HELD_EVENTS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 32 << 20
"""What waits at one broker: what its clients can publish within a round trip through the overlay, and some more."""

UNUSED_S: Final = 300.0
"""A derived advertisement that no event needed for so long is withdrawn."""

Held: TypeAlias = tuple[Session, Publish, float]
"""An event, whose it is, and since when it waits."""


class AdvertisementGate:
    """All that one broker offers."""

    def __init__(self, overlay: Overlay, new_index: Callable[[], Index], now: float) -> None:
        self._overlay = overlay
        self._brokers = overlay.map.known
        self._filters: dict[int, Filter] = {}
        self._said = new_index()
        """All that is offered."""
        self._seen = new_index()
        """What of it all other brokers have seen."""
        self._seen_filters: dict[int, Filter] = {}
        self._anything = False
        """Whether they have seen that everything is offered, and something lately needed that."""
        self._derived = InferredAdvertisements()
        self._needed: set[int] = set()
        self._review_at = now + UNUSED_S
        self._held: dict[int, deque[Held]] = {}
        """By session, what waits, in order."""
        self._held_events = 0
        self._held_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether some event does."""
        return bool(self._held)

    # --- what clients advertise ---------------------------------------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0) -> None:
        """One more, or another filter for it: what was seen of it holds until the new one is seen."""
        self._withdraw_said(number)
        self._filters[number] = filter
        self._said.add(number, filter)
        self._overlay.offer(number, filter, rate)

    def withdraw(self, number: int) -> None:
        """One less."""
        self._withdraw_said(number)
        if self._seen_filters.pop(number, None) is not None:
            self._seen.remove(number)
        self._overlay.withdraw(number)

    def seen(self, number: int) -> None:
        """All other brokers know it now, and what they want of it is known here."""
        filter = self._filters[number]
        if self._seen_filters.get(number) != filter:
            if number in self._seen_filters:
                self._seen.remove(number)
            self._seen.add(number, filter)
            self._seen_filters[number] = filter
        if number == ANYTHING:
            self._anything = True

    # --- events -------------------------------------------------------------------------------------------------------

    def has(self, session: Session, frame: Publish) -> bool:
        """Whether an event may go out now: all know that it may come, and none of its publisher's waits before it."""
        if self._held and session.id in self._held:
            return False
        return self._anything or len(self._brokers) < 2 or self._is_seen(frame)

    def hold(self, session: Session, frame: Publish, now: float) -> bool:
        """Keep an event until all know that such may come; False when too many wait already."""
        if self._held_events >= HELD_EVENTS_MAX or self._held_bytes >= HELD_BYTES_MAX:
            return False
        self._held.setdefault(session.id, deque()).append((session, frame, now))
        self._held_events += 1
        self._held_bytes += len(frame.block)
        if not self._said.match_frame(frame):
            self.advertise(*self._derived.widen(frame.attributes()))
        return True

    def take(self) -> list[Held]:
        """Events that need not wait any more."""
        if not self._held:
            return []
        free: list[Held] = []
        for id, queue in list(self._held.items()):
            while queue and (self._anything or len(self._brokers) < 2 or self._is_seen(queue[0][1])):
                free.append(queue.popleft())
            if not queue:
                del self._held[id]
        self._held_events -= len(free)
        self._held_bytes -= sum(len(frame.block) for _, frame, _ in free)
        for queue in self._held.values():  # what it waited for may have been withdrawn meanwhile
            if not self._said.match_frame(queue[0][1]):
                self.advertise(*self._derived.widen(queue[0][1].attributes()))
        return free

    def review(self, now: float) -> None:
        """Withdraw derived advertisements that nothing needed since the last review."""
        if now < self._review_at:
            return
        self._review_at = now + UNUSED_S
        for number in [number for number in self._seen_filters if number >= ANYTHING and number not in self._needed]:
            self._derived.forget(number)
            self.withdraw(number)
        self._needed.clear()
        self._anything = False  # until something needs it again

    # --- inside -------------------------------------------------------------------------------------------------------

    def _is_seen(self, frame: Publish) -> bool:
        found = self._seen.match_frame(frame)
        if not found:
            return False
        number = min(found)  # clients' own come first: what they advertised needs nothing derived
        if number >= ANYTHING:
            self._needed.add(max(found))
            self._anything = ANYTHING in found and len(found) == 1
        return True

    def _withdraw_said(self, number: int) -> None:
        if self._filters.pop(number, None) is not None:
            self._said.remove(number)

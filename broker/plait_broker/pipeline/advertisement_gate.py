"""The advertisements of this broker, and the events that wait until other brokers know them.

Brokers announce interest only in what others advertise. An event that no known advertisement covers waits here, and
with it the later events of its publisher, until every broker has acknowledged an advertisement that covers it. For a
client that advertises, that is once, before its first event. For one that does not, the broker infers advertisements
from its events, and it waits whenever it publishes another kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from plait_core.filters import Filter
from plait_core.matching import Index
from plait_core.wire import Publish
from plait_core.wire.frame_types.session_frames import Code

from ..clients.sessions import Session
from ..drop_reasons import DropReason
from ..overlay import Overlay
from .admission import PublishRefused
from .inferred_advertisements import ANYTHING, InferredAdvertisements

HELD_EVENTS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 32 << 20
"""Events that wait at one broker: more than its clients publish within a round trip through the overlay."""

UNUSED_S: Final = 300.0
"""An inferred advertisement that no event needed for this time is withdrawn."""

Held: TypeAlias = tuple[Session, Publish, float]
"""Session, event, and the time since which it waits."""


class AdvertisementGate:
    """One broker's."""

    def __init__(self, overlay: Overlay, new_index: Callable[[], Index], now: float) -> None:
        self._overlay = overlay
        self.brokers = overlay.map.known
        """The brokers of the overlay; alone, no event waits."""
        self._filters: dict[int, Filter] = {}
        self._advertised = new_index()
        """All advertisements."""
        self._known = new_index()
        """The advertisements that all other brokers have acknowledged."""
        self._known_filters: dict[int, Filter] = {}
        self._anything = False
        """Whether they have acknowledged an advertisement of everything, and some event has needed it lately."""
        self._inferred = InferredAdvertisements()
        self._needed: set[int] = set()
        self._review_at = now + UNUSED_S
        self._held: dict[int, deque[Held]] = {}
        """By session, events that wait, in order."""
        self.waits = 0
        """Number of events that wait."""
        self._held_bytes = 0

    # --- advertisements -----------------------------------------------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0) -> None:
        """Announce an advertisement or another filter for it. The old filter holds until the new one is known."""
        self._withdraw_announced(number)
        self._filters[number] = filter
        self._advertised.add(number, filter)
        self._overlay.advertise(number, filter, rate)

    def withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self._withdraw_announced(number)
        if self._known_filters.pop(number, None) is not None:
            self._known.remove(number)
        self._overlay.withdraw(number)

    def known(self, number: int) -> None:
        """Note that all other brokers know an advertisement, and that their interest in it is known here."""
        filter = self._filters[number]
        if self._known_filters.get(number) != filter:
            if number in self._known_filters:
                self._known.remove(number)
            self._known.add(number, filter)
            self._known_filters[number] = filter
        if number == ANYTHING:
            self._anything = True

    # --- events -------------------------------------------------------------------------------------------------------

    def holds(self, session: Session, frame: Publish, now: float) -> bool:
        """Hold an event unless a known advertisement covers it and no earlier event waits. Return whether it is held.
        Raise PublishRefused when too many events wait, FrameError for an event that cannot be read."""
        if not (self.waits and session.id in self._held) and (
            self._anything or len(self.brokers) < 2 or self._is_known(frame)
        ):
            return False
        if self.waits >= HELD_EVENTS_MAX or self._held_bytes >= HELD_BYTES_MAX:
            message = "too many events wait for other brokers to learn what is published here"
            raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, "advertise first", retryable=True)
        attributes = frame.attributes()  # first: an event that cannot be read must not wait
        if not self._advertised.match_frame(frame):
            self.advertise(*self._inferred.widen(attributes))
        self._held.setdefault(session.id, deque()).append((session, frame, now))
        self.waits += 1
        self._held_bytes += len(frame.block)
        return True

    def take(self) -> list[Held]:
        """Return the events that need not wait any more."""
        if not self._held:
            return []
        free: list[Held] = []
        for id, queue in list(self._held.items()):
            while queue and (self._anything or len(self.brokers) < 2 or self._is_known(queue[0][1])):
                free.append(queue.popleft())
            if not queue:
                del self._held[id]
        self.waits -= len(free)
        self._held_bytes -= sum(len(frame.block) for _, frame, _ in free)
        for queue in self._held.values():  # the advertisement that it waits for may have been withdrawn
            if not self._advertised.match_frame(queue[0][1]):
                self.advertise(*self._inferred.widen(queue[0][1].attributes()))
        return free

    def review(self, now: float) -> None:
        """Withdraw the inferred advertisements that no event needed since the last review."""
        if now < self._review_at:
            return
        self._review_at = now + UNUSED_S
        for number in [number for number in self._known_filters if number >= ANYTHING and number not in self._needed]:
            self._inferred.forget(number)
            self.withdraw(number)
        self._needed.clear()
        self._anything = False  # until something needs it again

    # --- inside -------------------------------------------------------------------------------------------------------

    def _is_known(self, frame: Publish) -> bool:
        found = self._known.match_frame(frame)
        if not found:
            return False
        number = min(found)  # clients' own have the lowest numbers: their events need no inferred ones
        if number >= ANYTHING:
            self._needed.add(max(found))
            self._anything = ANYTHING in found and len(found) == 1
        return True

    def _withdraw_announced(self, number: int) -> None:
        if self._filters.pop(number, None) is not None:
            self._advertised.remove(number)

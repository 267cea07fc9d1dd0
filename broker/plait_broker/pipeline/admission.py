"""The step *admit*: publisher id, duplicates, rights, lifetime and quota of an event of a client.

An event that is refused for good is remembered: if its publisher did not get the refusal and repeats the event, it gets
the same refusal again. A broker that restarted refuses what would break its publisher's order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from plait_core.duplicates import BEHIND, NEW, DuplicateWindow, Sighting
from plait_core.events import EventId
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.values import is_reserved
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.session_frames import Code

from ..clients.sessions import Session
from ..context import BrokerContext
from ..drop_reasons import DropReason

REFUSALS_MAX: Final = 65_536
"""Refused events remembered, of all publishers: what sixteen of them may have unconfirmed at once."""


class PublishRefused(Exception):
    """An event that is not admitted: the refusal for its publisher, and the reason that it is counted by."""

    def __init__(self, reason: DropReason, code: str, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
        self.message = message[:CLOSE_TEXT_MAX]
        self.hint = hint[:CLOSE_TEXT_MAX]
        self.retryable = retryable

    def copy(self) -> PublishRefused:
        """Return an equal refusal without a traceback, which would keep the refused event in memory."""
        return PublishRefused(self.reason, self.code, self.message, self.hint, retryable=self.retryable)


class Admission:
    """Decides which events of clients go on."""

    def __init__(self, context: BrokerContext) -> None:
        settings = context.settings.current
        self.draining = False
        self.duplicates = DuplicateWindow(settings.duplicate_window, settings.publishers_max)
        self._settings = context.settings
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._refusals: OrderedDict[EventId, PublishRefused] = OrderedDict()
        self._recovered: dict[int, int] = {}
        """By publisher, the highest sequence number logged before this broker started."""

    def drain(self) -> None:
        """Refuse every event from now on, because the broker stops."""
        self.draining = True

    def admit(self, session: Session, frame: Publish) -> bool:
        """Return whether the event is new. False: it was admitted before. Raise PublishRefused if it is refused."""
        self._counters.published += 1
        session.published += 1
        publisher = frame.publisher
        if publisher != session.publisher or not publisher:
            message = "published under an id that is not this client's"
            raise PublishRefused(DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, message)
        sighting = self.duplicates.see(publisher, frame.sequence)
        if sighting is not NEW and sighting is not BEHIND:
            self._check_repeated(frame, sighting)
            self._counters.dropped[DropReason.DUPLICATE] += 1
            return False
        if frame.confirm or frame.lifetime_us or self._recovered or not session.publish_open or frame.has_dollar_name:
            try:
                self._check(session, frame)
            except PublishRefused as refused:
                if frame.confirm:
                    self.remember(frame.id, refused)
                raise
        self._counters.admitted += 1
        return True

    def is_new(self, frame: EventFrame) -> bool:
        """Return whether an event of another broker was not seen here before."""
        sighting = self.duplicates.see(frame.publisher, frame.sequence)
        return sighting is NEW or sighting is BEHIND

    def recover(self, id: EventId) -> None:
        """Note an event that was logged before this broker started."""
        self.duplicates.see(id.publisher, id.sequence)
        self._recovered[id.publisher] = max(id.sequence, self._recovered.get(id.publisher, 0))

    def refusal_code(self, frame: EventFrame) -> str:
        """Return the code of the refusal that a repeated event gets again; empty if there is none."""
        refused = self._refusals.get(frame.id) if self._refusals else None
        return "" if refused is None else refused.code

    def remember(self, id: EventId, refused: PublishRefused) -> None:
        """Give the same refusal again should the publisher repeat the event."""
        self._refusals[id] = refused.copy()
        if len(self._refusals) > REFUSALS_MAX:
            forgotten, _ = self._refusals.popitem(last=False)
            self.duplicates.forget(*forgotten)

    def _check(self, session: Session, frame: Publish) -> None:
        """Check a new event that is not plain, or whose publisher has restricted rights."""
        if self._recovered and frame.sequence < self._recovered.get(frame.publisher, 0):
            message = "a later event of yours was logged before the broker restarted, and order is kept"
            raise PublishRefused(DropReason.STALE, Code.STALE, message, retryable=True)
        if frame.has_dollar_name and any(map(is_reserved, frame.attributes())):
            message = "names that begin with $ are reserved for events of brokers"
            raise PublishRefused(DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, message, "choose another name")
        if not session.publish_open and not session.principal.publish.permit(frame.attributes()):
            raise PublishRefused(DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, "this client may not publish that")
        if frame.lifetime_us and session.link_delay_us > frame.lifetime_us:
            raise PublishRefused(DropReason.EXPIRED, Code.EXPIRED, "its lifetime was over on arrival")
        pending = self._confirmations.pending(frame.publisher) if frame.confirm else 0
        if pending >= self._settings.current.unconfirmed_max:
            message = f"{pending} events await confirmation"
            raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, retryable=True)

    def _check_repeated(self, frame: Publish, sighting: Sighting) -> None:
        """Refuse a repeated event that was refused before, or whose outcome is not known."""
        if sighting is Sighting.STALE:
            message = "below the window in which duplicates are told apart"
            raise PublishRefused(DropReason.STALE, Code.STALE, message)
        refused = self._refusals.get(frame.id) if self._refusals else None
        if refused is not None:
            raise refused.copy()
        waits = self._confirmations.waits(frame.publisher, frame.sequence)
        recovered = bool(self._recovered) and frame.sequence <= self._recovered.get(frame.publisher, 0)
        if frame.confirm is Confirm.SUBSCRIBERS and recovered and not waits:
            message = "it was logged before the broker restarted; whether all subscribers have it is not known"
            raise PublishRefused(DropReason.DUPLICATE, Code.UNKNOWN, message)

"""What a broker remembers of the last events, for `plait why`: where each came from or went, and what was dropped.

The hot path appends one tuple to `events` and nothing else; what an entry means is worked out when somebody asks. It
refers to frames and copies none, so what it holds is looked at once per so many bytes received (`shed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from plait_core import Event
from plait_core.errors import FrameError
from plait_core.events import EventId
from plait_core.limits import EVENT_LIMITS
from plait_core.wire import Confirm, EventFrame, Publish, encode_block

from ..overlay import ReceivedEvent

EVENTS_MAX: Final = 2048
"""Events remembered: some 1 MB of small ones. Four times as many would fall out of the processor's caches, and cost an
event 200 ns instead of 80."""

DROPS_MAX: Final = 4096
"""Drops remembered, and deliveries that had to wait."""

LARGE_BYTES: Final = 2048
"""Of an event above this, only its attributes are remembered, and not even these when they are above it as well."""

SHED_EVERY_BYTES: Final = 8 << 20
"""Large events are looked for each time that so much has been received: what may be held of them beside 16 MB."""

Whereabouts: TypeAlias = "list[int] | ReceivedEvent"
"""Of an event published here, the other brokers that it was for; of one that arrived, its arrival."""


class Remembered(NamedTuple):
    """One event."""

    at: float
    frame: EventFrame
    whereabouts: Whereabouts

    @property
    def arrival(self) -> ReceivedEvent | None:
        """How it came, if it was published elsewhere."""
        return self.whereabouts if isinstance(self.whereabouts, ReceivedEvent) else None

    @property
    def homes(self) -> list[int]:
        """The other brokers that it was for, if it was published here."""
        return self.whereabouts if isinstance(self.whereabouts, list) else []


class Drop(NamedTuple):
    """An event, or one delivery or copy of it, that ended here."""

    at: float
    publisher: int
    sequence: int
    reason: str
    subscription: int = 0
    """Its number; 0 when it was not for one alone."""
    broker: int = 0
    """The other broker that does not get it; 0 when it was not for one alone."""


class Waited(NamedTuple):
    """A delivery that was written after it had waited."""

    at: float
    publisher: int
    sequence: int
    subscription: int


class EventHistory:
    """One broker's, of the last events."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self.events: deque[tuple[float, EventFrame, Whereabouts]] = deque(maxlen=events_max)
        """Oldest first: what `Remembered` names, as the plain tuple that costs a fifth of it."""
        self.shed_at_bytes = SHED_EVERY_BYTES
        """To be looked at once so much was received."""
        self._drops: deque[tuple[float, int, int, str, int, int]] = deque(maxlen=DROPS_MAX)
        self._waited: deque[tuple[float, int, int, int]] = deque(maxlen=DROPS_MAX)

    def drop(self, frame: EventFrame, reason: str, now: float, *, subscription: int = 0, broker: int = 0) -> None:
        """An event, or a delivery or copy of it, ends here."""
        self._drops.append((now, frame.publisher, frame.sequence, reason, subscription, broker))

    def waited(self, frame: EventFrame, subscription: int, now: float) -> None:
        """A delivery that had to wait is written."""
        self._waited.append((now, frame.publisher, frame.sequence, subscription))

    def shed(self, bytes_in: int) -> None:
        """Let go of what is large."""
        self.shed_at_bytes = bytes_in + SHED_EVERY_BYTES
        for at, (when, frame, whereabouts) in enumerate(self.events):
            if len(frame.block) > LARGE_BYTES:
                slim = _slim(frame)
                if isinstance(whereabouts, ReceivedEvent):
                    whereabouts = whereabouts._replace(frame=slim)
                self.events[at] = (when, slim, whereabouts)

    # --- when somebody asks -------------------------------------------------------------------------------------------

    def find(self, id: EventId) -> Remembered | None:
        """What is remembered of an event: of its first coming, should it have come again."""
        for entry in self.events:
            if entry[1].sequence == id.sequence and entry[1].publisher == id.publisher:
                return Remembered(*entry)
        return None

    def drops(self, id: EventId) -> Iterator[Drop]:
        """Everything of an event that ended here, the latest first."""
        return (Drop(*entry) for entry in reversed(self._drops) if entry[1:3] == id)

    def written_at(self, id: EventId, subscription: int) -> float | None:
        """When a delivery that had waited was written."""
        for entry in reversed(self._waited):
            if entry[1:3] == id and entry[3] == subscription:
                return entry[0]
        return None

    def since(self) -> float | None:
        """Since when all events are remembered; None when all that there were still are."""
        return self.events[0][0] if len(self.events) == self.events.maxlen else None


def _slim(frame: EventFrame) -> EventFrame:
    """The same event without what nobody asks about."""
    try:
        attributes = frame.attributes()
    except FrameError:  # nobody had to read them
        attributes = {}
    event = Event(attributes, b"", frame.publisher, frame.sequence, frame.published_us, frame.lifetime_us)
    block = encode_block(event, EVENT_LIMITS)
    if len(block) > LARGE_BYTES:
        block = encode_block(replace(event, attributes={}))
    return Publish(Confirm.NONE, block)

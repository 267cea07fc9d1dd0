"""The history of a broker's last events, for `plait why`: their source, their destinations and their drops.

The hot path appends one tuple to `events` and does nothing else; entries are interpreted when a query arrives. Entries
refer to frames and copy none, so large frames are replaced after every so many bytes received (`shed`).
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
"""Events remembered: about 1 MB of small ones. Four times as many would not fit the processor's caches, and an event
would cost 200 ns instead of 80."""

DROPS_MAX: Final = 4096
"""Drops remembered, and deliveries that waited."""

LARGE_BYTES: Final = 2048
"""Size above which only an event's attributes are remembered, and not even these if they exceed it as well."""

SHED_EVERY_BYTES: Final = 8 << 20
"""Bytes received between two searches for large events: the history then holds at most about 16 MB of them."""

DestinationsOrArrival: TypeAlias = "list[int] | ReceivedEvent"
"""The destinations of an event published here, or the received event of another broker."""


class Remembered(NamedTuple):
    """One event of the history."""

    at: float
    frame: EventFrame
    destinations_or_arrival: DestinationsOrArrival

    @property
    def arrival(self) -> ReceivedEvent | None:
        """The received event, if it was published at another broker."""
        return self.destinations_or_arrival if isinstance(self.destinations_or_arrival, ReceivedEvent) else None

    @property
    def destinations(self) -> list[int]:
        """The other brokers to reach, if the event was published here."""
        return self.destinations_or_arrival if isinstance(self.destinations_or_arrival, list) else []


class Drop(NamedTuple):
    """A dropped event, delivery or copy."""

    at: float
    publisher: int
    sequence: int
    reason: str
    subscription: int = 0
    """Number of the subscription; 0 if the drop concerns several."""
    broker: int = 0
    """The destination that the copy does not reach; 0 if the drop concerns several."""


class Waited(NamedTuple):
    """A delivery that was written after it had waited."""

    at: float
    publisher: int
    sequence: int
    subscription: int


class EventHistory:
    """The last events of one broker."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self.events: deque[tuple[float, EventFrame, DestinationsOrArrival]] = deque(maxlen=events_max)
        """Oldest first: the fields of `Remembered` as a plain tuple, which costs a fifth of it."""
        self.shed_at_bytes = SHED_EVERY_BYTES
        """Count of received bytes at which `shed` is due."""
        self._drops: deque[tuple[float, int, int, str, int, int]] = deque(maxlen=DROPS_MAX)
        self._waited: deque[tuple[float, int, int, int]] = deque(maxlen=DROPS_MAX)

    def drop(self, frame: EventFrame, reason: str, now: float, *, subscription: int = 0, broker: int = 0) -> None:
        """Record a dropped event, delivery or copy."""
        self._drops.append((now, frame.publisher, frame.sequence, reason, subscription, broker))

    def waited(self, frame: EventFrame, subscription: int, now: float) -> None:
        """Record that a delivery which had waited is written."""
        self._waited.append((now, frame.publisher, frame.sequence, subscription))

    def shed(self, bytes_in: int) -> None:
        """Replace large frames by their attributes."""
        self.shed_at_bytes = bytes_in + SHED_EVERY_BYTES
        for at, (when, frame, destinations_or_arrival) in enumerate(self.events):
            if len(frame.block) > LARGE_BYTES:
                slim = _slim(frame)
                if isinstance(destinations_or_arrival, ReceivedEvent):
                    destinations_or_arrival = destinations_or_arrival._replace(frame=slim)
                self.events[at] = (when, slim, destinations_or_arrival)

    # --- queries ------------------------------------------------------------------------------------------------------

    def find(self, id: EventId) -> Remembered | None:
        """Return the entry of an event: the first one, if the event arrived several times."""
        for entry in self.events:
            if entry[1].sequence == id.sequence and entry[1].publisher == id.publisher:
                return Remembered(*entry)
        return None

    def drops(self, id: EventId) -> Iterator[Drop]:
        """Return all drops of an event, the latest first."""
        return (Drop(*entry) for entry in reversed(self._drops) if entry[1:3] == id)

    def written_at(self, id: EventId, subscription: int) -> float | None:
        """Return when a delivery that had waited was written."""
        for entry in reversed(self._waited):
            if entry[1:3] == id and entry[3] == subscription:
                return entry[0]
        return None

    def since(self) -> float | None:
        """Return the time from which on all events are remembered, or None if none was discarded yet."""
        return self.events[0][0] if len(self.events) == self.events.maxlen else None


def _slim(frame: EventFrame) -> EventFrame:
    """Return the event without its payload."""
    try:
        attributes = frame.attributes()
    except FrameError:  # no filter has read them, so nothing checked them
        attributes = {}
    event = Event(attributes, b"", frame.publisher, frame.sequence, frame.published_us, frame.lifetime_us)
    block = encode_block(event, EVENT_LIMITS)
    if len(block) > LARGE_BYTES:
        block = encode_block(replace(event, attributes={}))
    return Publish(Confirm.NONE, block)

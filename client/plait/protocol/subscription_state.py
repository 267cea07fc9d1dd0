"""One subscription as the session keeps it: its terms, its bounded queue, what it has had, what it has missed.

Follow one delivery: `arrive` (duplicates end here) -> queue, or the policy for a full one -> `take` -> `acknowledge`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from plait_core import PlaitError
from plait_core.duplicates import BEHIND, NEW, DuplicateWindow
from plait_core.limits import DUPLICATE_WINDOW
from plait_core.wire import Deliver
from plait_core.wire.frame_types.session_frames import CONFIRM, DURABLE, LATE, REPLAYED, Full, Start, Subscribe
from plait_core.wire.frame_types.session_frames import Late as LateTerm

from ..options.limits import PUBLISHERS_MAX
from ..options.settings import DEFAULT_BUFFER, Buffer
from .notices import Gap, Late, Notice, Notices, Rerouted, SlowConsumer

Arrival: TypeAlias = tuple[Deliver, int, int, float]
"""A delivery in the queue: frame, flags, position, and half the round trip to the broker when it came. A plain tuple:
one is made for every event."""

POSITION_MASK: Final = 2**64 - 1
"""The part of a position that the broker knows."""

_NOTED: Final = LATE | CONFIRM | DURABLE
"""Flags that make more work of a delivery."""


class Phase(Enum):
    OPENING = auto()  # the broker has not said Done yet
    OPEN = auto()
    DRAINING = auto()  # nothing new is taken; what is queued is still handed out
    ENDED = auto()  # what is queued is still handed out, then `error` is raised or iteration ends


@dataclass(frozen=True, slots=True)
class Terms:
    """What was asked for when subscribing."""

    filter: str
    within_us: int = 0
    late: LateTerm = LateTerm.DROP
    buffer: Buffer = DEFAULT_BUFFER
    durable: str = ""
    start: Start = Start.NEW
    start_at: int = 0
    routing: bytes = b""
    """Keys that brokers test the tags of sealed events with."""

    def with_filter(self, filter: str) -> Terms:
        """The same, for other events."""
        return replace(self, filter=filter)

    def frame(self, request: int, subscription: int) -> Subscribe:
        """The frame that asks the broker for it."""
        return Subscribe(
            request,
            subscription,
            self.filter,
            self.within_us,
            self.late,
            self.buffer.items,
            self.buffer.bytes,
            Full(self.buffer.full),
            self.durable,
            self.start,
            self.start_at,
            self.routing,
        )


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """Counts since it was opened. Every event that matched is in `delivered`, `pending` or `dropped`."""

    received: int
    """Events that came from the broker, duplicates aside."""
    delivered: int
    """Handed to the application."""
    dropped: int
    """Matched, and did not reach the application, as far as that is known: here or at the broker."""
    late: int
    """Missed the delay bound: dropped or flagged."""
    gaps: int
    """Times that events were lost, or may have been."""
    pending: int
    """Waiting for the application."""
    pending_bytes: int
    duplicates: int
    """Came again and were kept from the application."""
    max_delay: float
    """Of the events handed out, in seconds."""
    errors: int
    """Exceptions that a callback raised."""


@dataclass(slots=True)
class Signals:
    """What interests have to tell the session and its face; shared by all of them."""

    readable: list[SubscriptionState] = field(default_factory=list)
    """Have something new for a reader who may be waiting."""
    overflowing: list[SubscriptionState] = field(default_factory=list)
    """Filled up, under a policy that the session must act on."""
    acknowledging: list[SubscriptionState] = field(default_factory=list)
    dirty: bool = False
    """Whether the session has something to do for them: an acknowledgement to send, reading to go on with."""


class SubscriptionState:
    """One subscription."""

    __slots__ = (
        "_buffer",
        "_bytes",
        "_bytes_max",
        "_duplicates",
        "_items_max",
        "_last_sequences",
        "_paths",
        "_position_base",
        "_signals",
        "_slow_at",
        "acknowledged",
        "blocking",
        "delivered",
        "dropped",
        "duplicates",
        "error",
        "errors",
        "gaps",
        "id",
        "late",
        "log_lost",
        "max_delay_us",
        "notices",
        "phase",
        "queue",
        "received",
        "terms",
        "unacknowledged",
    )

    def __init__(self, id: int, terms: Terms, signals: Signals) -> None:
        self.id = id
        self.terms = terms
        self.phase = Phase.OPENING
        self.error: PlaitError | None = None
        """Why it ended, if not because it was closed."""
        self.queue: deque[Arrival] = deque()
        self._duplicates = DuplicateWindow(DUPLICATE_WINDOW, PUBLISHERS_MAX)
        self._paths: dict[int, tuple[int, ...]] = {}  # by publisher: the brokers that its last event passed
        self._last_sequences: dict[
            int, dict[int, int]
        ] = {}  # by publisher that uses priorities, and priority: the last number
        self.notices = Notices()
        self.blocking = False
        self.acknowledged: list[int] = []
        """Positions dealt with that the broker is to be told of."""
        self.unacknowledged: dict[int, None] = {}
        """Positions in the queue or in the application's hands, each on top of `_position_base`."""
        self.log_lost = False
        """Whether the application is to be told, once it is subscribed again, that the broker's log is another one."""
        self._position_base = 0
        """Tells positions of one log, or tokens of one session, from those before. An event in the application's hands
        must not settle a later one that happens to have its number."""
        self.received = self.delivered = self.dropped = self.duplicates = self.late = self.gaps = self.errors = 0
        self.max_delay_us = 0
        self._signals = signals
        self._buffer = terms.buffer
        self._items_max = terms.buffer.items
        self._bytes_max = terms.buffer.bytes
        self._slow_at = max(2, self._items_max // 2)
        self._bytes = 0

    @property
    def open(self) -> bool:
        """Whether deliveries are taken."""
        return self.phase in (Phase.OPENING, Phase.OPEN)

    def stats(self) -> SubscriptionStats:
        """Counts up to now."""
        return SubscriptionStats(
            self.received,
            self.delivered,
            self.dropped,
            self.late,
            self.gaps,
            len(self.queue),
            self._bytes,
            self.duplicates,
            self.max_delay_us / 1_000_000,
            self.errors,
        )

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def receive(self, frame: Deliver, flags: int, position: int, half_s: float) -> None:
        """A delivery from the broker."""
        publisher = frame.publisher
        sighting = self._duplicates.see(publisher, frame.sequence)
        if sighting is not NEW:
            if sighting is not BEHIND:
                self._receive_duplicate(position)
                return
            if self._is_out_of_order(frame):
                flags |= REPLAYED
        if frame.priority or self._last_sequences:
            self._record_sequence(frame)
        path = frame.path
        if self._paths.get(publisher) != path:
            self._record_path(publisher, path)
        self.received += 1
        if flags & _NOTED:
            position = self._track(flags, position)
        queue, size = self.queue, len(frame.block)
        if len(queue) >= self._items_max or self._bytes + size > self._bytes_max:
            if not self._make_room(frame, position, size):
                return
        elif not queue:
            self._signals.readable.append(self)
        queue.append((frame, flags, position, half_s))
        self._bytes += size
        if len(queue) == self._slow_at:
            self.add_notice(SlowConsumer("client", len(queue)))

    def take(self) -> Arrival:
        """The next delivery for the application; there must be one."""
        arrival = self.queue.popleft()
        frame = arrival[0]
        self._bytes -= len(frame.block)
        self.delivered += 1
        delay_us = frame.delay_us
        if delay_us > self.max_delay_us:
            self.max_delay_us = delay_us
        if self.blocking and len(self.queue) <= self._items_max // 2 and self._bytes <= self._bytes_max // 2:
            self.blocking = False
            self._signals.dirty = True
        return arrival

    def requeue(self, arrival: Arrival) -> None:
        """The application did not manage: hand it out again, after what is waiting."""
        self.delivered -= 1
        self._bytes += len(arrival[0].block)
        self.queue.append(arrival)
        self._signals.readable.append(self)
        self._signals.dirty = True

    def acknowledge(self, position: int) -> None:
        """The application has dealt with a delivery. Again, or one that nobody waits for: nothing happens."""
        if position not in self.unacknowledged:
            return
        del self.unacknowledged[position]
        self._queue_ack(position & POSITION_MASK)

    def acknowledge_up_to(self, position: int) -> None:
        """The application has dealt with a delivery and all before it."""
        for earlier in [known for known in self.unacknowledged if known <= position]:
            self.acknowledge(earlier)

    def discard_queue(self) -> None:
        """Nobody wants what is queued any more."""
        self.queue.clear()
        self._bytes = 0
        self.blocking = False

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def add_notice(self, notice: Notice) -> None:
        """Adds a notice."""
        self.notices.add(notice)
        self._signals.readable.append(self)

    def record_gap(self, gap: Gap, *, counted: bool = True) -> None:
        """Events that matched did not come."""
        self.gaps += 1
        if counted:
            self.dropped += gap.count
        self.add_notice(gap)

    def record_late(self, late: Late) -> None:
        """Events missed the delay bound."""
        self.late += late.count
        if late.dropped:
            self.dropped += late.count
        self.add_notice(late)

    def record_unusable(self, frame: Deliver, reason: str = "not_convertible") -> None:
        """An event that was taken turned out not to be what the application asked for, or does not open."""
        self.delivered -= 1
        self.record_gap(Gap(reason, 1, frame.publisher, frame.sequence, frame.sequence))

    def discard_unmatched(self) -> None:
        """An event that was taken does not match, as could be seen only when it was opened."""
        self.delivered -= 1
        self.received -= 1

    def new_session(self, *, log_changed: bool = False) -> None:
        """The broker has no memory of the session before: its confirmations are void, what it logged is not, unless it
        keeps another log now."""
        if not self.terms.durable or log_changed:
            self.unacknowledged.clear()
            self.acknowledged.clear()
            self._position_base += POSITION_MASK + 1
            self.log_lost = bool(self.terms.durable) and (self.log_lost or self.phase is Phase.OPEN)

    def end(self, error: PlaitError | None) -> None:
        """Nothing more comes."""
        if self.phase is not Phase.ENDED:
            self.phase, self.error = Phase.ENDED, error
            self.blocking = False
            self._signals.readable.append(self)
            self._signals.dirty = True

    # --- inside -------------------------------------------------------------------------------------------------------

    def _receive_duplicate(self, position: int) -> None:
        self.duplicates += 1
        if position and position + self._position_base not in self.unacknowledged:
            self._queue_ack(position)  # dealt with, and the broker did not hear of it

    def _record_path(self, publisher: int, path: tuple[int, ...]) -> None:
        before = self._paths.get(publisher)
        if before is not None:
            self.add_notice(Rerouted(publisher, before, path))
        elif len(self._paths) >= PUBLISHERS_MAX:
            self._paths.clear()
        self._paths[publisher] = path

    def _record_sequence(self, frame: Deliver) -> None:
        """Of publishers whose events overtake each other by their priority, each priority has its own order."""
        last = self._last_sequences.get(frame.publisher)
        if last is None:
            if len(self._last_sequences) >= PUBLISHERS_MAX:
                self._last_sequences.clear()
            last = self._last_sequences[frame.publisher] = {}
        last[frame.priority] = max(frame.sequence, last.get(frame.priority, 0))

    def _is_out_of_order(self, frame: Deliver) -> bool:
        """Whether an event that comes after a later one should have come before it: its publisher has repeated it, not
        having heard of it, and only now somebody here wants it."""
        last = self._last_sequences.get(frame.publisher)
        return last is None or frame.sequence < last.get(frame.priority, 0)

    def _queue_ack(self, position: int) -> None:
        if not self.acknowledged:
            self._signals.acknowledging.append(self)
        self.acknowledged.append(position)
        self._signals.dirty = True

    def _track(self, flags: int, position: int) -> int:
        """Remember what is to be acknowledged; its position as it is known here."""
        if flags & LATE:
            self.record_late(Late(1, dropped=False))
        if flags & (CONFIRM | DURABLE):
            position += self._position_base
            self.unacknowledged[position] = None
        return position

    def _make_room(self, frame: Deliver, position: int, size: int) -> bool:
        """The queue is full: acts by the policy; whether the delivery is to be queued all the same."""
        policy = self._buffer.full
        if policy == "close":
            self._signals.overflowing.append(self)
            self._drop(frame, position)
            return False
        if policy == "block" or self.terms.durable:
            # What is logged is never dropped. One read's worth comes on top of the buffer, then reading stops.
            if not self.blocking:
                self.blocking = True
                self._signals.overflowing.append(self)
            return True
        if policy == "drop_newest" or size > self._bytes_max:
            self._drop(frame, position)
            return False
        queue = self.queue
        while queue and (len(queue) >= self._items_max or self._bytes + size > self._bytes_max):
            oldest, _, oldest_position, _ = queue.popleft()
            self._bytes -= len(oldest.block)
            self._drop(oldest, oldest_position)
        return True

    def _drop(self, frame: Deliver, position: int) -> None:
        self.unacknowledged.pop(position, None)
        self._duplicates.forget(frame.publisher, frame.sequence)  # if it comes again, it is welcome
        self.record_gap(Gap("queue_full", 1, frame.publisher, frame.sequence, frame.sequence))

"""The session's state of one subscription: terms, bounded queue, duplicates, acks and counters.

A delivery goes through `receive`, which ends duplicates, into the queue, or is handled by the policy for a full queue.
The application calls `take` and then `acknowledge`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from plait_core import PlaitError
from plait_core.duplicates import BEHIND, NEW, DuplicateWindow
from plait_core.filters import Filter
from plait_core.limits import DUPLICATE_WINDOW
from plait_core.wire import Deliver
from plait_core.wire.frame_types.session_frames import CONFIRM, DURABLE, LATE, REPLAYED, Full, Start, Subscribe, Unseen
from plait_core.wire.frame_types.session_frames import Late as LateTerm

from ..options.limits import NOTICES_MAX, PUBLISHERS_MAX
from ..options.settings import DEFAULT_BUFFER, Buffer
from .delivery_account import DeliveryAccount
from .notices import Gap, Late, Notice, Rerouted, SlowConsumer, add_notice

Arrival: TypeAlias = tuple[Deliver, int, int, float]
"""A queued delivery: frame, flags, position, and half the round-trip time on arrival. A plain tuple, because one is
made for every event."""

POSITION_MASK: Final = 2**64 - 1
"""Mask of the part of a position that the broker knows."""

_QUEUE_FULL: Final = Unseen.QUEUE_FULL.value
_CLOSED: Final = Unseen.CLOSED.value
"""Plain texts: hashing a member of an enumeration is slow."""

_NOTED: Final = LATE | CONFIRM | DURABLE
"""Flags of a delivery that need extra work."""


class Phase(Enum):
    OPENING = auto()  # the broker has not confirmed it yet
    OPEN = auto()
    DRAINING = auto()  # new deliveries are refused; queued ones are still delivered
    ENDED = auto()  # queued events are still delivered, then `error` is raised or iteration ends


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a subscription, with its filter."""

    filter: Filter
    within_us: int = 0
    late: LateTerm = LateTerm.DROP
    buffer: Buffer = DEFAULT_BUFFER
    durable: str = ""
    start: Start = Start.NEW
    start_at: int = 0
    routing: bytes = field(default=b"", repr=False)
    """Routing tokens with which brokers test the tags of sealed events."""

    def with_filter(self, filter: Filter) -> Terms:
        """Return the terms with another filter."""
        return replace(self, filter=filter)

    def frame(self, request: int, subscription: int) -> Subscribe:
        """Return the Subscribe frame."""
        return Subscribe(
            request,
            subscription,
            self.filter.text,
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
    """Counters since the subscription was opened. Each matching event is in `delivered`, `pending` or `dropped`."""

    received: int
    """Events received from the broker, without duplicates."""
    delivered: int
    """Events delivered to the application."""
    dropped: int
    """Matching events known not to have reached the application: dropped by the client or by a broker."""
    late: int
    """Events that missed the delay bound: dropped or flagged."""
    gaps: int
    """Number of gaps: losses, certain or possible."""
    pending: int
    """Events queued for the application."""
    pending_bytes: int
    duplicates: int
    """Repeated events that were not delivered again."""
    max_delay: float
    """Largest delay of the delivered events, in seconds."""
    errors: int
    """Exceptions raised by callbacks."""


@dataclass(slots=True)
class Signals:
    """Signals of the subscriptions to the session and its driver. All subscriptions share one object."""

    readable: list[SubscriptionState] = field(default_factory=list)
    """Subscriptions with something new for a waiting reader."""
    overflowing: list[SubscriptionState] = field(default_factory=list)
    """Subscriptions with a full queue whose policy the session must apply."""
    acknowledging: list[SubscriptionState] = field(default_factory=list)
    dirty: bool = False
    """Whether the session must send acks or resume reading."""


class SubscriptionState:
    """The state of one subscription."""

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
        "account",
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
        """The reason of the end; None after a regular close."""
        self.queue: deque[Arrival] = deque()
        self._duplicates = DuplicateWindow(DUPLICATE_WINDOW, PUBLISHERS_MAX)
        self._paths: dict[int, tuple[int, ...]] = {}  # path of the last event, by publisher
        # Last sequence numbers by publisher and priority; only of publishers that use priorities.
        self._last_sequences: dict[int, dict[int, int]] = {}
        self.notices: deque[Notice] = deque(maxlen=NOTICES_MAX)
        """Notices for the reader. The oldest are discarded when there are too many."""
        self.blocking = False
        self.acknowledged: list[int] = []
        """Acknowledged positions that are not sent to the broker yet."""
        self.unacknowledged: dict[int, None] = {}
        """Positions of queued or delivered events without ack, each with `_position_base` added."""
        self.log_lost = False
        """Whether a Gap must report, after the next re-subscription, that the broker's log was replaced."""
        self._position_base = 0
        """Offset that keeps the positions of one log or session apart from those of the next.

        Without it an ack for an event of the old log could acknowledge a later event with the same position.
        """
        self.received = self.delivered = self.dropped = self.duplicates = self.late = self.gaps = self.errors = 0
        self.max_delay_us = 0
        self.account = DeliveryAccount()
        """What the broker is told about its deliveries."""
        self._signals = signals
        self._buffer = terms.buffer
        self._items_max = terms.buffer.items
        self._bytes_max = terms.buffer.bytes
        self._slow_at = max(2, self._items_max // 2)
        self._bytes = 0

    @property
    def open(self) -> bool:
        """Whether the subscription accepts deliveries."""
        return self.phase in (Phase.OPENING, Phase.OPEN)

    def stats(self) -> SubscriptionStats:
        """Return the counters."""
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
        """Process a delivery from the broker."""
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
        """Remove and return the next delivery. The queue must not be empty."""
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
        """Queue a delivery again, behind the others."""
        self.delivered -= 1
        self._bytes += len(arrival[0].block)
        self.queue.append(arrival)
        self._signals.readable.append(self)
        self._signals.dirty = True

    def acknowledge(self, position: int) -> None:
        """Acknowledge a delivery. A second ack, or one for an unknown position, does nothing."""
        if position not in self.unacknowledged:
            return
        del self.unacknowledged[position]
        self._queue_ack(position & POSITION_MASK)

    def acknowledge_up_to(self, position: int) -> None:
        """Acknowledge a delivery and all earlier ones."""
        for earlier in [known for known in self.unacknowledged if known <= position]:
            self.acknowledge(earlier)

    def discard_queue(self) -> None:
        """Discard the queued deliveries. Logged ones stay in the broker's log."""
        if not self.terms.durable:
            for frame, *_ in self.queue:
                self.account.drop(_CLOSED, frame.publisher, frame.sequence)
        self.queue.clear()
        self._bytes = 0
        self.blocking = False

    # --- losses ------------------------------------------------------------------------------------------------------

    def add_notice(self, notice: Notice) -> None:
        """Add a notice and wake the reader."""
        add_notice(self.notices, notice)
        self._signals.readable.append(self)

    def record_gap(self, gap: Gap, *, counted: bool = True) -> None:
        """Record the loss of matching events."""
        self.gaps += 1
        if counted:
            self.dropped += gap.count
        self.add_notice(gap)

    def record_late(self, late: Late) -> None:
        """Record events that missed the delay bound."""
        self.late += late.count
        if late.dropped:
            self.dropped += late.count
        self.add_notice(late)

    def record_unusable(self, frame: Deliver, reason: str = "not_convertible") -> None:
        """Record a taken event that does not convert to the application's type, or does not open."""
        self.delivered -= 1
        self.account.drop(reason, frame.publisher, frame.sequence)
        self.record_gap(Gap(reason, 1, frame.publisher, frame.sequence, frame.sequence))

    def discard_unmatched(self) -> None:
        """Discount a taken sealed event: only its opening has shown that it does not match."""
        self.delivered -= 1
        self.received -= 1

    def new_session(self, *, log_changed: bool = False) -> None:
        """Reset the acks for a new session of the broker.

        Unsent and outstanding acks become void. Those of a durable subscription stay valid unless the log was
        replaced.
        """
        self.account.begin(self.received, self.delivered, min(len(self.queue), self._items_max))
        if not self.terms.durable or log_changed:
            self.unacknowledged.clear()
            self.acknowledged.clear()
            self._position_base += POSITION_MASK + 1
            self.log_lost = bool(self.terms.durable) and (self.log_lost or self.phase is Phase.OPEN)

    def begin_again(self) -> None:
        """Forget what was received: the cursor has moved, so the broker delivers events again, or not at all."""
        self.received -= len(self.queue)
        self.queue.clear()
        self._bytes = 0
        self._duplicates = DuplicateWindow(DUPLICATE_WINDOW, PUBLISHERS_MAX)
        self._last_sequences.clear()
        self.unacknowledged.clear()
        self.acknowledged.clear()
        self._position_base += POSITION_MASK + 1
        self.account.begin(self.received, self.delivered, 0)
        if self.blocking:
            self.blocking = False
            self._signals.dirty = True

    def end(self, error: PlaitError | None) -> None:
        """End the subscription."""
        if self.phase is not Phase.ENDED:
            self.phase, self.error = Phase.ENDED, error
            self.blocking = False
            self._signals.readable.append(self)
            self._signals.dirty = True

    # --- inside -------------------------------------------------------------------------------------------------------

    def _receive_duplicate(self, position: int) -> None:
        self.duplicates += 1
        if position and position + self._position_base not in self.unacknowledged:
            self._queue_ack(position)  # acknowledged before, but the ack was lost

    def _record_path(self, publisher: int, path: tuple[int, ...]) -> None:
        before = self._paths.get(publisher)
        if before is not None:
            self.add_notice(Rerouted(publisher, before, path))
        elif len(self._paths) >= PUBLISHERS_MAX:
            self._paths.clear()
        self._paths[publisher] = path

    def _record_sequence(self, frame: Deliver) -> None:
        """Record the sequence number for its priority.

        Events of one publisher overtake each other by priority, so each priority has an order of its own.
        """
        last = self._last_sequences.get(frame.publisher)
        if last is None:
            if len(self._last_sequences) >= PUBLISHERS_MAX:
                self._last_sequences.clear()
            last = self._last_sequences[frame.publisher] = {}
        last[frame.priority] = max(frame.sequence, last.get(frame.priority, 0))

    def _is_out_of_order(self, frame: Deliver) -> bool:
        """Return whether an event arrives after a later one of its priority: its publisher has retransmitted it."""
        last = self._last_sequences.get(frame.publisher)
        return last is None or frame.sequence < last.get(frame.priority, 0)

    def _queue_ack(self, position: int) -> None:
        if not self.acknowledged:
            self._signals.acknowledging.append(self)
        self.acknowledged.append(position)
        self._signals.dirty = True

    def _track(self, flags: int, position: int) -> int:
        """Track a delivery that needs an ack or is late. Return its position with the base added."""
        if flags & LATE:
            self.record_late(Late(1, dropped=False))
        if flags & (CONFIRM | DURABLE):
            position += self._position_base
            self.unacknowledged[position] = None
        return position

    def _make_room(self, frame: Deliver, position: int, size: int) -> bool:
        """Apply the policy of a full queue. Return whether the delivery is to be queued."""
        policy = self._buffer.full
        if policy == "close":
            self._signals.overflowing.append(self)
            self._drop(frame, position)
            return False
        if policy == "block" or self.terms.durable:
            # Logged events are never dropped. Those of one more read exceed the bound, then reading stops.
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
        self._duplicates.forget(frame.publisher, frame.sequence)  # a retransmission is accepted
        self.account.drop(_QUEUE_FULL, frame.publisher, frame.sequence)
        self.record_gap(Gap("queue_full", 1, frame.publisher, frame.sequence, frame.sequence))

"""The publish queue: publishes that wait to be sent, and publishes that wait for confirmation.

A publish with confirmation is kept until it is confirmed. When a connection breaks, kept publishes are sent again,
ahead of new ones, in order and under their own sequence numbers; the broker removes duplicates. A publish without
confirmation is sent once. An event whose lifetime ends in the queue is not sent. An event that waited is sent with its
remaining lifetime.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from plait_core import Event
from plait_core.limits import DUPLICATE_WINDOW, UNCONFIRMED_MAX
from plait_core.wire import Confirm, Ping, encode_control, encode_publish

from ..options.limits import NOT_LOST_MAX, PINGS_MAX, WRITE_BYTES
from ..options.settings import Outbox
from .deadlines import Deadlines

_WAIT_IGNORED_S: Final = 0.001
"""Wait in the queue that is not subtracted from a lifetime: an event that is sent at once is sent unchanged."""


@dataclass(slots=True, eq=False)
class Retained:
    """A publish that is kept because it needs confirmation or has a limited lifetime."""

    event: Event
    confirm: Confirm
    frame: bytes
    published_at: float
    expires_at: float | None
    sent: bool = False


@dataclass(frozen=True, slots=True)
class Barrier:
    """A ping that is sent after all queued publishes. Its pong shows that the broker has processed them."""

    nonce: int


_Item: TypeAlias = bytes | Retained | Barrier


class PublishQueue:
    """The publish queue, bounded in items and bytes. It never refuses a publish: callers check `full` first."""

    def __init__(self, bounds: Outbox) -> None:
        self._items_max = bounds.items
        self._bytes_max = bounds.bytes
        self.queue: deque[_Item] = deque()
        """Items to send, in order."""
        self._retained: dict[int, Retained] = {}  # by sequence number, ascending
        self._barriers: dict[int, Barrier] = {}  # sent, without an answer yet
        self.expiries: Deadlines[int] = Deadlines()
        """Ends of lifetimes, by sequence number."""
        self._items = 0
        self._bytes = 0
        self._sent_up_to = 0  # first transmissions are in order, without holes
        self._counted_up_to = 0  # losses are counted up to here
        self._received_up_to = 0  # the broker has received all up to here, by a pong or a receipt
        self._pings: dict[int, int] = {}  # pings in flight: the last publish sent before each nonce
        self._not_lost: deque[int] = deque(maxlen=NOT_LOST_MAX)  # not sent, or reported as failed
        self.held = False
        """Whether the broker has asked to send nothing for now."""
        self.full = False
        """Whether the queue has reached its bound. It becomes false at half of it, so that waiting publishers do not
        alternate."""

    @property
    def sendable(self) -> bool:
        """Whether there is something to send now."""
        return bool(self.queue) and not self.held

    @property
    def items(self) -> int:
        """Number of publishes in the queue."""
        return self._items

    @property
    def size_bytes(self) -> int:
        """Bytes of the publishes in the queue."""
        return self._bytes

    @property
    def unconfirmed(self) -> int:
        """Number of publishes that wait for a receipt, sent or not."""
        return len(self._retained)

    def add(self, frame: bytes) -> None:
        """Add a publish that is sent once."""
        self.queue.append(frame)
        self._items += 1
        self._bytes += len(frame)
        if self._items >= self._items_max or self._bytes >= self._bytes_max:
            self.full = True

    def retain(self, retained: Retained) -> None:
        """Add a publish that is kept."""
        sequence = retained.event.sequence
        assert sequence not in self._retained, "sequence numbers are used once"
        self._retained[sequence] = retained
        self.queue.append(retained)
        if retained.expires_at is not None:
            self.expiries.set(sequence, retained.expires_at)
        self._grow(len(retained.frame))

    def add_barrier(self, nonce: int) -> None:
        """Add a ping behind all queued publishes."""
        self.queue.append(Barrier(nonce))

    def pong_received(self, nonce: int) -> None:
        """Handle a pong: the broker has received all publishes that were sent before the ping."""
        self._barriers.pop(nonce, None)
        self._received_up_to = max(self._received_up_to, self._pings.pop(nonce, 0))

    def ping_sent(self, nonce: int) -> None:
        """Note how many publishes were sent before a ping."""
        if len(self._pings) < PINGS_MAX:
            self._pings[nonce] = self._sent_up_to

    def take(self, now: float, bytes_max: int = WRITE_BYTES) -> list[bytes]:
        """Remove and return the frames to write next, about `bytes_max` bytes."""
        chunks: list[bytes] = []
        size = forgotten = forgotten_bytes = 0
        waiting = self.queue
        while waiting and size < bytes_max:
            item = waiting.popleft()
            if isinstance(item, bytes):
                frame = item
                forgotten += 1
                forgotten_bytes += len(frame)
                self._sent_up_to += 1
            else:
                frame = self._frame_of(item, now)
            size += len(frame)
            chunks.append(frame)
        self._shrink(forgotten, forgotten_bytes)
        return chunks

    def take_single(self) -> bytes | None:
        """Remove and return the frame of a publish without confirmation if it is the only queued item; else return
        None."""
        frame = self.queue[0] if len(self.queue) == 1 and not self.held else None
        if not isinstance(frame, bytes):
            return None
        self.queue.clear()
        self._sent_up_to += 1
        if self.full:
            self._shrink(1, len(frame))
        else:
            self._items -= 1
            self._bytes -= len(frame)
        return frame

    def confirmed(self, sequence: int) -> bool:
        """Handle a confirmation or a final refusal: the broker has received all earlier publishes, too.

        Return whether the publish was kept.
        """
        self._received_up_to = max(self._received_up_to, sequence)
        return self._drop(sequence) is not None

    def expire(self, now: float) -> list[tuple[int, Confirm]]:
        """Remove publishes whose lifetime is over. Return the sequence numbers and levels of those to report."""
        expired: list[tuple[int, Confirm]] = []
        for sequence in self.expiries.due(now):
            retained = self._drop(sequence)
            self._not_lost.append(sequence)
            if retained is not None and (retained.confirm or not retained.sent):
                expired.append((sequence, retained.confirm))
        return expired

    def rewind(self) -> list[int]:
        """Queue kept publishes again, first and in order: the connection broke.

        Remove and return those that are too far behind: the broker could no longer recognise them as duplicates.
        """
        self._pings.clear()
        self.held = False
        floor = self._sent_up_to - DUPLICATE_WINDOW
        again: list[_Item] = []
        unknowable: list[int] = []
        for sequence, retained in list(self._retained.items()):
            if not retained.sent:
                continue
            if sequence <= floor:
                self._drop(sequence)
                self._not_lost.append(sequence)
                unknowable.append(sequence)
            else:
                retained.sent = False
                again.append(retained)
        again.extend(self._barriers.values())
        self._barriers.clear()
        self.queue.extendleft(reversed(again))
        return unknowable

    def count_lost(self, received_up_to: int | None) -> int:
        """Count the publishes without confirmation that were lost with the last connection. Each is counted once.

        The broker has received all publishes up to `received_up_to`. None means that it does not know: the result is
        then an upper bound.
        """
        floor, self._counted_up_to = self._counted_up_to, self._sent_up_to
        known = [*self._not_lost, *self._retained]
        self._not_lost = deque((later for later in self._not_lost if later > self._sent_up_to), NOT_LOST_MAX)
        arrived = self._received_up_to if received_up_to is None else received_up_to
        beyond = range(max(floor, arrived) + 1, self._sent_up_to + 1)
        return len(beyond) - len({sequence for sequence in known if sequence in beyond})

    def clear(self) -> list[int]:
        """Remove everything. Return the sequence numbers that waited for confirmation."""
        unconfirmed = [sequence for sequence, kept in self._retained.items() if kept.confirm]
        for sequence in list(self._retained):
            self._drop(sequence)
        self._shrink(self._items, self._bytes)
        self.queue.clear()
        self._barriers.clear()
        return unconfirmed

    def _frame_of(self, item: Retained | Barrier, now: float) -> bytes:
        if isinstance(item, Barrier):
            self._barriers[item.nonce] = item
            self.ping_sent(item.nonce)
            return encode_control(Ping(item.nonce))
        sequence = item.event.sequence
        self._sent_up_to = max(self._sent_up_to, sequence)
        if self._retained.get(sequence) is not item:
            return b""  # it expired or was cleared while it waited
        item.sent = True
        frame = item.frame
        waited_s = now - item.published_at
        if item.expires_at is not None and waited_s > _WAIT_IGNORED_S:
            left_us = max(1, round((item.expires_at - now) * 1_000_000))
            frame = encode_publish(replace(item.event, lifetime_us=left_us), item.confirm)
        if not item.confirm:
            self._drop(sequence)
        return frame

    def _drop(self, sequence: int) -> Retained | None:
        retained = self._retained.pop(sequence, None)
        if retained is not None:
            self.expiries.discard(sequence)
            self._shrink(1, len(retained.frame))
        return retained

    def _grow(self, size: int) -> None:
        self._items += 1
        self._bytes += size
        if self._items >= self._items_max or self._bytes >= self._bytes_max or len(self._retained) >= UNCONFIRMED_MAX:
            self.full = True

    def _shrink(self, items: int, size: int) -> None:
        self._items -= items
        self._bytes -= size
        assert min(self._items, self._bytes) >= 0, "only counted items are removed"
        if self.full and self._half_empty():
            self.full = False

    def _half_empty(self) -> bool:
        return (
            self._items <= self._items_max // 2
            and self._bytes <= self._bytes_max // 2
            and len(self._retained) <= UNCONFIRMED_MAX // 2
        )

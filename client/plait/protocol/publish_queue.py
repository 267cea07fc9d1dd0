"""Publishes on their way to the broker: first those that wait to be sent, then those that wait to be confirmed.

What asked for confirmation is kept until it has it, and goes out again, under its own sequence number and in order,
ahead of everything new, whenever a connection breaks: the broker tells duplicates apart. What asked for none is sent
once. An event whose lifetime ends here is not sent at all, and one that waited is sent with what is left of its life.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from plait_core import Event
from plait_core.limits import DUPLICATE_WINDOW, UNCONFIRMED_MAX
from plait_core.wire import Confirm, Ping, encode_frame, encode_publish

from ..options.limits import NOT_LOST_MAX, PINGS_MAX, WRITE_BYTES
from ..options.settings import Outbox as OutboxSettings
from .deadlines import Deadlines

_WAIT_IGNORED_S: Final = 0.001
"""Waiting that is not taken off a lifetime: an event that goes out at once goes out as it is."""


@dataclass(slots=True, eq=False)
class Retained:
    """A publish that is to be remembered: it wants confirmation, or it is mortal."""

    event: Event
    confirm: Confirm
    frame: bytes
    published_at: float
    expires_at: float | None
    sent: bool = False


@dataclass(frozen=True, slots=True)
class Barrier:
    """A ping that overtakes no publish: its pong says that the broker has processed all before it."""

    nonce: int


_Item: TypeAlias = bytes | Retained | Barrier


class PublishQueue:
    """Bounded in items and bytes. It never refuses: who publishes asks `full` first."""

    def __init__(self, settings: OutboxSettings) -> None:
        self._items_max = settings.items
        self._bytes_max = settings.bytes
        self._waiting: deque[_Item] = deque()
        self._retained: dict[int, Retained] = {}  # by sequence number, ascending
        self._barriers: dict[int, Barrier] = {}  # sent, and not answered
        self._expiries: Deadlines[int] = Deadlines()
        self._items = 0
        self._bytes = 0
        self._sent_up_to = 0  # publishes go out for the first time in their order, and their numbers have no holes
        self._counted_up_to = 0  # up to here it is known what came of those that are sent once
        self._received_up_to = 0  # up to here the broker has said that it has them: by a pong, or a receipt
        self._pings: dict[int, int] = {}  # by nonce, of those under way: the last publish before it
        self._not_lost: deque[int] = deque(maxlen=NOT_LOST_MAX)  # sent under no frame, or given up, and so told
        self.full = False
        """At the high-water mark; false again only at half of it, so that waiting publishers do not take turns."""

    @property
    def items(self) -> int:
        """Publishes held."""
        return self._items

    @property
    def size_bytes(self) -> int:
        """Bytes of publishes held."""
        return self._bytes

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._waiting)

    @property
    def has_several(self) -> bool:
        """Whether more than one thing waits to be sent."""
        return len(self._waiting) > 1

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for a receipt, sent or not."""
        return len(self._retained)

    def add(self, frame: bytes) -> None:
        """A publish that is sent once and forgotten."""
        self._waiting.append(frame)
        self._items += 1
        self._bytes += len(frame)
        if self._items >= self._items_max or self._bytes >= self._bytes_max:
            self.full = True

    def retain(self, retained: Retained) -> None:
        """A publish that is remembered."""
        sequence = retained.event.sequence
        assert sequence not in self._retained, "sequence numbers are used once"
        self._retained[sequence] = retained
        self._waiting.append(retained)
        if retained.expires_at is not None:
            self._expiries.set(sequence, retained.expires_at)
        self._grow(len(retained.frame))

    def add_barrier(self, nonce: int) -> None:
        """A ping behind everything published so far."""
        self._waiting.append(Barrier(nonce))

    def pong_received(self, nonce: int) -> None:
        """A pong came: of a barrier, or of any other ping."""
        self._barriers.pop(nonce, None)
        self._received_up_to = max(self._received_up_to, self._pings.pop(nonce, 0))

    def ping_sent(self, nonce: int) -> None:
        """A ping goes out, behind all that was sent: its pong will say that it has arrived."""
        if len(self._pings) < PINGS_MAX:
            self._pings[nonce] = self._sent_up_to

    def take(self, now: float, bytes_max: int = WRITE_BYTES) -> list[bytes]:
        """What to write next: about `bytes_max` bytes."""
        chunks: list[bytes] = []
        taken = forgotten = forgotten_bytes = 0
        waiting = self._waiting
        while waiting and taken < bytes_max:
            item = waiting.popleft()
            if isinstance(item, bytes):
                frame = item
                forgotten += 1
                forgotten_bytes += len(frame)
                self._sent_up_to += 1
            else:
                frame = self._frame_of(item, now)
            taken += len(frame)
            chunks.append(frame)
        self._shrink(forgotten, forgotten_bytes)
        return chunks

    def take_single(self) -> bytes | None:
        """What to write when a publish that is sent once and forgotten waits, and nothing else does."""
        frame = self._waiting[0] if len(self._waiting) == 1 else None
        if not isinstance(frame, bytes):
            return None
        self._waiting.clear()
        self._sent_up_to += 1
        if self.full:
            self._shrink(1, len(frame))
        else:
            self._items -= 1
            self._bytes -= len(frame)
        return frame

    def confirmed(self, sequence: int) -> bool:
        """The broker has confirmed one, or refused it for good: it has all before it, too. Whether it was retained."""
        self._received_up_to = max(self._received_up_to, sequence)
        return self._drop(sequence) is not None

    def expire(self, now: float) -> list[tuple[int, Confirm]]:
        """Gives up what has outlived itself; sequence numbers and what they asked for."""
        expired: list[tuple[int, Confirm]] = []
        for sequence in self._expiries.due(now):
            retained = self._drop(sequence)
            self._not_lost.append(sequence)
            if retained is not None and (retained.confirm or not retained.sent):
                expired.append((sequence, retained.confirm))
        return expired

    def next_deadline(self) -> float | None:
        """When the next mortal publish ends."""
        return self._expiries.next()

    def rewind(self) -> list[int]:
        """The connection broke: what was sent and not confirmed is to be sent again, first and in order.

        Gives up, and returns, what is so far behind that a broker could not tell whether it had it before.
        """
        self._pings.clear()
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
        self._waiting.extendleft(reversed(again))
        return unknowable

    def count_lost(self, received_up_to: int | None) -> int:
        """There is a connection again, whose broker has had everything up to a number, or does not know. How many of
        those that are sent once were lost with the connection before, in the latter case at most; it is told once."""
        floor, self._counted_up_to = self._counted_up_to, self._sent_up_to
        known = [*self._not_lost, *self._retained]
        self._not_lost = deque((later for later in self._not_lost if later > self._sent_up_to), NOT_LOST_MAX)
        arrived = self._received_up_to if received_up_to is None else received_up_to
        beyond = range(max(floor, arrived) + 1, self._sent_up_to + 1)
        return len(beyond) - len({sequence for sequence in known if sequence in beyond})

    def clear(self) -> list[int]:
        """Gives up everything; the sequence numbers that wanted confirmation."""
        unconfirmed = [sequence for sequence, kept in self._retained.items() if kept.confirm]
        for sequence in list(self._retained):
            self._drop(sequence)
        self._shrink(self._items, self._bytes)
        self._waiting.clear()
        self._barriers.clear()
        return unconfirmed

    def _frame_of(self, item: Retained | Barrier, now: float) -> bytes:
        if isinstance(item, Barrier):
            self._barriers[item.nonce] = item
            self.ping_sent(item.nonce)
            return encode_frame(Ping(item.nonce))
        sequence = item.event.sequence
        self._sent_up_to = max(self._sent_up_to, sequence)
        if self._retained.get(sequence) is not item:
            return b""  # it expired, or was given up, while it waited
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
            self._expiries.discard(sequence)
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
        assert min(self._items, self._bytes) >= 0, "what leaves was counted when it came"
        if self.full and self._half_empty():
            self.full = False

    def _half_empty(self) -> bool:
        return (
            self._items <= self._items_max // 2
            and self._bytes <= self._bytes_max // 2
            and len(self._retained) <= UNCONFIRMED_MAX // 2
        )

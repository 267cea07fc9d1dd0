"""From the publisher's broker to each home broker, a stream: every event once and in order, whatever paths it takes.

The sender numbers the events of each destination without holes and keeps each until the destination has charge of it;
what is missed or not heard of for too long is sent again, wherever the best path leads then. The receiver hands on in
order, keeps what came early, and says what it misses. Brokers on the way keep nothing: any of them may die.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from plait_core.limits import MISSING_MAX
from plait_core.wire import EventFrame

AGAIN_S: Final = 0.6
"""Without any progress for so long, plus the path's own delay, the oldest events are sent again. More than a link's
queue makes of a moment's congestion, since nothing is to travel twice without need."""

AGAIN_MAX_S: Final = 8.0

AGAIN_EVENTS: Final = 64
"""Events sent again at once when nothing is known to be missing: enough to find out what is."""

GAP_S: Final = 0.1
"""After a hole has stayed open for so long its events are asked for: a change of path only delays them."""

TAKEN_S: Final = 0.02
"""A receiver says what it took within this, or after so many events:"""
TAKEN_EVENTS: Final = 256

DOUBT_S: Final = 0.03
"""When a link has gone, what was under way may have been on it. What the destination does not report within this, a
little more than it takes its time for, and the path's own delay, is sent again."""

USUAL_TRIES: Final = 1
"""What was sent again so often without any answer goes another way as well: someone may lose what passes through."""

DETOUR_S: Final = 30.0
"""When that helped, the events of a stream go that way alone for so long; then the usual one is tried again."""

EARLY_MAX: Final = 4096
"""Events that came ahead of a hole, per stream; more are dropped, and will be sent again. So no more than these are
sent again at once after a link has gone."""

EARLY_BYTES_MAX: Final = 16 << 20
"""And no more bytes of them."""


class Unacked(NamedTuple):
    """An event that a destination has not taken yet."""

    frame: EventFrame
    flags: int
    delay_us: int
    since: float
    """When it had that delay."""
    party: tuple[int, int] | None = None
    """The destination and position that it was published under, when its destination has started anew since."""

    def delay_now_us(self, now: float) -> int:
        """What it has been on its way for."""
        return self.delay_us + max(0, round((now - self.since) * 1_000_000))

    def expired(self, now: float) -> bool:
        """Whether its lifetime is over."""
        return bool(self.frame.lifetime_us) and self.delay_now_us(now) > self.frame.lifetime_us


unacked_of: Final = partial(tuple.__new__, Unacked)
"""One from all of its fields, in half the time of the class's own call: one is made for every event."""


class SendStream:
    """What one destination is to get."""

    __slots__ = (
        "_again_s",
        "_doubtful",
        "acked",
        "again_at",
        "detour",
        "detour_until",
        "first",
        "kept",
        "kept_bytes",
        "next",
        "opened",
        "resent",
        "silent_since",
        "tried",
        "tries",
        "vain",
    )

    def __init__(self, first: int) -> None:
        """Positions begin at `first`: above those of a stream to the same broker that was given up before."""
        self.first = first
        self.next = first
        self.acked = first - 1
        self.opened = False
        """Whether the destination is known to know where the stream begins."""
        self.kept: dict[int, Unacked] = {}
        self.kept_bytes = 0
        self.again_at = 0.0
        self.silent_since = 0.0
        self.resent = 0
        self.tries = 0
        """How often in a row something was sent again, and nothing was heard of it."""
        self.tried: tuple[int, ...] = ()
        """The way around the usual one by which something was sent last."""
        self.detour: tuple[int, ...] = ()
        """The way around the usual one that its events go, if they do."""
        self.detour_until = 0.0
        self.vain = 0
        """Up to here it was sent when something was sent again for the first time."""
        self._again_s = AGAIN_S
        self._doubtful = first
        """What is kept below this position was under way when a link went."""

    def add(self, kept: Unacked, now: float) -> int:
        """One more event; its position."""
        position = self.next
        self.next += 1
        if not self.kept:
            self.silent_since = now
            self._rest(now)
        self.kept[position] = kept
        self.kept_bytes += len(kept.frame.block)
        return position

    def took(self, up_to: int, now: float) -> list[tuple[int, Unacked]]:
        """The destination has charge of all up to a position; those that this is news of."""
        if not self.acked < up_to < self.next:
            return []
        news = []
        taken, size = self.kept.pop, 0
        for position in range(self.acked + 1, up_to + 1):
            kept = taken(position, None)
            if kept is not None:
                size += len(kept[0].block)
                news.append((position, kept))
        self.kept_bytes -= size
        self.acked = up_to
        self.opened = True
        if self.tries > USUAL_TRIES:
            self.detour, self.detour_until = self.tried, now + DETOUR_S
        if up_to >= self.vain:  # whoever lets one pass now and then gets around nobody
            self.tries = 0
        self._again_s = AGAIN_S
        self.silent_since = now
        if up_to + 1 >= self._doubtful:
            self._rest(now)
        return news

    def give_up(self, position: int) -> Unacked:
        """An event will not be sent any more; `floor` tells the destination."""
        kept = self.kept[position]
        self._forget(position)
        return kept

    @property
    def floor(self) -> int:
        """Below the first that is kept: nothing up to here will come any more."""
        return next(iter(self.kept), self.next) - 1

    def due(self, now: float, path_s: float) -> list[int]:
        """The oldest events, when nothing was heard for too long, or of those on their way when a link went."""
        if not self.kept or now < self.again_at + path_s:
            return []
        if doubtful := self.doubtful(now):
            return doubtful
        self._again_s = min(2 * self._again_s, AGAIN_MAX_S)
        self._rest(now)
        self.resent += 1
        if not self.tries:
            self.vain = self.next - 1
        self.tries += 1
        return list(self.kept)[:AGAIN_EVENTS]

    def hurry(self, now: float) -> None:
        """A link has gone: what was on its way may be lost."""
        self._again_s = AGAIN_S
        self._doubtful = self.next
        self.again_at = min(self.again_at, now + DOUBT_S)

    def doubtful(self, now: float) -> list[int]:
        """What was on its way when a link went, to be sent again now and no more for that reason."""
        doubtful = [position for position in islice(self.kept, EARLY_MAX) if position < self._doubtful]
        self._doubtful = self.first
        if doubtful:
            self.resent += 1
            self._rest(now)
        return doubtful

    def _rest(self, now: float) -> None:
        self.again_at = now + self._again_s

    def _forget(self, position: int) -> None:
        self.kept_bytes -= len(self.kept.pop(position).frame.block)


class ReceivedEvent(NamedTuple):
    """An event that has come to its destination."""

    root: int
    position: int
    frame: EventFrame
    flags: int
    delay_us: int
    path: tuple[int, ...]
    at: float


received_event_of: Final = partial(tuple.__new__, ReceivedEvent)
"""One from all of its fields, as `unacked_of`."""


class ReceiveStream:
    """What comes from one publisher's broker."""

    __slots__ = (
        "_early",
        "_early_bytes",
        "_open",
        "_said",
        "_since_said",
        "_taken",
        "expected",
        "gap_since",
        "repeats",
        "say_at",
        "up_to",
        "vain",
    )

    def __init__(self) -> None:
        self.vain = 0
        """Reports in a row that said no more than the one before."""
        self.expected: int | None = None
        """The next position in order; None until the sender says where it begins."""
        self.up_to = 0
        """All up to here are taken."""
        self._taken: set[int] = set()
        self._open: deque[int] = deque()
        """Handed on and not taken, or not all before it: what is below the first, and not skipped, is taken."""
        self._early: dict[int, ReceivedEvent] = {}
        self._early_bytes = 0
        self._said = 0
        self._since_said = 0
        self.gap_since: float | None = None
        self.say_at: float | None = None
        self.repeats = 0

    def hear(self, arrival: ReceivedEvent, now: float) -> list[ReceivedEvent]:
        """An event came; what can be handed on now, in order."""
        expected = self.expected
        if arrival.position == expected and not self._early:
            self.expected = expected + 1
            self._open.append(expected)
            return [arrival]
        if (expected is not None and arrival.position < expected) or arrival.position in self._early:
            self.repeats += 1
            self._say_soon(now)
            return []
        room = len(self._early) < EARLY_MAX and self._early_bytes < EARLY_BYTES_MAX
        if room or arrival.position == expected:  # what fills the hole always has room
            self._early[arrival.position] = arrival
            self._early_bytes += len(arrival.frame.block)
        return self._in_order(now)

    def skip(self, up_to: int, now: float) -> list[ReceivedEvent]:
        """Nothing up to a position will come that has not; what can be handed on now."""
        found: list[ReceivedEvent] = []
        passed = sorted(position for position in self._early if position <= up_to)
        if self.expected is None:
            self.expected, self.up_to = up_to + 1, up_to
            for position in passed:
                self._let_in(position)
        elif self.expected <= up_to:
            self.expected = up_to + 1
            found += [self._let_in(position) for position in passed]
            self._open.extend(passed)
        self._advance(now)
        return found + self._in_order(now)

    def _let_in(self, position: int) -> ReceivedEvent:
        arrival = self._early.pop(position)
        self._early_bytes -= len(arrival.frame.block)
        return arrival

    def take(self, position: int, now: float) -> None:
        """This broker has charge of an event."""
        if len(self._open) == 1 and self._open[0] == position and self.expected is not None:  # as it mostly is
            self._open.popleft()
            self._since_said += 1
            self.up_to = self.expected - 1
            if self.say_at is None:
                self.say_at = now + TAKEN_S
            return
        self._taken.add(position)
        self._advance(now)

    def report(self, now: float) -> tuple[int, tuple[int, ...]] | None:
        """What to tell the sender: up to where all is taken, and what is missing; None when nothing is due."""
        missing: tuple[int, ...] = ()
        due = self._since_said >= TAKEN_EVENTS or (self.say_at is not None and now >= self.say_at)
        if self.gap_since is not None and now >= self.gap_since + GAP_S:
            self.gap_since = now
            missing = self._missing()
            due = True
        if not due:
            return None
        self.say_at = None
        self.vain = self.vain + 1 if self.up_to == self._said else 0
        self._said, self._since_said = self.up_to, 0
        return self.up_to, missing

    def next_deadline(self) -> float | None:
        """When there is something to report."""
        if self.gap_since is None:
            return self.say_at
        ask_at = self.gap_since + GAP_S
        return ask_at if self.say_at is None else min(self.say_at, ask_at)

    def rest(self) -> list[ReceivedEvent]:
        """The sender is no more: what came early, in order, with holes."""
        found = [self._early[position] for position in sorted(self._early)]
        self._early.clear()
        self._early_bytes = 0
        self.gap_since = None
        return found

    def _in_order(self, now: float) -> list[ReceivedEvent]:
        found: list[ReceivedEvent] = []
        while self.expected is not None and self.expected in self._early:
            found.append(self._let_in(self.expected))
            self._open.append(self.expected)
            self.expected += 1
        if not self._early:
            self.gap_since = None
        elif self.gap_since is None or found:
            self.gap_since = now
        return found

    def _advance(self, now: float) -> None:
        while self._open and self._open[0] in self._taken:
            self._taken.discard(self._open.popleft())
            self._since_said += 1
        if self.expected is None:  # it was taken from an earlier stream, which was forgotten meanwhile
            return
        up_to = (self._open[0] if self._open else self.expected) - 1
        if up_to > self.up_to:
            self.up_to = up_to
            self._say_soon(now)

    def _say_soon(self, now: float) -> None:
        if self.say_at is None:
            self.say_at = now + TAKEN_S

    def _missing(self) -> tuple[int, ...]:
        """Holes below what came early."""
        if self.expected is None:
            return ()
        missing: list[int] = []
        last = max(self._early)
        position = self.expected
        while position < last and len(missing) < MISSING_MAX:
            if position not in self._early:
                missing.append(position)
            position += 1
        return tuple(missing)

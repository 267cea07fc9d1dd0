"""A stream from the publisher's broker to one destination: each event once and in order, over any path.

The sender numbers the events for a destination without holes, and keeps each until it is acked. It retransmits events
that the receiver reports missing, and the oldest ones after a timeout, over the best path at that time. The receiver
delivers in order, buffers events that are ahead of a hole, and sends acks with the missing positions. Brokers in
between keep no state: any of them may die.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Final, NamedTuple, TypeAlias

from plait_core.limits import MISSING_MAX
from plait_core.wire import EventFrame

AGAIN_S: Final = 0.6
"""Retransmission timeout: without an ack for so long, plus the path's delay, the oldest events are retransmitted. It is
above the queueing delay of short congestion, which is no reason to retransmit."""

AGAIN_MAX_S: Final = 8.0
"""The timeout doubles up to this."""

AGAIN_EVENTS: Final = 64
"""Events retransmitted at a timeout, while no position is known to be missing: enough to learn which are."""

TOGETHER_S: Final = 0.05
"""Acks that are due within this are sent in one turn with one that is due now. So a broker with streams from many
roots looks at all of them five times a second, and not for each ack."""

GAP_S: Final = 0.1
"""A hole is reported as missing after this: a change of path only reorders events, and the late ones follow soon."""

ACK_S: Final = 0.2
ACK_EVENTS: Final = 1024
"""A receiver sends an ack within this time, or after so many events: a root with a thousand destinations gets 5,000
acks/s. It is a third of `AGAIN_S`, so that a delayed ack causes no retransmission."""

ACK_DECAY: Final = 0.25
"""Share by which the remembered time of an ack shrinks with each ack that comes sooner."""

ASKED_ACK_S: Final = 0.005
"""An ack that the sender asks for is sent at once, but not within this time after another one."""

SOON_ACK_S: Final = 0.02
"""A receiver sends an ack within this time after a link failed, and for an event that comes again: the sender is about
to retransmit what is not acked."""

DOUBT_S: Final = 0.03
"""Events in flight when a link fails may be lost. Those that are not acked within this, plus the path's delay, are
retransmitted. It is a little longer than `SOON_ACK_S`."""

USUAL_TRIES: Final = 1
"""After so many retransmissions in a row without an ack, further ones also take a source route: a broker on the path
may lose frames."""

DETOUR_S: Final = 30.0
"""After a source route worked, the events of a stream take it alone for so long. Then next hops are tried again."""

WINDOW_START_BYTES: Final = 256 << 10
"""Bytes of one stream that may be on their way before the destination grants another window."""

WINDOW_MIN_BYTES: Final = 64 << 10
WINDOW_MAX_BYTES: Final = 16 << 20
WINDOW_S: Final = 1.0
"""A destination grants what it receives in this time, within these bounds. So the queues on the path hold a second of a
stream at most, and a stream whose path has a long delay doubles its rate in each round trip."""

RATE_S: Final = 0.1
"""Least time over which a destination measures the rate of a stream."""

FULL: Final = 0.5
FULL_NO_MORE: Final = 0.25
"""Shares of the bound of a stream. From the first on its publishers should wait; below the second they may go on."""

EARLY_MAX: Final = 4096
"""Events that one stream buffers ahead of a hole. Further ones are dropped and come again by retransmission. So after a
link failure no more than this are retransmitted at once."""

EARLY_BYTES_MAX: Final = 16 << 20
"""Bytes of these events."""


Unacked: TypeAlias = tuple[EventFrame, int, int, float, tuple[int, int] | None]
"""An event that its destination has not acked yet: frame, flags, age in microseconds, the time of that age, and its
first destination and position if that destination has restarted under another id since. A plain tuple: every event
needs one."""


def age_us(unacked: Unacked, now: float) -> int:
    """Return an event's age in microseconds."""
    _, _, delay_us, since, _ = unacked
    return delay_us + max(0, round((now - since) * 1_000_000))


def is_expired(unacked: Unacked, now: float) -> bool:
    """Return whether an event's lifetime is over."""
    lifetime_us = unacked[0].lifetime_us
    return bool(lifetime_us) and age_us(unacked, now) > lifetime_us


class SendStream:
    """The sender's end of the stream to one destination. Invariant: acked <= floor < next."""

    __slots__ = (
        "_again_s",
        "_bytes_max",
        "_doubtful",
        "_items_max",
        "_quarter",
        "_reported",
        "_timed",
        "_tried_at",
        "ack_s",
        "acked",
        "again_at",
        "ask_at",
        "ask_at_bytes",
        "detour",
        "detour_until",
        "first",
        "kept",
        "kept_bytes",
        "next",
        "numbers",
        "opened",
        "resent",
        "resent_up_to",
        "silent_since",
        "tried",
        "tries",
        "unsettled",
        "waiting",
        "waiting_bytes",
        "window",
    )

    def __init__(self, first: int, items_max: int = 1 << 16, bytes_max: int = 64 << 20) -> None:
        """Positions begin at `first`: above those of a stream to the same broker that was given up before. At most
        `items_max` events and `bytes_max` bytes are on their way or wait."""
        self.first = first
        self.next = first
        self.acked = first - 1
        self.opened = False
        """Whether the destination has acked, and so knows the first position of the stream."""
        self.kept: dict[int, Unacked] = {}
        self.kept_bytes = 0
        self._items_max, self._bytes_max = items_max, bytes_max
        self.window = min(WINDOW_START_BYTES, bytes_max)
        """Bytes that may be unacked, as the destination grants."""
        self.waiting: deque[Unacked] = deque()
        """The events that wait for the window. They have no position yet, so any of them can be dropped."""
        self.waiting_bytes = 0
        self.numbers = first
        """The number of the last event that had to wait. Minus this names it until its ack; no other stream used it."""
        self.unsettled: set[int] = set()
        """The numbers of events that had to wait, and are neither acked nor given up."""
        self.ack_s = 0.0
        """The time from a position to its ack, lately."""
        self._reported: dict[int, float] = {}
        """The positions that the destination reported missing last, and when each was retransmitted for that."""
        self._timed: tuple[int, float] | None = None
        """The position that is timed now, and since when."""
        self.again_at = 0.0
        self.silent_since = 0.0
        self.resent = 0
        self.tries = 0
        """Retransmissions in a row without an ack of all that was sent before them."""
        self.tried: tuple[int, ...] = ()
        """The source route of the last retransmission."""
        self._tried_at: dict[tuple[int, ...], int] = {}
        """By source route, the `tries` when it was tried last."""
        self.detour: tuple[int, ...] = ()
        """The source route that events of this stream take in place of next hops, until `detour_until`; () for none."""
        self.detour_until = 0.0
        self.resent_up_to = 0
        """The last position sent at the first of the present retransmissions; `tries` is reset once it is acked."""
        self._again_s = AGAIN_S
        self._doubtful = first
        """Unacked events below this position were in flight when a link failed."""
        self._quarter = max(1, items_max // 4)
        self.ask_at = 0
        self.ask_at_bytes = 0
        """The next position, and the unacked bytes, from which on an event asks for an ack."""
        self.ask_later()

    def add(self, kept: Unacked, now: float) -> int:
        """Append an event that is sent now. Return its position."""
        position = self.next
        self.next += 1
        if self._timed is None:
            self._timed = (position, now)
        if not self.kept:
            self.silent_since = now
            self._restart_timer(now)
        self.kept[position] = kept
        self.kept_bytes += len(kept[0].block)
        return position

    @property
    def has_room(self) -> bool:
        """Whether the window lets another event be sent."""
        return self.kept_bytes < self.window and len(self.kept) < self._items_max

    @property
    def filling(self) -> float:
        """What is on its way or waits, as a share of the bound."""
        items, size = len(self.kept) + len(self.waiting), self.kept_bytes + self.waiting_bytes
        return max(items / self._items_max, size / self._bytes_max)

    def hold(self, kept: Unacked, home: int) -> Unacked:
        """Append an event that waits for the window. Return it with the destination `home` and a number that name it
        until its position does."""
        party = kept[4]
        if party is None:
            self.numbers += 1
            self.unsettled.add(self.numbers)
            party = (home, -self.numbers)
        held = (*kept[:4], party)
        self.waiting.append(held)
        self.waiting_bytes += len(kept[0].block)
        return held

    def drop_oldest(self) -> Unacked:
        """Remove the event that has waited longest."""
        held = self.waiting.popleft()
        self.waiting_bytes -= len(held[0].block)
        return held

    def settle(self, kept: Unacked) -> None:
        """Note that an event is acked or given up."""
        if kept[4] is not None:
            self.unsettled.discard(-kept[4][1])

    def ask_later(self) -> None:
        """Ask for the next ack when another quarter of the window is added: an ack or a question has just been sent."""
        self.ask_at, self.ask_at_bytes = self.next + self._quarter, self.kept_bytes + self.window // 4

    def receive_ack(self, up_to: int, now: float, window: int = 0) -> list[tuple[int, Unacked]]:
        """Take a cumulative ack up to a position, and the window that it grants. Return the events that it acks for the
        first time."""
        if window:
            self.window = min(max(window, WINDOW_MIN_BYTES), WINDOW_MAX_BYTES, self._bytes_max)
        if not self.acked < up_to < self.next:
            return []
        news = self._take_up_to(up_to)
        if self.unsettled:
            for _, kept in news:
                self.settle(kept)
        if self._timed is not None and self._timed[0] <= up_to:
            self.ack_s = max(now - self._timed[1], self.ack_s * (1 - ACK_DECAY))
            self._timed = None
        self.acked = up_to
        self.opened = True
        self.ask_later()
        if self.tries > USUAL_TRIES:
            self.detour, self.detour_until = self.tried, now + DETOUR_S
        if up_to >= self.resent_up_to:  # not on any ack: a broker that lets a few events pass must not reset it
            self.tries = 0
            self._tried_at.clear()
        self._again_s = AGAIN_S
        self.silent_since = now
        if up_to + 1 >= self._doubtful:
            self._restart_timer(now)
        return news

    def missing(self, reported: Sequence[int], now: float, patience_s: float) -> list[int]:
        """Return the positions to retransmit of those that the destination reports missing.

        It reports them again and again until they come. So a retransmission gets `patience_s` to arrive, else a full
        lane would fill with copies of the same events.
        """
        before, self._reported = self._reported, {}
        due = []
        for position in reported:
            if position in self.kept and position not in self._reported:
                at = before.get(position, -inf)
                if now >= at + patience_s:
                    due.append(position)
                    at = now
                self._reported[position] = at
        return due

    def choose_route(self, routes: Sequence[tuple[int, ...]]) -> None:
        """Choose the source route of the next retransmission: the first that was not tried yet, else the one that was
        tried longest ago. So a route that becomes known meanwhile does not wait until all others were tried again."""
        self._tried_at = {route: self._tried_at.get(route, 0) for route in routes}
        self.tried = min(routes, key=self._tried_at.__getitem__, default=())
        if routes:
            self._tried_at[self.tried] = self.tries

    def give_up(self, position: int) -> Unacked:
        """Drop an event without an ack. The destination learns it from the `floor` of a StreamSkip."""
        kept = self.kept[position]
        self._forget(position)
        return kept

    @property
    def floor(self) -> int:
        """The position before the first unacked event: no event up to here will be sent any more."""
        return next(iter(self.kept), self.next) - 1

    def due(self, now: float, path_s: float) -> list[int]:
        """Return positions to retransmit now: the timer has fired, or they were in flight when a link failed."""
        if not self.kept or now < self.again_at + path_s:
            return []
        if doubtful := self.doubtful(now):
            return doubtful
        self._again_s = min(2 * self._again_s, AGAIN_MAX_S)
        self._restart_timer(now)
        self.resent += 1
        self._timed = None  # its ack may be that of the retransmission
        if not self.tries:
            self.resent_up_to = self.next - 1
        self.tries += 1
        return list(self.kept)[:AGAIN_EVENTS]

    def retransmit_soon(self, now: float) -> None:
        """A link has failed: events in flight may be lost, so retransmit them soon."""
        self._again_s = AGAIN_S
        self._reported.clear()
        self._doubtful = self.next
        self.again_at = min(self.again_at, now + DOUBT_S)

    def doubtful(self, now: float, since: float = -inf) -> list[int]:
        """Return the positions that were in flight when a link failed, of those sent `since` then. Each failure returns
        them once."""
        oldest = islice(self.kept.items(), EARLY_MAX)
        doubtful = [position for position, kept in oldest if position < self._doubtful and kept[3] >= since]
        if doubtful:
            self.resent += 1
            self._timed = None
            self._doubtful = doubtful[0]
            if doubtful[0] == next(iter(self.kept)):  # else older ones are doubtful still
                self._restart_timer(now)
        return doubtful

    def suspect_since(self, now: float, path_s: float) -> float:
        """Return from when on events are probably lost if the link that they took has failed.

        While acks come, older ones have arrived, and their ack is on its way; else nothing has arrived for long. Events
        that have waited were sent later than their age tells.
        """
        acked_lately = now - self.silent_since < 2 * ACK_S + path_s
        return now - SOON_ACK_S - path_s / 2 if acked_lately and not self.waiting else -inf

    def _restart_timer(self, now: float) -> None:
        self.again_at = now + self._again_s

    def _take_up_to(self, up_to: int) -> list[tuple[int, Unacked]]:
        """Remove and return the events up to a position."""
        kept = self.kept
        if up_to == self.next - 1:  # all: often so, for acks come less often than most streams have events
            news = list(kept.items())
            kept.clear()
            self.kept_bytes = 0
            return news
        taken = kept.pop
        news = [(at, event) for at in range(self.acked + 1, up_to + 1) if (event := taken(at, None)) is not None]
        self.kept_bytes -= sum([len(event[0].block) for _, event in news])
        return news

    def _forget(self, position: int) -> None:
        self.kept_bytes -= len(self.kept.pop(position)[0].block)


class ReceivedEvent(NamedTuple):
    """An event at its destination."""

    root: int
    position: int
    frame: EventFrame
    flags: int
    delay_us: int
    path: tuple[int, ...]
    at: float


received_event_of: Final = partial(tuple.__new__, ReceivedEvent)
"""Make a `ReceivedEvent` from a tuple of all fields, in half the time of a call of the class: each event needs one."""


class ReceiveStream:
    """The receiver's end of the stream from one publisher's broker."""

    __slots__ = (
        "_asked",
        "_bytes",
        "_early",
        "_early_bytes",
        "_last_ack",
        "_open",
        "_rate_since",
        "_reported_at",
        "_since_ack",
        "_soon_until",
        "_taken",
        "ack_at",
        "expected",
        "gap_since",
        "repeats",
        "up_to",
        "vain",
        "window",
    )

    def __init__(self) -> None:
        self.vain = 0
        """Acks in a row without progress."""
        self.window = 0
        """Bytes that the sender may have on their way; 0 while that is not known."""
        self._bytes = 0
        self._rate_since = 0.0
        """Bytes that have arrived since a time, for the rate."""
        self.expected: int | None = None
        """The next position in order; None until a StreamSkip names where the stream begins."""
        self.up_to = 0
        """All events up to this position are taken, or were skipped."""
        self._taken: set[int] = set()
        self._open: deque[int] = deque()
        """Positions that are in order, from the first that this broker has not acknowledged yet."""
        self._early: dict[int, ReceivedEvent] = {}
        self._early_bytes = 0
        self._last_ack = 0
        self._since_ack = 0
        self._asked = 0
        """The last position whose ack the sender asked for."""
        self._reported_at = -inf
        """The time of the last ack."""
        self._soon_until = -inf
        """Until then acks are sent soon, because a link has failed."""
        self.gap_since: float | None = None
        self.ack_at: float | None = None
        self.repeats = 0

    def receive(self, arrival: ReceivedEvent, now: float) -> list[ReceivedEvent]:
        """Take an event. Return the events that are in order now."""
        expected = self.expected
        self._bytes += len(arrival.frame.block)
        if arrival.position == expected and not self._early:
            self.expected = expected + 1
            self._open.append(expected)
            return [arrival]
        if (expected is not None and arrival.position < expected) or arrival.position in self._early:
            self.repeats += 1
            self._ack_by(now + SOON_ACK_S)
            return []
        room = len(self._early) < EARLY_MAX and self._early_bytes < EARLY_BYTES_MAX
        if room or arrival.position == expected:  # the event that fills the hole always has room
            self._early[arrival.position] = arrival
            self._early_bytes += len(arrival.frame.block)
        return self._in_order(now)

    def skip(self, up_to: int, now: float) -> list[ReceivedEvent]:
        """Skip missing positions up to this one: the sender gave them up. Return the events that are in order now."""
        found: list[ReceivedEvent] = []
        below = sorted(position for position in self._early if position <= up_to)
        if self.expected is None:
            self.expected, self.up_to = up_to + 1, up_to
            for position in below:
                self._pop_early(position)
        elif self.expected <= up_to:
            self.expected = up_to + 1
            found += [self._pop_early(position) for position in below]
            self._open.extend(below)
        self._advance(now)
        return found + self._in_order(now)

    def _pop_early(self, position: int) -> ReceivedEvent:
        arrival = self._early.pop(position)
        self._early_bytes -= len(arrival.frame.block)
        return arrival

    def acknowledge(self, position: int, now: float, *, asked: int = 0) -> bool:
        """Note that this broker has charge of an event, so that it can be acked: at once if the sender `asked`. Return
        whether the time of the next ack has changed. Ignore a position that is not open: it is acknowledged already, or
        its event came by an earlier stream, which was forgotten meanwhile."""
        waiting, ack_at = self._open, self.ack_at
        if asked and position > self._asked:
            self._asked = position
        if waiting and waiting[0] == position and not self._taken and self.expected is not None:  # the common case
            waiting.popleft()
            self._since_ack += 1
            self.up_to = (waiting[0] if waiting else self.expected) - 1
            if not (asked or ack_at is None or self._since_ack == ACK_EVENTS):
                return False
            self._schedule_ack(now)
        elif self.expected is not None and self._open and self._open[0] <= position < self.expected:
            self._taken.add(position)
            self._advance(now)
        return self.ack_at != ack_at

    def report(self, now: float) -> tuple[int, tuple[int, ...]] | None:
        """Return the cumulative ack and the missing positions to send now, or None when no ack is due."""
        missing: tuple[int, ...] = ()
        early_s = TOGETHER_S if now >= self._reported_at + ACK_S - TOGETHER_S else 0.0
        due = self.ack_at is not None and now >= self.ack_at - early_s
        if self.gap_since is not None and now >= self.gap_since + GAP_S:
            self.gap_since = now
            missing = self._missing()
            due = True
        if not due:
            return None
        self.ack_at = None
        self.vain = self.vain + 1 if self.up_to == self._last_ack else 0
        self._last_ack, self._since_ack, self._reported_at = self.up_to, 0, now
        self._measure(now)
        return self.up_to, missing

    def _measure(self, now: float) -> None:
        """Grant the window that the rate of the stream needs. One without traffic keeps its window."""
        elapsed_s = now - self._rate_since
        if elapsed_s >= RATE_S:
            if elapsed_s < 2 * ACK_S:
                granted = self._bytes * WINDOW_S / elapsed_s
                self.window = min(max(round(granted), WINDOW_MIN_BYTES, self.window // 2), WINDOW_MAX_BYTES)
            self._bytes, self._rate_since = 0, now

    def next_deadline(self) -> float | None:
        """Return when an ack is due, or None."""
        if self.gap_since is None:
            return self.ack_at
        report_at = self.gap_since + GAP_S
        return report_at if self.ack_at is None else min(self.ack_at, report_at)

    def ack_soon(self, now: float, until: float) -> None:
        """Send the ack that is pending at once, and those that follow soon, `until` a time: a link has failed, and the
        sender retransmits what is not acked."""
        self._soon_until = until
        if self.ack_at is not None:
            self._ack_by(now)

    def rest(self) -> list[ReceivedEvent]:
        """Return the events ahead of the hole, in order: the sender is gone, so the hole will not be filled."""
        found = [self._early[position] for position in sorted(self._early)]
        self._early.clear()
        self._early_bytes = 0
        self.gap_since = None
        return found

    def _in_order(self, now: float) -> list[ReceivedEvent]:
        found: list[ReceivedEvent] = []
        while self.expected is not None and self.expected in self._early:
            found.append(self._pop_early(self.expected))
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
            self._since_ack += 1
        if self.expected is None:
            return
        up_to = (self._open[0] if self._open else self.expected) - 1
        if up_to > self.up_to:
            self.up_to = up_to
            self._schedule_ack(now)

    def _schedule_ack(self, now: float) -> None:
        """Set when the next ack is due, after `up_to` has moved."""
        if self._asked > self._last_ack:
            self._ack_by(max(now, self._reported_at + ASKED_ACK_S))
        elif self._since_ack >= ACK_EVENTS:
            self._ack_by(now)
        else:
            self._ack_by(now + (SOON_ACK_S if now < self._soon_until else ACK_S))

    def _ack_by(self, at: float) -> None:
        if self.ack_at is None or at < self.ack_at:
            self.ack_at = at

    def _missing(self) -> tuple[int, ...]:
        """Return the missing positions below the last buffered event."""
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

"""The network of a simulated overlay: links between its ends, and connections over them.

A connection delivers what one end writes to the other, in order and after the link's delay. As TCP does, it holds back
bytes while the link is *silent*, and delivers them once the link is mended. A *cut* link breaks its connections, and
both ends notice at once, as a kernel does. A *reset* connection is broken likewise. A silent link is noticed by
neither. A link may have a bandwidth; then an end that writes too fast is asked to stop (`bandwidth.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from plait.relay.shaping import WAITING_BYTES_MAX
from plait_broker.server.tcp_connection import FLUSH_S, WRITE_BUFFER_BYTES

from ..timeline import Timeline
from .bandwidth import RECEIVE_BUFFER_BYTES, Bottleneck, SendBuffer

ATTEMPT_S: Final = 5.0
"""Timeout of a connection attempt, as in `plait_broker.server.dialer`."""

Tap = Callable[["LinkConnection", int, bytes], bytes]
"""Takes a connection, the side that writes and its bytes. Returns the bytes to deliver instead."""


class Endpoint:
    """An end of connections: a broker or a client."""

    number: int
    """Unique among the brokers; clients share the number -1."""

    @property
    def listens(self) -> bool:
        """Whether a process accepts connections here."""
        return False

    def accepted(self, connection: LinkConnection) -> None:
        """Take a connection that another end has opened."""
        raise NotImplementedError

    def received(self, connection: LinkConnection, data: bytes) -> None:
        """Take bytes."""
        raise NotImplementedError

    def writable(self, connection: LinkConnection, writable: bool) -> None:
        """Note that a connection should not be written to now, or may be again."""

    def ended(self, connection: LinkConnection) -> None:
        """Note the end of a connection: closed by either end, or broken."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Link:
    """Where two ends may connect, with its delay and its faults."""

    ends: tuple[Endpoint, Endpoint]
    delay_s: float
    number: int = -1
    jitter_s: float = 0.0
    """Greatest random delay added to each write."""
    slower_s: dict[int, float] = field(default_factory=dict)
    """Delay added in one direction, by the number of the end that writes."""
    up: bool = True
    changed_at: float = 0.0
    """When a cut or a silence last began or ended."""
    silent: frozenset[int] = frozenset()
    """Numbers of the ends whose bytes do not pass."""
    bottlenecks: dict[int, Bottleneck] = field(default_factory=dict)
    """Queues of the directions with a bandwidth, by the number of the end that writes."""
    write_limit_bytes: int = WRITE_BUFFER_BYTES
    """Bytes in a send buffer above which its end is asked to stop writing, unless `set_write_limit` changes it."""
    control_wait_s: float = 0.0
    """Longest time that a control frame waits for its bandwidth, and at the broker at its end. Oracles count on it."""
    connections: list[LinkConnection] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    """LinkConnection attempts that wait until the link is not silent."""

    @property
    def sound(self) -> bool:
        """Whether bytes pass in both directions."""
        return self.up and not self.silent

    def other(self, end: Endpoint) -> Endpoint:
        """Return the end opposite to `end`."""
        return self.ends[end is self.ends[0]]


@dataclass(slots=True, eq=False)
class LinkConnection:
    """A connection. Side 0 has opened it."""

    link: Link
    ends: tuple[Endpoint, Endpoint]
    ids: tuple[int, int]
    """The number that each end knows it by."""
    open: list[bool] = field(default_factory=lambda: [True, True])
    """Whether each end still has it."""
    established: bool = False
    """Whether the end that opens it knows that it is open."""
    last: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """By side, when its last write arrives."""
    held: tuple[list[bytes | None], list[bytes | None]] = field(default_factory=lambda: ([], []))
    """By side, what has not passed a silent link. None is the end of the connection."""
    buffers: list[SendBuffer | None] = field(default_factory=lambda: [None, None])
    """By side, its send buffer. None: it has written nothing yet, or the link has no bandwidth in its direction."""
    reads: list[tuple[float, list[bytes]] | None] = field(default_factory=lambda: [None, None])
    """By side that writes, its latest read: the time and the parts so far."""
    unread_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """By side, what has arrived there and its process has not read yet."""

    def side(self, end: Endpoint) -> int:
        """Return the side of an end."""
        return int(end is self.ends[1])

    def accepts(self, side: int) -> bool:
        """Return whether a side has not been asked to stop writing."""
        buffer = self.buffers[side]
        return buffer is None or not buffer.full

    def clear(self, side: int) -> None:
        """Drop what a side has written and the network has not accepted yet."""
        buffer = self.buffers[side]
        if buffer is not None:
            buffer.clear()


@dataclass(slots=True, eq=False)
class Attempt:
    """A connection attempt. `answered` gets the connection, or None if it fails."""

    link: Link
    by: Endpoint
    answered: Callable[[LinkConnection | None], None]
    over: bool = False

    def answer(self, connection: LinkConnection | None) -> None:
        """Report the result once."""
        if not self.over:
            self.over = True
            self.answered(connection)


class OverlayNetwork:
    """All links and connections."""

    def __init__(self, timeline: Timeline, rng: Random) -> None:
        self.timeline = timeline
        self.tap: Tap | None = None
        """Sees every write between brokers, if set."""
        self.distance_s: Callable[[Endpoint, Endpoint], float] | None = None
        """Delay between two ends without a given link; None: they cannot connect."""
        self.read_s = 0.0
        """How often ends read: what arrives over a connection between two multiples of this time is one read, as on a
        machine that is busy. 0: each write is a read."""
        self.dials = 0
        """LinkConnection attempts between brokers."""
        self._rng = rng
        self._addresses: dict[str, Endpoint] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self._ids = 0

    @property
    def links(self) -> list[Link]:
        """All links between brokers."""
        return list(self._links.values())

    def listen(self, end: Endpoint, address: str) -> None:
        """Give an end its address."""
        self._addresses[address] = end

    def add_link(self, near: Endpoint, far: Endpoint, delay_s: float) -> Link:
        """Add a link between two brokers."""
        link = Link((near, far), delay_s, len(self._links))
        self._links[_pair(near, far)] = link
        return link

    def link(self, near: Endpoint, far: Endpoint) -> Link | None:
        """Return the link between two brokers, or None."""
        known = self._links.get(_pair(near, far))
        if known is None and self.distance_s is not None:
            return self.add_link(near, far, self.distance_s(near, far))
        return known

    # --- connections --------------------------------------------------------------------------------------------------

    def dial_address(self, by: Endpoint, address: str, answered: Callable[[LinkConnection | None], None]) -> None:
        """Open a connection to an address."""
        self.dials += 1
        far = self._addresses.get(address)
        link = self.link(by, far) if far is not None else None
        if link is None:
            self.timeline.after(0.0, partial(answered, None))
        else:
            self.dial(link, by, answered)

    def dial(self, link: Link, by: Endpoint, answered: Callable[[LinkConnection | None], None]) -> None:
        """Open a connection over a link."""
        attempt = Attempt(link, by, answered)
        self.timeline.after(link.delay_s, partial(self._arrive_attempt, attempt))
        if by.number >= 0:
            self.timeline.after(ATTEMPT_S, partial(attempt.answer, None))

    def connect(self, link: Link, by: Endpoint) -> LinkConnection:
        """Return a connection that an end of a link has opened. The caller makes it known to both ends."""
        connection = self._open(link, (by, link.other(by)))
        connection.established = True
        return connection

    def write(self, connection: LinkConnection, side: int, data: bytes) -> None:
        """Write bytes."""
        if self.tap is not None and connection.link.number >= 0:
            data = self.tap(connection, side, data)
        if data:
            self._send(connection, side, data)

    def close(self, connection: LinkConnection, side: int, *, killed: bool = False) -> None:
        """Close a connection at one end, which then `ended` unless its process was killed. The other end notices after
        the bytes written before. What is still in the send buffer after FLUSH_S is lost, as with a killed process."""
        if not connection.open[side]:
            return
        connection.open[side] = False
        self.note_unread(connection, side, 0)
        if killed:
            connection.clear(side)
        else:
            self.timeline.after(0.0, partial(connection.ends[side].ended, connection))
            if connection.buffers[side]:
                self.timeline.after(FLUSH_S, partial(self._abort, connection, side))
        if connection.open[1 - side]:
            self._send(connection, side, None)
        else:
            connection.clear(side)
            self._remove(connection)

    def reset(self, connection: LinkConnection) -> None:
        """Break a connection: both ends notice at once, and what was in flight is lost."""
        for side, end in enumerate(connection.ends):
            connection.clear(side)
            if connection.open[side]:
                connection.open[side] = False
                if connection.established or side:
                    self.timeline.after(0.0, partial(end.ended, connection))
        self._remove(connection)

    def set_write_limit(self, connection: LinkConnection, side: int, high_bytes: int) -> None:
        """Set the bytes in a side's send buffer above which its end is asked to stop writing."""
        self._buffer(connection, side).set_write_limit(high_bytes)

    def note_unread(self, connection: LinkConnection, side: int, more_bytes: int) -> None:
        """Note bytes that have arrived at a side and that its process has not read yet, or has read now."""
        connection.unread_bytes[side] += more_bytes
        bottleneck = connection.link.bottlenecks.get(connection.ends[1 - side].number)
        if bottleneck is not None:
            full = connection.open[side] and connection.unread_bytes[side] > RECEIVE_BUFFER_BYTES
            bottleneck.hold(connection, full)

    # --- faults -------------------------------------------------------------------------------------------------------

    def cut(self, link: Link) -> None:
        """Break all connections of a link, and refuse new ones."""
        link.up, link.changed_at = False, self.timeline.now
        for connection in list(link.connections):
            self.reset(connection)

    def silence(self, link: Link, *ends: Endpoint) -> None:
        """Hold back what these ends send; all ends if none is named."""
        link.silent = frozenset(end.number for end in ends or link.ends)
        link.changed_at = self.timeline.now
        for number, bottleneck in link.bottlenecks.items():
            bottleneck.hold(link, number in link.silent)

    def limit_rate(
        self, link: Link, bytes_per_s: float | None, *ends: Endpoint, queue_bytes: int = WAITING_BYTES_MAX
    ) -> None:
        """Set the bandwidth of the directions in which these ends write, and the size of the queue before it; of both
        directions if no end is named. None: unlimited."""
        for end in ends or link.ends:
            bottleneck = link.bottlenecks.get(end.number)
            if bottleneck is None:
                link.bottlenecks[end.number] = bottleneck = Bottleneck(self.timeline, bytes_per_s, queue_bytes)
                bottleneck.hold(link, end.number in link.silent)
            bottleneck.bytes_per_s, bottleneck.queue_bytes = bytes_per_s, queue_bytes

    def mend(self, link: Link, *, reset: bool = False) -> None:
        """End a cut or a silence. `reset`: connections have not survived it."""
        link.up, link.silent, link.changed_at = True, frozenset(), self.timeline.now
        for bottleneck in link.bottlenecks.values():
            bottleneck.hold(link, False)
        for connection in list(link.connections):
            if reset:
                self.reset(connection)
                continue
            for side in (0, 1):
                self.release(connection, side)
        attempts, link.attempts = link.attempts, []
        for attempt in attempts:
            self.timeline.after(link.delay_s, partial(self._arrive_attempt, attempt))

    def release(self, connection: LinkConnection, side: int) -> bool:
        """Deliver at once what a silent link has held back of one side. Return whether there was anything."""
        held, connection.held[side][:] = list(connection.held[side]), []
        for data in held:
            self.timeline.after(0.0, partial(self._deliver, connection, side, data))
        return bool(held)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _send(self, connection: LinkConnection, side: int, data: bytes | None) -> None:
        bottlenecks = connection.link.bottlenecks
        bottleneck = bottlenecks.get(connection.ends[side].number) if bottlenecks else None
        if bottleneck is not None:
            bottleneck.write(self._buffer(connection, side), data)
        else:
            self._fly(connection, side, data)

    def _buffer(self, connection: LinkConnection, side: int) -> SendBuffer:
        buffer = connection.buffers[side]
        if buffer is None:
            writable = partial(connection.ends[side].writable, connection)
            connection.buffers[side] = buffer = SendBuffer(partial(self._fly, connection, side), writable)
            buffer.high_bytes = connection.link.write_limit_bytes
        return buffer

    def _abort(self, connection: LinkConnection, side: int) -> None:
        """Drop what is left in the send buffer of a closed side, and close."""
        if connection.buffers[side]:
            connection.clear(side)
            self._send(connection, side, None)

    def _fly(self, connection: LinkConnection, side: int, data: bytes | None) -> None:
        """Deliver bytes after the link's delay, and not before those sent earlier."""
        link, timeline, last = connection.link, self.timeline, connection.last
        at = timeline.now + link.delay_s
        if link.jitter_s:
            at += self._rng.random() * link.jitter_s
        if link.slower_s:
            at += link.slower_s.get(connection.ends[side].number, 0.0)
        if at < last[side]:
            at = last[side]
        if self.read_s and data is not None:
            at = math.ceil(at / self.read_s) * self.read_s
            last[side] = at
            self._gather(connection, side, data, at)
            return
        last[side] = at
        timeline.at(at, partial(self._arrive, connection, side, data))

    def _gather(self, connection: LinkConnection, side: int, data: bytes, at: float) -> None:
        """Append bytes to the read at a time."""
        read = connection.reads[side]
        if read is not None and read[0] == at:
            read[1].append(data)
        else:
            connection.reads[side] = (at, parts := [data])
            self.timeline.at(at, partial(self._read, connection, side, parts))

    def _read(self, connection: LinkConnection, side: int, parts: list[bytes]) -> None:
        read = connection.reads[side]
        if read is not None and read[1] is parts:
            connection.reads[side] = None
        self._arrive(connection, side, b"".join(parts))

    def _arrive(self, connection: LinkConnection, side: int, data: bytes | None) -> None:
        other = 1 - side
        if not connection.open[other]:
            return
        if connection.link.silent and connection.ends[side].number in connection.link.silent:
            connection.held[side].append(data)
        else:
            self._deliver(connection, side, data)

    def _deliver(self, connection: LinkConnection, side: int, data: bytes | None) -> None:
        other = 1 - side
        if not connection.open[other]:
            return
        if data is not None:
            connection.ends[other].received(connection, data)
        else:
            connection.open[other] = False
            self._remove(connection)
            connection.ends[other].ended(connection)

    def _remove(self, connection: LinkConnection) -> None:
        for bottleneck in connection.link.bottlenecks.values():
            bottleneck.hold(connection, False)
        if connection in connection.link.connections:
            connection.link.connections.remove(connection)

    def _arrive_attempt(self, attempt: Attempt) -> None:
        link, listener = attempt.link, attempt.link.other(attempt.by)
        if attempt.over:
            return
        if not link.up:
            attempt.answer(None)
        elif link.silent:
            link.attempts.append(attempt)
        elif not listener.listens:
            self.timeline.after(link.delay_s, partial(attempt.answer, None))
        else:
            connection = self._open(link, (attempt.by, listener))
            listener.accepted(connection)
            self.timeline.after(link.delay_s, partial(self._establish, attempt, connection))

    def _open(self, link: Link, ends: tuple[Endpoint, Endpoint]) -> LinkConnection:
        self._ids += 2
        connection = LinkConnection(link, ends, (self._ids - 1, self._ids))
        link.connections.append(connection)
        return connection

    def _establish(self, attempt: Attempt, connection: LinkConnection) -> None:
        connection.established = True
        if attempt.over:  # it has timed out
            self.close(connection, 0, killed=True)
        else:
            attempt.answer(connection if connection.open[0] else None)


def _pair(near: Endpoint, far: Endpoint) -> tuple[int, int]:
    return min(near.number, far.number), max(near.number, far.number)

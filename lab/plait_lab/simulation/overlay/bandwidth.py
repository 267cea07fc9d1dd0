"""Bandwidth of simulated links: bounded buffers in front of a rate, and push-back to the end that writes.

What an end writes passes two buffers in order, as on a machine and on the path behind it:

- the send buffer of its connection, as of an asyncio transport. Above its high mark the end is asked to stop writing,
  and below a quarter of it the end may write again. It accepts what is written nevertheless.
- the queue of the link's direction, as of a kernel and a router. It has a bounded number of bytes and is served at the
  link's rate, for all connections of the link together.

What leaves the queue is in flight for the link's delay. Nothing leaves while the link is silent, or while the process
at the other end has too much to read, so both buffers fill.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from plait.relay.shaping import SEGMENT_BYTES
from plait_broker.server.tcp_connection import WRITE_BUFFER_BYTES

from ..timeline import Timeline

LOW_SHARE: Final = 4
"""The low mark of a send buffer is the high mark divided by this, as with asyncio and uvloop."""

RECEIVE_BUFFER_BYTES: Final = 256 * 1024
"""Bytes that a process has not read yet, beyond which the other end's bytes wait: a kernel's buffer for one socket."""

PIECE_S: Final = 0.001
"""A write passes in pieces of a segment, or of as many bytes as the link carries in this time if that is more: frames
at the head of a long write arrive before its end, and a fast link costs a thousand steps a second at most."""

Departure: TypeAlias = tuple[Callable[[bytes | None], None], bytes | None]
"""The function that takes a piece when it has left the queue, and the piece. None is the end of a connection."""


class SendBuffer:
    """Bytes that one end of a connection has written and that the queue of the link has not accepted yet."""

    __slots__ = ("_leave", "_pieces", "_writable", "bytes", "full", "high_bytes")

    def __init__(self, leave: Callable[[bytes | None], None], writable: Callable[[bool], None]) -> None:
        """`leave` takes the pieces that have left the link's queue. `writable` asks the end to stop or to resume."""
        self.high_bytes = WRITE_BUFFER_BYTES
        self.bytes = 0
        self.full = False
        """Whether the end was asked to stop writing."""
        self._leave = leave
        self._writable = writable
        self._pieces: deque[bytes | None] = deque()

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._pieces)

    def set_write_limit(self, high_bytes: int) -> None:
        """Set the high mark, and with it the low mark. A lower one may ask the end to stop at once; a higher one lets
        it resume when the next bytes leave."""
        self.high_bytes = high_bytes
        self.push_back()

    def append(self, data: bytes | None, piece_bytes: int) -> None:
        """Append bytes, or the end of the connection."""
        if data is None:
            self._pieces.append(None)
            return
        self.bytes += len(data)
        self._pieces.extend(data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes))

    def take(self) -> Departure:
        """Remove the first piece."""
        piece = self._pieces.popleft()
        self.bytes -= len(piece or b"")
        return self._leave, piece

    def push_back(self) -> None:
        """Ask the end to stop writing if the high mark is exceeded."""
        if not self.full and self.bytes > self.high_bytes:
            self.full = True
            self._writable(False)

    @property
    def relieved(self) -> bool:
        """Whether the end was asked to stop, and may write again."""
        return self.full and self.bytes <= self.high_bytes // LOW_SHARE

    def resume(self) -> None:
        """Let the end write again if the low mark is reached."""
        if self.relieved:
            self.full = False
            self._writable(True)

    def clear(self) -> None:
        """Drop all pieces: the process or the connection is gone."""
        self._pieces.clear()
        self.bytes = 0


class Bottleneck:
    """The queue of one direction of a link."""

    def __init__(self, timeline: Timeline, bytes_per_s: float | None, queue_bytes: int) -> None:
        self.bytes_per_s = bytes_per_s
        """The rate; None: unlimited."""
        self.queue_bytes = queue_bytes
        """Bytes in the queue at which it accepts no further piece."""
        self.served_bytes = 0
        self._timeline = timeline
        self._held_by: set[object] = set()
        """Who keeps it from serving: the silent link, connections whose other end does not read."""
        self._queue: deque[Departure] = deque()
        self._bytes = 0
        self._senders: deque[SendBuffer] = deque()
        """Send buffers with something in them, which take turns."""
        self._serving = False

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes in the queue and in the send buffers in front of it."""
        return self._bytes + sum(sender.bytes for sender in self._senders)

    def write(self, sender: SendBuffer, data: bytes | None) -> None:
        """Take bytes that the end of a send buffer writes, or the end of its connection."""
        rate = self.bytes_per_s
        sender.append(data, max(SEGMENT_BYTES, int(rate * PIECE_S)) if rate is not None else len(data or b" "))
        if sender not in self._senders:
            self._senders.append(sender)
        self._accept()
        self._serve()
        sender.push_back()

    def hold(self, by: object, held: bool) -> None:
        """Serve nothing while anybody holds it."""
        if held:
            self._held_by.add(by)
        elif by in self._held_by:
            self._held_by.remove(by)
            self._serve()

    def _accept(self) -> None:
        """Move pieces from the send buffers into the queue while it has room."""
        senders = self._senders
        while senders and self._bytes < self.queue_bytes:
            sender = senders.popleft()
            if not sender:  # it was cleared
                continue
            departure = sender.take()
            self._queue.append(departure)
            self._bytes += len(departure[1] or b"")
            if sender:
                senders.append(sender)
            if sender.relieved:  # not at once: the end may be writing now
                self._timeline.after(0.0, sender.resume)

    def _serve(self) -> None:
        """Begin to serve the first piece, unless one is served."""
        if self._queue and not self._serving and not self._held_by:
            self._serving = True
            size, rate = len(self._queue[0][1] or b""), self.bytes_per_s
            self._timeline.after(size / rate if rate is not None else 0.0, self._served)

    def _served(self) -> None:
        leave, piece = self._queue.popleft()
        size = len(piece or b"")
        self._bytes -= size
        self.served_bytes += size
        assert self._bytes >= 0, "only pieces in the queue are served"
        self._serving = False
        leave(piece)
        self._accept()
        self._serve()

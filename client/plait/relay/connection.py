"""One connection through a relay: two sockets with a shaped lane for each direction, driven by asyncio.

Reading pauses where a lane is full or the other socket accepts no bytes. So a slow receiver pushes back through the
relay, as it does through a network.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from .shaping import FlowShape, Shape, ShapedLane

_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of 0: closing then resets the connection."""


def reset(transport: asyncio.BaseTransport) -> None:
    """Reset a connection."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    cast(asyncio.Transport, transport).abort()


class End(asyncio.Protocol):
    """One of the two sockets. Bytes read go into one lane; bytes written come from the other."""

    def __init__(self, outward: ShapedLane, connection: RelayedConnection) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.writable = True
        self.ended = False
        """Whether the writing side is closed."""
        self._outward = outward
        self._connection = connection
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        if self._connection.is_cut:
            reset(self.transport)
        self._connection.move()

    def data_received(self, data: bytes) -> None:
        self._outward.add(data, self._connection.loop.time())
        self._connection.move()

    def eof_received(self) -> bool:
        self._outward.end()
        self._connection.move()
        return True  # keeps the other direction open

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._connection.move()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._outward.end()
        self._connection.move()

    def set_reading(self, reading: bool) -> None:
        """Resume or pause reading."""
        if self.transport is None or self.closed or reading == self._reading:
            return
        self._reading = reading
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def finish(self, *, close: bool) -> None:
        """Close the writing side after the last byte; with `close`, the whole connection."""
        if self.transport is None or self.ended:
            return
        self.ended = True
        if close:
            self.transport.close()
        elif not self.closed:
            with suppress(OSError):  # reset by the other end, not reported by the loop yet
                self.transport.write_eof()

    def abort(self) -> None:
        """Reset the connection."""
        if self.transport is not None and not self.closed:
            reset(self.transport)


class RelayedConnection:
    """One relayed connection. `near` is the socket of the connecting client; `far` is the relay's socket to the
    target."""

    def __init__(
        self, forth: Shape, back: Shape, draw: Callable[[], float], on_close: Callable[[RelayedConnection], None]
    ) -> None:
        """`on_close` is called when both sockets are closed."""
        self.loop = asyncio.get_running_loop()
        self.forth = ShapedLane(forth, draw)
        self.back = ShapedLane(back, draw)
        self.near = End(self.forth, self)
        self.far = End(self.back, self)
        self._on_close = on_close
        self._timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self.is_cut = False

    def dial(self, host: str, port: int) -> None:
        """Connect the far socket. If that fails, reset the near one."""
        self._dialling = self.loop.create_task(self._dial(host, port))

    def reshape(self, forth: Shape, back: Shape) -> None:
        """Apply other shapes to both directions."""
        now = self.loop.time()
        for lane, shape in ((self.forth, forth), (self.back, back)):
            lane.reshape(shape, now)
            if lane.has_lost_bytes and shape.flow is not FlowShape.LOST:
                self.cut()
                return
        self.move()

    def cut(self) -> None:
        """Reset both sockets and drop the bytes in flight."""
        self.is_cut = True
        if self._dialling is not None:
            self._dialling.cancel()
        self._cancel_timer()
        self.near.abort()
        self.far.abort()

    def move(self) -> None:
        """Write the bytes that are due, and read where there is room."""
        if not self.is_cut:
            now = self.loop.time()
            self._carry(self.forth, self.near, self.far, now)
            self._carry(self.back, self.far, self.near, now)
            self._schedule(now)
            if self.near.ended and self.far.ended:
                self._close()
        if self.near.closed and self.far.transport is None:
            self.cut()  # the client is gone before the far socket was open
        if self.near.closed and (self.far.closed or self.far.transport is None):
            self._cancel_timer()
            self._on_close(self)

    async def _dial(self, host: str, port: int) -> None:
        try:
            await self.loop.create_connection(lambda: self.far, host, port)
        except OSError:
            self._dialling = None
            self.cut()

    def _carry(self, lane: ShapedLane, source: End, sink: End, now: float) -> None:
        if sink.closed:
            lane.take(now)  # drop it
        elif sink.transport is not None and not sink.ended:
            while sink.writable and (pieces := lane.take(now)):
                sink.transport.write(b"".join(pieces))
        if lane.finished:
            sink.finish(close=source.closed)
        source.set_reading(not lane.full and sink.transport is not None and (sink.writable or sink.closed))

    def _schedule(self, now: float) -> None:
        self._cancel_timer()
        times = [
            due
            for lane, sink in ((self.forth, self.far), (self.back, self.near))
            if sink.writable and sink.transport is not None and (due := lane.next_deadline()) is not None
        ]
        if times:
            self._timer = self.loop.call_at(max(min(times), now), self.move)

    def _close(self) -> None:
        """Close both sockets: both directions have ended in order."""
        self._cancel_timer()
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""One connection through a relay: two sockets and a lane each way between them, driven by asyncio.

Reading stops where a lane is full or the other end takes nothing; so a slow end pushes back through the relay, as it
does through a network.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from .shaping import FlowShape, Shape, ShapedLane

_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Lingering for no time: closing resets, instead of ending in order."""


def reset(transport: asyncio.BaseTransport) -> None:
    """Close a connection so that its other end sees a reset."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    cast(asyncio.Transport, transport).abort()


class End(asyncio.Protocol):
    """One socket: what it reads goes into one lane, what it writes comes out of the other."""

    def __init__(self, outward: ShapedLane, passage: RelayedConnection) -> None:
        self.transport: asyncio.Transport | None = None
        self.gone = False
        self.writable = True
        self.ended = False
        """Whether its writing side is closed."""
        self._outward = outward
        self._passage = passage
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if self._passage.is_cut:
            reset(self.transport)
        self._passage.move()

    def data_received(self, data: bytes) -> None:
        self._outward.offer(data, self._passage.loop.time())
        self._passage.move()

    def eof_received(self) -> bool:
        self._outward.end()
        self._passage.move()
        return True  # the other direction goes on

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._passage.move()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self._outward.end()
        self._passage.move()

    def listen(self, wanted: bool) -> None:
        """Read on, or leave bytes where they are."""
        if self.transport is None or self.gone or wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def finish(self, *, close: bool) -> None:
        """All that was for it has been written; `close`: and nobody is there any more to hear it."""
        if self.transport is None or self.ended:
            return
        self.ended = True
        if close:
            self.transport.close()
        elif not self.gone:
            with suppress(OSError):  # its other end has reset it, and the loop has not said so yet
                self.transport.write_eof()

    def abort(self) -> None:
        """Reset it."""
        if self.transport is not None and not self.gone:
            reset(self.transport)


class RelayedConnection:
    """One connection. `near` is who dialled the relay, `far` whom the relay dialled for it."""

    def __init__(
        self, forth: Shape, back: Shape, draw: Callable[[], float], over: Callable[[RelayedConnection], None]
    ) -> None:
        """`over` is called when both sockets are closed."""
        self.loop = asyncio.get_running_loop()
        self.forth = ShapedLane(forth, draw)
        self.back = ShapedLane(back, draw)
        self.near = End(self.forth, self)
        self.far = End(self.back, self)
        self._over = over
        self._timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self.is_cut = False

    def dial(self, host: str, port: int) -> None:
        """Connect the far end; the near one is reset when nobody answers."""
        self._dialling = self.loop.create_task(self._dial(host, port))

    def reshape(self, forth: Shape, back: Shape) -> None:
        """Both directions are another way from now on."""
        now = self.loop.time()
        for lane, shape in ((self.forth, forth), (self.back, back)):
            lane.reshape(shape, now)
            if lane.torn and shape.flow is not FlowShape.LOST:
                self.cut()
                return
        self.move()

    def cut(self) -> None:
        """Reset both ends; whatever was under way is gone."""
        self.is_cut = True
        if self._dialling is not None:
            self._dialling.cancel()
        self._cancel_timer()
        self.near.abort()
        self.far.abort()

    def move(self) -> None:
        """Hand on what is due, and read where there is room."""
        if not self.is_cut:
            now = self.loop.time()
            self._carry(self.forth, self.near, self.far, now)
            self._carry(self.back, self.far, self.near, now)
            self._schedule(now)
            if self.near.ended and self.far.ended:
                self._close()
        if self.near.gone and self.far.transport is None:
            self.cut()  # nobody waits for the far end any more
        if self.near.gone and (self.far.gone or self.far.transport is None):
            self._cancel_timer()
            self._over(self)

    async def _dial(self, host: str, port: int) -> None:
        try:
            await self.loop.create_connection(lambda: self.far, host, port)
        except OSError:
            self._dialling = None
            self.cut()

    def _carry(self, lane: ShapedLane, source: End, sink: End, now: float) -> None:
        if sink.gone:
            lane.take(now)  # nobody is there to have it
        elif sink.transport is not None and not sink.ended:
            while sink.writable and (pieces := lane.take(now)):
                sink.transport.write(b"".join(pieces))
        if lane.finished:
            sink.finish(close=source.gone)
        source.listen(not lane.full and sink.transport is not None and (sink.writable or sink.gone))

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
        """Both directions have ended in order."""
        self._cancel_timer()
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

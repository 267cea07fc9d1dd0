"""Runs a session on asyncio: carries out its outputs (connections, timers, writes) and completes the futures that wait
for its updates.

There is no await and no queue between a read and the application's deque. A single publish is written at once. Several
publishes in one turn of the event loop are joined into one write.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

from plait_core import PlaitError

from .errors import Closed
from .options.addresses import Address
from .options.limits import CLOSE_S, WRITE_BYTES
from .protocol.outputs import (
    AdvertisementEnded,
    Confirmed,
    Connect,
    Disconnect,
    Ended,
    Lost,
    MatchingChanged,
    NotConfirmed,
    Opened,
    Output,
    PongReceived,
    PublishesLost,
    Reading,
    RequestCompleted,
    SessionUpdate,
    Write,
)
from .protocol.session import Session
from .protocol.subscription_state import SubscriptionState

logger: Final = logging.getLogger("plait")

Dial: TypeAlias = Callable[[Address, Callable[[], asyncio.Protocol]], Awaitable[asyncio.Transport]]
"""Function that opens a connection: `tcp_dial` for networks, one of `plait.testing` for memory."""

K = TypeVar("K", bound=int)


class Wire(asyncio.Protocol):
    """One connection. After `release` the driver no longer receives its callbacks."""

    def __init__(self, driver: Driver) -> None:
        self._driver: Driver | None = driver
        self.transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = driver.loop.create_future()
        self._loop = driver.loop
        self._close_timer: asyncio.TimerHandle | None = None
        self._unwritten = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self.transport = stream
        stream.set_write_buffer_limits(high=WRITE_BYTES)
        if self._driver is None:
            stream.abort()
        else:
            self._driver.wire_made(self)

    def data_received(self, data: bytes) -> None:
        if self._driver is not None:
            self._driver.wire_read(data)

    def pause_writing(self) -> None:
        if self._driver is not None:
            self._driver.wire_writable(False)

    def resume_writing(self) -> None:
        if self._driver is not None:
            self._driver.wire_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        if self._close_timer is not None:
            self._close_timer.cancel()
        if self._driver is not None:
            self._driver.wire_lost(self, error)

    def release(self, *, abort: bool) -> None:
        """Detach from the driver and close. Written bytes are still sent, unless `abort` is true.

        The other end closes first. Closing a socket with unread bytes resets it, and then the last bytes written here
        are lost.
        """
        self._driver = None
        transport = self.transport
        if transport is None or self.closed.done():
            return
        if abort:
            transport.abort()
            return
        transport.resume_reading()
        try:
            if transport.can_write_eof():
                transport.write_eof()
        except OSError:  # the other end has reset the connection
            transport.abort()
            return
        self._unwritten = transport.get_write_buffer_size()
        self._close_timer = self._loop.call_later(CLOSE_S, self._check_closed)

    def _check_closed(self) -> None:
        """Abort the connection if it is still open and no bytes are leaving."""
        assert self.transport is not None, "only an open connection is closed"
        unwritten = self.transport.get_write_buffer_size()
        if 0 < unwritten < self._unwritten:
            self._unwritten = unwritten
            self._close_timer = self._loop.call_later(CLOSE_S, self._check_closed)
        else:
            self.transport.abort()


class Driver:
    """Runs one session on one event loop."""

    def __init__(self, session: Session, dial: Dial, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.loop = loop
        # uvloop's clock has a resolution of 1 ms, too coarse for a round trip. asyncio's clock may be virtual.
        self.now = loop.time if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic
        self.completions: dict[int, asyncio.Future[None]] = {}
        self.confirmations: dict[int, asyncio.Future[int]] = {}
        self.pongs: dict[int, asyncio.Future[float]] = {}
        self.readers: dict[int, Callable[[], None]] = {}
        """Functions that wake the reader of a subscription, by subscription number."""
        self.advertisement_callbacks: dict[int, Callable[[PlaitError | None], None]] = {}
        self.opened: asyncio.Future[None] = loop.create_future()
        """Future that completes at the first welcome, or fails if there will be none."""
        self.flushing = False
        """Whether a flush is scheduled in this turn of the event loop."""
        self._bursts = False
        """Whether the last flush had several publishes to join. The next publish then waits for the end of the turn."""
        self._dial = dial
        self._dialling: asyncio.Task[None] | None = None
        self._wire: Wire | None = None
        self._closing: Wire | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._warned: set[str] = set()

    # --- from the client ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to connect."""
        self.session.start(self.now())
        self.pump()

    def flush_soon(self) -> None:
        """Schedule a write at the end of this turn of the event loop. Write a single publish at once."""
        if not self.flushing:
            self.flushing = True
            lone = None if self._bursts else self.session.take_single()
            if lone is not None and self._wire is not None and self._wire.transport is not None:
                self._wire.transport.write(lone)
            self.loop.call_soon(self._flush)

    def pump(self) -> None:
        """Handle the session's updates, schedule a write and set the timer. Called after each change of the session."""
        session = self.session
        for update in session.take_updates() if session.updates else ():
            self._handle_update(update)
        if session.signals.readable:
            self._wake(session.take_readable())
        if self._room_waiters and not session.publishes.full:
            self._wake_room_waiters()
        if not self.flushing and session.has_output:
            self.flushing = True
            self.loop.call_soon(self._flush)
        deadline = session.next_deadline()
        if deadline < self._timer_at:
            self._arm(deadline)

    async def completed(self, request: int) -> None:
        """Wait until a request is completed. If the waiting task is cancelled, cancel the request."""
        future = self._expect(self.completions, request)
        self.pump()
        try:
            await future
        except asyncio.CancelledError:
            self.session.desired.cancel(request)
            self.pump()
            raise
        finally:
            self.completions.pop(request, None)

    async def confirmation(self, sequence: int) -> int:
        """Wait until a publish is confirmed. Return the number of subscriptions that it matched."""
        future: asyncio.Future[int] = self._expect(self.confirmations, sequence)
        try:
            return await future
        finally:
            self.confirmations.pop(sequence, None)

    async def pong(self, nonce: int) -> float:
        """Wait for a pong. Return the smoothed round-trip time in seconds."""
        future: asyncio.Future[float] = self._expect(self.pongs, nonce)
        self.pump()
        try:
            return await future
        finally:
            self.pongs.pop(nonce, None)

    async def wait_for_room(self) -> None:
        """Wait until the publish queue has room. Raise the session's error when it has ended."""
        while self.session.publishes.full and not self.session.ended:
            future = self.loop.create_future()
            self._room_waiters.append(future)
            self.pump()
            try:
                await future
            finally:
                if future in self._room_waiters:
                    self._room_waiters.remove(future)
        self.check()

    def check(self) -> None:
        """Raise an error when the session has ended."""
        if self.session.ended:
            raise self.session.connection.error or Closed("the client is closed")

    async def close(self, error: PlaitError | None = None) -> None:
        """End the session, wait for its last bytes, and stop all tasks and timers."""
        self.session.close(self.now(), error)
        self.pump()
        self._flush()
        wire = self._closing
        try:
            if self._dialling is not None:
                self._dialling.cancel()
                await asyncio.wait([self._dialling])
            if wire is not None and not wire.closed.done():
                await asyncio.wait([wire.closed])
        finally:
            if wire is not None and wire.transport is not None and not wire.closed.done():
                wire.transport.abort()
            self._disarm()

    # --- from the connection ------------------------------------------------------------------------------------------

    def wire_made(self, wire: Wire) -> None:
        self._wire = wire
        self.session.writable = True
        self.session.connected(self.now())
        self.pump()

    def wire_read(self, data: bytes) -> None:
        session = self.session
        pumped = session.receive(data, self.now())
        signals = session.signals
        if signals.readable:
            readable, signals.readable = signals.readable, []
            for subscription in readable:  # first of all, and without a call, for the lowest delay
                wake = self.readers.get(subscription.id)
                if wake is not None:
                    wake()
        if pumped:
            self.pump()

    def wire_writable(self, writable: bool) -> None:
        self.session.writable = writable
        if writable:
            self.pump()

    def wire_lost(self, wire: Wire, error: Exception | None) -> None:
        assert wire is self._wire, "released connections do not call the driver"
        self._wire = None
        self.session.disconnected(self.now(), _reason(error))
        self.pump()

    # --- outputs ------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self.flushing = False
        if not self.session.has_output:
            self._bursts = False
            return  # the publish was written at once
        self._bursts = len(self.session.publishes.queue) > 1
        for output in self.session.take_output(self.now()):
            self._carry_out(output)
        self.pump()

    def _carry_out(self, output: Output) -> None:
        match output:
            case Write(chunks):
                if self._wire is not None and self._wire.transport is not None:
                    self._wire.transport.write(b"".join(chunks))
            case Connect(address):
                self._release(abort=True)
                self._dialling = self.loop.create_task(self._connect(address), name=f"plait connects to {address}")
            case Disconnect(abort):
                self._release(abort=abort)
            case Reading(on):
                if self._wire is not None and self._wire.transport is not None:
                    (self._wire.transport.resume_reading if on else self._wire.transport.pause_reading)()

    def _release(self, *, abort: bool) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.release(abort=abort)
            self._closing = wire

    async def _connect(self, address: Address) -> None:
        wire = Wire(self)
        task = asyncio.current_task()
        try:
            await self._dial(address, lambda: wire)
        except asyncio.CancelledError:
            wire.release(abort=True)
            raise
        except Exception as error:
            if not isinstance(error, OSError):
                logger.exception("connecting to %s failed in an unexpected way", address)
            if self._dialling is task:
                self.session.disconnected(self.now(), _reason(error))
        finally:
            if self._dialling is task:
                self._dialling = None
        self.pump()

    def _arm(self, deadline: float) -> None:
        """Set the timer to an earlier deadline. A timer that fires too early is left: `_timer_due` sets it again."""
        self._disarm()
        self._timer_at = deadline
        self._timer = self.loop.call_later(max(0.0, deadline - self.now()), self._timer_due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, math.inf

    def _timer_due(self) -> None:
        self._disarm()
        self.session.tick(self.now())
        self.pump()

    # --- updates ------------------------------------------------------------------------------------------------------

    def _handle_update(self, update: SessionUpdate) -> None:
        match update:
            case RequestCompleted(request, error):
                _settle(self.completions.get(request), None, error)
            case Confirmed(sequence, matched):
                _settle(self.confirmations.get(sequence), matched, None)
            case NotConfirmed(sequence, error):
                if sequence in self.confirmations:
                    _settle(self.confirmations[sequence], 0, error)
                else:
                    self._warn_once(error)
            case PublishesLost(count, certain):
                outcome = "publishes were lost" if certain else "publishes may have been lost"
                logger.warning("%d %s with the connection; confirm='broker' sends such ones again", count, outcome)
            case PongReceived(nonce, round_trip_s):
                _settle(self.pongs.get(nonce), round_trip_s, None)
            case MatchingChanged(advertisement):
                self._notify_advertisement(advertisement, None)
            case AdvertisementEnded(advertisement, error):
                self._notify_advertisement(advertisement, error)
            case Opened() | Lost() | Ended():
                self._connection_changed(update)

    def _connection_changed(self, change: Opened | Lost | Ended) -> None:
        match change:
            case Opened(resumed, reconnected):
                logger.info("connected to %s%s", self.session.connection.address, _session_note(resumed, reconnected))
                _settle(self.opened, None, None)
            case Lost(error, retry_s):
                logger.info("%s; trying again in %.2f s", error, retry_s)
            case Ended(error):
                self._disarm()
                ending = error or Closed("the client is closed")
                _settle(self.opened, None, ending)
                for future in self.pongs.values():
                    _settle(future, None, ending)
                for waiter in self._room_waiters:
                    _settle(waiter, None, None)
                for id in list(self.advertisement_callbacks):
                    self._notify_advertisement(id, ending)

    def _wake(self, readable: list[SubscriptionState]) -> None:
        readers = self.readers
        for subscription in readable:
            wake = readers.get(subscription.id)
            if wake is not None:
                wake()

    def _notify_advertisement(self, advertisement: int, error: PlaitError | None) -> None:
        callback = self.advertisement_callbacks.get(advertisement)
        if callback is not None:
            callback(error)

    def _wake_room_waiters(self) -> None:
        while self._room_waiters:
            _settle(self._room_waiters.popleft(), None, None)

    def _warn_once(self, error: PlaitError) -> None:
        """Log the first refusal for each reason; `client.stats` counts them all."""
        if type(error).__name__ not in self._warned:
            self._warned.add(type(error).__name__)
            logger.warning("a publish failed: %s; further failures are only counted", error)

    def _expect(self, table: dict[K, asyncio.Future[Any]], key: K) -> asyncio.Future[Any]:
        assert key not in table, "one waiter for each key"
        future = table[key] = self.loop.create_future()
        return future


def _settle(future: asyncio.Future[Any] | None, result: object, error: PlaitError | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
        future.exception()  # marks it as retrieved: the waiting task may be gone


def _session_note(resumed: bool, reconnected: bool) -> str:
    return ", session resumed" if resumed else ", with a new session" if reconnected else ""


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "closed by the other end"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError | socket.gaierror):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def tcp_dial(tls: ssl.SSLContext | bool | None, default: ssl.SSLContext | None = None) -> Dial:
    """Return a function that opens TCP connections, with TLS for `plaits://` addresses or when `tls` is given.

    `default` has the certificates for TLS unless `tls` is a context itself; None means the system's authorities.
    """
    made = [] if default is None else [default]

    def context() -> ssl.SSLContext:
        if isinstance(tls, ssl.SSLContext):
            return tls
        if not made:
            made.append(ssl.create_default_context())
        return made[0]

    async def dial(address: Address, wire: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        secure = context() if address.tls or tls else None
        loop = asyncio.get_running_loop()
        # uvloop has no happy eyeballs: it tries the addresses of a name one after the other.
        eyeballs: dict[str, Any] = {"happy_eyeballs_delay": 0.25} if isinstance(loop, asyncio.BaseEventLoop) else {}
        transport: asyncio.Transport
        transport, _ = await loop.create_connection(wire, address.host, address.port, ssl=secure, **eyeballs)
        return transport

    return dial

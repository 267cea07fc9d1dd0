"""Accepts connections of clients, brokers and HTTP: limits are checked before a connection costs anything.

The accept loops of asyncio and uvloop do not report the peer before TLS has been negotiated, and cannot be paced. When
file descriptors run out, one retries in a storm of log lines and the other leaves clients hanging.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from .connection_limits import ConnectionLimiter

BATCH: Final = 64
"""Connections accepted in one turn of the loop, so that other work proceeds."""

EXHAUSTED_PAUSE_S: Final = 0.25
"""Pause after running out of file descriptors."""

HANDSHAKE_S: Final = 5.0
"""Timeout of a TLS handshake."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_UNREAD_MAX: Final = 64 * 1024

ProtocolFactory: TypeAlias = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Makes the protocol of one connection. The protocol calls its argument once the connection is lost."""

log: Final = logging.getLogger(__name__)


class Listener:
    """Accepts connections on listening sockets, which it owns, from `start` to `close`."""

    def __init__(
        self,
        sockets: list[socket.socket],
        limiter: ConnectionLimiter,
        make_protocol: ProtocolFactory,
        refusal: Callable[[str], bytes],
        rejected: Counter[str],
        *,
        tls: ssl.SSLContext | None = None,
        cost: float = 1.0,
    ) -> None:
        """`refusal` encodes the reply to a refused connection; `rejected` counts them."""
        self.tls = tls
        self._sockets = sockets
        self._limiter = limiter
        self._make_protocol = make_protocol
        self._refusal = refusal
        self._rejected = rejected
        self._cost = cost
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._spare: int | None = _spare_descriptor()

    def start(self) -> None:
        """Start accepting."""
        for listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """Stop accepting. Abort unfinished TLS handshakes; open connections remain."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets = []
        for pause in self._pauses.values():
            pause.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        await asyncio.sleep(0)  # let each task start, so that its socket belongs to a transport
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    # --- accepting ----------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(BATCH):
            wait_s = self._limiter.wait_s(time.monotonic())
            if wait_s > 0:
                self._pause(listener, wait_s)
                return
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._shed(listener, error)
                    return
                continue  # the client gave up while it waited
            self._take(accepted, str(address[0]))

    def _take(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        if reason := self._limiter.admit(address, time.monotonic(), self._cost):
            self._rejected["limit"] += 1
            log.warning("refused a connection from %s: %s", address, reason)
            self._refuse(accepted, reason)
            return
        task = self._loop.create_task(self._open(accepted, address))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, address: str) -> None:
        """Hand the socket to a transport, after the TLS handshake if there is one."""
        on_lost = _Leave(self._limiter, address)
        handshake_s = HANDSHAKE_S if self.tls is not None else None
        try:
            _prepare(accepted)
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(on_lost), accepted, ssl=self.tls, ssl_handshake_timeout=handshake_s
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            on_lost()
            if self.tls is not None:
                self._rejected["tls"] += 1
                log.info("TLS handshake with %s failed: %s", address, getattr(error, "reason", None) or error)
        except BaseException:
            on_lost()
            raise

    # --- not accepting ------------------------------------------------------------------------------------------------

    def _refuse(self, accepted: socket.socket, reason: str) -> None:
        """Send the reason, as far as that does not block, and close the connection."""
        try:
            if self.tls is None:
                accepted.send(self._refusal(reason))
                accepted.shutdown(socket.SHUT_WR)
                accepted.recv(_UNREAD_MAX)  # unread input would turn the close into a reset
        except OSError:
            pass  # the client has gone
        finally:
            accepted.close()

    def _shed(self, listener: socket.socket, error: OSError) -> None:
        """Use the spare descriptor to refuse waiting connections while there are no others; then pause."""
        log.error("cannot accept connections: %s; raise the limit of open files (ulimit -n)", error.strerror)
        self._pause(listener, EXHAUSTED_PAUSE_S)
        for _ in range(BATCH):
            if self._spare is not None:
                os.close(self._spare)
                self._spare = None
            try:
                accepted, _ = listener.accept()
            except OSError:
                break
            accepted.setblocking(False)
            self._rejected["descriptors"] += 1
            self._refuse(accepted, "the broker has no file descriptors left")
        self._spare = _spare_descriptor()

    def _pause(self, listener: socket.socket, pause_s: float) -> None:
        self._loop.remove_reader(listener)
        self._pauses[listener] = self._loop.call_later(pause_s, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        del self._pauses[listener]
        if self._spare is None:
            self._spare = _spare_descriptor()
        self._loop.add_reader(listener, self._accept, listener)


class _Leave:
    """Counts an admitted connection as closed, on the first call only. Smaller than a closure: each connection has
    one."""

    __slots__ = ("_address", "_limiter")

    def __init__(self, limiter: ConnectionLimiter, address: str) -> None:
        self._limiter: ConnectionLimiter | None = limiter
        self._address = address

    def __call__(self) -> None:
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter.leave(self._address)


def _spare_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _prepare(accepted: socket.socket) -> None:
    """Send small frames at once, and let the kernel detect a machine that has vanished."""
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            accepted.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)

"""Accepting connections, for brokers' clients and for HTTP alike: admitted before anything is spent on them.

asyncio and uvloop have accept loops of their own. They tell nobody who connects before TLS has been negotiated, cannot
be paced, and when file descriptors run out one retries in a storm of log lines and the other leaves callers hanging.
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
"""Connections taken in one turn of the loop: others have work too."""

EXHAUSTED_PAUSE_S: Final = 0.25
"""Between two looks at whether file descriptors are to be had again."""

HANDSHAKE_S: Final = 5.0
"""For TLS to be negotiated."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_HEARD_MAX: Final = 64 * 1024

ProtocolFactory: TypeAlias = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Makes a protocol for one connection. What it is given is to be called once the connection is lost."""

log: Final = logging.getLogger(__name__)


class Listener:
    """Takes connections from listening sockets, which it owns, once started and until closed."""

    def __init__(
        self,
        sockets: list[socket.socket],
        door: ConnectionLimiter,
        make_protocol: ProtocolFactory,
        refusal: Callable[[str], bytes],
        rejected: Counter[str],
        *,
        tls: ssl.SSLContext | None = None,
        cost: float = 1.0,
    ) -> None:
        """`refusal` writes what a caller who is not let in is told; `rejected` counts them."""
        self.tls = tls
        self._sockets = sockets
        self._door = door
        self._make_protocol = make_protocol
        self._refusal = refusal
        self._rejected = rejected
        self._cost = cost
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._spare: int | None = _spare_descriptor()

    def start(self) -> None:
        """From now on."""
        for listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """Take no more. Those whose TLS is still being negotiated are cut; those that are open stay."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets = []
        for pause in self._pauses.values():
            pause.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        await asyncio.sleep(0)  # let each begin: what was accepted then belongs to a transport
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    # --- accepting ----------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(BATCH):
            wait_s = self._door.wait_s(time.monotonic())
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
                continue  # the caller gave up while it waited
            self._take(accepted, str(address[0]))

    def _take(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        if reason := self._door.admit(address, time.monotonic(), self._cost):
            self._rejected["limit"] += 1
            log.warning("refused a connection from %s: %s", address, reason)
            self._refuse(accepted, reason)
            return
        task = self._loop.create_task(self._open(accepted, address))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, address: str) -> None:
        """Hand the socket to a transport, after TLS if that is spoken here."""
        left = _Once(lambda: self._door.leave(address))
        handshake_s = HANDSHAKE_S if self.tls is not None else None
        try:
            _prepare(accepted)
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(left), accepted, ssl=self.tls, ssl_handshake_timeout=handshake_s
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            left()
            if self.tls is not None:
                self._rejected["tls"] += 1
                log.info("no TLS with %s: %s", address, getattr(error, "reason", None) or error)
        except BaseException:
            left()
            raise

    # --- not accepting ------------------------------------------------------------------------------------------------

    def _refuse(self, accepted: socket.socket, reason: str) -> None:
        """Say why, as far as that is possible without waiting, and hang up."""
        try:
            if self.tls is None:
                accepted.send(self._refusal(reason))
                accepted.shutdown(socket.SHUT_WR)
                accepted.recv(_HEARD_MAX)  # what is left unread turns the farewell into a reset
        except OSError:
            pass  # nobody is left to be told
        finally:
            accepted.close()

    def _shed(self, listener: socket.socket, error: OSError) -> None:
        """No descriptors: with the one kept for this, tell those who wait to come later; then pause."""
        log.error("cannot take connections: %s; raise the limit of open files (ulimit -n)", error.strerror)
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


class _Once:
    """Runs an action the first time that it is called."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


def _spare_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _prepare(accepted: socket.socket) -> None:
    """Small frames leave at once; a machine that vanished is noticed by the kernel too."""
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            accepted.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)

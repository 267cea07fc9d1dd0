"""One connection as asyncio sees it: bytes to the protocol and back. Nothing is awaited here, and nothing queued."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Protocol, cast

from ..clients.access import Caller
from ..outputs import ConnectionId

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Bytes written to a connection that its other end has not taken, until the broker queues, by policy, instead. More
than a fast peer leaves untaken for a moment, little enough for thousands of slow ones."""

LINGER_S: Final = 1.0
"""After the last byte, for the other end to read it and hang up: closing over unread input would destroy it."""

FLUSH_S: Final = 5.0
"""For the other end to take what was sent before a close; then it is cut off."""


class Driver(Protocol):
    """What a connection tells of itself."""

    def opened(self, connection: TcpConnection, caller: Caller) -> ConnectionId: ...
    def received(self, link: ConnectionId, data: bytes) -> None: ...
    def writable(self, link: ConnectionId, writable: bool) -> None: ...
    def lost(self, link: ConnectionId) -> None: ...


class TcpConnection(asyncio.Protocol):
    """Between a transport and the driver."""

    __slots__ = ("_close_by", "_dialled", "_driver", "_left", "_link", "_timer", "_transport", "_vouched")

    _transport: asyncio.Transport
    _link: ConnectionId

    def __init__(self, driver: Driver, left: Callable[[], None], *, dialled: str = "", vouched: bool = False) -> None:
        """`left` is called when the connection is gone; `dialled`: where, if it was made by this broker to another;
        `vouched`: whether TLS has verified that the other end is a broker."""
        self._driver = driver
        self._left = left
        self._dialled = dialled
        self._vouched = vouched
        self._close_by: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- from the transport -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # which uvloop's is by its methods, not by its class
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._transport = transport
        caller = replace(_caller(transport), dialled=self._dialled, vouched=self._vouched)
        self._link = self._driver.opened(self, caller)

    def data_received(self, data: bytes) -> None:
        if self._close_by is None:
            self._driver.received(self._link, data)

    def pause_writing(self) -> None:
        self._driver.writable(self._link, False)

    def resume_writing(self) -> None:
        self._driver.writable(self._link, True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._driver.lost(self._link)
        self._left()

    # --- from the driver ----------------------------------------------------------------------------------------------

    def write(self, chunks: list[bytes]) -> None:
        """Send. One joined write costs half of `writelines` for the batches that a turn of the loop makes."""
        if self._transport.is_closing():  # the other end has gone, and `connection_lost` is about to say so
            return
        self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def close(self) -> None:
        """Hang up once the other end has what was sent, or does not want it."""
        if self._close_by is not None or self._transport.is_closing():
            return
        self._close_by = monotonic() + FLUSH_S
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._cut)
        try:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()
        except OSError:  # the other end has reset it: nobody is there to hear the rest
            self._transport.abort()

    def abort(self) -> None:
        """Hang up now."""
        self._transport.abort()

    def _cut(self) -> None:
        assert self._close_by is not None, "only a closing connection is cut"
        if self._transport.get_write_buffer_size() and monotonic() < self._close_by:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._cut)
        else:
            self._transport.abort()


def _caller(transport: asyncio.Transport) -> Caller:
    """Who is at the other end, by address and by certificate if TLS has verified one."""
    peer = transport.get_extra_info("peername")
    host, port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Caller(address, common_name(transport.get_extra_info("peercert")))


def common_name(certificate: dict[str, Any] | None) -> str:
    """The common name in a verified certificate; none when there are several to choose from."""
    pairs = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    names = [str(value) for key, value in pairs if key == "commonName"]
    return names[0] if len(names) == 1 else ""

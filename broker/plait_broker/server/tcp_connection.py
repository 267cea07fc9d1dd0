"""One connection as an asyncio protocol: bytes to the driver and back. Nothing is awaited here, and nothing queued."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Protocol, cast

from ..clients.access import Caller
from ..outputs import ConnectionId

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Unread bytes of a connection after which the broker queues according to its policies: more than a fast peer leaves
unread for a moment, few enough for thousands of slow ones."""

UNSENT_BYTES: Final = 128 * 1024
"""Bytes of a link that the kernel holds and has not sent, above what is on its way. The rest waits with us, where
control frames overtake events. Connections of clients have no such limit: it would wake a busy broker too often."""

LINGER_S: Final = 1.0
"""Time after the last byte for the peer to read it and close: closing with unread input would destroy it."""

FLUSH_S: Final = 5.0
"""Time for the peer to read what was sent before a close; then the connection is aborted."""


class Driver(Protocol):
    """The receiver of a connection's events."""

    def opened(self, connection: TcpConnection, caller: Caller) -> ConnectionId: ...
    def received(self, link: ConnectionId, data: bytes) -> None: ...
    def writable(self, link: ConnectionId, writable: bool) -> None: ...
    def lost(self, link: ConnectionId) -> None: ...


class TcpConnection(asyncio.Protocol):
    """Connects a transport to the driver."""

    __slots__ = ("_close_by", "_dialled", "_driver", "_link", "_on_lost", "_timer", "_transport", "_vouched")

    _transport: asyncio.Transport
    _link: ConnectionId

    def __init__(
        self, driver: Driver, on_lost: Callable[[], None], *, dialled: str = "", vouched: bool = False
    ) -> None:
        """`left` is called when the connection is lost. `dialled` is the address of an outgoing connection to another
        broker. `vouched`: TLS has verified that the peer is a broker."""
        self._driver = driver
        self._on_lost = on_lost
        self._dialled = dialled
        self._vouched = vouched
        self._close_by: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- from the transport -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transport has the methods, but not the class
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
        self._on_lost()

    # --- from the driver ----------------------------------------------------------------------------------------------

    def write(self, chunks: list[bytes]) -> None:
        """Write chunks. One joined write costs half of `writelines` for the batches of a turn of the loop."""
        if self._transport.is_closing():  # the peer has gone, and `connection_lost` follows
            return
        self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def limit_unsent(self) -> None:
        """Limit what the kernel holds unsent, where it can be limited."""
        option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        connected: socket.socket | None = self._transport.get_extra_info("socket")
        if option is not None and connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)

    def close(self) -> None:
        """Close once the peer has read what was sent, or after FLUSH_S."""
        if self._close_by is not None or self._transport.is_closing():
            return
        self._close_by = monotonic() + FLUSH_S
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._cut)
        try:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()
        except OSError:  # the peer has reset the connection
            self._transport.abort()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _cut(self) -> None:
        assert self._close_by is not None, "only a closing connection is cut"
        if self._transport.get_write_buffer_size() and monotonic() < self._close_by:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._cut)
        else:
            self._transport.abort()


def _caller(transport: asyncio.Transport) -> Caller:
    """Return the peer's address, and its name if TLS has verified a certificate."""
    peer = transport.get_extra_info("peername")
    host, port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Caller(address, common_name(transport.get_extra_info("peercert")))


def common_name(certificate: dict[str, Any] | None) -> str:
    """Return the common name of a verified certificate; empty if it has several."""
    pairs = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    names = [str(value) for key, value in pairs if key == "commonName"]
    return names[0] if len(names) == 1 else ""

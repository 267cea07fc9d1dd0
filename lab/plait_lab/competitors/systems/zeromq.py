"""ZeroMQ: pyzmq through an XSUB/XPUB proxy, with blocking sockets, its fastest; no high-water mark, so no drops."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ..child_command import server_command
from ..contender import HOST, Contender, Selects, package_version
from ..listening import Listener
from ..many_subscribers import Member
from ..paced_publishing import Arguments, PublishedStream, publish_all_blocking
from ..quotes import Quote, QuoteFilter, same_topic
from ..stamps import phase_of

GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
"""ZMTP 3.0, without security."""
READY: Final = b"\x05READY" + b"\x0bSocket-Type" + b"\x00\x00\x00\x03SUB"

SETTLE_MS: Final = 100
"""Milliseconds without a further subscription after which the proxy has forwarded all of them."""


class ZeroMq(Contender):
    """pyzmq on all sides. Publishers use its port, subscribers the next."""

    key = "zeromq"
    title = "pyzmq XSUB/XPUB proxy"
    modules: ClassVar[tuple[str, ...]] = ("zmq",)
    terms: ClassVar[str] = (
        "no high-water mark, so no drops; its proxy selects by prefix, one for each symbol and price bucket"
    )
    install: ClassVar[str] = "pip install pyzmq"
    selects: ClassVar[Selects] = "topics"

    def versions(self) -> str:
        return f"{package_version('pyzmq')} with libzmq {importlib.import_module('zmq').zmq_version()}"

    def command(self, port: int, place: Path) -> list[str]:
        return server_command(self.key, port)

    def serve(self, port: int) -> None:
        zmq = importlib.import_module("zmq")
        inward, outward = self._socket("XSUB"), self._socket("XPUB")
        inward.bind(f"tcp://{HOST}:{port}")
        outward.bind(f"tcp://{HOST}:{port + 1}")
        zmq.proxy(inward, outward)

    def subscribe(self, port: int, listener: Listener) -> None:
        receive = listener.receive
        socket = self._socket("SUB")
        socket.connect(f"tcp://{HOST}:{port + 1}")
        socket.subscribe(b"")
        listener.subscribed()
        while True:
            receive(socket.recv())

    def publish(self, port: int, stream: PublishedStream) -> None:
        socket = self._socket(
            "XPUB"
        )  # like PUB, but it receives subscriptions: before the first, events would be dropped
        socket.connect(f"tcp://{HOST}:{port}")
        socket.recv()
        while socket.poll(SETTLE_MS):
            socket.recv()
        publish_all_blocking(stream, socket.send)
        socket.close(linger=0)

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return (event.body(stamp),)

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return (event.text(phase_of(stamp)),)

    def subscriber_port(self, port: int) -> int:
        return port + 1

    def member(self, interests: list[QuoteFilter]) -> Member:
        return _ZmtpMember(interests)

    def deliveries(self, events: list[Quote], interests: list[QuoteFilter]) -> list[int]:
        return same_topic(events, interests)

    def _socket(self, kind: str) -> Any:
        zmq = importlib.import_module("zmq")
        socket = zmq.Context.instance().socket(getattr(zmq, kind))
        socket.set_hwm(0)
        return socket


class _ZmtpMember(Member):
    def __init__(self, interests: Sequence[QuoteFilter]) -> None:
        super().__init__()
        topics = sorted({topic for interest in interests for topic in interest.topics})
        self._prefixes = [f"{symbol} {hundreds} ".encode() for symbol, hundreds in topics]

    def opening(self) -> bytes:
        return GREETING + bytes((4, len(READY))) + READY

    def receive(self, data: bytes) -> None:
        if self.joined.done():
            self.note_closed(data)
        elif b"READY" in data:  # a subscription before READY is a protocol error; it is not acknowledged
            self.transport.write(b"".join(bytes((0, len(prefix) + 1, 1)) + prefix for prefix in self._prefixes))
            self.join()

"""ZeroMQ: pyzmq through an XSUB/XPUB proxy, with blocking sockets, its fastest; no high-water mark, so no drops."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, ClassVar

from .contender import HOST, Contender, Listener
from .errands import server_command
from .publishing import Arguments, Stream, publish_all_blocking
from .quotes import Quote


class ZeroMq(Contender):
    """pyzmq on all sides. Publishers use its port, subscribers the next."""

    key = "zeromq"
    title = "pyzmq XSUB/XPUB proxy"
    modules: ClassVar[tuple[str, ...]] = ("zmq",)

    def command(self, port: int, place: Path) -> list[str]:
        return server_command(self.key, port)

    def serve(self, port: int) -> None:
        zmq = importlib.import_module("zmq")
        inward, outward = self._socket("XSUB"), self._socket("XPUB")
        inward.bind(f"tcp://{HOST}:{port}")
        outward.bind(f"tcp://{HOST}:{port + 1}")
        zmq.proxy(inward, outward)

    def subscribe(self, port: int, listener: Listener) -> None:
        heard = listener.heard
        socket = self._socket("SUB")
        socket.connect(f"tcp://{HOST}:{port + 1}")
        socket.subscribe(b"")
        listener.subscribed()
        while True:
            heard(socket.recv())

    def publish(self, port: int, stream: Stream) -> None:
        socket = self._socket("PUB")
        socket.connect(f"tcp://{HOST}:{port}")
        publish_all_blocking(stream, socket.send)
        socket.close(linger=0)

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return (event.body(stamp),)

    def _socket(self, kind: str) -> Any:
        zmq = importlib.import_module("zmq")
        socket = zmq.Context.instance().socket(getattr(zmq, kind))
        socket.set_hwm(0)
        return socket

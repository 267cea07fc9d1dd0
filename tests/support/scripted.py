"""Helpers for tests of a running broker: a broker in this process, and a client that exchanges single frames."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import uvloop

from plait_broker.server.config.configuration import Configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_core import Event
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    Close,
    Confirm,
    ControlFrame,
    Deliver,
    Frame,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Pong,
    Role,
    State,
    Welcome,
    encode_frame,
    encode_publish,
)
from plait_core.wire.frame_types.session_frames import Done, Subscribe

PATIENCE_S = 30.0

uvloop.new_event_loop().close()  # the first one of a process opens a pipe for signals and keeps it

_F = TypeVar("_F", bound=Frame)


class ScriptedClient:
    """One end of a connection, frame by frame. It answers pings itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.decoder = FrameDecoder()
        self.welcome: Welcome | None = None
        self._frames: list[Frame] = []
        self._sequence = 0
        self.publisher = 0

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> ScriptedClient:
        name = "localhost" if tls is not None else None
        return cls(*await asyncio.open_connection(host, port, ssl=tls, server_hostname=name))

    async def hello(
        self, name: str = "client", publisher: int = 1, *, token: str | None = None, resume: int | None = None
    ) -> Welcome:
        """Perform the handshake. Fails the test if it is refused."""
        await self.say_hello(name, publisher, token=token, resume=resume)
        self.welcome = await self.expect(Welcome)
        self.decoder.establish(self.welcome.version)
        return self.welcome

    async def say_hello(
        self, name: str = "client", publisher: int = 1, *, token: str | None = None, resume: int | None = None
    ) -> None:
        """Send a Hello without waiting for an answer."""
        self.publisher = publisher
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, name, publisher, ("resume",), token, resume)
        handshake = Handshake.initiator(hello)
        await self.send(handshake.start())
        assert handshake.state is State.HELLO_SENT

    async def send(self, frame: ControlFrame) -> None:
        """Send one control frame."""
        await self.send_bytes(encode_frame(frame, self.welcome.version if self.welcome else VERSION_MIN))

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def subscribe(self, filter: str, number: int = 1, **terms: Any) -> None:
        """Subscribe and wait for the answer. Frames replayed meanwhile are kept."""
        await self.send(Subscribe(number, number, filter, **terms))
        replayed = []
        while isinstance(frame := await self.next_frame(), Deliver):
            replayed.append(frame)
        assert frame == Done(number)
        self._frames[:0] = replayed

    async def publish(self, attributes: dict[str, Any], payload: bytes = b"", confirm: Confirm = Confirm.NONE) -> int:
        """Publish one event. Return its sequence number."""
        await self.send_bytes(self.published(attributes, payload, confirm))
        return self._sequence

    def published(self, attributes: dict[str, Any], payload: bytes = b"", confirm: Confirm = Confirm.NONE) -> bytes:
        """Return the frame that publishes the next event."""
        self._sequence += 1
        event = Event.checked(attributes, payload, publisher=self.publisher, sequence=self._sequence)
        return encode_publish(event, confirm)

    async def expect(self, kind: type[_F]) -> _F:
        """Return the next frame, which must be of this kind."""
        frame = await self.next_frame()
        assert isinstance(frame, kind), f"{frame} came, and a {kind.__name__} was expected"
        return frame

    async def delivered(self) -> dict[str, Any]:
        """Return the attributes of the next event."""
        return dict((await self.expect(Deliver)).attributes())

    async def next_frame(self) -> Frame:
        """Return the next frame that is no ping."""
        while True:
            self._frames = self._frames or self.decoder.take()
            if not self._frames:
                data = await asyncio.wait_for(self.reader.read(1 << 16), PATIENCE_S)
                assert data, "the broker hung up"
                self.decoder.feed(data)
            elif isinstance(frame := self._frames.pop(0), Ping):
                await self.send(Pong(frame.nonce))
            else:
                return frame

    async def refused(self) -> Close:
        """Return the broker's Close, after which it closes the connection."""
        closed = await self.expect(Close)
        await self.hung_up()
        return closed

    async def hung_up(self) -> bytes:
        """Return the bytes until the broker closes the connection."""
        heard = b""
        try:
            while data := await asyncio.wait_for(self.reader.read(1 << 16), PATIENCE_S):
                heard += data
        except ConnectionError:
            pass
        return heard

    async def __aenter__(self) -> ScriptedClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass  # the broker was first


LOCAL = Configuration(listen=Endpoint("127.0.0.1", 0), http=None)


@asynccontextmanager
async def running(configuration: Configuration = LOCAL, **settings: Any) -> AsyncIterator[BrokerServer]:
    """Run a broker on any port, with some settings changed."""
    changed = replace(configuration, settings=replace(configuration.settings, **settings))
    async with BrokerServer(changed) as server:
        yield server


@asynccontextmanager
async def client_of(server: BrokerServer, name: str = "client", publisher: int = 1) -> AsyncIterator[ScriptedClient]:
    """Connect a client and perform the handshake."""
    async with await ScriptedClient.connect(server.port) as client:
        await client.hello(name, publisher)
        yield client

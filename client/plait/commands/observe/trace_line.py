"""A connection of its own for one traced event: hello, the event, and then its steps until all of them are told."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from plait_core import Event
from plait_core.errors import FrameError
from plait_core.ids import new_id
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    VERSION_MIN,
    Close,
    ControlFrame,
    Frame,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_block,
    encode_frame,
)
from plait_core.wire.frame_types.session_frames import Brokers, Code, Failed, Refusal
from plait_core.wire.frame_types.trace_frames import Trace, TraceStep

from ..connection.connecting import dial
from ..terminal.failures import Failure

if TYPE_CHECKING:
    from ..connection.addressing import Target

READ_BYTES: Final = 1 << 16
WELCOME_S: Final = 5.0
CATCH_UP_S: Final = 0.5
"""For steps that led to others which are told already, once it is known what became of the event."""

Traced: TypeAlias = TraceStep | Brokers
"""What is told of an event: its steps, and what the brokers in them are called."""


class Following(Protocol):
    """Who decides when all is told, and when all that led to it is."""

    @property
    def complete(self) -> bool: ...

    @property
    def done(self) -> bool: ...


async def follow(
    target: Target, event: Event, wait_s: float, following: Following, tell: Callable[[Traced], None]
) -> None:
    """Publish an event, and tell its steps until all are told or time is up. Failure when it is not taken."""
    reader, writer = await dial(target)
    try:
        line = _Line(reader, writer)
        welcome = await line.greet(target.token)
        tell(Brokers((welcome.broker,), (welcome.broker_name,)))
        await line.send(line.trace(event))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s) as limit:
                while not following.done:
                    if following.complete:
                        caught_up_at = asyncio.get_running_loop().time() + CATCH_UP_S
                        limit.reschedule(min(limit.when() or caught_up_at, caught_up_at))
                    for frame in await line.frames():
                        if isinstance(frame, TraceStep | Brokers):
                            tell(frame)
        await line.send(Close(Code.BYE))
    except (OSError, EOFError) as error:
        raise Failure(f"lost the connection to {target.url}: {error}") from error
    except FrameError as error:
        raise Failure(f"{target.url} does not speak as a broker does: {error}") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class _Line:
    """One connection, frame by frame. Answers pings by itself, and fails when the broker says no."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._publisher = new_id(secrets.SystemRandom())
        self._version = HANDSHAKE_VERSION
        self._early: list[Frame] = []

    def trace(self, event: Event) -> Trace:
        """The frame that publishes it, as this connection's client."""
        return Trace(
            1, encode_block(replace(event, publisher=self._publisher, sequence=1, published_us=time_ns() // 1000))
        )

    async def greet(self, token: str | None) -> Welcome:
        """Be welcomed."""
        name = f"plait-trace-{secrets.token_hex(4)}"
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, name, self._publisher, (), token)
        handshake = Handshake.initiator(hello)
        await self.send(handshake.start())
        try:
            async with asyncio.timeout(WELCOME_S):
                while not (frames := await self.frames()):
                    pass
        except TimeoutError:
            raise Failure(f"no welcome within {WELCOME_S:g} s") from None
        welcome = frames[0]
        handshake.receive(welcome)
        assert isinstance(welcome, Welcome), "the handshake takes nothing else"
        self._version = handshake.version
        self._decoder.establish(handshake.version)
        self._early = await self._taken()
        return welcome

    async def send(self, frame: ControlFrame) -> None:
        self._writer.write(encode_frame(frame, self._version))
        await self._writer.drain()

    async def frames(self) -> list[Frame]:
        """What comes next."""
        if self._early:
            early, self._early = self._early, []
            return early
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise EOFError("the broker hung up")
        self._decoder.feed(data)
        return await self._taken()

    async def _taken(self) -> list[Frame]:
        """The frames that are complete; in the handshake, one."""
        found: list[Frame] = []
        while frames := self._decoder.take():
            for frame in frames:
                match frame:
                    case Ping(nonce):
                        await self.send(Pong(nonce))
                    case Failed() | Refusal():
                        raise Failure(f"the broker refused it: {frame.message or frame.code}", hint=frame.hint)
                    case Close():
                        raise Failure(f"the broker closed the connection: {frame.message or frame.code}")
                    case _:
                        found.append(frame)
            if self._version == HANDSHAKE_VERSION:
                break
        return found

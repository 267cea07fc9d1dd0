"""A separate connection for one traced event: the handshake, the event, then its steps until all are reported."""

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
    from ...options.target import Target

READ_BYTES: Final = 1 << 16
WELCOME_S: Final = 5.0
CATCH_UP_S: Final = 0.5
"""Time to wait for missing steps that caused reported ones, once the event's outcome is known."""

Traced: TypeAlias = TraceStep | Brokers
"""Reports about an event: its steps, and the names of the brokers in them."""


class Progress(Protocol):
    """Decides when all outcomes are reported, and when the steps that caused them are."""

    @property
    def complete(self) -> bool: ...

    @property
    def done(self) -> bool: ...


async def follow(
    target: Target, event: Event, wait_s: float, progress: Progress, report: Callable[[Traced], None]
) -> None:
    """Publish an event and report its steps until all have arrived or time is up; Failure if the broker refuses it."""
    reader, writer = await dial(target)
    try:
        connection = _Connection(reader, writer)
        welcome = await connection.greet(target.token)
        report(Brokers((welcome.broker,), (welcome.broker_name,)))
        await connection.send(connection.trace(event))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s) as limit:
                while not progress.done:
                    if progress.complete:
                        caught_up_at = asyncio.get_running_loop().time() + CATCH_UP_S
                        limit.reschedule(min(limit.when() or caught_up_at, caught_up_at))
                    for frame in await connection.frames():
                        if isinstance(frame, TraceStep | Brokers):
                            report(frame)
        await connection.send(Close(Code.BYE))
    except (OSError, EOFError) as error:
        raise Failure(f"lost the connection to {target.url}: {error}") from error
    except FrameError as error:
        raise Failure(f"{target.url} does not follow the protocol: {error}") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class _Connection:
    """A connection that sends and receives single frames. It answers pings, and raises Failure at a refusal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._publisher = new_id(secrets.SystemRandom())
        self._version = HANDSHAKE_VERSION
        self._early: list[Frame] = []

    def trace(self, event: Event) -> Trace:
        """Return the frame that publishes an event as this connection's client."""
        return Trace(
            1, encode_block(replace(event, publisher=self._publisher, sequence=1, published_us=time_ns() // 1000))
        )

    async def greet(self, token: str | None) -> Welcome:
        """Perform the handshake and return the broker's Welcome."""
        name = f"plait-trace-{secrets.token_hex(4)}"
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, name, self._publisher, (), token)
        handshake = Handshake.initiator(hello)
        await self.send(handshake.start())
        try:
            async with asyncio.timeout(WELCOME_S):
                while not (frames := await self.frames()):
                    pass
        except TimeoutError:
            raise Failure(f"no answer to the handshake within {WELCOME_S:g} s") from None
        welcome = frames[0]
        handshake.receive(welcome)
        assert isinstance(welcome, Welcome), "the handshake accepts no other frame"
        self._version = handshake.version
        self._decoder.establish(handshake.version)
        self._early = await self._complete_frames()
        return welcome

    async def send(self, frame: ControlFrame) -> None:
        self._writer.write(encode_frame(frame, self._version))
        await self._writer.drain()

    async def frames(self) -> list[Frame]:
        """Return the next frames. Empty if only pings or part of a frame arrived."""
        if self._early:
            early, self._early = self._early, []
            return early
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise EOFError("the broker closed it")
        self._decoder.feed(data)
        return await self._complete_frames()

    async def _complete_frames(self) -> list[Frame]:
        """Return the frames that are complete; during the handshake, only the first."""
        found: list[Frame] = []
        while frames := self._decoder.take():
            for frame in frames:
                match frame:
                    case Ping(nonce):
                        await self.send(Pong(nonce))
                    case Failed() | Refusal():
                        raise Failure(f"the broker refused the event: {frame.message or frame.code}", hint=frame.hint)
                    case Close():
                        raise Failure(f"the broker closed the connection: {frame.message or frame.code}")
                    case _:
                        found.append(frame)
            if self._version == HANDSHAKE_VERSION:
                break
        return found

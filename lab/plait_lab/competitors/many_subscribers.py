"""A crowd: many subscriptions over many connections, in one process that only counts what comes.

What serves a thousand subscribers is then measured, and not a thousand Python clients on the same two cores. The same
bare client for every contender: it says what it wants to hear and counts deliveries.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Final, cast

from .shared_counters import SharedCounters
from .stamps import PHASES, closing

CONNECTING: Final = 64
"""Connections that are being opened at once: a backlog of the kernel holds that many anywhere."""
JOIN_S: Final = 60.0
"""For one connection to be served."""


class Member(asyncio.Protocol):
    """One connection. An adapter says what opens it, when it is served, and what bytes deliver."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.board: SharedCounters | None = None

    @abstractmethod
    def opening(self) -> bytes:
        """What to say first."""

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Bytes came: calls `note` with the deliveries in them, and `join` when the last subscription stands."""

    def join(self) -> None:
        """It is served now."""
        if not self.joined.done():
            self.joined.set_result(None)

    def note(self, phase: int, deliveries: int) -> None:
        """So many deliveries of a phase."""
        assert self.board is not None, "it has entered"
        self.board.received[phase][0] += deliveries

    def note_closed(self, data: bytes) -> None:
        """The same for events that are closed by their phase."""
        for phase in PHASES:
            if found := data.count(closing(phase)):
                self.note(phase, found)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self.transport.write(self.opening())

    def data_received(self, data: bytes) -> None:
        self.receive(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.joined.done():
            self.joined.set_exception(error or ConnectionError("closed by the server"))


async def gather_crowd(host: str, port: int, members: list[Member], board: SharedCounters) -> None:
    """Connect all of them, then report to the board."""
    loop, turn = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTING)

    async def enter(member: Member) -> None:
        member.board = board
        async with turn, asyncio.timeout(JOIN_S):
            await loop.create_connection(lambda: member, host, port)
            await member.joined

    async with asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(enter(member))
    board.ready[0] = 1

"""A crowd: many subscriptions over many connections, in one process that only counts deliveries.

This measures the server, not a thousand Python clients on the same two cores. All contenders use the same bare client,
which subscribes and counts.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Final, cast

from .shared_counters import SharedCounters
from .stamps import PHASES, closing

CONNECTING: Final = 64
"""Connections opened concurrently: any kernel's backlog holds that many."""
JOIN_S: Final = 60.0
"""Timeout for one connection to be served."""


class Member(asyncio.Protocol):
    """One connection. An adapter implements its opening, its readiness and its deliveries."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.counters: SharedCounters | None = None

    @abstractmethod
    def opening(self) -> bytes:
        """Return the first bytes to send."""

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Process bytes: call `note` with the deliveries in them, and `join` when the last subscription is active."""

    def join(self) -> None:
        """Mark the connection as served."""
        if not self.joined.done():
            self.joined.set_result(None)

    def note(self, phase: int, deliveries: int) -> None:
        """Count deliveries of a phase."""
        assert self.counters is not None, "it has entered"
        self.counters.received[phase][0] += deliveries

    def note_closed(self, data: bytes) -> None:
        """Count deliveries of events that end with their phase."""
        for phase in PHASES:
            if found := data.count(closing(phase)):
                self.note(phase, found)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from it
        self.transport.write(self.opening())

    def data_received(self, data: bytes) -> None:
        self.receive(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.joined.done():
            self.joined.set_exception(error or ConnectionError("closed by the server"))


async def gather_crowd(host: str, port: int, members: list[Member], counters: SharedCounters) -> None:
    """Connect all members, then set the ready counter."""
    loop, turn = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTING)

    async def enter(member: Member) -> None:
        member.counters = counters
        async with turn, asyncio.timeout(JOIN_S):
            await loop.create_connection(lambda: member, host, port)
            await member.joined

    async with asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(enter(member))
    counters.ready[0] = 1

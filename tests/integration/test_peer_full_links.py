"""Live peers behind a link of 1 Mbit/s that is offered more: control frames pass, and nobody is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import plait
from plait_peer.node import Node
from plait_peer.protocol.topology.children import Children
from plait_peer.protocol.topology.parents import Parents

PATIENCE_S = 60.0
BYTES_PER_S = 125_000
PIECE = 2048
PAYLOAD = bytes(1000)
EVENTS = 450
"""Four seconds of the link."""


class SlowRelay:
    """Carries each direction of a connection at a given rate, with small buffers."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.slow = False
        self.tasks: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        onward = socket.socket()
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            onward.setsockopt(socket.SOL_SOCKET, option, 8192)
        onward.setblocking(False)
        await asyncio.get_running_loop().sock_connect(onward, ("127.0.0.1", self.target))
        other_reader, other_writer = await asyncio.open_connection(sock=onward, limit=PIECE)
        try:
            await asyncio.gather(self._carry(reader, other_writer), self._carry(other_reader, writer))
        except asyncio.CancelledError:
            for each in (writer, other_writer):
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        free_at = loop.time()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(PIECE):
                if self.slow:
                    free_at = max(free_at, loop.time() - 0.05) + len(data) / BYTES_PER_S
                    await asyncio.sleep(free_at - loop.time())
                writer.write(data)
                await writer.drain()
        writer.close()


def server_of(client: plait.Client) -> object:
    return client._live  # type: ignore[attr-defined]


@asynccontextmanager
async def slow_pair() -> AsyncIterator[tuple[plait.Client, plait.Client, SlowRelay]]:
    """Open two peers. The second reaches the first through a relay."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    listening.bind(("127.0.0.1", 0))
    relay = SlowRelay(0)
    server = await asyncio.start_server(relay.accept, sock=listening, limit=PIECE)
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    async with server, plait.peer(advertise=address, timeout=PATIENCE_S) as one:
        relay.target = server_of(one)._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        async with plait.peer([address], timeout=PATIENCE_S) as two:
            yield one, two, relay
    for task in relay.tasks:
        task.cancel()
    await asyncio.gather(*relay.tasks)


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record why connections between peers end."""
    found: list[str] = []

    def watch(owner: type, name: str, reason: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            found.append(reason(*args))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    watch(Node, "_report_lost", lambda *_: "unreachable")
    watch(Parents, "leave", lambda _self, _peer, reason: reason)
    watch(Children, "drop", lambda _self, _peer, reason: reason)
    return found


async def test_a_full_link_keeps_its_peers_and_the_order_of_events(lost: list[str]) -> None:
    async with asyncio.timeout(PATIENCE_S), slow_pair() as (one, two, relay):
        node = server_of(one).node  # type: ignore[attr-defined]
        async with (
            two.subscribe("n >= 0") as events,
            one.subscribe("back = 1") as back,
            one.advertise("n >= 0"),
            two.advertise("back = 1"),
        ):
            await two.publish({"back": 1})
            assert (await back.next(timeout=PATIENCE_S))["back"] == 1
            relay.slow = True
            lost.clear()
            for n in range(EVENTS):
                await one.publish({"n": n}, PAYLOAD)
            await asyncio.sleep(1.0)
            waiting = max(link.size for link in node.links.values())
            assert waiting > BYTES_PER_S, "more than the buffers hold waits where control frames overtake it"
            received = [(await events.next(timeout=PATIENCE_S))["n"] for _ in range(EVENTS)]
            assert received == list(range(EVENTS))
            assert not {"silent", "unreachable"} & set(lost)

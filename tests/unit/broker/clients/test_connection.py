"""A broker's connection on the real event loop: writing never fails, even after the other end has gone."""

from __future__ import annotations

import asyncio

import uvloop

from plait_broker.clients.access import Caller
from plait_broker.outputs import ConnectionId
from plait_broker.server.tcp_connection import TcpConnection


class Driver:
    """A driver that accepts one connection and records when it is lost."""

    def __init__(self) -> None:
        self.connection: asyncio.Future[TcpConnection] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()

    def opened(self, connection: TcpConnection, caller: Caller) -> ConnectionId:
        self.connection.set_result(connection)
        return ConnectionId(1)

    def received(self, link: ConnectionId, data: bytes) -> None:
        pass

    def writable(self, link: ConnectionId, writable: bool) -> None:
        pass

    def lost(self, link: ConnectionId) -> None:
        self.gone.set()


async def broken_off() -> None:
    driver = Driver()
    server = await asyncio.get_running_loop().create_server(lambda: TcpConnection(driver, lambda: None), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        connection = await driver.connection
        connection.write([b"first"])
        connection.abort()
        connection.write([b"between the end and the news of it"])
        await driver.gone.wait()
        await asyncio.sleep(0)
        connection.write([b"after it"])
        writer.close()


def test_frames_for_a_closed_connection_are_ignored() -> None:
    uvloop.run(broken_off())

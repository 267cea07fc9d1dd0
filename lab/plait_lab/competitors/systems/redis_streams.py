"""Redis streams: an append-only file, a consumer group that acknowledges every event.

With `appendfsync everysec`, the default of the append-only file, an event is confirmed before it is on the disk. With
`always` it is confirmed after fsync, as with Plait. All events that wait are sent in one pipeline, as its users do for
throughput: the server then calls fsync once for them.
"""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any, ClassVar, Final

from ..contender import HOST, Contender, find_program, package_version, program_version, run_client
from ..listening import Listener
from ..paced_publishing import Arguments, PublishedStream, publish_confirmed
from ..quotes import Quote

STREAM: Final = "quotes"
GROUP: Final = "bench"
READ_MAX: Final = 1_000
"""Events that the subscriber reads and acknowledges at once."""


class RedisStreams(Contender):
    """redis-server with redis-py."""

    key = "redis"
    title = "Redis streams"
    modules: ClassVar[tuple[str, ...]] = ("redis",)
    programs: ClassVar[tuple[str, ...]] = ("redis-server",)
    terms: ClassVar[str] = "confirmed when written, not when on the disk: appendfsync everysec, its default"
    install: ClassVar[str] = "apt-get install --no-install-recommends redis-server; pip install redis"
    appendfsync: ClassVar[str] = "everysec"

    def versions(self) -> str:
        return f"{program_version('redis-server', '--version')} + {package_version('redis')}"

    def command(self, port: int, place: Path) -> list[str]:
        program = find_program("redis-server")
        assert program is not None
        options = {
            "port": str(port),
            "bind": HOST,
            "dir": str(place),
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "save": "",
        }
        return [program, *(text for name, value in options.items() for text in (f"--{name}", value))]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            client, receive = self._client(port), listener.receive
            await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
            listener.subscribed()
            while True:
                for _, entries in await client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=READ_MAX, block=1_000):
                    for _, fields in entries:
                        receive(fields[b"event"])
                    await client.xack(STREAM, GROUP, *(id for id, _ in entries))

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            async with _Pipeline(self._client(port)) as pipeline:
                await publish_confirmed(stream, pipeline.publish)

        run_client(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return (event.body(stamp),)

    def _client(self, port: int) -> Any:
        return importlib.import_module("redis.asyncio").Redis(host=HOST, port=port)


class RedisStreamsSynced(RedisStreams):
    """Redis that calls fsync before it confirms."""

    key = "redis-synced"
    title = "Redis streams, appendfsync always"
    terms: ClassVar[str] = "confirmed when it is on the disk: fsync for each pipeline"
    appendfsync: ClassVar[str] = "always"


class _Pipeline:
    """Sends the events that wait in one round trip, and then those that came meanwhile."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._came = asyncio.Event()
        self._sending = asyncio.create_task(self._send())

    async def __aenter__(self) -> _Pipeline:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._sending.cancel()
        await self._client.aclose()

    async def publish(self, body: bytes) -> None:
        """Publish an event. Return when it is confirmed."""
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, confirmed))
        self._came.set()
        await confirmed

    async def _send(self) -> None:
        while await self._came.wait():
            sent, self._waiting = self._waiting, []
            self._came.clear()
            pipeline = self._client.pipeline(transaction=False)
            for body, _ in sent:
                pipeline.xadd(STREAM, {"event": body})
            await pipeline.execute()
            for _, confirmed in sent:
                confirmed.set_result(None)

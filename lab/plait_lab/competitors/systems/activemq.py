"""ActiveMQ with JMS selectors: the only packaged broker with real content filters.

Attributes are STOMP headers, which its selectors read. A bare STOMP client costs less than the usual Python ones, so
slowness here is not Python's. Numbers in a selector need a decimal point where the header has one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, cast
from zipfile import ZipFile

from ..contender import HOST, Contender, Selects, find_program, program_version, run_client
from ..listening import Listener
from ..many_subscribers import Member
from ..paced_publishing import Arguments, PublishedStream, publish_all
from ..quotes import Quote, QuoteFilter
from ..stamps import STAMP_BYTES, closing, phase_of

HOME: Final = Path("/usr/share/activemq")
TOPIC: Final = "/topic/quotes"
EVERYTHING: Final = "symbol LIKE 'S%' AND price >= 0.0 AND price < 1000.0 AND volume >= 100"
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:bench\nheart-beat:0,0\n\n\0"
PREFETCH: Final = 30_000


class ActiveMq(Contender):
    """ActiveMQ with selectors, over STOMP."""

    key = "activemq"
    title = "ActiveMQ selectors + STOMP"
    programs: ClassVar[tuple[str, ...]] = ("java",)
    terms: ClassVar[str] = "topic without persistence, acknowledged by itself; its server selects by JMS selectors"
    install: ClassVar[str] = "apt-get install --no-install-recommends activemq default-jre-headless"
    selects: ClassVar[Selects] = "content"

    def versions(self) -> str:
        with ZipFile(next((HOME / "lib").glob("activemq-broker*.jar"))) as jar:
            printed = re.search(rb"Implementation-Version: (\S+)", jar.read("META-INF/MANIFEST.MF"))
        version = printed[1].decode() if printed else "(of unknown version)"
        return f"activemq {version} on {program_version('java', '-version')} + a bare STOMP client"

    def missing(self) -> str | None:
        found = super().missing()
        return found or (None if (HOME / "bin/activemq.jar").exists() else f"no ActiveMQ in {HOME}")

    def command(self, port: int, place: Path) -> list[str]:
        java = find_program("java")
        assert java is not None
        settings = f"broker:(stomp+nio://{HOST}:{port})?persistent=false&useJmx=false"
        folders = [f"-Dactivemq.home={HOME}", f"-Dactivemq.base={place}", f"-Djava.io.tmpdir={place}"]
        return [
            java,
            "-Xmx1g",
            "-Djava.awt.headless=true",
            *folders,
            "-jar",
            f"{HOME}/bin/activemq.jar",
            "start",
            settings,
        ]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            _, reader = await loop.create_connection(lambda: _Reader(listener), HOST, port)
            await reader.lost.wait()

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(CONNECT)

            async def publish(frame: bytes) -> None:
                writer.write(frame)
                await writer.drain()

            await publish_all(stream, publish)
            writer.close()

        run_client(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        headers = f"symbol:{event.symbol}\nprice:{event.price}\nvolume:{event.volume}"
        body = event.printable(stamp.hex().encode(), len(event.filler) - len(headers) - 1) + closing(phase_of(stamp))
        return (f"SEND\ndestination:{TOPIC}\n{headers}\n\n".encode() + body + b"\0",)

    def member(self, interests: list[QuoteFilter]) -> Member:
        return _StompMember(interests)


def _subscribe(id: int, selector: str, receipt: str = "") -> bytes:
    receipt_line = f"receipt:{receipt}\n" if receipt else ""
    escaped = selector.replace(":", "\\c")
    return (
        f"SUBSCRIBE\nid:{id}\ndestination:{TOPIC}\nack:auto\nactivemq.prefetchSize:{PREFETCH}\n"
        f"selector:{escaped}\n{receipt_line}\n\0"
    ).encode()


class _Reader(asyncio.Protocol):
    """Passes the body of every message to the listener."""

    def __init__(self, listener: Listener) -> None:
        self.lost = asyncio.Event()
        self._listener = listener
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(CONNECT + _subscribe(1, EVERYTHING, "stands"))

    def data_received(self, data: bytes) -> None:
        *frames, self._rest = (self._rest + data).split(b"\0")
        receive = self._listener.receive
        for frame in frames:
            head, _, body = frame.partition(b"\n\n")
            if not head.lstrip().startswith(b"MESSAGE"):
                self._other(head)
            else:
                receive(bytes.fromhex(body[: 2 * STAMP_BYTES].decode()))

    def _other(self, head: bytes) -> None:
        if b"RECEIPT" in head:
            self._listener.subscribed()
        assert b"ERROR" not in head, head.decode(errors="replace")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


class _StompMember(Member):
    def __init__(self, interests: Sequence[QuoteFilter]) -> None:
        super().__init__()
        self._interests = interests

    def opening(self) -> bytes:
        last = len(self._interests)
        subscriptions = [
            _subscribe(id, interest.selector, "stands" if id == last else "")
            for id, interest in enumerate(self._interests, 1)
        ]
        return CONNECT + b"".join(subscriptions)

    def receive(self, data: bytes) -> None:
        if self.joined.done():
            self.note_closed(data)
        elif (b"receipt-id:stands" if self._interests else b"CONNECTED") in data:
            self.join()  # nothing is published before all members have joined

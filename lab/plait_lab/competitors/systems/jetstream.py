"""JetStream, the durable streams of NATS: a stream in a file, a durable consumer that acknowledges every event.

By default its server confirms an event before it is on the disk, and calls fsync every two minutes. With
`sync_interval: always` it confirms after fsync, as Plait does.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any, ClassVar, Final

from ..contender import Selects, run_client
from ..listening import Listener
from ..paced_publishing import PublishedStream, publish_confirmed
from .nats import SUBJECT, Nats

STREAM: Final = "QUOTES"
DURABLE: Final = "bench"
UNACKNOWLEDGED_MAX: Final = 10_000
"""Events that its consumer may have unacknowledged: more than the harness has in flight."""


class JetStream(Nats):
    """nats-server with JetStream on, and nats-py."""

    key = "jetstream"
    title = "JetStream"
    terms: ClassVar[str] = "confirmed when written, not when on the disk: fsync every two minutes, its default"
    selects: ClassVar[Selects] = None
    sync_interval: ClassVar[str] = ""

    def command(self, port: int, place: Path) -> list[str]:
        settings = [f"store_dir: {json.dumps(str(place / 'jetstream'))}"]
        if self.sync_interval:
            settings.append(f"sync_interval: {self.sync_interval}")
        file = place / "nats.conf"
        file.write_text("jetstream {\n" + "\n".join(settings) + "\n}\n", encoding="utf-8")
        return [*super().command(port, place), "--config", str(file)]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            client = await self._connect(port)
            stream, receive = client.jetstream(), listener.receive
            await stream.add_stream(name=STREAM, subjects=[SUBJECT])

            async def on_message(message: Any) -> None:
                receive(message.data)
                await message.ack()

            api = importlib.import_module("nats.js.api")
            terms = api.ConsumerConfig(max_ack_pending=UNACKNOWLEDGED_MAX)
            await stream.subscribe(SUBJECT, durable=DURABLE, cb=on_message, manual_ack=True, config=terms)
            listener.subscribed()
            await asyncio.Event().wait()

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            client = await self._connect(port)
            await publish_confirmed(stream, client.jetstream().publish)
            await client.close()

        run_client(main())


class JetStreamSynced(JetStream):
    """JetStream that calls fsync before it confirms."""

    key = "jetstream-synced"
    title = "JetStream, sync_interval: always"
    terms: ClassVar[str] = "confirmed when it is on the disk: fsync for each event"
    sync_interval: ClassVar[str] = "always"

"""MQTT: mosquitto and aiomqtt, at QoS 0, with small packets sent at once and no bound on what waits."""

from __future__ import annotations

import getpass
import importlib
from pathlib import Path
from typing import Any, ClassVar

from .contender import HOST, Contender, Listener, find_program, run
from .publishing import Arguments, Stream, publish_all
from .quotes import Quote

TOPIC = "quotes"


class Mosquitto(Contender):
    """mosquitto with aiomqtt."""

    key = "mosquitto"
    title = "mosquitto + aiomqtt"
    modules: ClassVar[tuple[str, ...]] = ("aiomqtt",)
    programs: ClassVar[tuple[str, ...]] = ("mosquitto",)

    def command(self, port: int, place: Path) -> list[str]:
        program = find_program("mosquitto")
        assert program is not None
        lines = [
            f"listener {port} {HOST}",
            "allow_anonymous true",
            "persistence false",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            "log_type error",
            f"user {getpass.getuser()}",
        ]
        settings = place / "mosquitto.conf"
        settings.write_text("\n".join(lines) + "\n", encoding="ascii")
        return [program, "-c", str(settings)]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            heard = listener.heard
            async with self._client(port) as client:
                await client.subscribe(TOPIC)
                listener.subscribed()
                async for message in client.messages:
                    heard(message.payload)

        run(main())

    def publish(self, port: int, stream: Stream) -> None:
        async def main() -> None:
            async with self._client(port) as client:
                await publish_all(stream, client.publish)

        run(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return TOPIC, event.body(stamp)

    def _client(self, port: int) -> Any:
        return importlib.import_module("aiomqtt").Client(HOST, port)

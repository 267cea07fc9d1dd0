"""MQTT: mosquitto and aiomqtt, at QoS 0, with small packets sent at once and unbounded queues."""

from __future__ import annotations

import getpass
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ..contender import HOST, Contender, Selects, find_program, package_version, program_version, run_client
from ..listening import Listener
from ..many_subscribers import Member
from ..paced_publishing import Arguments, PublishedStream, publish_all
from ..quotes import Quote, QuoteFilter, same_topic
from ..stamps import phase_of

TOPIC = "quotes"
CONNECT: Final = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00"
"""MQTT 3.1.1: a clean session, no keep-alive, a client id chosen by the server."""
CONNACK: Final = b"\x20\x02"
SUBACK: Final = b"\x90"
"""The first byte of the packet; no other before the first event has it."""


class Mosquitto(Contender):
    """mosquitto with aiomqtt."""

    key = "mosquitto"
    title = "mosquitto + aiomqtt"
    modules: ClassVar[tuple[str, ...]] = ("aiomqtt",)
    programs: ClassVar[tuple[str, ...]] = ("mosquitto",)
    terms: ClassVar[str] = "QoS 0, nothing kept; its server selects by topic, one for each symbol and price bucket"
    install: ClassVar[str] = "apt-get install --no-install-recommends mosquitto; pip install aiomqtt"
    selects: ClassVar[Selects] = "topics"

    def versions(self) -> str:
        return f"{program_version('mosquitto', '-h')} + {package_version('aiomqtt', 'paho-mqtt')}"

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
            receive = listener.receive
            async with self._client(port) as client:
                await client.subscribe(TOPIC)
                listener.subscribed()
                async for message in client.messages:
                    receive(message.payload)

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            async with self._client(port) as client:
                await publish_all(stream, client.publish)

        run_client(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return TOPIC, event.body(stamp)

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return _topic(event.topic), event.text(phase_of(stamp))

    def member(self, interests: list[QuoteFilter]) -> Member:
        return _MqttMember(interests)

    def deliveries(self, events: list[Quote], interests: list[QuoteFilter]) -> list[int]:
        return same_topic(events, interests)

    def _client(self, port: int) -> Any:
        return importlib.import_module("aiomqtt").Client(HOST, port)


class _MqttMember(Member):
    def __init__(self, interests: Sequence[QuoteFilter]) -> None:
        super().__init__()
        topics = [_topic(topic).encode() for interest in interests for topic in interest.topics]
        assert len(set(topics)) == len(topics), "MQTT delivers overlapping interests of one client once"
        self._topics = topics

    def opening(self) -> bytes:
        if not self._topics:
            return CONNECT
        body = b"\x00\x01" + b"".join(len(topic).to_bytes(2, "big") + topic + b"\x00" for topic in self._topics)
        return CONNECT + b"\x82" + _length(len(body)) + body

    def receive(self, data: bytes) -> None:
        if self.joined.done():
            self.note_closed(data)
        elif (SUBACK if self._topics else CONNACK) in data:
            self.join()  # nothing is published before all members have joined


def _topic(topic: tuple[str, int]) -> str:
    symbol, hundreds = topic
    return f"{TOPIC}/{symbol}/{hundreds}"


def _length(count: int) -> bytes:
    """Return MQTT's encoding of a packet's remaining length: seven bits a byte, the lowest first."""
    low, high = count & 0x7F, count >> 7
    return bytes((low | 0x80,)) + _length(high) if high else bytes((low,))

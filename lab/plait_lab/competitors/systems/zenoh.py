"""Zenoh through a router: a session in router mode is the server; clients connect to it only."""

from __future__ import annotations

import importlib
import json
import signal
from pathlib import Path
from typing import Any, ClassVar

from ..child_command import server_command
from ..contender import HOST, Contender, package_version
from ..listening import Listener
from ..paced_publishing import Arguments, PublishedStream, publish_all_blocking
from ..quotes import Quote, QuoteFilter
from ..shared_counters import SharedCounters

KEY = "quotes"


class Zenoh(Contender):
    """eclipse-zenoh on both sides."""

    key = "zenoh"
    title = "Zenoh router + eclipse-zenoh"
    modules: ClassVar[tuple[str, ...]] = ("zenoh",)
    terms: ClassVar[str] = (
        "a publisher that blocks rather than drops; large payloads through shared memory, its default;"
        " no crowd: only its own library implements its wire protocol"
    )

    install: ClassVar[str] = "pip install eclipse-zenoh"

    def versions(self) -> str:
        return package_version("eclipse-zenoh")

    def command(self, port: int, place: Path) -> list[str]:
        return server_command(self.key, port)

    def serve(self, port: int) -> None:
        with self.session("router", {"listen/endpoints": [f"tcp/{HOST}:{port}"]}):
            signal.pause()

    def subscribe(self, port: int, listener: Listener) -> None:
        receive = listener.receive
        with self._client(port) as session:
            session.declare_subscriber(KEY, lambda sample: receive(sample.payload.to_bytes()))
            listener.subscribed()
            signal.pause()

    def stand(self, port: int, interests: list[QuoteFilter], installed: SharedCounters) -> None:
        topics = [topic for interest in interests for topic in interest.topics]
        with self._client(port) as session:
            for symbol, hundreds in topics:
                session.declare_subscriber(f"{KEY}/{symbol}/{hundreds}", lambda sample: None)
            installed.ready[0] = 1
            signal.pause()

    def publish(self, port: int, stream: PublishedStream) -> None:
        zenoh = importlib.import_module("zenoh")
        with self._client(port) as session:
            publisher = session.declare_publisher(KEY, congestion_control=zenoh.CongestionControl.BLOCK)
            publish_all_blocking(stream, publisher.put)

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return (event.body(stamp),)

    def _client(self, port: int) -> Any:
        return self.session("client", {"connect/endpoints": [f"tcp/{HOST}:{port}"]})

    def session(self, mode: str, settings: dict[str, list[str]]) -> Any:
        """Open a session; in router mode it serves."""
        zenoh = importlib.import_module("zenoh")
        config = zenoh.Config()
        config.insert_json5("mode", json.dumps(mode))
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("scouting/gossip/enabled", "false")
        if mode == "client":
            config.insert_json5("listen/endpoints", "[]")
        for key, value in settings.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)

"""Plait: its broker and its SDK, as users run them. Every subscription is a content filter.

A crowd uses the bare wire protocol, as for the other systems, and decodes every deliver frame to count it.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import plait
from plait_core import index_name
from plait_core.ids import new_id
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    VERSION_MIN,
    Deliver,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_frame,
)
from plait_core.wire.frame_types.session_frames import Done, Failed, Subscribe

from ..contender import HOST, Contender, Selects, package_version, run_client
from ..listening import Listener
from ..many_subscribers import Member
from ..paced_publishing import Arguments, PublishedStream, publish_all, publish_confirmed
from ..quotes import EVERYTHING, Quote, QuoteFilter
from ..stamps import phase_of


class Plait(Contender):
    """The broker as installed."""

    key = "plait"
    title = "Plait"
    terms: ClassVar[str] = "at most once unless durable; its broker selects by content, every subscription is a filter"
    install: ClassVar[str] = "make setup"
    selects: ClassVar[Selects] = "content"

    def versions(self) -> str:
        return f"{package_version('plait-broker', 'plait')}, {index_name()} index"

    def command(self, port: int, place: Path) -> list[str]:
        return [sys.executable, "-m", "plait_broker", *broker_options(port)]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            receive = listener.receive
            async with plait.connect(f"plait://{HOST}:{port}") as client, client.subscribe(EVERYTHING) as events:
                listener.subscribed()
                async for event in events:
                    receive(event.payload)

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            async with plait.connect(f"plait://{HOST}:{port}") as client:
                await publish_all(stream, client.publish)

        run_client(main())

    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        return event.attributes, event.payload(stamp)

    def churn(self, port: int, interests: Iterator[QuoteFilter], live: int, count: Callable[[], None]) -> None:
        async def main() -> None:
            held: deque[plait.Subscription[plait.Event]] = deque()
            async with plait.connect(f"plait://{HOST}:{port}") as client:
                for interest in interests:
                    held.append(await client.subscribe(interest.filter))
                    if len(held) > live:
                        await held.popleft().close()
                        count()

        run_client(main())

    def member(self, interests: list[QuoteFilter]) -> Member:
        return PlaitMember([interest.filter for interest in interests])


class PlaitInPython(Plait):
    """The broker without the native kernel."""

    key = "plait-python"
    title = "Plait, Python index"

    def command(self, port: int, place: Path) -> list[str]:
        return ["env", "PLAIT_NATIVE=off", *super().command(port, place)]


class PlaitReporting(Plait):
    """A broker whose clients report a hundred times a second, in place of once."""

    key = "plait-reporting"
    title = "Plait, 100 reports a second"
    interval_s: ClassVar[float] = 0.01

    def command(self, port: int, place: Path) -> list[str]:
        program = [sys.executable, "-m", "plait_lab.competitors.systems.reporting_broker", f"{self.interval_s:g}"]
        return [*program, *broker_options(port)]


class PlaitSilent(PlaitReporting):
    """A broker whose clients report nothing."""

    key = "plait-silent"
    title = "Plait, no reports"
    interval_s: ClassVar[float] = 0.0


class PlaitObserved(Plait):
    """The broker with telemetry that records every event."""

    key = "plait-observed"
    title = "Plait, with telemetry"

    def command(self, port: int, place: Path) -> list[str]:
        everything = "PLAIT_BROKER__TELEMETRY__RECORDS_PER_S_MAX=1000000000"
        return ["env", everything, *super().command(port, place), "--telemetry", str(place / "telemetry")]


class PlaitDurable(Plait):
    """The broker with a log, a durable subscriber, and a publisher that requests confirmation of every event.

    The publisher counts its confirmations in the first slot of the counters; the subscriber has the second.
    """

    key = "plait-durable"
    title = "Plait, durable"
    terms: ClassVar[str] = "confirmed when it is on the disk: fsync, with group commit"

    def command(self, port: int, place: Path) -> list[str]:
        return [*super().command(port, place), "--data", str(place / "data")]

    def subscribe(self, port: int, listener: Listener) -> None:
        async def main() -> None:
            receive, url = listener.receive, f"plait://{HOST}:{port}"
            async with plait.connect(url) as client, client.subscribe(EVERYTHING, durable="bench") as events:
                listener.subscribed()
                async for event in events:
                    receive(event.payload)

        run_client(main())

    def publish(self, port: int, stream: PublishedStream) -> None:
        async def main() -> None:
            async with plait.connect(f"plait://{HOST}:{port}") as client:
                await publish_confirmed(stream, partial(client.publish, confirm="broker"))

        run_client(main())


def broker_options(port: int) -> list[str]:
    """Return the options of a broker that only listens."""
    return ["--listen", f"{HOST}:{port}", "--http", "off", "--log-level", "warning"]


class PlaitMember(Member):
    """A bare client: sends hello, subscribes, answers pings, counts deliveries."""

    def __init__(self, filters: list[str]) -> None:
        super().__init__()
        self._filters = filters
        self._decoder = FrameDecoder()
        self._unanswered = 0

    def opening(self) -> bytes:
        id = new_id(random.SystemRandom())
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, f"crowd-{id}", id)
        return encode_frame(hello, HANDSHAKE_VERSION)

    def receive(self, data: bytes) -> None:
        self._decoder.feed(data)
        while frames := self._decoder.take():
            for frame in frames:
                if type(frame) is Deliver:
                    self.note(phase_of(frame.payload), len(frame.deliveries))
                else:
                    self._control(frame)

    def _control(self, frame: Frame) -> None:
        match frame:
            case Welcome(version=version):
                self._decoder.establish(version)
                self._subscribe(version)
            case Done():
                self._unanswered -= 1
                if not self._unanswered:
                    self.join()
            case Ping(nonce=nonce):
                self.transport.write(encode_frame(Pong(nonce), VERSION_MAX))
            case Failed(message=message):
                self.joined.set_exception(RuntimeError(message))
            case _:
                pass

    def _subscribe(self, version: int) -> None:
        self._unanswered = len(self._filters)
        frames = (Subscribe(number, number, filter) for number, filter in enumerate(self._filters, 1))
        self.transport.write(b"".join(encode_frame(frame, version) for frame in frames))
        if not self._filters:
            self.join()

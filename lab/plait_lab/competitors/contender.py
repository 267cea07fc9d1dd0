"""The interface of a contender.

An adapter starts the server and uses the system's own Python client to publish and subscribe. Schedules, counting,
clocks and processes are the same for all.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

from .listening import Listener
from .many_subscribers import Member, gather_crowd
from .paced_publishing import Arguments, PublishedStream
from .quotes import Quote, QuoteFilter, matches
from .shared_counters import SharedCounters

HOST: Final = "127.0.0.1"
VERSION_TIMEOUT_S: Final = 20
"""Timeout for a program to print its version."""
Selects: TypeAlias = Literal["content", "topics"] | None


class Contender(ABC):
    """A broker with its usual Python client."""

    key: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """Python modules that it needs."""
    programs: ClassVar[tuple[str, ...]] = ()
    terms: ClassVar[str]
    """The delivery guarantee and the selection it is measured with."""
    install: ClassVar[str]
    """The command that installs what it needs."""
    selects: ClassVar[Selects] = None
    """The selection that its server offers a crowd of subscribers, or None if no crowd is measured."""

    def missing(self) -> str | None:
        """Return what is not installed here, or None."""
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return f"no Python module {module}"
        for program in self.programs:
            if find_program(program) is None:
                return f"no program {program}"
        return None

    @abstractmethod
    def versions(self) -> str:
        """Return the versions of server and client. Called only if nothing is missing."""

    @abstractmethod
    def command(self, port: int, place: Path) -> list[str]:
        """Return the command of its server, listening on this loopback port; `place` is an empty folder."""

    def serve(self, port: int) -> None:
        """Run a server that is a Python process, until it is killed."""
        raise NotImplementedError(f"{self.key} has a program for that")

    @abstractmethod
    def subscribe(self, port: int, listener: Listener) -> None:
        """Subscribe to every event and listen until killed."""

    @abstractmethod
    def publish(self, port: int, stream: PublishedStream) -> None:
        """Publish the events of the stream."""

    @abstractmethod
    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """Return the arguments of its client's publish call for an event with this stamp."""

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """Return the publish arguments for a crowd, if they differ."""
        return self.arguments(event, stamp)

    def subscriber_port(self, port: int) -> int:
        """Return the port for subscribers."""
        return port

    def member(self, interests: list[QuoteFilter]) -> Member:
        """Return one connection of a crowd with these interests."""
        raise NotImplementedError(f"no crowd for {self.key}")

    def stand(self, port: int, interests: list[QuoteFilter], installed: SharedCounters) -> None:
        """Install the interests of another client, which no event matches, and keep them until killed."""

        async def main() -> None:
            await gather_crowd(HOST, self.subscriber_port(port), [self.member(interests)], installed)
            await asyncio.Event().wait()

        run_client(main())

    def churn(self, port: int, interests: Iterator[QuoteFilter], live: int, count: Callable[[], None]) -> None:
        """Subscribe to one interest after another, `live` at a time, and call `count` for each that was closed."""
        raise NotImplementedError(f"no churn for {self.key}")

    def deliveries(self, events: list[Quote], interests: list[QuoteFilter]) -> list[int]:
        """Return for each event how often its server will send it to a crowd."""
        return matches(events, interests)


def find_program(name: str) -> str | None:
    """Find a program beside this Python, on the path, or in /usr/sbin."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=places)


def package_version(*names: str) -> str:
    """Return Python packages with their versions."""
    return " + ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def program_version(name: str, option: str) -> str:
    """Return a program with its version."""
    path = find_program(name)
    assert path is not None, "nothing is missing"
    printed = subprocess.run([path, option], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False)
    found = re.search(r"\d+(\.\d+)+", printed.stdout + printed.stderr)
    return f"{name} {found[0] if found else '(of unknown version)'}"


def run_client(main: Coroutine[Any, Any, None]) -> None:
    """Run a client on the event loop that all asyncio contenders use."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if it is installed, unless PLAIT_BENCH_LOOP=asyncio."""
    if os.environ.get("PLAIT_BENCH_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def loop_name() -> str:
    """Return the name of the clients' event loop."""
    return "asyncio" if loop_factory() is None else "uvloop"

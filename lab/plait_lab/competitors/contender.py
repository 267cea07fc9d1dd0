"""What the harness asks of a contender.

An adapter says how its server is started and how its own Python client publishes and subscribes; everything else
(schedules, counting, clocks, processes) is the same for all.
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
from .many_subscribers import Member
from .paced_publishing import Arguments, PublishedStream
from .quotes import Quote, QuoteFilter, matches

HOST: Final = "127.0.0.1"
TELL_S: Final = 20
"""For a program to tell its version."""
Selects: TypeAlias = Literal["content", "topics"] | None


class Contender(ABC):
    """A broker with its usual Python client."""

    key: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """Python modules that it needs."""
    programs: ClassVar[tuple[str, ...]] = ()
    terms: ClassVar[str]
    """On what terms it is measured: what it promises to deliver, and who selects."""
    selects: ClassVar[Selects] = None
    """What its server can select by for a crowd of subscribers; None where no crowd is measured."""

    def missing(self) -> str | None:
        """What is not installed here; None when all is."""
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return f"no Python module {module}"
        for program in self.programs:
            if find_program(program) is None:
                return f"no program {program}"
        return None

    @abstractmethod
    def versions(self) -> str:
        """Of its server and its client, for people; asked for when nothing is missing."""

    @abstractmethod
    def command(self, port: int, place: Path) -> list[str]:
        """What starts its server, listening on this port of the loopback; `place` is an empty folder."""

    def serve(self, port: int) -> None:
        """For a server that is a Python process: serves until it is killed."""
        raise NotImplementedError(f"{self.key} has a program for that")

    @abstractmethod
    def subscribe(self, port: int, listener: Listener) -> None:
        """Subscribes to every event, and listens until it is killed."""

    @abstractmethod
    def publish(self, port: int, stream: PublishedStream) -> None:
        """Publishes what the stream says."""

    @abstractmethod
    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """Of its client's publish call, for an event with this stamp."""

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """The same, where they differ for a crowd."""
        return self.arguments(event, stamp)

    def door(self, port: int) -> int:
        """The port that subscribers come to."""
        return port

    def member(self, interests: list[QuoteFilter]) -> Member:
        """One connection of a crowd, with these interests."""
        raise NotImplementedError(f"no crowd for {self.key}")

    def churn(self, port: int, interests: Iterator[QuoteFilter], live: int, count: Callable[[], None]) -> None:
        """Subscribes to one interest after another, `live` at a time, and counts each that has gone again."""
        raise NotImplementedError(f"no churn for {self.key}")

    def deliveries(self, events: list[Quote], interests: list[QuoteFilter]) -> list[int]:
        """For each event, how often its server will send it to a crowd."""
        return matches(events, interests)


def find_program(name: str) -> str | None:
    """Beside this Python, on the path, or where a system keeps its servers."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=places)


def package_version(*names: str) -> str:
    """Python packages with their versions."""
    return " + ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def program_version(name: str, option: str) -> str:
    """A program with the version that it tells."""
    path = find_program(name)
    assert path is not None, "nothing is missing"
    told = subprocess.run([path, option], capture_output=True, text=True, timeout=TELL_S, check=False)
    found = re.search(r"\d+(\.\d+)+", told.stdout + told.stderr)
    return f"{name} {found[0] if found else '(of unknown version)'}"


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a client on the event loop that all asyncio contenders are measured with."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed, unless PLAIT_BENCH_LOOP=asyncio."""
    if os.environ.get("PLAIT_BENCH_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def loop_name() -> str:
    """The event loop that clients run on, for people."""
    return "asyncio" if loop_factory() is None else "uvloop"

"""What the harness asks of a contender, and what it gives to a contender's subscribers.

An adapter says how its server is started and how its own Python client publishes and subscribes; everything else
(schedules, counting, clocks, processes) is the same for all.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

from .board import Board
from .crowd import Member
from .publishing import Arguments, Stream
from .quotes import Interest, Quote, age_ns, matches

HOST: Final = "127.0.0.1"
Heard: TypeAlias = Callable[[bytes], None]
Selects: TypeAlias = Literal["content", "topics"] | None


class Listener:
    """One subscriber's place on the board."""

    def __init__(self, board: Board, slot: int, *, measure: bool) -> None:
        self._board = board
        self._slot = slot
        self.wants_stamps = measure
        """Whether it looks at what it is given."""
        self.heard: Heard = self._measure() if measure else self._count()
        """To be called with the bytes of every event, its stamp first."""

    def subscribed(self) -> None:
        """Events may come from now on."""
        self._board.ready[self._slot] = 1

    def _count(self) -> Heard:
        counts, slot, count = self._board.counts, self._slot, 0

        def heard(data: bytes) -> None:
            nonlocal count
            count += 1
            counts[slot] = count

        return heard

    def _measure(self) -> Heard:
        counts, slot, count = self._board.counts, self._slot, 0
        delays = self._board.delays(slot)
        room = len(delays)

        def heard(data: bytes) -> None:
            nonlocal count
            if count < room:
                delays[count] = age_ns(data)
            count += 1
            counts[slot] = count

        return heard


class Contender(ABC):
    """A broker with its usual Python client."""

    key: ClassVar[str]
    title: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """Python modules that it needs."""
    programs: ClassVar[tuple[str, ...]] = ()
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
    def command(self, port: int, place: Path) -> list[str]:
        """What starts its server, listening on this port of the loopback; `place` is an empty folder."""

    def serve(self, port: int) -> None:
        """For a server that is a Python process: serves until it is killed."""
        raise NotImplementedError(f"{self.key} has a program for that")

    @abstractmethod
    def subscribe(self, port: int, listener: Listener) -> None:
        """Subscribes to every event, and listens until it is killed."""

    @abstractmethod
    def publish(self, port: int, stream: Stream) -> None:
        """Publishes what the stream says."""

    @abstractmethod
    def arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """Of its client's publish call, for an event with this stamp."""

    def crowd_arguments(self, event: Quote, stamp: bytes) -> Arguments:
        """The same, where they differ for a crowd."""
        return self.arguments(event, stamp)

    def member(self, interests: list[Interest]) -> Member:
        """One connection of a crowd, with these interests."""
        raise NotImplementedError(f"no crowd for {self.key}")

    def churn(self, port: int, interests: Iterator[Interest], live: int, count: Callable[[], None]) -> None:
        """Subscribes to one interest after another, `live` at a time, and counts each that has gone again."""
        raise NotImplementedError(f"no churn for {self.key}")

    def deliveries(self, events: list[Quote], interests: list[Interest]) -> list[int]:
        """For each event, how often its server will send it to a crowd."""
        return matches(events, interests)


def find_program(name: str) -> str | None:
    """Beside this Python, on the path, or where a system keeps its servers."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=places)


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

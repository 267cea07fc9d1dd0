"""Twenty live peers, a process each: how soon they are a tree, whether all hear everything, and what a death costs.

As a program it is a subscriber: `python -m plait_lab.benchmarks.measurement.twenty_peers ADDRESS`. It says `open`, and
then answers, line by line, what it is asked: to how many it passes events on, and which events of a range it lacks or
has heard twice.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import plait

from ...failures import NothingMeasured

SUBSCRIBERS: Final = 19
CHILDREN: Final = 3
"""So few that somebody is in between."""
EVENT_BYTES: Final = 128
TICK_S: Final = 0.005
"""Events are published together for so long: a loop that is woken for each would measure itself."""
CONFIRMING: Final = 64
"""Events that wait for confirmation at a time."""
PATIENCE_S: Final = 60.0
SETTLE_S: Final = 3.0
"""After the last event, for what is still on its way."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Of one group's life."""

    cold_s: float
    """From the start of the first process until all were subscribed."""
    lost: int
    twice: int
    killed_s: float
    """From the death of a peer in between until the last event that somebody alive did not hear was published."""
    stopped_s: float
    """The same for one that was stopped: its connections stay open."""
    confirmed: int
    confirmed_lost: int
    """Of the events that were confirmed while a peer in between was killed, those that somebody alive has not heard."""


class Hearing:
    """One subscriber's process, from outside."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def ask(self, *words: object) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        return json.loads(await self.line())

    async def line(self) -> str:
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)
        except TimeoutError:
            raise NothingMeasured(f"a subscriber did not answer within {PATIENCE_S:g} s") from None
        if not line:
            raise NothingMeasured("a subscriber ended before its time")
        return line.decode()

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class TwentyPeers:
    """A publisher here, and the others."""

    def __init__(self, client: plait.Client, hearing: list[Hearing]) -> None:
        self.client = client
        self.hearing = hearing
        self.published_at: list[float] = []

    async def publish(self, seconds: float, rate: float) -> range:
        """At this rate, for so long; the events' numbers."""
        first, begin = len(self.published_at), time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            due = int((now - begin) * rate)
            while len(self.published_at) - first < due:
                await self._say("none")
            await asyncio.sleep(TICK_S)
        return range(first, len(self.published_at))

    async def _say(self, confirm: Any) -> bool:
        number = len(self.published_at)
        self.published_at.append(time.monotonic())
        try:
            await self.client.publish({"n": number}, bytes(EVENT_BYTES - 16), confirm=confirm, timeout=PATIENCE_S)
        except (plait.Refused, plait.Timeout):
            return False
        return True

    async def confirm(self, count: int) -> set[int]:
        """So many events with confirmation; those that were confirmed."""
        places, confirmed = asyncio.Semaphore(CONFIRMING), set[int]()

        async def one() -> None:
            async with places:
                number = len(self.published_at)
                if await self._say("subscribers"):
                    confirmed.add(number)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one())
        return confirmed

    async def lacking(self, events: range) -> tuple[dict[int, int], int]:
        """Events that somebody alive has not heard, with how many have not; and how often one was heard twice."""
        said = await asyncio.gather(*[each.ask("lacks", events.start, events.stop) for each in self.hearing])
        lacking: Counter[int] = Counter()
        for each in said:
            lacking.update(each["lacking"])
        return dict(lacking), sum(each["twice"] for each in said)

    async def heard_by_all(self, events: range) -> tuple[dict[int, int], int]:
        """The same, when nothing comes any more."""
        until = time.monotonic() + SETTLE_S
        while True:
            lacking, twice = await self.lacking(events)
            if not lacking or time.monotonic() > until:
                return lacking, twice
            await asyncio.sleep(0.2)

    async def lose(self, how: signal.Signals) -> float:
        """Whoever passes events on to most is gone; when."""
        counts = await asyncio.gather(*[each.ask("children") for each in self.hearing])
        if not max(counts):
            raise NothingMeasured("no subscriber forwards events, so none can fail")
        os.kill(self.hearing.pop(counts.index(max(counts))).process.pid, how)
        return time.monotonic()

    async def healed(self, how: signal.Signals, seconds: float, rate: float) -> tuple[float, int]:
        """One in between goes while events are published: how long somebody lacked some; how many came twice."""
        publishing = asyncio.create_task(self.publish(seconds, rate))
        await asyncio.sleep(seconds / 4)
        at = await self.lose(how)
        events = await publishing
        lacking, twice = await self.heard_by_all(events)
        return max([self.published_at[number] - at for number in lacking], default=0.0), twice


@asynccontextmanager
async def group(subscribers: int) -> AsyncIterator[tuple[TwentyPeers, float]]:
    """All of them, and how long it took from cold."""
    begin = time.monotonic()
    async with plait.peer(children=CHILDREN, group="twenty", timeout=PATIENCE_S) as client:
        hearing: list[Hearing] = []
        try:
            for _ in range(subscribers):
                arguments = [sys.executable, "-m", __name__, client.address]
                hearing.append(Hearing(await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE)))
            async with client.advertise("true"):
                for each in hearing:
                    await each.line()
                yield TwentyPeers(client, hearing.copy()), time.monotonic() - begin
        finally:
            for each in hearing:
                await each.end()


async def lived(subscribers: int, seconds: float, rate: float) -> GroupOutcome:
    """One group's life: quiet, one killed, one stopped, one killed while events are confirmed."""
    async with group(subscribers) as (found, cold_s):
        lost, twice = await found.heard_by_all(await found.publish(seconds, rate))
        killed_s, again = await found.healed(signal.SIGKILL, max(4.0, seconds / 2), rate)
        stopped_s, more = await found.healed(signal.SIGSTOP, max(6.0, seconds / 2), rate)
        first = len(found.published_at)
        confirming = asyncio.create_task(found.confirm(int(rate)))
        await asyncio.sleep(0.2)
        await found.lose(signal.SIGKILL)
        confirmed = await confirming
        lacking, most = await found.heard_by_all(range(first, len(found.published_at)))
    all_twice = twice + again + more + most
    return GroupOutcome(
        cold_s, sum(lost.values()), all_twice, killed_s, stopped_s, len(confirmed), len(confirmed & lacking.keys())
    )


# --- a subscriber -----------------------------------------------------------------------------------------------------


async def hear(address: str) -> None:
    """Until nobody asks any more."""
    heard: Counter[int] = Counter()
    buffer = plait.Buffer(items=1 << 20, bytes=1 << 28)
    async with (
        plait.peer(address, children=CHILDREN, group="twenty", timeout=PATIENCE_S) as client,
        client.subscribe("n >= 0", buffer=buffer) as subscription,
    ):

        async def listen() -> None:
            async for event in subscription:
                heard[int(str(event["n"]))] += 1

        listening = asyncio.create_task(listen())
        print("open", flush=True)
        node = client._live.node  # type: ignore[attr-defined]
        while line := await asyncio.to_thread(sys.stdin.readline):
            match line.split():
                case ["children"]:
                    print(sum(len(peer.outgoing.children) for peer in node.peers.values()), flush=True)
                case ["lacks", first, end]:
                    events = range(int(first), int(end))
                    twice = sum(heard[number] > 1 for number in events)
                    said = {"lacking": [number for number in events if not heard[number]], "twice": twice}
                    print(json.dumps(said), flush=True)
        listening.cancel()


def _run(work: Any) -> Any:
    return importlib.import_module("uvloop").run(work)


def measured_group(subscribers: int = SUBSCRIBERS, seconds: float = 10.0, rate: float = 2000.0) -> GroupOutcome:
    """All of it."""
    outcome: GroupOutcome = _run(lived(subscribers, seconds, rate))
    return outcome


if __name__ == "__main__":
    _run(hear(sys.argv[1]))

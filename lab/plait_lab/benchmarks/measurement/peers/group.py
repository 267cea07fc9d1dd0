"""Twenty live peers, each a process: time to form a tree, completeness of delivery, and the cost of a peer's death.

As a program it is a subscriber: `python -m plait_lab.benchmarks.measurement.peers.group ADDRESS`. It prints `open` and
then answers requests line by line: its number of children, and which events of a range it lacks or received twice.
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

from ....failures import NothingMeasured

SUBSCRIBERS: Final = 19
CHILDREN: Final = 3
"""Children of a peer: few enough to have inner peers in the tree."""
EVENT_BYTES: Final = 128
TICK_S: Final = 0.005
"""Seconds whose events are published together: waking the loop for each event would measure the loop."""
CONFIRMING: Final = 64
"""Events that await confirmation at a time."""
TIMEOUT_S: Final = 60.0
SETTLE_S: Final = 3.0
"""Seconds after the last event for events in flight."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The results of one group."""

    cold_s: float
    """Seconds from the start of the first process until all were subscribed."""
    lost: int
    duplicates: int
    killed_s: float
    """Seconds from the death of an inner peer to the publication of the last event that a live peer lacks."""
    stopped_s: float
    """Like `killed_s`, for a stopped peer, whose connections stay open."""
    confirmed: int
    confirmed_lost: int
    """Events confirmed while an inner peer was killed that a live peer lacks."""


class SubscriberProcess:
    """A subscriber's process, controlled by the parent."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def ask(self, *words: object) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        return json.loads(await self.line())

    async def line(self) -> str:
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT_S)
        except TimeoutError:
            raise NothingMeasured(f"a subscriber did not answer within {TIMEOUT_S:g} s") from None
        if not line:
            raise NothingMeasured("a subscriber ended before its time")
        return line.decode()

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class TwentyPeers:
    """The publisher in this process, and the subscribers' processes."""

    def __init__(self, client: plait.Client, subscribers: list[SubscriberProcess]) -> None:
        self.client = client
        self.subscribers = subscribers
        self.published_at: list[float] = []

    async def publish(self, seconds: float, rate: float) -> range:
        """Publish at a rate for some time. Return the events' numbers."""
        first, begin = len(self.published_at), time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            due = int((now - begin) * rate)
            while len(self.published_at) - first < due:
                await self._publish_one("none")
            await asyncio.sleep(TICK_S)
        return range(first, len(self.published_at))

    async def _publish_one(self, confirm: Any) -> bool:
        number = len(self.published_at)
        self.published_at.append(time.monotonic())
        try:
            await self.client.publish({"n": number}, bytes(EVENT_BYTES - 16), confirm=confirm, timeout=TIMEOUT_S)
        except (plait.Refused, plait.Timeout):
            return False
        return True

    async def confirm(self, count: int) -> set[int]:
        """Publish events with confirmation. Return those that were confirmed."""
        places, confirmed = asyncio.Semaphore(CONFIRMING), set[int]()

        async def one() -> None:
            async with places:
                number = len(self.published_at)
                if await self._publish_one("subscribers"):
                    confirmed.add(number)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one())
        return confirmed

    async def missing(self, events: range) -> tuple[dict[int, int], int]:
        """Return the events that live peers lack, with the number of those peers, and the number of duplicates."""
        answers = await asyncio.gather(*[each.ask("missing", events.start, events.stop) for each in self.subscribers])
        missing: Counter[int] = Counter()
        for each in answers:
            missing.update(each["missing"])
        return dict(missing), sum(each["duplicates"] for each in answers)

    async def missing_after_settling(self, events: range) -> tuple[dict[int, int], int]:
        """Return the result of `missing` after events in flight have arrived."""
        until = time.monotonic() + SETTLE_S
        while True:
            missing, duplicates = await self.missing(events)
            if not missing or time.monotonic() > until:
                return missing, duplicates
            await asyncio.sleep(0.2)

    async def fail_a_peer(self, how: signal.Signals) -> float:
        """Kill or stop the peer with the most children. Return the time."""
        counts = await asyncio.gather(*[each.ask("children") for each in self.subscribers])
        if not max(counts):
            raise NothingMeasured("no subscriber forwards events, so none can fail")
        os.kill(self.subscribers.pop(counts.index(max(counts))).process.pid, how)
        return time.monotonic()

    async def heal(self, how: signal.Signals, seconds: float, rate: float) -> tuple[float, int]:
        """Lose an inner peer while events are published. Return how long some peer lacked events, and the
        duplicates."""
        publishing = asyncio.create_task(self.publish(seconds, rate))
        await asyncio.sleep(seconds / 4)
        at = await self.fail_a_peer(how)
        events = await publishing
        missing, duplicates = await self.missing_after_settling(events)
        return max([self.published_at[number] - at for number in missing], default=0.0), duplicates


@asynccontextmanager
async def group(subscribers: int) -> AsyncIterator[tuple[TwentyPeers, float]]:
    """Run a group. Yield it with the seconds that it took to start."""
    begin = time.monotonic()
    async with plait.peer(children=CHILDREN, group="twenty", timeout=TIMEOUT_S) as client:
        processes: list[SubscriberProcess] = []
        try:
            for _ in range(subscribers):
                arguments = [sys.executable, "-m", __name__, client.address]
                processes.append(
                    SubscriberProcess(await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE))
                )
            async with client.advertise("true"):
                for each in processes:
                    await each.line()
                yield TwentyPeers(client, processes.copy()), time.monotonic() - begin
        finally:
            for each in processes:
                await each.end()


async def play_group(subscribers: int, seconds: float, rate: float) -> GroupOutcome:
    """Run a group: undisturbed, with a peer killed, one stopped, and one killed while events are confirmed."""
    async with group(subscribers) as (found, cold_s):
        lost, duplicates = await found.missing_after_settling(await found.publish(seconds, rate))
        killed_s, again = await found.heal(signal.SIGKILL, max(4.0, seconds / 2), rate)
        stopped_s, more = await found.heal(signal.SIGSTOP, max(6.0, seconds / 2), rate)
        first = len(found.published_at)
        confirming = asyncio.create_task(found.confirm(int(rate)))
        await asyncio.sleep(0.2)
        await found.fail_a_peer(signal.SIGKILL)
        confirmed = await confirming
        missing, most = await found.missing_after_settling(range(first, len(found.published_at)))
    all_duplicates = duplicates + again + more + most
    return GroupOutcome(
        cold_s, sum(lost.values()), all_duplicates, killed_s, stopped_s, len(confirmed), len(confirmed & missing.keys())
    )


# --- a subscriber -----------------------------------------------------------------------------------------------------


async def subscribe(address: str) -> None:
    """Subscribe and answer requests until standard input ends."""
    counts: Counter[int] = Counter()
    buffer = plait.Buffer(items=1 << 20, bytes=1 << 28)
    async with (
        plait.peer(address, children=CHILDREN, group="twenty", timeout=TIMEOUT_S) as client,
        client.subscribe("n >= 0", buffer=buffer) as subscription,
    ):

        async def receive() -> None:
            async for event in subscription:
                counts[int(str(event["n"]))] += 1

        receiving = asyncio.create_task(receive())
        print("open", flush=True)
        node = client._live.node  # type: ignore[attr-defined]
        while line := await asyncio.to_thread(sys.stdin.readline):
            match line.split():
                case ["children"]:
                    print(sum(len(peer.children.by_id) for peer in node.peers.values()), flush=True)
                case ["missing", first, end]:
                    events = range(int(first), int(end))
                    duplicates = sum(counts[number] > 1 for number in events)
                    answers = {"missing": [number for number in events if not counts[number]], "duplicates": duplicates}
                    print(json.dumps(answers), flush=True)
        receiving.cancel()


def _run(work: Any) -> Any:
    return importlib.import_module("uvloop").run(work)


def measured_group(subscribers: int = SUBSCRIBERS, seconds: float = 10.0, rate: float = 2000.0) -> GroupOutcome:
    """Run a group and return its results."""
    outcome: GroupOutcome = _run(play_group(subscribers, seconds, rate))
    return outcome


if __name__ == "__main__":
    _run(subscribe(sys.argv[1]))

"""A group of real peers in several processes, for tests of live peers.

Run as a program it is one process of the group: `python peer_group.py JOIN N FIRST COUNT` opens peers FIRST to FIRST +
COUNT - 1 of N, prints `open I` for each, and `got I X` for every event that one of them receives.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from processes import put_away

import plait
from plait_core.space import IntRange, Schema

SPACE = Schema.of({"kind": IntRange(0, 7), "size": IntRange(0, 63)})
CHILDREN = 3
"""Limit of children, so low that nineteen subscribers cannot all be children of the publisher."""
PATIENCE_S = 90.0


def bounds(peer: int) -> tuple[int, int]:
    """Return the range of kinds in a peer's filter."""
    return (0, 8) if peer % 3 == 0 else (2, 8) if peer % 3 == 1 else (3, 6)


def filter_of(peer: int) -> str:
    """Return a peer's filter. Its sizes end within a sub-space, so the peer filters the rest on arrival."""
    low, high = bounds(peer)
    return f"kind >= {low} and kind < {high} and size != {peer}"


def attributes_of(x: int) -> dict[str, int]:
    """Return the attributes of event X."""
    return {"kind": x % 8, "size": x * 7 % 64, "x": x}


def wants(peer: int, x: int) -> bool:
    """Return whether a peer's filter matches event X: the oracle, with separate code."""
    low, high = bounds(peer)
    return low <= x % 8 <= high - 1 and (x * 7) % 64 != peer


class Members:
    """A process with some of the peers."""

    def __init__(self, process: asyncio.subprocess.Process, peers: range) -> None:
        self.process = process
        self.peers = peers
        self.open: set[int] = set()
        self.got: dict[int, list[int]] = {peer: [] for peer in peers}
        self.changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # killed in the middle of a word
            word, *numbers = line.decode().split()
            async with self.changed:
                if word == "open":
                    self.open.add(int(numbers[0]))
                else:
                    self.got[int(numbers[0])].append(int(numbers[1]))
                self.changed.notify_all()

    async def opened(self) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.open) == len(self.peers))

    async def heard(self, peer: int, events: set[int]) -> None:
        """Wait until a peer has received all of these events."""
        async with self.changed:
            await self.changed.wait_for(lambda: events <= set(self.got[peer]))

    async def kill(self) -> None:
        """Kill the process without a Close."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading

    async def __aenter__(self) -> Members:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
        await put_away(self.process)


@asynccontextmanager
async def members(join: str, peers: range) -> AsyncIterator[Members]:
    """Run a process with these peers."""
    arguments = [join, str(peers.start), str(len(peers))]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__)),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"},
    )
    async with Members(process, peers) as made:
        yield made


async def live(join: str, peer: int) -> None:
    """Run one peer until the process ends."""
    async with (
        plait.peer(join, space=SPACE, children=CHILDREN, group="test", timeout=PATIENCE_S) as client,
        client.subscribe(filter_of(peer)) as subscription,
    ):
        print("open", peer, flush=True)
        async for event in subscription:
            print("got", peer, event["x"], flush=True)


async def main(join: str, first: int, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for peer in range(first, first + count):
            group.create_task(live(join, peer))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

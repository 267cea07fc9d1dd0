"""Helpers for tests of the broker as a process: start, kill, restart in place, and resources by the kernel's count."""

from __future__ import annotations

import asyncio
import os
import random
import re
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from plait import Client

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))


def drawn_chance() -> random.Random:
    """Return a random generator for one test: equal in every `make test`, different every night.

    PLAIT_SEED replays one.
    """
    given = os.environ.get("PLAIT_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**32) if NIGHTLY else 1
    print(f"PLAIT_SEED={seed}")
    return random.Random(seed)


def port_to_keep(chance: random.Random) -> int:
    """Return a free port for a broker that restarts on it, below the ports of outgoing connections.

    A client that dials one of those repeatedly while nothing listens may connect to itself and then occupy it.
    """
    while True:
        port = chance.randrange(10_000, 32_768)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def transport_of(client: Client) -> asyncio.Transport:
    """Return a connected client's transport, for fault injection."""
    wire = client._driver._wire
    assert wire is not None, "it is connected"
    assert wire.transport is not None, "and so there is a transport"
    return wire.transport


def memory_holds(pid: int, wanted: bytes) -> bool:
    """Return whether a process's memory contains some bytes."""
    step = 1 << 22
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            area = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if area is None or "[v" in line:
                continue
            at, end = (int(side, 16) for side in area.groups())
            while at < end:
                try:
                    memory.seek(at)
                    if wanted in memory.read(min(step, end - at) + len(wanted)):
                        return True
                except (OSError, ValueError):
                    pass  # not there any more
                at += step
    return False


class BrokerProcess:
    """A broker as its operator sees it: a process with a ready line, a log and an exit code."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.name = self.listen = self.http = ""
        self.ready_line = ""

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    async def ready(self) -> None:
        """Wait until it is ready."""
        if self.ready_line:
            return
        assert self.process.stdout is not None
        self.ready_line = (await asyncio.wait_for(self.process.stdout.readline(), 60)).decode()
        if not self.ready_line:
            _, said = await self.process.communicate()
            raise AssertionError(f"it ended: {said.decode()}")
        match = re.fullmatch(r"ready name=(\S+) listen=(\S+) http=(\S+)\n", self.ready_line)
        assert match is not None, self.ready_line
        self.name, self.listen, self.http = match.groups()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        """Kill it, as a power failure would."""
        self.process.kill()
        await self.process.wait()

    @property
    def resident_bytes(self) -> int:
        """Resident memory by the kernel's count."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    @property
    def descriptors(self) -> int:
        """Number of open files and sockets."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    async def lets_go_of(self, descriptors_max: int, patience_s: float = 30.0) -> None:
        """Wait until it has at most this many descriptors. The kernel does not notify when they are closed."""
        async with asyncio.timeout(patience_s):
            while self.descriptors > descriptors_max:  # noqa: ASYNC110 - there is nothing to await
                await asyncio.sleep(0.05)

    async def says(self, words: str) -> None:
        """Read its stderr until a line contains the words."""
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            while line := (await self.process.stderr.readline()).decode():
                if words in line:
                    return
        raise AssertionError(f"it ended without {words!r}")

    async def ended(self) -> tuple[int, str, str]:
        """Wait for its end. Return its exit code and the rest of its stdout and stderr."""
        out, err = await asyncio.wait_for(self.process.communicate(), 60)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


async def put_away(process: asyncio.subprocess.Process) -> None:
    """Kill it unless it has ended, and close its pipes, which would wait for the garbage collector."""
    if process.returncode is None:
        process.kill()
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]


@asynccontextmanager
async def broker_process(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, prelude: str = ""
) -> AsyncIterator[BrokerProcess]:
    """Run `plait broker` with these arguments. `prelude` is Python code to run before it."""
    program = f"{prelude}\nfrom plait_broker.command import broker\nbroker(prog_name='plait broker')"
    variables = {**os.environ, **(environment or {}), "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
    )
    try:
        yield BrokerProcess(process)
    finally:
        await put_away(process)

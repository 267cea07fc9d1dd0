"""A key server under load: garbage from strangers, one request for thousands of credentials, and another holder.

The server is a process of its own. Replies are not decoded here, which would take longer than issuing them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from plait_core import parse
from plait_core.space import IntRange
from plait_crypto import Epochs, Numbers, Schema
from plait_crypto.keyserver.limits import REPLY_BYTES_MAX
from plait_crypto.keyserver.messages import IssueKeys, request_line
from plait_keyserver import KeyClient, KeyDirectory
from plait_keyserver.certificates import load_pair
from plait_keyserver.server.directory import AUTHORITY

from ..baselines import WrongAnswer

GARBAGE_PER_S: Final = 1000
CONNECTIONS: Final = 10
_PASSPHRASE: Final = "correct horse battery staple"  # noqa: S105 - of a folder that is deleted
_HOUR_US: Final = 3_600_000_000
_BITS: Final = 16
_CONJUNCTIONS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """One run."""

    credentials: int
    """Of the large request."""
    large_s: float
    """Its duration."""
    others_s: tuple[float, ...]
    """Durations of the requests of another holder meanwhile."""
    alone_s: float
    """The duration of such a request before the load."""
    garbage: int
    """Lines of garbage that were handed to TCP."""
    grown_bytes: int
    """Growth of the server's memory during the garbage, before the large request."""
    audit_lines: int


async def run_load(credentials: int, garbage_s: float) -> LoadOutcome:
    """Flood a server, then request keys of many credentials from it, and of a few credentials for another holder."""
    with TemporaryDirectory() as folder:
        directory = _directory(Path(folder) / "realm")
        async with _server(directory) as (pid, port):
            large, small = await _holder(directory, "large", port), await _holder(directory, "small", port)
            filter, count = wide_filter(credentials)
            few = IssueKeys("subscriber", parse("b == 1"), 0)
            alone_s = min([await _ask(small, few) for _ in range(3)])
            flood = asyncio.create_task(_flood(directory, port))
            await asyncio.sleep(garbage_s / 2)
            before = _memory(pid)
            await asyncio.sleep(garbage_s / 2)
            grown = _memory(pid) - before
            running = asyncio.create_task(_ask(large, IssueKeys("subscriber", parse(filter), 0)))
            others = []
            while not running.done():
                others.append(await _ask(small, few))
                await asyncio.sleep(0.5)
            flood.cancel()
            (sent,) = await asyncio.gather(flood, return_exceptions=True)
            assert isinstance(sent, int)
            large_s = await running
        lines = (directory.path / "audit.jsonl").read_text().count("\n")
    return LoadOutcome(count, large_s, tuple(others), alone_s, sent, grown, lines)


def wide_filter(credentials: int) -> tuple[str, int]:
    """Return a filter whose keys need about so many credentials, with the exact number."""
    rng, parts, schema = Random(5), list[str](), _schema()
    for value in range(_CONJUNCTIONS_MAX):
        holes = ", ".join(map(str, sorted(rng.sample(range(1, 2**_BITS - 1), 40))))
        parts.append(f"(b == {value} and a not in [{holes}])")
        filter = " or ".join(parts)
        count = sum(len(row) for box in schema.boxes(parse(filter)) for row in box)
        if count >= credentials:
            return filter, count
    raise WrongAnswer(f"no filter of {credentials} credentials")


def _schema() -> Schema:
    now_us = time.time_ns() // 1000
    trees = {"a": Numbers(IntRange(0, 2**_BITS - 1)), "b": Numbers(IntRange(0, _CONJUNCTIONS_MAX - 1))}
    return Schema(trees, Epochs(now_us, _HOUR_US, _HOUR_US // 6))


def _directory(path: Path) -> KeyDirectory:
    directory = KeyDirectory(path)
    directory.create(_schema(), _PASSPHRASE, time.time_ns() // 1000)
    (path / "policy.toml").write_text(
        "".join(f"[holders.{name}]\nsubscribe = ['true']\n" for name in ("large", "small"))
    )
    (path / "passphrase").write_text(_PASSPHRASE)
    return directory


@asynccontextmanager
async def _server(directory: KeyDirectory) -> AsyncIterator[tuple[int, int]]:
    """Run `plait keyserver`. Yield its process id and port."""
    told = ("--listen", "127.0.0.1:0", "--passphrase-file", str(directory.path / "passphrase"))
    command = (sys.executable, "-m", "plait", "keyserver", str(directory.path), *told)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        yield process.pid, int(line.partition(" realm=")[0].rpartition(":")[2])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _holder(directory: KeyDirectory, name: str, port: int) -> KeyClient:
    client = KeyClient([("127.0.0.1", port)], (directory.path / AUTHORITY).read_text())
    await client.enrol(directory.make_token(name, time.time_ns() // 1000))
    return client


async def _ask(client: KeyClient, request: IssueKeys) -> float:
    """Return the seconds from the connection to the reply, which must grant the request."""
    started = perf_counter()
    reader, writer = await _connect(client)
    try:
        writer.write(request_line(request))
        reply: dict[str, Any] = json.loads(await reader.readuntil(b"\n"))
    finally:
        writer.close()
    if not reply["ok"]:
        raise WrongAnswer(f"{reply['error']}: {reply['message']}")
    return perf_counter() - started


async def _connect(client: KeyClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cadata=client.authority)
    if client.identity is not None:
        load_pair(context, client.identity.key, client.identity.certificate)
    host, port = client.addresses[0]
    return await asyncio.open_connection(host, port, ssl=context, limit=REPLY_BYTES_MAX)


async def _flood(directory: KeyDirectory, port: int) -> int:
    """Send lines that are no requests, without a certificate, until cancelled. Return their number."""
    stranger = KeyClient([("127.0.0.1", port)], (directory.path / AUTHORITY).read_text())
    writers = [(await _connect(stranger))[1] for _ in range(CONNECTIONS)]
    sent, began = 0, perf_counter()
    try:
        while True:
            for writer in writers:
                if writer.transport.get_write_buffer_size() < 65_536:  # otherwise the server does not read it
                    writer.write(b"garbage\n")
                    sent += 1
            await asyncio.sleep(max(0.0, began + sent / GARBAGE_PER_S - perf_counter()))
    except asyncio.CancelledError:
        return sent
    finally:
        for writer in writers:
            writer.transport.abort()


def _memory(pid: int) -> int:
    """Return the resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096

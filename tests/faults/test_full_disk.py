"""A running broker whose disk is full and then has room again (SCORECARD F10), and one whose disk is replaced.

A full disk is simulated in two ways: by a real file system of a few megabytes, where mounting is permitted, and by a
limit on file sizes that the kernel enforces and the test lifts while the broker runs.
"""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from processes import BrokerProcess, broker_process, drawn_chance, port_to_keep

import plait
from plait.errors import DurabilityFailed

PATIENCE_S = 20.0
PAYLOAD = bytes(4_000)


class Disk(ABC):
    """A directory for a log whose capacity can be limited."""

    directory: Path
    reasons: tuple[str, ...] = ("the disk is full",)

    @abstractmethod
    def fill(self, broker: BrokerProcess) -> None:
        """Leave no free space."""

    @abstractmethod
    def free(self, broker: BrokerProcess) -> None:
        """Provide free space again."""


class SmallDisk(Disk):
    """A small file system."""

    def __init__(self, mounted: Path) -> None:
        self.directory = mounted / "log"
        self._ballast = mounted / "ballast"

    def fill(self, broker: BrokerProcess) -> None:
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def free(self, broker: BrokerProcess) -> None:
        self._ballast.unlink()


class LimitedFiles(Disk):
    """A limit on the size of files."""

    reasons = (*Disk.reasons, "the disk reports an I/O error")

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "log"

    def fill(self, broker: BrokerProcess) -> None:
        largest = max(path.stat().st_size for path in self.directory.iterdir())
        self._limit(broker, largest)

    def free(self, broker: BrokerProcess) -> None:
        self._limit(broker, resource.RLIM_INFINITY)

    def _limit(self, broker: BrokerProcess, size: int) -> None:
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture(params=["small disk", "limited files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "limited files":
        yield LimitedFiles(tmp_path)
        return
    mounted = tmp_path / "disk"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mounted)], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs to be root; the limit on file sizes needs not")
    yield SmallDisk(mounted)
    subprocess.run(["umount", str(mounted)], check=True)


@asynccontextmanager
async def publisher_and_readers(
    port: int,
) -> AsyncIterator[tuple[plait.Client, plait.Subscription[plait.Event], plait.Subscription[plait.Event]]]:
    """A publisher, a durable and a volatile subscription."""
    url = f"plait://127.0.0.1:{port}"
    again = plait.Reconnect(first_s=0.02, max_s=0.2)
    async with (
        plait.connect(url, reconnect=again) as publisher,
        plait.connect(url, reconnect=again) as reader,
        reader.subscribe("kept == true", durable="reader") as kept,
        reader.subscribe("kept == false") as passing,
    ):
        yield publisher, kept, passing


async def asked(broker: BrokerProcess, path: str) -> tuple[int, dict[str, object]]:
    """Return an answer of the broker's HTTP side."""
    host, port = broker.http.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {broker.http}\r\nconnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(-1), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def test_a_full_disk_refuses_what_is_durable_alone_and_recovers_by_itself(disk: Disk) -> None:
    local = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with broker_process(*local, "--data", disk.directory) as broker:
        await broker.ready()
        async with publisher_and_readers(broker.port) as (publisher, kept, passing), asyncio.timeout(PATIENCE_S):
            confirmed: list[int] = []
            for _ in range(5):
                confirmed.append((await publisher.publish({"kept": True}, PAYLOAD, confirm="broker")).seq)
            disk.fill(broker)
            refusals: list[DurabilityFailed] = []
            while len(refusals) < 20:
                try:
                    confirmed.append((await publisher.publish({"kept": True}, PAYLOAD, confirm="broker")).seq)
                except DurabilityFailed as refused:
                    refusals.append(refused)
            assert all(refused.retryable for refused in refusals), "a disk can be freed"

            status, ready = await asked(broker, "/readyz")
            assert (status, ready["status"]) in [(503, f"the log fails: {why}") for why in disk.reasons]
            assert (await asked(broker, "/healthz"))[0] == 200, "it lives"
            for number in range(20):
                await publisher.publish({"kept": False, "n": number}, PAYLOAD, confirm="broker")
                assert (await passing.next(PATIENCE_S))["n"] == number, "the others are served as ever"
            with pytest.raises(DurabilityFailed, match="the disk"):
                await publisher.subscribe("kept == true", durable="another")

            disk.free(broker)
            after = (await publisher.publish({"kept": True}, PAYLOAD, confirm="broker")).seq
            assert (await asked(broker, "/readyz")) == (200, {"status": "ready"})
            heard = [(await kept.next(PATIENCE_S)).seq]
            while heard[-1] != after:
                heard.append((await kept.next(PATIENCE_S)).seq)
            assert heard == [*confirmed, after], "what was acknowledged and nothing else, in order"
        broker.process.terminate()
        code, _, err = await broker.ended()
    assert code == 0
    assert "Traceback" not in err


async def test_a_broker_with_an_emptied_disk_starts_a_new_log_and_answers_all_clients(tmp_path: Path) -> None:
    chance = drawn_chance()
    port = port_to_keep(chance)
    data = tmp_path / "log"
    arguments = ("--listen", f"127.0.0.1:{port}", "--http", "off", "--data", data)
    async with broker_process(*arguments) as broker:
        await broker.ready()
        async with publisher_and_readers(port) as (publisher, kept, passing), asyncio.timeout(PATIENCE_S):
            for number in range(chance.randrange(10, 100)):
                await publisher.publish({"kept": True, "n": number}, confirm="broker")
                assert (await kept.next())["n"] == number
            await broker.kill()
            shutil.rmtree(data)
            async with broker_process(*arguments) as anew:
                await anew.ready()
                await anext(aiter(passing.notices()))  # the gap: its reader is back, and by now the durable one too
                first = await publisher.publish({"kept": True, "n": -1}, confirm="broker")
                assert first.matched == 1, "the durable subscription is there again"
                assert (await kept.next())["n"] == -1
                await publisher.publish({"kept": False, "n": -2}, confirm="broker")
                assert (await passing.next())["n"] == -2
                await kept.drain()

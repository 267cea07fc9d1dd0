"""Telemetry of real peers: three processes, the events they received, and the tables made of their records."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from processes import put_away

import plait
from plait_analytics import take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.tables.presentation import presented_tables
from plait_telemetry.recording import TelemetryError

EVENTS = 60
PATIENCE_S = 60.0
NORTH, SOUTH, OWN = "n < 30", "n >= 20", "n == 7"


class PeerProcess:
    """`plait peer --subscribe`, and the events that it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.address = ""
        self.heard: list[int] = []

    async def ready(self) -> None:
        assert self.process.stderr is not None
        line = (await asyncio.wait_for(self.process.stderr.readline(), PATIENCE_S)).decode()
        match = re.fullmatch(r"ready name=\S+ listen=(\S+) group=plait\n", line)
        assert match is not None, line
        self.address = match[1]

    async def stop(self) -> None:
        """Stop it as an operator does, and read its output."""
        self.process.send_signal(signal.SIGTERM)
        said, log = await asyncio.wait_for(self.process.communicate(), PATIENCE_S)
        assert self.process.returncode == 128 + signal.SIGTERM, log.decode()
        self.heard = [json.loads(line)["attributes"]["n"] for line in said.decode().splitlines()]


@asynccontextmanager
async def peer_process(name: str, telemetry: Path, filter: str, *more: str) -> AsyncIterator[PeerProcess]:
    command = ["-m", "plait", "peer", "--name", name, "--listen", "127.0.0.1:0", "--telemetry", str(telemetry)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--subscribe", filter, "--json", *more,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    try:
        made = PeerProcess(process)
        await made.ready()
        yield made
    finally:
        await put_away(process)


async def published(client: plait.PeerClient) -> None:
    """Unconfirmed events, after all subscribers are connected, and confirmed ones."""
    async with asyncio.timeout(PATIENCE_S):
        while (await client.publish({"n": 25}, confirm="subscribers", timeout=PATIENCE_S)).matched != 3:
            pass
        for n in range(EVENTS):
            await client.publish({"n": n})
        await client.publish({"n": EVENTS}, confirm="subscribers", timeout=PATIENCE_S)


async def test_tables_of_peers_agree_with_what_applications_received(tmp_path: Path) -> None:
    own: list[int] = []
    async with AsyncExitStack() as stack:
        north = await stack.enter_async_context(peer_process("north", tmp_path, NORTH))
        south = await stack.enter_async_context(peer_process("south", tmp_path, SOUTH, "--join", north.address))
        async with plait.peer(north.address, name="own", telemetry=tmp_path, timeout=PATIENCE_S) as client:
            async with client.subscribe(OWN) as subscription, client.advertise("has(n)"):

                async def hear() -> None:
                    async for event in subscription:
                        own.append(int(str(event["n"])))

                hearing = asyncio.create_task(hear())
                await published(client)
                hearing.cancel()
                await asyncio.wait([hearing])
        await south.stop()
        await north.stop()
    inventory = take_inventory([tmp_path])
    tables = presented_tables(compute_by_duckdb(inventory), inventory)
    heard = {NORTH: north.heard, SOUTH: south.heard, OWN: own}
    assert all(len(set(ns) - {25}) == len(ns) - ns.count(25) for ns in heard.values())
    assert set(range(30)) == set(north.heard)
    assert set(range(20, EVENTS + 1)) == set(south.heard)
    delivered = Counter[str]()
    for row in tables["subscriptions"].to_pylist():
        delivered[row["filter"]] += row["delivered"]
        assert row["client"] == {NORTH: "north", SOUTH: "south", OWN: "own"}[row["filter"]]
    assert delivered == {filter: len(ns) for filter, ns in heard.items()}
    journeys = tables["journeys"].to_pylist()
    assert sum(row["delivered"] for row in journeys) == sum(row["expected"] for row in journeys) == delivered.total()
    assert sum(row["accounted"] for row in journeys) == sum(row["events"] for row in journeys) > EVENTS
    assert tables["unaccounted"].num_rows == 0
    brokers = tables["brokers"].to_pylist()
    assert {row["broker_name"] for row in brokers} == {"north", "south", "own"}
    assert not any(row["records_lost"] for row in brokers)
    crossed = {(row["source"], row["destination"]) for row in tables["flows"].to_pylist()}
    assert len({source for source, _ in crossed}) == 1, "the publisher's process is known to all"
    assert tables["links"].num_rows >= 4


async def test_an_unwritable_telemetry_directory_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TelemetryError, match="cannot be written"):
        async with plait.peer(telemetry=tmp_path / "file"):
            pass
    with pytest.raises(TelemetryError, match="directory"):
        async with plait.peer(name="../elsewhere", telemetry=tmp_path):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

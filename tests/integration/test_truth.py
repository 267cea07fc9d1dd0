"""Reports and promises of Plait hold: stories of real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import BrokerProcess, broker_process, put_away

import plait
from plait.options.contexts import Context, Contexts, save_contexts
from plait.options.settings import Buffer
from plait_broker.settings import BrokerSettings

ALLOWED = BrokerSettings().resume_s / 20
"""A crashed worker is served again within 0.5 s, where its session could be resumed for 10 s."""

WORKER = """
import sys, time
import plait.sync

with plait.sync.connect(sys.argv[1], name="worker") as client:
    began = time.monotonic()
    with client.subscribe("has(order)", durable="orders", ack="manual") as orders:
        print("served", time.monotonic() - began, flush=True)
        for event in orders:
            print("order", event["order"], flush=True)
"""
"""A worker without a signal handler, which acknowledges nothing."""


@asynccontextmanager
async def worker(broker: BrokerProcess) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, f"plait://{broker.listen}", stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        await put_away(process)


async def told(process: asyncio.subprocess.Process) -> str:
    """Return the next line that a worker prints."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_durable_worker_that_died_is_served_again_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off", "--data", tmp_path) as broker:
        await broker.ready()
        async with plait.connect(f"plait://{broker.listen}") as publisher:
            async with worker(broker) as first:
                assert (await told(first)).startswith("served ")
                for order in range(3):
                    await publisher.publish({"order": order}, confirm="broker")
                assert [await told(first) for _ in range(3)] == ["order 0", "order 1", "order 2"]
                first.send_signal(number)
                assert await first.wait() == -number, "it has no handler"
            async with worker(broker) as second:
                served, after_s = (await told(second)).split()
                assert [await told(second) for _ in range(3)] == ["order 0", "order 1", "order 2"]
    assert served == "served"
    assert float(after_s) < ALLOWED


async def test_events_confirmed_for_a_durable_subscription_survive_a_change_of_its_filter(tmp_path: Path) -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off", "--data", tmp_path) as broker:
        await broker.ready()
        async with plait.connect(f"plait://{broker.listen}") as client:
            await (await client.subscribe("has(order)", durable="d")).close()
            for n in range(3):
                assert (await client.publish({"order": n}, confirm="broker")).matched == 1
            async with client.subscribe("has(refund)", durable="d") as subscription:
                await subscription.update("has(audit)")
                await client.publish({"refund": 3}, confirm="broker")
                await client.publish({"audit": 4}, confirm="broker")
                got = [dict(await anext(subscription)) for _ in range(4)]
                assert subscription.stats.dropped == 0
    assert got == [{"order": 0}, {"order": 1}, {"order": 2}, {"audit": 4}]


# --- one environment, one broker --------------------------------------------------------------------------------------

SDK = """
import asyncio, sys
import plait

arguments = dict(pair.split("=", 1) for pair in sys.argv[1:])

async def main():
    async with plait.connect(**arguments) as client:
        await client.publish({"from": "sdk"}, confirm="broker")

asyncio.run(main())
with plait.sync.connect(**arguments) as client:
    client.publish({"from": "sync"}, confirm="broker")
"""
"""A user's program: its arguments are those of `connect`."""


@dataclass
class TwoBrokers:
    """Two brokers with a token each, and what was published at each of them."""

    home: Path
    urls: dict[str, str]
    clients: dict[str, plait.Client]
    subscriptions: dict[str, plait.Subscription[plait.Event]]

    def token_file(self, broker: str) -> Path:
        return self.home / f"{broker}.token"

    def save(self, in_use: str) -> None:
        """Save contexts: one for each broker, and two for north whose token is wrong or missing."""
        tokens = {"north": "token-of-north", "south": "token-of-south", "wrong": "token-of-nobody", "blank": None}
        saved = {name: Context(self.urls.get(name, self.urls["north"]), token=token) for name, token in tokens.items()}
        save_contexts(Contexts(saved, in_use))

    async def run(self, *command: str, **variables: str) -> str:
        """Run a program in an environment with these variables. Return what it printed."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
        environment = kept | {"XDG_CONFIG_HOME": str(self.home)} | variables
        ran = await asyncio.to_thread(
            subprocess.run, [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async def published(self, broker: str) -> set[object]:
        """Return who published at a broker since the last call."""
        await self.clients[broker].publish({"from": "the end"})
        found = set()
        async with asyncio.timeout(20):
            async for event in self.subscriptions[broker]:
                if event["from"] == "the end":
                    break
                found.add(event["from"])
        return found


@pytest.fixture
async def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoBrokers]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    urls, clients, subscriptions = {}, {}, {}
    async with AsyncExitStack() as stack:
        for name in ("north", "south"):
            (tmp_path / f"{name}.token").write_text(f"token-of-{name}\n")
            broker = await stack.enter_async_context(
                broker_process(
                    "--name", name, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                    "--token-file", tmp_path / f"{name}.token",
                )
            )  # fmt: skip
            await broker.ready()
            urls[name] = f"127.0.0.1:{broker.port}"
            client = await stack.enter_async_context(plait.connect(urls[name], auth=f"token-of-{name}"))
            clients[name] = client
            subscriptions[name] = await stack.enter_async_context(client.subscribe("has(from)"))
        yield TwoBrokers(tmp_path, urls, clients, subscriptions)


TO_NORTH = [
    pytest.param({}, {}, id="the context in use"),
    pytest.param({"PLAIT_CONTEXT": "north"}, {"use": "south"}, id="PLAIT_CONTEXT"),
    pytest.param(
        {"PLAIT_URL": "plait://token-of-north@NORTH", "PLAIT_CONTEXT": "south"}, {"use": "south"}, id="PLAIT_URL"
    ),
    pytest.param(
        {"PLAIT_URL": "NORTH", "PLAIT_TOKEN_FILE": "north"}, {"use": "south"}, id="HOST:PORT and a token file"
    ),
    pytest.param({"PLAIT_CONTEXT": "blank", "PLAIT_TOKEN_FILE": "north"}, {}, id="a token file for a context"),
    pytest.param({"PLAIT_CONTEXT": "wrong", "PLAIT_TOKEN_FILE": "north"}, {}, id="a token file before a context's"),
    pytest.param(
        {"PLAIT_URL": "SOUTH", "PLAIT_CONTEXT": "south", "PLAIT_TOKEN_FILE": "south"},
        {"use": "south", "context": "north"},
        id="--context",
    ),
    pytest.param(
        {"PLAIT_URL": "SOUTH", "PLAIT_CONTEXT": "south", "PLAIT_TOKEN_FILE": "south"},
        {"use": "south", "url": "plait://token-of-north@NORTH", "context": "south"},
        id="--url",
    ),
]


@pytest.mark.parametrize(("variables", "given"), TO_NORTH)
async def test_one_environment_sends_sdk_and_commands_to_one_broker(
    two: TwoBrokers, variables: dict[str, str], given: dict[str, str]
) -> None:
    def filled(text: str) -> str:
        return text.replace("NORTH", two.urls["north"]).replace("SOUTH", two.urls["south"])

    two.save(given.get("use", "north"))
    environment = {name: filled(value) for name, value in variables.items()}
    if broker := environment.get("PLAIT_TOKEN_FILE"):
        environment["PLAIT_TOKEN_FILE"] = str(two.token_file(broker))
    arguments = {name: filled(value) for name, value in given.items() if name != "use"}
    options = [word for name, value in arguments.items() for word in (f"--{name}", value)]

    await two.run("-m", "plait", "pub", "from=command", "--confirm", "broker", *options, **environment)
    await two.run("-c", SDK, *(f"{name}={value}" for name, value in arguments.items()), **environment)

    assert await two.published("north") == {"command", "sdk", "sync"}
    assert await two.published("south") == set()
    if "context" not in arguments:
        checked = {}
        for line in (await two.run("-m", "plait", "doctor", "--json", **environment)).splitlines():
            checked[json.loads(line)["check"]] = json.loads(line)
        assert checked["broker"]["found"].startswith(f"plait://{two.urls['north']} (")
        assert checked["overlay"]["found"].startswith("1 broker,"), checked["overlay"]


# --- what a client drops ----------------------------------------------------------------------------------------------

EVENTS, HANDLED, BUFFER = 2_000, 54, 32


def _get(http: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{http}{path}", timeout=10) as answer:
        return str(answer.read().decode())


async def _json(http: str, path: str) -> Any:
    return json.loads(await asyncio.to_thread(_get, http, path))


async def _reported(http: str) -> tuple[int | None, int | None, int]:
    """Return what the client of the one subscription has reported: handed out, waiting, dropped."""
    (row,) = (await _json(http, "/api/v1/subscriptions"))["items"]
    return row["handed_out"], row["client_waiting"], sum(row["client_dropped"].values())


async def _command(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_what_a_client_drops_appears_in_five_places(tmp_path: Path) -> None:
    """A subscriber with a buffer of 32 handles 54 of 2,000 events."""
    async with broker_process(
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--telemetry", tmp_path / "records")
    ) as broker:
        await broker.ready()
        url = f"plait://{broker.listen}"
        async with plait.connect(url, name="slow") as slow, plait.connect(url) as publisher:
            quotes = await slow.subscribe("price > 0", buffer=Buffer(items=BUFFER))
            await publisher.advertise("price > 0")
            for price in range(1, EVENTS + 1):
                await publisher.publish({"price": price})
                if price <= HANDLED:
                    await quotes.next(10)
            async with asyncio.timeout(30):
                while quotes.stats.received < EVENTS:  # noqa: ASYNC110 - the session does not notify of receptions
                    await asyncio.sleep(0.02)
            stats = quotes.stats
            assert (stats.delivered, stats.pending) == (HANDLED, BUFFER)
            assert stats.dropped == EVENTS - HANDLED - BUFFER

            async with asyncio.timeout(30):
                while (await _reported(broker.http))[1:] != (BUFFER, stats.dropped):  # noqa: ASYNC110 - it polls
                    await asyncio.sleep(0.05)

            # 1. plait ls subs
            listed = json.loads(await _command("ls", "subs", "--http", broker.http, "--json"))
            assert listed["delivered"] == EVENTS
            assert listed["handed_out"] == HANDLED
            assert listed["client_waiting"] == BUFFER
            assert listed["client_dropped"] == {"queue_full": stats.dropped}
            title, line = (await _command("ls", "subs", "--http", broker.http)).splitlines()[:2]
            assert "LOST" in title
            assert str(stats.dropped) in line.split()

            # 2. plait top
            top = await _command("top", "--http", broker.http, "--json")
            (shown,) = json.loads(top)["subscriptions"].values()
            assert (shown["lost"], shown["client_waiting"]) == (stats.dropped, BUFFER)

            # 3. the live page, from which `plait top` reads as well
            (seen,) = (await _json(broker.http, "/api/v1/overview"))["subscriptions"].values()
            assert seen["client_dropped"] == {"queue_full": stats.dropped}
            assert seen["slow"], "its buffer is full: it is among the slow consumers"

            # 4. /metrics
            metrics = await asyncio.to_thread(_get, broker.http, "/metrics")
            assert f'plait_client_events_dropped_total{{reason="queue_full"}} {stats.dropped}.0' in metrics
            assert f"plait_client_events_waiting {BUFFER}.0" in metrics
            assert "plait_losing_subscriptions 1.0" in metrics
            assert "slow" not in [
                part for line in metrics.splitlines() if "plait_client" in line for part in line.split('"')
            ]

        broker.signal(signal.SIGTERM)
        await broker.ended()

    # 5. telemetry with its tables
    await _command("analyze", str(tmp_path / "records"), "--out", str(tmp_path / "tables"), "--window", "86400")
    (subscription,) = [row for row in await _table(tmp_path, "subscriptions") if row["client"] == "slow"]
    assert subscription["delivered"] == EVENTS
    assert subscription["handed_out"] == HANDLED
    assert subscription["client_dropped"] == EVENTS - HANDLED, "what waited was discarded when the client closed"
    journeys = await _table(tmp_path, "journeys")
    assert sum(row["expected"] for row in journeys) == EVENTS
    assert sum(row["delivered"] for row in journeys) == HANDLED, "the application saw no others"
    assert sum(row["unseen"] for row in journeys) == EVENTS - HANDLED
    assert sum(row["missing"] for row in journeys) == 0


async def _table(folder: Path, name: str) -> list[dict[str, Any]]:
    shown = await _command("analyze", "show", str(folder / "tables"), name, "--json")
    return [json.loads(line) for line in shown.splitlines()]

"""Records of a running broker as events: `plait sub "$kind == 'drop'"`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from processes import BrokerProcess, broker_process

import plait

PATIENCE_S = 30.0

RULES = """
name = "north"
[access]
[[access.principals]]
name = "watcher"
token = "watcher-token"
publish = { allow = [] }
subscribe = { allow = ["$kind == 'drop'"] }
[[access.principals]]
name = "worker"
token = "worker-token"
"""


@asynccontextmanager
async def prompt(broker: BrokerProcess, *arguments: str, token: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command in the background."""
    url = f"plait://{token + '@' if token else ''}{broker.listen}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", *arguments, "--url", url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await asyncio.wait_for(stream.readline(), PATIENCE_S)).decode().strip()


@pytest.mark.parametrize("recorded", [False, True])
async def test_drops_are_received_as_they_happen(tmp_path: Path, recorded: bool) -> None:
    arguments = ["--name", "north", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    if recorded:
        arguments += ["--telemetry", str(tmp_path)]
    async with broker_process(*arguments) as broker:
        await broker.ready()
        async with (
            prompt(broker, "sub", "$kind == 'drop' and $reason == 'late'", "--count", "2", "--json") as watching,
            plait.connect(f"plait://{broker.listen}") as client,
            client.subscribe("n >= 0", within=1e-6),
            client.subscribe("n >= 0") as every,
        ):
            assert await line(watching.stderr) == "subscribed"
            for n in range(2):
                await client.publish({"n": n})
            for n in range(2):
                assert (await anext(every))["n"] == n
            heard = [json.loads(await line(watching.stdout)) for _ in range(2)]
            assert await asyncio.wait_for(watching.wait(), PATIENCE_S) == 0
    said = [each["attributes"] for each in heard]
    assert [(each["$kind"], each["$broker"], each["$sequence"]) for each in said] == [
        ("drop", "north", 1),
        ("drop", "north", 2),
    ]
    assert [each["seq"] for each in heard] == [1, 2]
    assert [each["path"] for each in heard] == [["north"]] * 2


async def test_system_events_need_a_rule_that_allows_them(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(RULES)
    where = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with broker_process("--config", tmp_path / "broker.toml", *where) as broker:
        await broker.ready()
        async with prompt(broker, "sub", "$kind == 'drop'", token="worker-token") as refused:
            _, said = await asyncio.wait_for(refused.communicate(), PATIENCE_S)
            assert refused.returncode == 1
            assert "has($kind)" in said.decode()
        async with prompt(broker, "sub", "$kind == 'drop'", "--wait", "0.2s", token="watcher-token") as granted:
            assert await line(granted.stderr) == "subscribed"
        async with prompt(broker, "sub", "true", token="watcher-token") as refused:
            assert await asyncio.wait_for(refused.wait(), PATIENCE_S) == 1


async def test_clients_cannot_publish_system_events() -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0") as broker:
        await broker.ready()
        async with prompt(broker, "pub", "$kind=drop") as refused:
            _, said = await asyncio.wait_for(refused.communicate(), PATIENCE_S)
            assert refused.returncode == 2
            assert "$kind" in said.decode()
            assert "choose another name" in said.decode()

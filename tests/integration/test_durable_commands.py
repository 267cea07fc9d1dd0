"""`plait durable` against a real broker: what waits is shown, an orphan is removed, a place is moved."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from processes import BrokerProcess, broker_process

import plait


async def run(broker: BrokerProcess, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Run `plait durable` and return its exit code and what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", "durable", *arguments, "--url", f"plait://{broker.listen}",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")},
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 120)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_an_orphan_from_its_backlog_to_its_removal(tmp_path: Path) -> None:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", tmp_path) as broker:
        await broker.ready()
        async with plait.connect(f"plait://{broker.listen}", name="holder") as client:
            await (await client.subscribe("has(order)", durable="orders")).close()
            for order in range(3):
                await client.publish({"order": order}, confirm="broker")
            code, out, _ = await run(broker, "ls", "--json")
            row = json.loads(out)
            assert (code, row["durable"], row["pending"], row["connected"]) == (0, "orders", 3, False)
            code, out, _ = await run(broker, "show", "orders")
            assert code == 0
            assert "3 events" in out
            assert 'publishes with confirm="subscribers" wait for it' in out

            assert (await run(broker, "seek", "orders", "2", "--yes"))[:2] == (0, "moved orders to 2\n")
            async with client.subscribe("has(order)", durable="orders") as orders:
                assert (await anext(orders))["order"] == 1
                code, _, err = await run(broker, "rm", "orders", "--yes")
                assert code == 1
                assert "held by client 'holder'" in err

            code, _, err = await run(broker, "rm", "orders", stdin="n\n")
            assert code == 1, "it asks"
            assert "wait for it" in err
            assert "discard" in err
            code, out, _ = await run(broker, "rm", "orders", "--yes", "--json")
            assert (code, json.loads(out)) == (0, {"removed": "orders"})
            code, _, err = await run(broker, "rm", "orders", "--yes")
            assert code == 1
            assert "no durable subscription 'orders'" in err
            receipt = await client.publish({"order": 4}, confirm="subscribers")
            assert receipt.matched == 0, "nobody waits for it"

"""The optional fields of the wire that later features plan with, from one real broker process to another.

An advertisement's rate and a subscription's delay bound come from clients, the capacity of links and the network
segments from the configuration.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from processes import BrokerProcess, broker_process

import plait

PATIENCE_S = 30.0


async def listed(broker: BrokerProcess, what: str) -> list[dict[str, Any]]:
    """Return what `plait ls --json` prints."""
    command = [sys.executable, "-m", "plait", "ls", what, "--json", "--http", broker.http]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def topology(broker: BrokerProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{broker.http}/api/v1/topology") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def test_reserved_fields_are_carried_end_to_end_and_listed(tmp_path: Path) -> None:
    near_terms = {"PLAIT_BROKER__OVERLAY__CAPACITY": "125000000", "PLAIT_BROKER__OVERLAY__SEGMENTS": '["rack-7"]'}
    far_at = ("--name", "far", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    near_at = ("--name", "near", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with broker_process(*far_at) as far:
        await far.ready()
        async with broker_process(*near_at, "--link", far.listen, environment=near_terms) as near:
            await near.ready()
            await _carried(near, far)


async def _carried(near: BrokerProcess, far: BrokerProcess) -> None:
    async with (
        plait.connect(f"plait://{near.listen}", timeout=PATIENCE_S) as publisher,
        plait.connect(f"plait://{far.listen}", timeout=PATIENCE_S) as subscriber,
    ):
        await publisher.advertise("price >= 0", rate=250.0)
        await subscriber.subscribe("price > 10", within=0.05)

        (advertised,) = await listed(near, "advs")
        assert (advertised["filter"], advertised["rate"], advertised["values"]) == ("price >= 0", 250.0, None)
        (subscribed,) = await listed(far, "subs")
        assert (subscribed["filter"], subscribed["within_ms"]) == ("price > 10", 50.0)

        at_far, at_near = topology(far), topology(near)
        ids = {broker["name"]: broker["id"] for broker in at_far["brokers"]}
        (remote,) = at_far["advertisements"]
        assert (remote["broker"], remote["filter"], remote["rate"]) == (ids["near"], "price >= 0", 250.0)
        assert remote["values"] is None
        (wanted,) = at_near["interest"]
        assert (wanted["broker"], wanted["filter"], wanted["within_ms"]) == (ids["far"], "price > 10", 50.0)

    (here,) = [link for link in await listed(near, "links") if link["role"] == "broker"]
    (there,) = [link for link in await listed(far, "links") if link["role"] == "broker"]
    assert (here["capacity"], here["neighbour_capacity"], here["segments"]) == (125_000_000, None, [])
    assert (there["capacity"], there["neighbour_capacity"], there["segments"]) == (None, 125_000_000, ["rack-7"])
    brokers = {broker["name"]: broker["segments"] for broker in topology(far)["brokers"]}
    assert brokers == {"near": ["rack-7"], "far": []}
    capacities = {link["from"]: link["capacity"] for link in topology(far)["links"]}
    assert capacities == {ids["near"]: 125_000_000, ids["far"]: None}

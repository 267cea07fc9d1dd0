"""`route`, `trace`, `why` and `ls` with an overlay of three real brokers.

a - b - c, and a - c over a relay with a delay of 60 ms, so the path from a to c leads through b.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import BrokerProcess, broker_process, port_to_keep

import plait
from plait.relay.relay import Relay

PATIENCE_S = 30.0
SLOW_S = 0.060


class Three:
    """The brokers, and commands run against them."""

    def __init__(self, brokers: dict[str, BrokerProcess], slow: Relay) -> None:
        self.brokers = brokers
        self.slow = slow

    async def shell(self, *arguments: str, at: str = "a", code: int = 0) -> str:
        """Run a command with a broker's URL and HTTP side. Return its output."""
        broker = self.brokers[at]
        where = ["--url", f"plait://{broker.listen}"]
        if arguments[0] not in ("trace", "pub", "route"):  # `route` finds the HTTP side by itself
            where += ["--http", broker.http]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "plait", *arguments, *where],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    async def objects(self, *arguments: str, at: str = "a", code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (await self.shell(*arguments, "--json", at=at, code=code)).splitlines()]

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[plait.Client]:
        async with plait.connect(f"plait://{self.brokers[name].listen}", timeout=PATIENCE_S) as client:
            yield client

    async def whole(self) -> None:
        """Wait until all links are known, and the delay of the slow one is measured."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                links = [item for item in await self.objects("topo") if "from" in item]
                if len(links) == 6 and max(link["delay_ms"] for link in links) > 0.8 * SLOW_S * 1000:
                    return


@asynccontextmanager
async def three(home: Path) -> AsyncIterator[Three]:
    chance = random.SystemRandom()
    ports = {name: port_to_keep(chance) for name in "abc"}
    async with AsyncExitStack() as running:
        relay = await running.enter_async_context(Relay(f"127.0.0.1:{ports['c']}"))
        relay.shape(delay_s=SLOW_S)
        links = {"a": [f"127.0.0.1:{ports['b']}", relay.listen], "b": [f"127.0.0.1:{ports['c']}"], "c": []}
        brokers = {}
        for name in "cba":
            brokers[name] = await running.enter_async_context(
                broker_process(
                    "--name", name, "--listen", f"127.0.0.1:{ports[name]}", "--http", "127.0.0.1:0",
                    "--data", home / name,
                    *(part for link in links[name] for part in ("--link", link)),
                    environment={"PLAIT_BROKER__LIMITS__CONFIRM_TIMEOUT_S": "12"},
                )
            )  # fmt: skip
            await brokers[name].ready()
        found = Three(brokers, relay)
        await found.whole()
        yield found


async def test_an_overlay_explains_itself(tmp_path: Path) -> None:
    async with three(tmp_path) as overlay, overlay.client("c") as subscriber, overlay.client("a") as publisher:
        prices = await subscriber.subscribe("price > 10")
        await publisher.advertise("price >= 0")
        await _routes_are_told(overlay)
        await _steps_are_told(overlay, prices)
        await _verdicts_are_told(overlay, publisher, prices)
        await _all_brokers_are_listed(overlay)


async def _routes_are_told(overlay: Three) -> None:
    (route,) = await overlay.objects("route", "price == 50")
    assert (route["from"], route["broker"], route["path"]) == ("a", "c", ["a", "b", "c"])
    assert (route["subscriptions"], route["filters"], route["known"]) == (1, ["price > 10"], True)
    chosen, slower = route["alternatives"]
    assert (chosen["neighbour"], chosen["chosen"], chosen["feasible"]) == ("b", True, True)
    assert (slower["neighbour"], slower["chosen"], slower["feasible"]) == ("c", False, True)
    assert slower["why"].endswith("slower")
    assert slower["delay_ms"] > SLOW_S * 1000 > chosen["delay_ms"]
    (from_b,) = await overlay.objects("route", "price == 50", "--from", "b")
    assert (from_b["from"], from_b["path"]) == ("b", ["b", "c"])
    assert any("not closer" in other["why"] for other in from_b["alternatives"] if other["neighbour"] == "a")
    assert from_b["tree"] != route["tree"], "another tree, named by its root"
    assert await overlay.objects("route", "price == 5") == []
    assert "no broker is called 'z'" in await overlay.shell("route", "true", "--from", "z", code=2)
    assert "filter" in await overlay.shell("route", "price >", code=2)


async def _steps_are_told(overlay: Three, prices: plait.Subscription[plait.Event]) -> None:
    *steps, end = await overlay.objects("trace", "price=11", "label=traced")
    assert [(step["broker"], step["kind"], step["peer"]) for step in steps] == [
        ("a", "published", None),
        ("a", "sent", "b"),
        ("b", "came", "a"),
        ("b", "sent", "c"),
        ("c", "arrived", "b"),
        ("c", "delivered", None),
    ]
    assert steps[-1]["parties"] == ["c/1"]
    assert end | {"delivered": 1, "dropped": 0, "complete": True} == end
    delays = [step["delay_ms"] for step in steps]
    assert delays == sorted(delays)
    event = await prices.next(5)
    assert event["label"] == "traced", "it is a real event"
    assert event.path == ("a", "b", "c")
    lines = (await overlay.shell("trace", "price=12")).splitlines()
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 0, 2, 2, 4, 4, 0]
    await prices.next(5)
    nobody = await overlay.objects("trace", "price=1")
    assert [item["kind"] for item in nobody] == ["published", "end"]


async def _verdicts_are_told(overlay: Three, publisher: plait.Client, prices: plait.Subscription[plait.Event]) -> None:
    right = await publisher.publish({"price": 13}, confirm="broker")
    wrong = await publisher.publish({"price": 3}, confirm="broker")
    event = await prices.next(5)
    assert (event.path, event.hops) == (("a", "b", "c"), 2)
    assert 0 < event.delay < SLOW_S
    (subscription,) = await overlay.objects("ls", "subs", at="c")
    assert subscription["id"] == "c/1"
    for at in "abc":
        (verdict,) = await overlay.objects("why", str(right.id), subscription["id"], at=at)
        assert (verdict["verdict"], verdict["reports"]["c"]["event"]["path"]) == ("delivered", ["a", "b"])
        (verdict,) = await overlay.objects("why", str(wrong.id), subscription["id"], at=at)
        assert (verdict["verdict"], verdict["why"]) == ("not_matched", ["price > 10 is false: price is 3"])
    for at in "abc":
        (outcome,) = await overlay.objects("why", str(right.id), at=at)
        assert (outcome["verdict"], outcome["silent"], sorted(outcome["reports"])) == ("delivered", [], ["a", "b", "c"])
    said = await overlay.shell("why", str(right.id))
    assert "arrived at c" in said
    assert "c/1  price > 10: delivered to " in said
    assert (await overlay.shell("why", str(wrong.id))).startswith("not matched: ")
    assert (await overlay.shell("why", "9b2f0c6a1d3e4f57-12", code=1)).startswith("never seen: ")
    printed = (await overlay.shell("pub", "price=14", "--confirm", "broker")).split()
    assert (await overlay.shell("why", printed[1].rstrip(","))).startswith("delivered: to 1 subscription")
    await prices.next(5)
    said = await overlay.shell("why", str(wrong.id), "c/1")
    assert said.startswith("not matched: ")
    assert "no event id" in await overlay.shell("why", "x", "c/1", code=2)
    assert "no subscription" in await overlay.shell("why", str(right.id), "x", code=2)
    (verdict,) = await overlay.objects("why", str(right.id), "c/99", code=1)
    assert verdict["verdict"] == "no_subscription"
    assert (await overlay.shell("why", "9b2f0c6a1d3e4f57-12", "c/1", code=1)).startswith("never seen: ")


async def _all_brokers_are_listed(overlay: Three) -> None:
    brokers = {item["name"]: item for item in await overlay.objects("ls", "brokers", at="b")}
    assert {name: item["status"] for name, item in brokers.items()} == dict.fromkeys("abc", "ready")
    assert brokers["c"]["subscriptions"] == 1, "reported by another broker"
    assert brokers["a"]["counters"]["admitted"] > 0
    links = {item["name"]: item for item in await overlay.objects("ls", "links") if item["role"] == "broker"}
    assert links.keys() == {"b", "c"}
    assert links["c"]["delay_ms"] > 0.8 * SLOW_S * 1000 > links["b"]["delay_ms"]
    for link in links.values():
        assert (link["state"], link["loss"]) == ("up", 0.0)
        assert link["jitter_ms"] >= 0


async def test_a_dead_broker_is_out_of_reach_and_its_reports_are_missing(tmp_path: Path) -> None:
    async with three(tmp_path) as overlay:
        await overlay.brokers["c"].kill()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = {item["name"]: item["status"] for item in await overlay.objects("ls", "brokers")}
                if found == {"a": "ready", "b": "ready", "c": "out of reach"}:
                    break
        unanswered = json.loads(await overlay.shell("why", f"{1:016x}-1", "c/1", "--json", code=1))
        assert unanswered["verdict"] == "unanswered"


async def test_an_event_that_waits_for_a_stopped_broker_is_traced(tmp_path: Path) -> None:
    """Brokers in a line with a durable subscription at the end, seen by confirmation, `trace`, `why` and `ls`."""
    async with three(tmp_path) as overlay, overlay.client("c") as subscriber, overlay.client("a") as publisher:
        overlay.slow.cut()  # the way from a to c is by b alone
        await subscriber.subscribe("price > 10", durable="ledger")
        await publisher.publish({"price": 20}, confirm="broker")
        overlay.brokers["c"].signal(signal.SIGSTOP)
        try:
            *steps, end = await overlay.objects("trace", "price=11", "--wait", "3s", code=1)
            assert end["silent"] == 1
            told = [(step["broker"], step["kind"], step["again"]) for step in steps]
            assert told[:4] == [
                ("a", "published", False),
                ("a", "sent", False),
                ("b", "came", False),
                ("b", "sent", False),
            ]
            assert ("a", "sent", True) in told, "it was retransmitted meanwhile"
            sure = asyncio.create_task(publisher.publish({"price": 12}, confirm="broker"))
            event = await publisher.publish({"price": 13})
            async with asyncio.timeout(PATIENCE_S):
                while (far := await _listed(overlay, "c"))["status"] != "out of reach":
                    pass
            assert far["distance_ms"] is None
            (verdict,) = await overlay.objects("why", str(event.id), "c/1")
            assert verdict["verdict"] == "on_its_way"
            assert "in a's stream to c" in verdict["text"]
            assert "a cannot reach c now" in verdict["text"]
            with pytest.raises(
                plait.Refused, match=r"c \(which is out of reach\) has not taken charge of it"
            ) as refused:
                await sure
            assert "plait topo" in refused.value.hint
        finally:
            overlay.brokers["c"].signal(signal.SIGCONT)


async def _listed(overlay: Three, name: str) -> dict[str, Any]:
    return next(item for item in await overlay.objects("ls", "brokers") if item["name"] == name)

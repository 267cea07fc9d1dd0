"""Incidents of real broker processes: a healthy idle overlay has none, however often somebody looks. What happens while
nobody looks is found afterwards."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import httpx
import pytest

from plait.commands.brokers.local_overlay import BrokerOptions, LocalOverlay
from plait.commands.brokers.topologies import graph

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))
LOOK_S, PAUSE_S = 6.0, 40.0
"""Time for which the page is open, and then closed: longer than the broker goes on without an open page."""


def overlay(brokers: int) -> LocalOverlay:
    return LocalOverlay(graph("ring" if brokers < 8 else "random", brokers, "b", 100), BrokerOptions())


async def look(http: str, seconds: float) -> dict[str, Any]:
    """Keep the overview open for a while, and return what it shows then."""
    async with httpx.AsyncClient(base_url=f"http://{http}", trust_env=False, timeout=30) as reader:
        until = time.monotonic() + seconds
        shown: dict[str, Any] = {}
        while time.monotonic() < until or not shown:
            shown = (await reader.get("/api/v1/overview")).json()
            await asyncio.sleep(0.5)
        return shown


def texts(shown: dict[str, Any]) -> list[str]:
    return [incident["text"] for incident in shown["incidents"].values()]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("brokers", "seconds"),
    [
        (3, 50.0),
        pytest.param(32, 300.0, marks=pytest.mark.skipif(not NIGHTLY, reason="runs in make nightly")),
    ],
)
async def test_a_healthy_idle_overlay_has_no_incident(brokers: int, seconds: float) -> None:
    async with overlay(brokers) as running:
        await running.wait_linked()
        http = running.brokers["b-1"].http
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = await look(http, LOOK_S)
            assert texts(shown) == []
            await asyncio.sleep(min(PAUSE_S, max(0.0, end - time.monotonic())))
        shown = await look(http, LOOK_S)
        assert texts(shown) == []
        assert {one["status"] for one in shown["brokers"].values()} == {"ready"}
        assert len(shown["brokers"]) == brokers


@pytest.mark.timeout(300)
async def test_what_happened_while_nobody_looked_is_shown_with_its_reason() -> None:
    async with overlay(3) as running:
        await running.wait_linked()
        await asyncio.sleep(8.0)  # a starting broker records nothing until it has met no broker for five seconds
        await running.brokers["b-3"].kill()
        http = running.brokers["b-1"].http
        await asyncio.sleep(8.0)  # until the others notice
        async with asyncio.timeout(60):
            shown = await look(http, 2.0)
            while "out of reach" not in str(texts(shown)):
                shown = await look(http, 1.0)
        said = sorted(texts(shown))
        down = [text for text in said if text.startswith("link ")]
        assert len(down) == 2, said
        assert all("b-3" in text and text.partition(" is down: ")[2] for text in down), said
        (away,) = [text for text in said if "out of reach" in text]
        assert away.startswith("b-3 is out of reach of b-"), away
        ages = [time.time() - incident["at"] for incident in shown["incidents"].values()]
        assert min(ages) > 4, "it is told when it happened, not when somebody looked"

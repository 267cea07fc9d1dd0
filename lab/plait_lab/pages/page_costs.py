"""Costs of the live page: `python -m plait_lab.pages.page_costs [--brokers 60] [--watchers 50] [--seconds 20]`.

The watched broker is a process in a busy overlay. The first figures are the seconds from the start of the first broker
until the page shows all as ready. Then the broker's processor time is measured alone, with one page open, and with many
streams. A real browser measures first paint and the script time of each update. Measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from .browsers import browser, missing, until
from .page_stage import PageStage

TICKS_PER_S: Final = 100
"""Linux's unit of processor time."""

PAINT_MAX_MS, UPDATE_MAX_MS, CORE_MAX, UP_MAX_S = 1000.0, 50.0, 0.02, 20.0

UP_GIVE_UP_S: Final = 120.0
ANSWERS_S: Final = 30.0


def main() -> None:
    """Measure and print the figures beside their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=60)
    parser.add_argument("--watchers", type=int, default=50, help="streams open at once")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    given = parser.parse_args()
    if wanting := missing():
        sys.exit(f"there is no browser: {wanting}")
    asyncio.run(_measure(given.brokers, given.watchers, given.seconds))


async def _measure(brokers: int, watchers: int, seconds: float) -> None:
    began = time.monotonic()
    async with PageStage(brokers, events_per_s=20.0) as stage:
        started = time.monotonic() - began
        http = stage.watched.http
        await asyncio.to_thread(until, "all are ready", lambda: _ready(http) == brokers, UP_GIVE_UP_S)
        ready = time.monotonic() - began
        pid = stage.watched.pid
        await asyncio.sleep(5.0)
        alone = await _cores(pid, seconds)
        async with _watchers(stage.watched.http, 1):
            one = await _cores(pid, seconds)
        async with _watchers(stage.watched.http, watchers) as received:
            many = await _cores(pid, seconds)
        paint, updates = await asyncio.to_thread(_in_a_browser, stage.page, seconds)
    print(f"{brokers} brokers, one of them watched")
    _print_figure("all started, one after the other", started, "s", None)
    _print_figure("all shown as ready", ready, "s", UP_MAX_S)
    _print_figure("the broker with nobody watching", alone, "of a core", None)
    _print_figure("more with one stream", one - alone, "of a core", CORE_MAX)
    _print_figure(f"more with {watchers} streams", many - alone, "of a core", CORE_MAX)
    print(f"  {'each stream':<34} {received[0] / watchers / seconds / 1000:10.1f} kB/s")
    _print_figure("first paint", paint, "ms", PAINT_MAX_MS)
    _print_figure("script of an update, median", statistics.median(updates), "ms", UPDATE_MAX_MS)
    _print_figure("script of an update, worst", max(updates), "ms", UPDATE_MAX_MS)


def _ready(http: str) -> int:
    with urlopen(f"http://{http}/api/v1/overview", timeout=ANSWERS_S) as answer:
        shown = json.load(answer)["brokers"].values()
    return sum(one["status"] == "ready" for one in shown)


def _print_figure(what: str, value: float, unit: str, most: float | None) -> None:
    shown = f"{value:10.2%}" if unit == "of a core" else f"{value:10.1f}"
    limit = "" if most is None else f"  (at most {most:.0%})" if unit == "of a core" else f"  (at most {most:.0f})"
    print(f"  {what:<34} {shown} {unit}{limit}")


async def _cores(pid: int, seconds: float) -> float:
    began, before = time.monotonic(), _ticks(pid)
    await asyncio.sleep(seconds)
    return (_ticks(pid) - before) / TICKS_PER_S / (time.monotonic() - began)


def _ticks(pid: int) -> int:
    """Return user and system time of all threads, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@asynccontextmanager
async def _watchers(http: str, count: int) -> AsyncIterator[list[int]]:
    """Open streams and read them. Yield the count of bytes received."""
    host, _, port = http.rpartition(":")
    received = [0]

    async def read(reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            received[0] += len(data)

    async with AsyncExitStack() as closing:
        tasks = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(host, int(port))
            closing.callback(writer.close)
            writer.write(f"GET /api/v1/overview/stream HTTP/1.1\r\nHost: {http}\r\n\r\n".encode())
            tasks.append(asyncio.get_running_loop().create_task(read(reader)))
        await asyncio.sleep(2.0)
        received[0] = 0
        try:
            yield received
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _in_a_browser(page: str, seconds: float) -> tuple[float, list[float]]:
    updates: list[float] = []
    with browser() as driver:
        driver.get(page)
        until("it is live", lambda: driver.find_element("css selector", 'body[data-state="live"]'))
        paint = until("it is painted", lambda: _paint(driver))
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            time.sleep(0.2)
            updates += driver.execute_script("return performance.getEntriesByName('update').map((one) => one.duration)")
    return paint, updates


def _paint(driver: Any) -> float:
    script = "return performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
    found = driver.execute_script(script)
    return float(found[0]) if found else 0.0


if __name__ == "__main__":
    main()

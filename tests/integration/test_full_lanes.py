"""Three broker processes in a row with a narrow link, which is offered more than it carries for a while.

The link stays up, control frames are prompt, nothing that was confirmed is lost, and the operator is told which lane is
full. With `PLAIT_NIGHTLY` it is offered that for a minute.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from processes import BrokerProcess, broker_process, drawn_chance, port_to_keep

import plait
from plait.relay.relay import Relay

BIT_S = 1e6
LOAD = 1.6
PAYLOAD = bytes(1000)
COPY_BYTES = 1100
"""Bytes of one event on the link, about."""

BOUND_BYTES = {"drop": 1 << 20, "block": 16 << 20}
"""Of the stream to a destination: 8 s of the narrow link, or more than a publisher has on its way when it must wait."""

LOAD_S = 60.0 if os.environ.get("PLAIT_NIGHTLY") else 15.0
CONTROL_EVERY_S = 1.0
CONFIRMED_EVERY = 100
PATIENCE_S = 60.0


@asynccontextmanager
async def narrow_row(folder: Path, when_full: str) -> AsyncIterator[tuple[list[BrokerProcess], Relay]]:
    """Run brokers a - b - c. The relay between b and c is as wide as the machine until it is shaped."""
    chance = drawn_chance()
    config = folder / "broker.toml"
    config.write_text(
        f'[overlay]\nwhen_full = "{when_full}"\n[limits]\noverlay_stream_bytes_max = {BOUND_BYTES[when_full]}\n'
        "[access]\nopen = true\n"
    )
    async with AsyncExitStack() as running:

        async def start(name: str, *links: str) -> BrokerProcess:
            to = [part for link in links for part in ("--link", link)]
            listen = f"127.0.0.1:{port_to_keep(chance)}"
            process = broker_process(
                "--config", config, "--name", name, "--listen", listen, "--http", "127.0.0.1:0", *to
            )
            broker = await running.enter_async_context(process)
            await broker.ready()
            return broker

        a, c = await asyncio.gather(start("a"), start("c"))
        relay = await running.enter_async_context(Relay(f"127.0.0.1:{c.port}"))
        yield [a, await start("b", f"127.0.0.1:{a.port}", relay.listen), c], relay


class Offer:
    """What a publisher at a offers, and what a subscriber at c gets."""

    def __init__(self, publisher: plait.Client, subscriber: plait.Client, subscription: Any) -> None:
        self.publisher, self.subscriber, self.subscription = publisher, subscriber, subscription
        self.published = 0
        self.received: list[int] = []
        self.delays_s: list[float] = []
        self.confirmed: list[int] = []
        self.control_s: list[float] = []
        self._questions = 0

    async def ask(self) -> float:
        """Subscribe at c to what is advertised at a. Return the time until it is installed there."""
        self._questions += 1
        began = time.monotonic()
        await self.subscriber.subscribe(f"k == {self._questions}")
        return time.monotonic() - began

    async def read(self) -> None:
        """Read events until the task is cancelled."""
        async for event in self.subscription:
            self.received.append(event["n"])
            self.delays_s.append(event.delay)

    async def control(self) -> None:
        """Subscribe again and again until the task is cancelled."""
        while True:
            await asyncio.sleep(CONTROL_EVERY_S)
            self.control_s.append(await self.ask())

    async def publish(self, for_s: float, per_s: float) -> None:
        """Publish at a rate, or as fast as the broker allows. Every hundredth event is to be confirmed."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as confirming:
            while (elapsed_s := time.monotonic() - began) < for_s:
                while self.published < elapsed_s * per_s and time.monotonic() - began < for_s:
                    self.published += 1
                    if self.published % CONFIRMED_EVERY:
                        await self.publisher.publish({"n": self.published}, PAYLOAD)
                    else:
                        confirming.create_task(self._confirm(self.published))
                await asyncio.sleep(0.005)

    async def _confirm(self, number: int) -> None:
        try:
            await self.publisher.publish({"n": number}, PAYLOAD, confirm="subscribers", timeout=PATIENCE_S)
        except plait.Error:
            return  # it was dropped, and the publisher knows
        self.confirmed.append(number)

    async def settle(self) -> None:
        """Wait until nothing more arrives."""
        while True:
            before = len(self.received)
            await asyncio.sleep(2.0)
            if len(self.received) == before:
                return


@asynccontextmanager
async def offering(a: BrokerProcess, c: BrokerProcess, outbox: plait.Outbox) -> AsyncIterator[Offer]:
    async with AsyncExitStack() as clients:
        enter = clients.enter_async_context
        to_a, to_c = f"plait://127.0.0.1:{a.port}", f"plait://127.0.0.1:{c.port}"
        publisher = await enter(plait.connect(to_a, timeout=PATIENCE_S, outbox=outbox))
        subscriber = await enter(plait.connect(to_c, timeout=PATIENCE_S))
        subscription = await subscriber.subscribe("n >= 0")
        await publisher.advertise("n >= 0 or k > 0")
        async with asyncio.timeout(PATIENCE_S):
            while True:  # until the three are one overlay
                await publisher.publish({"n": 0})
                try:
                    await subscription.next(0.5)
                    break
                except TimeoutError:
                    continue
        yield Offer(publisher, subscriber, subscription)


async def metrics(broker: BrokerProcess) -> dict[str, float]:
    """Return the metrics of a broker that are not zero."""
    page = await asyncio.to_thread(lambda: urlopen(f"http://{broker.http}/metrics").read().decode())
    found = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in found if float(value)}


async def command(*arguments: str) -> str:
    """Run a command of `plait` and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return said.decode()


async def test_a_full_lane_stays_up_and_control_is_prompt_and_the_operator_is_told(tmp_path: Path) -> None:
    async with narrow_row(tmp_path, "drop") as ((a, b, c), relay), offering(a, c, plait.Outbox()) as offer:
        relay.shape(bandwidth_bit_s=BIT_S)
        bare_s = median([await offer.ask() for _ in range(5)])
        before = {broker.name: await metrics(broker) for broker in (a, b, c)}
        async with asyncio.TaskGroup() as tasks:
            reading, controlling = tasks.create_task(offer.read()), tasks.create_task(offer.control())
            publishing = tasks.create_task(offer.publish(LOAD_S, LOAD * BIT_S / 8 / COPY_BYTES))
            await asyncio.sleep(LOAD_S / 2)
            links = [
                json.loads(line) for line in (await command("ls", "links", "--http", b.http, "--json")).splitlines()
            ]
            doctor = await command("doctor", "--http", b.http)
            await publishing
            controlling.cancel()
            after = {broker.name: await metrics(broker) for broker in (a, b, c)}
            await offer.settle()
            reading.cancel()
    (full,) = [link["name"] for link in links if link.get("full")]
    assert full == "c"
    assert "full: b to c" in doctor, doctor
    for name, found in after.items():
        assert not any("links_dead" in one or "links_mute" in one for one in found), f"{name} lost a link"
    forwarded = after["b"]["plait_events_forwarded_total"] - before["b"].get("plait_events_forwarded_total", 0)
    assert forwarded <= 1.05 * offer.published, "copies an event"
    assert median(offer.control_s) <= median(offer.delays_s) / 4, f"control is as slow as events; bare {bare_s}"
    in_order = [number for number in offer.received if number % CONFIRMED_EVERY]  # the others are published by tasks
    assert in_order == sorted(in_order)
    assert len(set(offer.received)) == len(offer.received)
    assert offer.confirmed
    assert set(offer.confirmed) <= set(offer.received)
    dropped = {name for name in after["a"].keys() - before["a"].keys() if name.startswith("plait_events_dropped_total")}
    assert dropped <= {'plait_events_dropped_total{reason="overlay_full"}'}


async def test_a_publisher_waits_if_the_broker_is_set_so(tmp_path: Path) -> None:
    per_s = 30 * BIT_S / 8 / COPY_BYTES
    async with narrow_row(tmp_path, "block") as ((a, _, c), relay):
        async with offering(a, c, plait.Outbox(items=100)) as offer:
            relay.shape(bandwidth_bit_s=BIT_S)
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(offer.read())
                widening = asyncio.get_running_loop().call_later(
                    LOAD_S, lambda: relay.shape(bandwidth_bit_s=100 * BIT_S)
                )
                await offer.publish(LOAD_S, per_s)
                widening.cancel()
                relay.shape(bandwidth_bit_s=100 * BIT_S)
                await offer.settle()
                reading.cancel()
            found = await metrics(a)
    assert offer.published < 0.8 * per_s * LOAD_S, "it has waited"
    assert sorted(offer.received) == list(range(1, offer.published + 1)), "and lost nothing"
    assert 'plait_events_dropped_total{reason="overlay_full"}' not in found

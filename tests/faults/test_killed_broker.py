"""A real broker under durable load, killed with -9 at moments drawn by seed: SCORECARD F1.

Two parties acknowledge. The broker acknowledges an event when `publish(confirm="broker")` returns: from then on the
event must not be lost. The subscriber's application acknowledges an event when it takes the next one or calls `ack`:
from then on the subscription must not hand it over again, however often the broker dies. The application's ack reaches
the broker later, and the log later still. The broker may therefore send an event again, and the SDK discards it. A
restarted application has no such memory: its acks count once `drain` has returned.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from processes import NIGHTLY, BrokerProcess, broker_process, drawn_chance, port_to_keep, transport_of
from scripted import ScriptedClient

import plait
from plait_core import EventId
from plait_core.wire import Deliver
from plait_core.wire.frame_types.session_frames import Acknowledge, Start

KILLS = 20 if NIGHTLY else 4
PUBLISHERS = 3
IN_FLIGHT = 60
"""Publishes of one publisher that wait for confirmation at once."""

HELD = 10
"""Events that an application keeps for long before it acknowledges them."""

AT_ONCE = plait.Reconnect(first_s=0.02, max_s=0.2)
PATIENCE_S = 60.0


class Publisher:
    """Publishes as fast as confirmations arrive, and records the confirmed events."""

    def __init__(self, client: plait.Client, number: int) -> None:
        self.client = client
        self.number = number
        self.confirmed: list[int] = []
        self.stopping = False
        self._hears: list[tuple[int, asyncio.Event]] = []

    async def run(self) -> None:
        """Publish until stopped, then publish a last event."""
        room = asyncio.Semaphore(IN_FLIGHT)
        async with asyncio.TaskGroup() as tasks:
            while not self.stopping:
                await room.acquire()
                tasks.create_task(self._publish(last=False)).add_done_callback(lambda _: room.release())
        await self._publish(last=True)

    async def hears_of(self, more: int) -> None:
        """Wait for a number of further confirmations."""
        heard = asyncio.Event()
        self._hears.append((len(self.confirmed) + more, heard))
        await heard.wait()

    async def _publish(self, *, last: bool) -> None:
        receipt = await self.client.publish({"from": self.number, "last": last}, bytes(100), confirm="broker")
        self.confirmed.append(receipt.seq)
        for count, heard in self._hears:
            if count <= len(self.confirmed):
                heard.set()


class Reader:
    """An application with one subscription. Records its events in order."""

    def __init__(self, name: str, chance: random.Random | None = None) -> None:
        self.name = name
        self.handed: dict[int, list[int]] = defaultdict(list)
        """By publisher, the sequence numbers of the handed events."""
        self.dealt_with: dict[int, set[int]] = defaultdict(set)
        """By publisher, the handed sequence numbers that the application has acknowledged."""
        self._chance = chance
        self._unsaid: list[plait.Event] = []
        self._rounds = 0

    async def run(self, subscription: plait.Subscription[plait.Event]) -> None:
        """Read until the last event of every publisher has arrived."""
        ended = 0
        while ended < PUBLISHERS:
            event = await subscription.next()
            self.handed[event.publisher].append(event.seq)
            ended += bool(event["last"])
            if self._chance is not None:
                self._unsaid.append(event)
                self._say_some(self._chance)
        event.ack()  # it does not take the next one
        while self._unsaid:
            self._deal_with(self._unsaid.pop())

    def _deal_with(self, event: plait.Event) -> None:
        event.ack()
        self.dealt_with[event.publisher].add(event.seq)

    def _say_some(self, chance: random.Random) -> None:
        """Acknowledge manually, in random order, and the oldest events only after hundreds of others."""
        if chance.random() < 0.2:
            self._rounds += 1
            keep = HELD if self._rounds % 60 else 0
            newer = self._unsaid[keep:]
            del self._unsaid[keep:]
            chance.shuffle(newer)
            for event in newer:
                self._deal_with(event)

    def judge(self, publishers: list[Publisher], *, whole: bool) -> None:
        """Check that no event is repeated or out of order and, for a durable subscription, none is missing."""
        for publisher in publishers:
            who = f"{self.name}, publisher {publisher.number}"
            handed = self.handed[publisher.client.publisher]
            assert len(handed) == len(set(handed)), f"{who}: handed out twice"
            assert handed == sorted(handed), f"{who}: out of order"
            lost = set(publisher.confirmed) - set(handed)
            assert not (whole and lost), f"{who}: acknowledged and lost: {sorted(lost)[:10]}"


class Crashing:
    """An application that sometimes dies with the broker, and loses its unprocessed events.

    Events that it acknowledged shortly before may be repeated. All of its lives together may miss none.
    """

    def __init__(self, chance: random.Random) -> None:
        self.lives: list[Reader] = []
        self._chance = chance
        self._living: asyncio.Task[None] | None = None

    async def run(self, port: int) -> None:
        """Restart until the last event of every publisher has arrived."""
        while True:
            async with connected(port) as client:
                subscription = await client.subscribe("from >= 0", durable="crashing", start="all", ack="manual")
                self.lives.append(Reader(f"life {len(self.lives) + 1}", self._chance))
                self._living = asyncio.create_task(self.lives[-1].run(subscription))
                await asyncio.wait([self._living])
                if not self._living.cancelled():
                    return await self._living

    def crash(self) -> None:
        """Kill it now, if it runs."""
        if self._living is not None:
            self._living.cancel()

    def judge(self, publishers: list[Publisher]) -> None:
        """Check that no life has repeated or reordered events, and that all lives together miss none."""
        for life in self.lives:
            life.judge(publishers, whole=False)
        for publisher in publishers:
            who = publisher.client.publisher
            lost = set(publisher.confirmed).difference(*(life.dealt_with[who] for life in self.lives))
            assert not lost, f"publisher {publisher.number}: acknowledged and lost with a crash: {sorted(lost)[:10]}"


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[plait.Client]:
    async with plait.connect(f"plait://127.0.0.1:{port}", reconnect=AT_ONCE, timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.timeout(600 if NIGHTLY else 120)
async def test_acknowledged_events_are_neither_lost_nor_delivered_again(tmp_path: Path) -> None:
    chance = drawn_chance()
    port = port_to_keep(chance)
    arguments = ("--listen", f"127.0.0.1:{port}", "--http", "off", "--data", tmp_path / "log")
    readers = [Reader("auto"), Reader("by hand", chance), Reader("not durable")]
    async with AsyncExitStack() as running:
        broker = await running.enter_async_context(broker_process(*arguments))
        await broker.ready()
        subscribers = [await running.enter_async_context(connected(port)) for _ in readers]
        subscriptions = [
            await subscribers[0].subscribe("from >= 0", durable="auto"),
            await subscribers[1].subscribe("from >= 0", durable="by hand", ack="manual"),
            await subscribers[2].subscribe("from >= 0"),
        ]
        publishers = [
            Publisher(await running.enter_async_context(connected(port)), number) for number in range(PUBLISHERS)
        ]
        async with asyncio.timeout(PATIENCE_S * (1 + KILLS / 4)), asyncio.TaskGroup() as tasks:
            for publisher in publishers:
                tasks.create_task(publisher.run())
            for reader, subscription in zip(readers[:2], subscriptions, strict=False):
                tasks.create_task(reader.run(subscription))
            plain = asyncio.create_task(readers[2].run(subscriptions[2]))
            crashing = Crashing(chance)
            tasks.create_task(crashing.run(port))
            for turn in range(KILLS):
                print(f"turn {turn}: killed {await killed(broker, chance.choice(publishers), chance)}")
                if chance.random() < 0.5:
                    crashing.crash()
                broker = await running.enter_async_context(broker_process(*arguments))
            await broker.ready()
            for publisher in publishers:
                await publisher.hears_of(IN_FLIGHT + 1)
                publisher.stopping = True
        plain.cancel()  # the last event of some publisher may be among those that it missed
        await asyncio.wait([plain])
        for reader in readers:
            reader.judge(publishers, whole=reader.name != "not durable")
        crashing.judge(publishers)
        repeated = [subscription.stats.duplicates for subscription in subscriptions]
        print(f"{sum(len(publisher.confirmed) for publisher in publishers)} confirmed, held back: {repeated}")
        assert all(client.stats.connections > 1 for client in subscribers), "the kills hit them"

        # Its acks are stored once drain returns: the application may restart, and the broker may die at once.
        for subscription in subscriptions[:2]:
            await subscription.drain()
        await broker.kill()
        broker = await running.enter_async_context(broker_process(*arguments))
        await broker.ready()
        anew = await running.enter_async_context(connected(port))
        again = [await anew.subscribe("from >= 0", durable=reader.name) for reader in readers[:2]]
        receipt = await publishers[0].client.publish({"from": 0, "last": False}, confirm="broker")
        for reader, subscription in zip(readers, again, strict=False):
            event = await subscription.next(PATIENCE_S)
            assert event.id == receipt.id, f"{reader.name}: acknowledged before, and handed out again"

        logged = await everything_logged(port, until=receipt.id)
        for publisher in publishers:
            kept = [seq for who, seq in logged if who == publisher.client.publisher]
            assert len(kept) == len(set(kept)), f"publisher {publisher.number}: logged twice"
            assert kept == sorted(kept), f"publisher {publisher.number}: logged out of order"
            assert set(publisher.confirmed) <= set(kept), f"publisher {publisher.number}: not in the log"


async def everything_logged(port: int, until: EventId) -> list[EventId]:
    """Read all events of the log frame by frame, because the SDK would drop duplicates."""
    found: list[EventId] = []
    async with await ScriptedClient.connect(port) as witness:
        await witness.hello("witness", 1)
        await witness.subscribe("true", durable="witness", start=Start.ALL)
        while until not in found[-1:]:
            frame = await witness.expect(Deliver)
            found.append(EventId(frame.publisher, frame.sequence))
            if len(found) % 100 == 0:
                await witness.send(Acknowledge(1, up_to=frame.deliveries[0][2]))
    return found


async def killed(broker: BrokerProcess, publisher: Publisher, chance: random.Random) -> str:
    """Kill the broker at a random moment: during its start and recovery, or some confirmations later.

    Sometimes the network fails with it, so that its last confirmations are lost.
    """
    if chance.random() < 0.25:
        lived_s = chance.uniform(0, 0.7)
        await asyncio.sleep(lived_s)
        await broker.kill()
        return f"{lived_s:.3f} s after its start"
    await broker.ready()
    count = chance.randrange(1, 500)
    await publisher.hears_of(count)
    if chance.random() < 0.5:
        await broker.kill()
        return f"{count} confirmations after it was ready"
    unheard_s = chance.uniform(0, 0.02)
    transport = transport_of(publisher.client)
    transport.pause_reading()
    await asyncio.sleep(unheard_s)
    await broker.kill()
    transport.abort()
    return f"{count} confirmations and {unheard_s:.3f} s of silence after it was ready"

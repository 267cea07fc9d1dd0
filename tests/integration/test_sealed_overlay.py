"""Sealed events from end to end, routed by tags.

A key server, three brokers in a triangle, two publishers, and four subscribers with different rights; one of them is
revoked. The memory and the log of a broker must not contain hidden values.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from key_servers import enrolled, key_server, realm_directory
from processes import BrokerProcess, broker_process, memory_holds, port_to_keep

import plait
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf
from plait_keyserver import FollowingSubscriberRing, Membership

TREES = {"price": Numbers(IntRange(0, 127)), "symbol": OneOf.of("IBM", "SAP")}
POLICY = """
[holders.exchange]
publish = ["symbol == 'IBM'"]
[holders.agency]
publish = ["true"]
[holders.cheap]
subscribe = ["price < 64"]
[holders.german]
subscribe = ["symbol == 'SAP'"]
[holders.all]
subscribe = ["true"]
[holders.mallory]
subscribe = ["true"]
"""
RIGHTS = {"cheap": "price < 64", "german": "symbol == 'SAP'", "all": "true", "mallory": "true"}
WANTS: dict[str, Callable[[int, str], bool]] = {
    "cheap": lambda price, symbol: price < 64,
    "german": lambda price, symbol: symbol == "SAP",
    "all": lambda price, symbol: True,
}
PRICES = (5, 100)
EPOCH_S, OVERLAP_S = 14.0, 6.0
PATIENCE_S = 60.0
PLANTED = b"a-secret-that-no-broker-may-hold-"
AFTER = 20
"""Events of each publisher in the epoch in which one subscriber is revoked."""


@asynccontextmanager
async def triangle() -> AsyncIterator[list[BrokerProcess]]:
    chance = random.SystemRandom()  # tests run side by side, and ports are taken
    ports = [port_to_keep(chance) for _ in range(3)]
    async with AsyncExitStack() as running:
        brokers = []
        for own in ports:
            links = [part for other in ports if other != own for part in ("--link", f"127.0.0.1:{other}")]
            arguments = ("--name", f"b{own}", "--listen", f"127.0.0.1:{own}", "--http", "127.0.0.1:0", *links)
            brokers.append(await running.enter_async_context(broker_process(*arguments)))
        await asyncio.gather(*(broker.ready() for broker in brokers))
        yield brokers


class Subscriber:
    """A subscriber and its events."""

    def __init__(self, subscription: plait.Subscription[plait.Event], ring: FollowingSubscriberRing) -> None:
        self.subscription, self.ring = subscription, ring
        self.read: list[bytes] = []
        self.gaps: dict[str, int] = {}

    async def listen(self) -> None:
        async for event in self.subscription:
            assert event.verified is not None
            self.read.append(event.payload)

    async def watch(self) -> None:
        async for notice in self.subscription.notices():
            if isinstance(notice, plait.Gap):
                self.gaps[notice.reason] = self.gaps.get(notice.reason, 0) + notice.count

    def epochs(self) -> set[int]:
        return self.ring.epochs()


class Town:
    """The processes and members of the test."""

    def __init__(self, running: AsyncExitStack) -> None:
        self._running = running
        self.subscribers: dict[str, Subscriber] = {}
        self.sent: list[tuple[int, int, str, bytes]] = []
        """Epoch, price, symbol, payload."""

    async def enter(self, directory: object, holder: str, keys: int, broker: BrokerProcess) -> None:
        client = await enrolled(directory, holder, keys)  # type: ignore[arg-type]
        member = await self._running.enter_async_context(await Membership.join(client))
        ring = await member.subscriber(RIGHTS[holder])
        session = await self._running.enter_async_context(plait.connect(f"plait://127.0.0.1:{broker.port}"))
        subscription = await session.subscribe(RIGHTS[holder], unseal=ring)
        subscriber = self.subscribers[holder] = Subscriber(subscription, ring)
        for work in (subscriber.listen(), subscriber.watch()):
            self._running.push_async_callback(_cancelled, asyncio.ensure_future(work))

    async def publish(self, member: Membership, grant: str, hidden: set[str] | None, port: int, until: int) -> None:
        """Publish until a number of events was sent in the epoch `until`."""
        ring, epochs = await member.publisher(grant), member.realm.schema.epochs
        async with plait.connect(f"plait://127.0.0.1:{port}") as client:
            number = after = 0
            while after < AFTER:
                price, symbol = PRICES[number % 2], "IBM" if "IBM" in grant or number % 4 < 2 else "SAP"
                payload = PLANTED + b"%s-%d" % (grant.encode(), number)
                attributes: dict[str, int | str] = {"price": price, "symbol": symbol, "note": f"{PLANTED.decode()}note"}
                before = epochs.epoch_at(ring._now_us())
                await client.publish(attributes, payload, seal=plait.Seal(ring, hidden), confirm="broker")
                self.sent.append((before, price, symbol, payload))
                number += 1
                after += before >= until
                await asyncio.sleep(0.05)


def counters(process: BrokerProcess) -> dict[str, Any]:
    """Return a broker's counters."""
    with urllib.request.urlopen(f"http://{process.http}/api/v1/broker") as answer:
        found: dict[str, Any] = json.load(answer)["counters"]
        return found


def grant_of(payload: bytes) -> bytes:
    """Return the grant with which an event was sealed."""
    return payload.removeprefix(PLANTED).rpartition(b"-")[0]


async def _cancelled(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - several things make it true
            await asyncio.sleep(0.02)


async def test_an_epoch_rolls_under_load_and_who_is_revoked_reads_nothing_after(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        brokers = await running.enter_async_context(triangle())
        directory = realm_directory(tmp_path / "realm", TREES, POLICY, epoch_s=EPOCH_S, overlap_s=OVERLAP_S)
        keys = await running.enter_async_context(key_server(directory))
        town = Town(running)
        for number, holder in enumerate(RIGHTS):
            await town.enter(directory, holder, keys, brokers[number % 3])
        members = [
            await running.enter_async_context(await Membership.join(await enrolled(directory, holder, keys)))
            for holder in ("exchange", "agency")
        ]
        mallory = town.subscribers["mallory"]
        directory.revoke("mallory", members[0]._now_us())
        last = max(mallory.epochs()) + 1  # for events in flight this may have been decided before
        publishing = [
            town.publish(members[0], "symbol == 'IBM'", None, brokers[0].port, last + 1),
            town.publish(members[1], "true", {"price", "note"}, brokers[1].port, last + 1),
        ]
        async with asyncio.timeout(2 * PATIENCE_S):
            await asyncio.gather(*publishing)
        assert {epoch for epoch, *_ in town.sent} >= {last, last + 1}, "an epoch rolled meanwhile"

        for holder, wants in WANTS.items():
            subscriber = town.subscribers[holder]
            expected = sorted(payload for _, price, symbol, payload in town.sent if wants(price, symbol))
            await until(lambda: len(subscriber.read) >= len(expected))  # noqa: B023 - awaited here
            assert sorted(subscriber.read) == expected
            assert not subscriber.gaps
        after = {payload for epoch, _, _, payload in town.sent if epoch > last}
        assert len(after) >= 2 * AFTER
        await until(lambda: mallory.gaps.get("missing_key", 0) >= len(after))
        assert mallory.read, "before, it read"
        assert not after & set(mallory.read)
        assert set(mallory.gaps) == {"missing_key"}

        counts = [await asyncio.to_thread(counters, broker) for broker in brokers]
        told = [each["tags"] for each in counts]
        assert all(each.get("tests") for each in told), "each has subscribers with keys, or a publisher"
        assert sum(each.get("fits", 0) for each in told)
        assert sum(each.get("other", 0) for each in told)
        foreign = sum(grant_of(payload) != b"true" for *_, payload in town.sent)
        assert foreign > 2 * counts[1]["arrived"], "all hidden, and none of it is for those at the second broker"

        marker = members[0].realm.short_name.hex().encode()
        for broker in brokers:
            found = [await asyncio.to_thread(memory_holds, broker.process.pid, wanted) for wanted in (marker, PLANTED)]
            assert found == [True, False], "it routes by the realm's name, and knows nothing else"
            broker.process.terminate()
        for broker in brokers:
            _, out, err = await broker.ended()
            assert PLANTED.decode() not in out + err


async def test_an_unsealed_payload_is_found_in_the_memory_of_a_broker(tmp_path: Path) -> None:
    """The memory search of the test above works."""
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        async with plait.connect(f"plait://127.0.0.1:{broker.port}") as client:
            await client.publish({"price": 5}, PLANTED + b"in the clear", confirm="broker")
            assert await asyncio.to_thread(memory_holds, broker.process.pid, PLANTED)

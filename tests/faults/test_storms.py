"""Very many clients at once (SCORECARD F12).

They connect, work and disconnect in bursts, without leaks. When their broker dies, all of them reconnect to the next
one.
"""

from __future__ import annotations

import asyncio
import random
import resource
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from processes import NIGHTLY, BrokerProcess, broker_process, drawn_chance, port_to_keep, transport_of

import plait
from plait_core.wire import HANDSHAKE_VERSION, VERSION_MAX, VERSION_MIN, Hello, Role, encode_frame

CLIENTS = 1000 if NIGHTLY else 200
ROUNDS = 10 if NIGHTLY else 6
WARMING = ROUNDS // 2
"""Rounds after which the broker's memory must not grow."""

VISIT_BYTES_MAX = 512
"""Bytes of growth allowed for each client, for the allocator's fragmentation. A leaked session is larger."""

REMEMBERED_BYTES_MAX = 1 << 20
"""Memory of the event history for `plait why`, which may still be filling."""

SHORT_MEMORY = {
    "PLAIT_BROKER__LIMITS__RESUME_S": "0.2",
    "PLAIT_BROKER__LIMITS__HELLO_TIMEOUT_S": "1.0",
    "PLAIT_BROKER__LIMITS__PUBLISHERS_MAX": str(CLIENTS),
}
"""Settings with which sessions, unknown clients and lost publishers expire during the test."""

ANY = ("--listen", "127.0.0.1:0", "--http", "off", "--log-level", "warning")
PATIENCE_S = 120.0

HELLO = encode_frame(Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "half", 1, ("resume",)), HANDSHAKE_VERSION)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _open_files() -> Iterator[None]:
    """Allow two open files for each client, one at each end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * CLIENTS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def stays_a_while(url: str, number: int, chance: random.Random) -> str:
    """Run one client. Return how it ended."""
    ending = chance.choice(("says goodbye", "vanishes", "never gets to the point"))
    if ending == "never gets to the point":
        await _half_a_hello(url, chance)
        return ending
    async with plait.connect(url, timeout=PATIENCE_S) as client:
        async with client.subscribe(f"to == {number}") as mine:
            await client.publish({"to": number}, bytes(200))
            event = await mine.next(PATIENCE_S)
            assert event["to"] == number
            if ending == "vanishes":
                transport_of(client).abort()
    return ending


async def held_for_nobody(broker: BrokerProcess) -> int:
    """Return the broker's descriptors without clients. Its event loop keeps one after the first client."""
    before = broker.descriptors
    async with plait.connect(f"plait://127.0.0.1:{broker.port}"):
        assert broker.descriptors > before
    await broker.lets_go_of(before + 1)
    return broker.descriptors


async def _half_a_hello(url: str, chance: random.Random) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(HELLO[: chance.randrange(len(HELLO))])
    await asyncio.sleep(0)
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass


async def test_storms_of_clients_leave_nothing_behind() -> None:
    chance = drawn_chance()
    async with broker_process(*ANY, environment=SHORT_MEMORY) as broker:
        await broker.ready()
        url = f"plait://127.0.0.1:{broker.port}"
        alone = await held_for_nobody(broker)
        resident: list[int] = []
        endings: Counter[str] = Counter()
        for _ in range(ROUNDS):
            async with asyncio.timeout(PATIENCE_S):
                endings.update(await asyncio.gather(*(stays_a_while(url, n, chance) for n in range(CLIENTS))))
            await broker.lets_go_of(alone)
            resident.append(broker.resident_bytes)
        print(f"{endings}, resident {[size >> 10 for size in resident]} KiB")
        assert len(endings) == 3
        assert endings.total() == CLIENTS * ROUNDS
        visits = CLIENTS * (ROUNDS - WARMING)
        left = max(resident[WARMING:]) - max(resident[:WARMING])
        assert left <= REMEMBERED_BYTES_MAX + VISIT_BYTES_MAX * visits


# --- the herd ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def herd(url: str) -> AsyncIterator[list[tuple[plait.Client, plait.Subscription[plait.Event]]]]:
    """Connect clients that each subscribe to their own number and to the common events."""
    async with AsyncExitStack() as all_of_them:

        async def one(number: int) -> tuple[plait.Client, plait.Subscription[plait.Event]]:
            client = await all_of_them.enter_async_context(plait.connect(url, timeout=PATIENCE_S))
            return client, await client.subscribe(f"to in [{number}, -1]")

        yield await asyncio.gather(*map(one, range(CLIENTS)))


async def told_of_a_gap(subscription: plait.Subscription[plait.Event]) -> str:
    """Wait until a client has its gap notice and has subscribed again."""
    async for notice in subscription.notices():
        if isinstance(notice, plait.Gap):
            return notice.reason
    raise AssertionError("it ended")


async def test_all_clients_reconnect_after_the_broker_died() -> None:
    chance = drawn_chance()
    port = port_to_keep(chance)
    arguments = ("--listen", f"127.0.0.1:{port}", *ANY[2:])
    async with AsyncExitStack() as brokers:
        broker = await brokers.enter_async_context(broker_process(*arguments))
        await broker.ready()
        alone = await held_for_nobody(broker)
        async with herd(f"plait://127.0.0.1:{port}") as clients, asyncio.timeout(PATIENCE_S):
            for death in range(3 if NIGHTLY else 1):
                gaps = [asyncio.create_task(told_of_a_gap(subscription)) for _, subscription in clients]
                await broker.kill()
                broker = await brokers.enter_async_context(broker_process(*arguments))
                await broker.ready()
                assert set(await asyncio.gather(*gaps)) == {"reconnected"}, "and each of them knows it"
                at = chance.randrange(CLIENTS)
                receipt = await clients[at][0].publish({"to": -1, "n": death}, confirm="broker")
                assert receipt.matched == CLIENTS, "every subscription is open again, and none twice"
                heard = await asyncio.gather(*(subscription.next(PATIENCE_S) for _, subscription in clients))
                assert {event["n"] for event in heard} == {death}
        await broker.lets_go_of(alone)
        print(f"welcomes of each: {Counter(client.stats.connections for client, _ in clients)}")

"""Real brokers and peers, joined by real bridges: events cross once, in both directions, even when a bridge dies."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from processes import put_away

import plait
from plait.bridge.bridge import Bridge, BridgeSettings
from plait.bridge.interest import CELLS, cells_of
from plait_core.filters import parse
from plait_core.space import FloatRange, IntRange, Schema

PATIENCE_S = 90.0


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run `plait ...` until the end of the block. Yield its ready line."""
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plait", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert running.stdout is not None
    try:
        yield running, (await running.stdout.readline()).decode()
    finally:
        await put_away(running)


class Receiver:
    """Counts the events that one subscription has received."""

    def __init__(self, subscription: plait.Subscription[plait.Event]) -> None:
        self.received: Counter[int] = Counter()
        self._changed = asyncio.Condition()
        self.task = asyncio.create_task(self._receive(subscription))

    async def _receive(self, subscription: plait.Subscription[plait.Event]) -> None:
        async for event in subscription:
            async with self._changed:
                self.received[int(str(event["x"]))] += 1
                self._changed.notify_all()

    async def has(self, events: range) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: set(events) <= set(self.received))


async def test_two_bridges_carry_everything_once_and_one_of_them_dies() -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        _, line = await stack.enter_async_context(process("broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))
        url = f"plait://{dict(word.split('=') for word in line.split()[1:])['listen']}"
        broker = await stack.enter_async_context(plait.connect(url))
        peer = await stack.enter_async_context(plait.peer(group="joined", timeout=PATIENCE_S))
        # Subscriptions of other peers open only when this publisher reaches them, so none of them misses an event.
        await peer.advertise("has(x)")
        across = ("bridge", "--url", url, "--join", peer.address, "--group", "joined")
        bridges = [await stack.enter_async_context(process(*across)) for _ in range(2)]
        assert all(line.startswith("ready listen=") for _, line in bridges)
        receivers = [Receiver(await stack.enter_async_context(client.subscribe("x >= 0"))) for client in (broker, peer)]

        async def publish(events: range) -> None:
            async with asyncio.TaskGroup() as tasks:
                for x in events:
                    if x % 2:
                        await broker.publish({"x": x})
                    else:  # peers lose what is in flight through a peer that dies, unless it is confirmed
                        tasks.create_task(peer.publish({"x": x}, confirm="subscribers"))

        await publish(range(300))
        for receiver in receivers:
            await receiver.has(range(300))
        # The eldest bridge carries events. When it dies, new events wait until the other one takes over.
        bridges[0][0].kill()
        await bridges[0][0].wait()
        await publish(range(300, 600))
        for receiver in receivers:
            await receiver.has(range(600))
        assert all(set(receiver.received.values()) == {1} for receiver in receivers), (
            "nothing twice, and nothing came back"
        )
        for receiver in receivers:
            receiver.task.cancel()


async def test_a_bridge_forwards_the_events_of_its_filters() -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        _, line = await stack.enter_async_context(process("broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))
        url = f"plait://{dict(word.split('=') for word in line.split()[1:])['listen']}"
        broker = await stack.enter_async_context(plait.connect(url))
        peer = await stack.enter_async_context(plait.peer(timeout=PATIENCE_S))
        across = ("bridge", "--url", url, "--join", peer.address, "--to-peers", "x > 10", "--to-brokers", "false")
        await stack.enter_async_context(process(*across))
        events = await stack.enter_async_context(peer.subscribe("has(x)"))
        for x in range(20):
            await broker.publish({"x": x}, json.dumps(x).encode(), headers={"kind": "test"}, priority=3, ttl=60)
        heard = [await anext(events) for _ in range(9)]
        assert [event["x"] for event in heard] == list(range(11, 20))
        assert all(event.payload == json.dumps(event["x"]).encode() for event in heard)
        assert all(event.headers["kind"] == "test" and event.priority == 3 for event in heard)
        assert all(0 < (event.lifetime_left or 0) < 60 for event in heard)


SPACE = {"kind": 8, "size": 64}


@asynccontextmanager
async def interested() -> AsyncIterator[tuple[plait.Client, plait.Client, Bridge]]:
    """A broker's client, a peer, and a bridge between them that carries by interest."""
    schema = Schema.of({name: IntRange(0, size - 1) for name, size in SPACE.items()})
    async with AsyncExitStack() as stack:
        _, line = await stack.enter_async_context(process("broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))
        url = f"plait://{dict(word.split('=') for word in line.split()[1:])['listen']}"
        broker = await stack.enter_async_context(plait.connect(url))
        peer = await stack.enter_async_context(plait.peer(space=schema, timeout=PATIENCE_S))
        brokers = await stack.enter_async_context(plait.connect(url))
        peers = await stack.enter_async_context(plait.peer(peer.address, space=schema, timeout=PATIENCE_S))
        crossing = BridgeSettings(by_interest=True, cells=cells_of(schema))
        yield broker, peer, await stack.enter_async_context(Bridge(brokers, peers, crossing))


async def until(client: plait.Client, attributes: dict[str, int], events: plait.Subscription[plait.Event]) -> None:
    """Publish until the event arrives on the other side: the interest has then crossed the bridge."""
    while True:
        await client.publish(attributes)
        try:
            async with asyncio.timeout(0.3):
                while (event := await anext(events))["size"] != attributes["size"]:
                    pass  # of those before, as often as they were published
                assert event["kind"] == attributes["kind"]
                return
        except TimeoutError:
            continue


async def test_a_bridge_by_interest_carries_what_is_asked_for_and_leaves_the_rest() -> None:
    async with asyncio.timeout(PATIENCE_S), interested() as (broker, peer, bridging):
        async with peer.advertise("kind >= 0"), broker.advertise("kind >= 0"):
            async with broker.subscribe("kind == 2") as at_broker, peer.subscribe("kind == 5") as at_peer:
                await until(peer, {"kind": 2, "size": 1}, at_broker)
                await until(broker, {"kind": 5, "size": 2}, at_peer)
                carried = bridging.counts.copy()
                for size in range(40):
                    for kind in (0, 1, 3, 4, 6, 7):
                        await peer.publish({"kind": kind, "size": size})
                        await broker.publish({"kind": kind, "size": size})
                await until(peer, {"kind": 2, "size": 50}, at_broker)
                await until(broker, {"kind": 5, "size": 51}, at_peer)
                more = bridging.counts - carried
                assert sum(more.values()) <= 100, "events without interest are not carried"
                # Interest that comes later is followed, and that which was there is not disturbed.
                async with broker.subscribe("kind == 7") as later:
                    await until(peer, {"kind": 7, "size": 3}, later)
                    await until(peer, {"kind": 2, "size": 52}, at_broker)


def test_cells_make_up_the_space_and_meet_nowhere() -> None:
    for space in (
        Schema.of({"kind": IntRange(0, 7)}),
        Schema.of({"kind": IntRange(-100, 1000)}),
        Schema.of({"only": IntRange(3, 3), "price": FloatRange(0.0, 10.0)}),
        None,
    ):
        cells = [parse(cell) for cell in cells_of(space)]
        assert len(cells) <= CELLS
        for x in range(-100, 1001, 7):
            event = {"kind": x, "only": 3, "price": x / 100}
            assert sum(cell.matches(event) for cell in cells) == 1

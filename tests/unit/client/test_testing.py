"""`plait.testing`: clients and a broker in memory, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import plait
import plait.testing
from plait.testing import Network, VirtualLoop, installed_broker, run


def network(**options: Any) -> Network:
    """A network with the installed broker."""
    return Network(**options)


def test_an_hour_takes_no_time() -> None:
    async def main() -> float:
        async with network() as net:
            client = await net.connect()
            async with client.subscribe("price < 120") as quotes:
                await client.publish({"price": 99})
                await asyncio.sleep(3600)
                assert (await quotes.next())["price"] == 99
            return asyncio.get_running_loop().time()

    assert run(main()) > 3600  # in real time the test would exceed its timeout


def test_delay_is_that_of_the_network_and_no_other() -> None:
    async def main() -> None:
        async with network(delay_s=0.010) as net:
            client = await net.connect()
            events = await client.subscribe("true")
            await asyncio.sleep(10)
            for _ in range(3):
                await client.publish({})
                assert (await events.next()).delay == pytest.approx(0.020, abs=0.002)
            assert await client.rtt() == pytest.approx(0.020, abs=1e-6)

    run(main())


def test_two_runs_are_the_same() -> None:
    async def main(seed: int) -> list[Any]:
        async with network(seed=seed) as net:
            one, two = await net.connect(), await net.connect()
            events = await one.subscribe("n >= 0")
            for n in range(5):
                await two.publish({"n": n})
                if n == 2:
                    net.cut()
                    await asyncio.sleep(1)
            await two.flush()
            times = [(event.id, event.delay) async for event in _first(events, 4)]
            return [*times, asyncio.get_running_loop().time()]

    assert run(main(1)) == run(main(1)) != run(main(2))


async def _first(events: Any, count: int) -> Any:
    for _ in range(count):
        try:
            yield await events.next(1)
        except plait.Timeout:
            return


def test_cut_connections_are_resumed_and_what_was_confirmed_comes_once() -> None:
    async def main() -> None:
        async with network() as net:
            client = await net.connect()
            events = await client.subscribe("true")
            for n in range(20):
                waiting = asyncio.ensure_future(client.publish({"n": n}, confirm="broker"))
                await asyncio.sleep(0.0015)
                if n % 4 == 0:
                    net.cut()
                await waiting
            await asyncio.sleep(5)
            got = [event["n"] async for event in _first(events, 30)]
            assert got == sorted(set(got))
            assert len(got) + events.stats.dropped >= 20
            assert client.stats.connections == 6

    run(main())


def test_a_broker_that_restarts_is_a_gap_and_nothing_worse() -> None:
    async def main() -> None:
        async with network() as net:
            client = await net.connect()
            events = await client.subscribe("true")
            net.restart()
            await client.publish({"n": 1}, confirm="broker")
            assert (await events.next(5))["n"] == 1
            async for notice in events.notices():
                assert notice == plait.Gap("reconnected")
                break

    run(main())


async def test_the_in_memory_broker_works_in_real_time() -> None:
    async with network() as net:
        client = await net.connect()
        events = await client.subscribe("true")
        await client.publish({"n": 1})
        assert (await events.next(5))["n"] == 1


def test_a_test_that_waits_for_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plait.testing, "_STUCK_S", 0.05)

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="stuck"):
        run(main())


def test_a_virtual_loop_is_an_event_loop() -> None:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for n in (3, 1, 2):
            loop.call_later(n, order.append, n)
        await asyncio.sleep(4)
        return order

    assert run(main()) == [1, 2, 3]


def test_without_the_broker_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plait.testing, "entry_points", lambda **_: [])
    with pytest.raises(plait.NotAvailable, match="plait-broker"):
        installed_broker()


@pytest.mark.parametrize(("start", "expected"), [("all", [0, 1, 2, 3, 4, 5]), (4, [3, 4, 5]), ("new", [5])])
def test_a_durable_place_is_moved_while_it_is_held(start: str | int, expected: list[int]) -> None:
    """Its holder reads on from there, though it has seen and acknowledged those events."""

    async def story() -> None:
        async with Network(delay_s=0.010) as network:
            worker, operator = await network.connect(), await network.connect()
            async with worker.subscribe("n >= 0", durable="d") as events:
                for n in range(5):
                    await operator.publish({"n": n}, confirm="broker")
                assert [(await events.next(timeout=1))["n"] for _ in range(5)] == [0, 1, 2, 3, 4]
                await operator.seek_durable("d", start, force=True)
                await operator.publish({"n": 5}, confirm="broker")
                assert [(await events.next(timeout=1))["n"] for _ in expected] == expected
                with pytest.raises(TimeoutError):
                    await events.next(timeout=1)

    run(story())


def test_a_durable_subscription_reads_what_was_published_before_it() -> None:
    async def main() -> None:
        async with network() as net:
            client = await net.connect()
            async with client.subscribe("n >= 0", durable="first"):
                for n in range(600):  # more than one reading of the log
                    await client.publish({"n": n}, confirm="broker")
            async with client.subscribe("n >= 0", durable="second", start="all") as events:
                assert [(await events.next(10))["n"] for _ in range(600)] == list(range(600))

    run(main())

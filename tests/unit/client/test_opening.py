"""The results of `subscribe`, `connect` and `advertise`: await, `async with`, `async for`, a warning, reprs."""

# ruff: noqa: ASYNC110 - the client has no asyncio.Event for its number of subscriptions

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import assert_type

import pytest

import plait
from plait import testing
from plait.testing import Network


async def test_a_subscription_is_iterated_without_being_entered() -> None:
    async with Network() as network:
        client = await network.connect()
        taken = []

        async def read() -> None:
            async for event in client.subscribe("n > 0"):
                assert_type(event, plait.Event)
                taken.append(event["n"])
                if event["n"] == 3:
                    break

        reading = asyncio.create_task(read())
        while "1 subscription" not in repr(client):
            await asyncio.sleep(0)
        await client.flush()
        for n in range(5):
            await client.publish({"n": n})
        await asyncio.wait_for(reading, 10)
        assert taken == [1, 2, 3]
        while "0 subscriptions" not in repr(client):  # leaving the loop closes it
            await asyncio.sleep(0)
        receipt = await client.publish({"n": 4}, confirm="broker")
        assert receipt.matched == 0


async def test_an_iterated_subscription_that_is_refused_raises() -> None:
    async with Network() as network:
        client = await network.connect()
        await client.close()
        with pytest.raises(plait.Closed):
            async for _ in client.subscribe("true"):
                pass


async def test_only_a_subscription_is_iterated() -> None:
    async with Network() as network:
        client = await network.connect()
        with pytest.raises(TypeError, match=r"advertise\(.*only a subscription"):
            async for _ in client.advertise("true"):  # type: ignore[misc]
                pass


@pytest.mark.parametrize(
    ("forget", "named"),
    [
        (
            lambda client: client.subscribe("price < 3"),
            r"^subscribe\('price < 3'\) was never awaited: use await, async",
        ),
        (lambda client: client.advertise("price < 3"), r"^advertise\('price < 3'\) was never awaited"),
        (lambda client: plait.connect("plait://token@127.0.0.1:1"), r"^connect\('plait://127.0.0.1:1'\) was never"),
    ],
)
def test_an_opening_that_is_never_used_causes_a_warning(forget: Callable[[plait.Client], object], named: str) -> None:
    async def story() -> None:
        async with Network() as network:
            client = await network.connect()
            with pytest.warns(RuntimeWarning, match=named) as raised:
                forget(client)  # nothing refers to the result, so it is deleted here
            assert raised[0].filename == __file__

    testing.run(story())


def test_an_opening_that_is_used_causes_no_warning() -> None:
    async def story() -> None:
        async with Network() as network:
            client = await network.connect()
            await client.subscribe("n > 0")
            async with client.subscribe("n > 1"), client.advertise("n > 0"):
                pass
            with pytest.raises(plait.FilterSyntax):
                client.subscribe("n >")
            gc.collect()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        testing.run(story())


async def test_reprs_show_the_state() -> None:
    async with Network() as network:
        client = await network.connect(name="desk")
        assert repr(client) == "<Client desk: connected to testing at plait://testing:4680, 0 subscriptions>"
        opening = client.subscribe("n > 0", durable="work", start="all")
        assert repr(opening) == "<Opening of subscribe('n > 0'): not awaited yet>"
        numbers = await opening
        assert repr(numbers) == "<Subscription 'n > 0': open, durable 'work', 0 pending, 0 dropped>"
        offer = await client.advertise("n > 0")
        await client.flush()
        assert repr(offer) == "<Advertisement 'n > 0': matching>"
        receipt = await client.publish({"n": 1}, b"xyz", confirm="broker")
        assert repr(receipt) == f"Receipt({client.publisher:016x}-1, matched=1)"
        event = await numbers.next(5)
        assert repr(event) == f"<Event {receipt.id}: {{'n': 1}}, payload of 3 bytes>"
        event.ack()
        await offer.close()
        assert repr(offer) == "<Advertisement 'n > 0': closed>"
        await numbers.close()
        assert repr(numbers).startswith("<Subscription 'n > 0': ended")
        network.cut()
        assert repr(client).startswith("<Client desk: not connected to testing at")
        await client.close()
        assert repr(client) == "<Client desk: closed, 0 subscriptions>"


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert plait.__version__ == version("plait")

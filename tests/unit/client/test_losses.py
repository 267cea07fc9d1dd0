"""Publishes without confirmation over breaking connections, against the real broker: each loss is counted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from plait.testing import Network, run


@pytest.mark.parametrize("on_their_way", [0, 1, 7])
def test_publishes_on_their_way_when_a_connection_breaks_are_counted(
    on_their_way: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Network(delay_s=0.010) as network:
            client, other = await network.connect(), await network.connect()
            subscription = await other.subscribe("n >= 0")
            for number in range(5):
                await client.publish({"n": number})
            await client.flush()
            for number in range(on_their_way):
                await client.publish({"n": 100 + number})
            await asyncio.sleep(0.001)
            network.cut()
            await client.flush()
            await other.flush()
            assert client.stats.publishes_lost == on_their_way
            await client.publish({"n": 200})
            await client.flush()
            heard = [(await subscription.next(timeout=1))["n"] for _ in range(6)]
            assert heard == [0, 1, 2, 3, 4, 200]

    with caplog.at_level(logging.WARNING, logger="plait"):
        run(story())
    told = [record.getMessage() for record in caplog.records if "lost with the connection" in record.getMessage()]
    assert [text.split()[0] for text in told] == ([str(on_their_way)] if on_their_way else [])


def test_publishes_that_a_dead_broker_may_have_are_counted_as_uncertain(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Network(delay_s=0.010) as network:
            client = await network.connect()
            for number in range(5):
                await client.publish({"n": number})
            await client.flush()
            for number in range(3):
                await client.publish({"n": 100 + number})
            await asyncio.sleep(0.001)
            network.restart()
            await client.flush()
            assert (client.stats.publishes_lost, client.stats.publishes_uncertain) == (0, 3)

    with caplog.at_level(logging.WARNING, logger="plait"):
        run(story())
    assert any("3 publishes may have been lost" in record.getMessage() for record in caplog.records)


def test_a_publish_that_comes_alone_is_written_at_once_and_those_in_bursts_together() -> None:
    async def story() -> None:
        async with Network() as network:
            client = await network.connect()
            await client.flush()
            await asyncio.sleep(1)  # nothing is pending any more
            written: list[int] = []
            transport = client._driver._wire.transport  # type: ignore[union-attr]
            assert transport is not None
            write = transport.write

            def noted(data: bytes) -> None:
                written.append(data.count(b"payload"))
                write(data)

            transport.write = noted  # type: ignore[method-assign,assignment]
            await client.publish({"n": 0}, b"payload")
            assert written == [1], "written before the next turn of the loop"
            for _ in range(2):
                await client.publish({"n": 1}, b"payload")
            await asyncio.sleep(0)
            assert written == [1, 2], "publishes of the same turn are joined"
            await client.publish({"n": 2}, b"payload")
            assert written == [1, 2], "the publish after a burst waits for the end of the turn"
            await asyncio.sleep(0)
            await client.publish({"n": 3}, b"payload")
            assert written == [1, 2, 1, 1]
            await client.flush()
            assert client.stats.waiting == 0

    run(story())

"""The driver when the broker raises, which is an error of ours: it counts and logs it, and takes the rest soon.

It also measures how long the loop is busy.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from time import monotonic
from typing import Final

import pytest

from plait_broker.broker import Broker
from plait_broker.clients.access import Caller, OpenGate
from plait_broker.overlay.outputs import LogRemark
from plait_broker.server.driver import BrokerDriver
from plait_broker.settings import BrokerSettings

PATIENCE_S: Final = 30.0


def test_an_output_that_raises_is_counted_and_the_rest_is_taken_soon(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        broker = Broker(BrokerSettings(name="b"), Random(1), OpenGate(), now=monotonic(), wall_us=10**15)
        driver = BrokerDriver(broker, None)
        driver.start(lambda address: None)
        handlers = broker._adapter._handlers
        handle = handlers[LogRemark]

        def fail_once(remark: LogRemark, now: float) -> None:
            handlers[LogRemark] = handle
            raise RuntimeError("planted")

        handlers[LogRemark] = fail_once
        broker.overlay.outputs += [LogRemark("the first"), LogRemark("the second")]
        async with asyncio.timeout(PATIENCE_S):
            while "the second" not in caplog.messages:
                driver.changed.clear()
                await driver.changed.wait()
        assert broker.counters.faults["internal"] == 1
        await driver.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    assert "the first" not in caplog.messages
    assert any(message.startswith("internal error") for message in caplog.messages)


def test_the_loop_is_busy_while_the_broker_works() -> None:
    work_s = 0.02

    async def play() -> None:
        began = monotonic()
        broker = Broker(BrokerSettings(name="b"), Random(1), OpenGate(), now=began, wall_us=10**15)
        driver = BrokerDriver(broker, None)
        driver.start(lambda address: None)

        def work(*arguments: object) -> None:
            until = monotonic() + work_s
            while monotonic() < until:
                pass

        broker.receive = broker.tick = work  # type: ignore[method-assign, assignment]
        link = driver.opened(Unread(), Caller("127.0.0.1:1"))  # type: ignore[arg-type]
        driver.received(link, b"x")
        read_s = broker.counters.busy_s
        assert read_s >= work_s
        driver._tick()
        assert broker.counters.busy_s - read_s >= work_s
        assert broker.counters.busy_s <= monotonic() - began, "nothing counts twice"
        driver._stopped = True

    asyncio.run(play())


class Unread:
    """A connection whose other end takes everything."""

    def write(self, chunks: list[bytes]) -> None:
        pass

"""A responder that raises: the requester gets an exception at once, not a timeout."""

# ruff: noqa: ASYNC110 - the client has no asyncio.Event for its number of subscriptions

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import pytest

import plait
from plait.request_reply import FAILURE_CHARACTERS_MAX
from plait.testing import Network, run

LONG = "1h"
"""A timeout that no test waits for: on virtual time, a failure by timeout would show as `plait.Timeout`."""


async def _responder(client: plait.Client, handle: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Return a task that handles requests in an `async with` block, once it is subscribed."""

    async def serve() -> None:
        async with client.subscribe("ask == true") as requests:
            async for _ in requests:
                await handle()

    serving = asyncio.create_task(serve())
    while "1 subscription" not in repr(client):
        await asyncio.sleep(0.001)
    await client.flush()
    return serving


def test_a_callback_that_raises_fails_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Network() as network:
            asker, server = await network.connect(), await network.connect()
            requests = await server.subscribe("has(number)")

            async def divide(request: plait.Event) -> None:
                await request.reply({"result": 100 // int(str(request["number"]))})

            requests.on(divide, concurrency=2)
            with pytest.raises(
                plait.RequestFailed, match=r"^ZeroDivisionError: .*zero.*log of the responder"
            ) as failed:
                await asker.request({"number": 0}, timeout=LONG)
            assert not failed.value.retryable
            assert (await asker.request({"number": 5}, timeout=LONG))["result"] == 20
            assert requests.stats.errors == 1
            await asker.publish({"number": 0})  # no request: its failure has no receiver
            await asker.flush()
            assert asker.stats.published == server.stats.published + 1

    with caplog.at_level(logging.CRITICAL, "plait"):
        run(story())


def test_a_failure_after_the_reply_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Network() as network:
            asker, server = await network.connect(), await network.connect()

            async def late(request: plait.Event) -> None:
                await request.reply({"result": 1})
                raise RuntimeError("after the reply")

            (await server.subscribe("ask == true")).on(late)
            assert (await asker.request({"ask": True}, timeout=LONG))["result"] == 1
            await asyncio.sleep(1)
            assert server.stats.published == 1

    with caplog.at_level(logging.CRITICAL, "plait"):
        run(story())


def test_an_exception_that_leaves_the_block_fails_the_request() -> None:
    async def story() -> None:
        async with Network() as network:
            asker, server = await network.connect(), await network.connect()

            async def fail() -> None:
                raise KeyError("symbol\ud800" + "x" * 2000)

            serving = await _responder(server, fail)
            with pytest.raises(plait.RequestFailed, match="^KeyError: 'symbol") as failed:
                await asker.request({"ask": True}, timeout=LONG)
            assert len(failed.value.message) == FAILURE_CHARACTERS_MAX
            with pytest.raises(KeyError):
                await serving

    run(story())


def test_cancelling_a_responder_is_no_failure_of_the_request() -> None:
    async def story() -> None:
        async with Network() as network:
            asker, server = await network.connect(), await network.connect()

            async def work() -> None:
                await asyncio.sleep(3600)

            serving = await _responder(server, work)
            asking = asyncio.create_task(asker.request({"ask": True}, timeout="5s"))
            await asyncio.sleep(1)
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            with pytest.raises(plait.Timeout):
                await asking

    run(story())

"""Wrong arguments: each raises one of Plait's errors, with a hint, before anything is sent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

import plait
from plait import testing
from plait.commands.terminal.durations import DURATION
from plait.options import durations

AT = "plait://127.0.0.1:4680"


@pytest.mark.parametrize(
    ("wrongly", "right"),
    [
        ({"name": 5}, "text"),
        ({"auth": 5}, "token"),
        ({"tls": 5}, "SSLContext"),
        ({"heartbeat": 0}, "above zero"),
        ({"timeout": True}, "seconds"),
        ({"timeout": "5"}, "5s or 5ms"),
        ({"reconnect": 5}, "plait.Reconnect"),
        ({"outbox": 5}, "plait.Outbox"),
    ],
)
def test_connect_refuses_invalid_arguments_with_a_hint(wrongly: dict[str, Any], right: str) -> None:
    with pytest.raises(plait.ArgumentInvalid) as said:
        plait.connect(AT, **wrongly)
    assert next(iter(wrongly)) in said.value.message
    assert right in said.value.hint


@pytest.mark.parametrize("url", [5, [AT, 5], b"plait://h"])
def test_invalid_urls_are_reported(url: Any) -> None:
    with pytest.raises(plait.Error, match="no URL"):
        plait.connect(url)


def test_subscribe_and_publish_refuse_invalid_arguments_with_a_hint() -> None:
    async def story() -> None:
        async with testing.Network() as network:
            await say(await network.connect())

    async def say(client: Any) -> None:
        wrong: dict[str, Any] = {"late": "never", "buffer": 5, "ack": "x", "as_": 5, "durable": 5, "unseal": 5}
        for name, given in wrong.items():
            with pytest.raises(plait.ArgumentInvalid, match=f"{name}=") as refused:
                client.subscribe("true", **{name: given})
            assert refused.value.hint
        for name, given in {"priority": 10, "confirm": "all", "seal": 5, "timeout": "soon"}.items():
            with pytest.raises(plait.ArgumentInvalid, match=f"{name}="):
                await client.publish({}, **{"confirm": "broker", name: given})
        for duration in ("50", "50 parsecs", "soon", 0, -1, True, float("nan"), float("inf"), b"1s", "9" * 400 + "s"):
            with pytest.raises(ValueError, match="within="):
                client.subscribe("true", within=duration)
            with pytest.raises(plait.ArgumentInvalid, match="ttl="):
                await client.publish({}, ttl=duration)
        with pytest.raises(plait.EventInvalid, match="mapping"):
            await client.publish({}, headers=5)
        for schema in (5, {"price": "float"}):
            with pytest.raises(plait.ArgumentInvalid, match="types"):
                client.advertise("true", schema=schema)
        assert client.stats.published == 0
        await client.close()
        with pytest.raises(plait.Closed):
            await client.rtt()

    testing.run(story())


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("50ms", 0.05), (" 2 s ", 2), ("1.5m", 90), ("10us", 1e-5), ("10µs", 1e-5), ("1h", 3600), ("1d", 86400), (3, 3)],
)
def test_sdk_and_command_line_read_durations_alike(written: str | int, seconds: float) -> None:
    assert durations.seconds(written, "within") == pytest.approx(seconds)
    assert DURATION.convert(written, None, None) == pytest.approx(seconds)
    assert durations.seconds(timedelta(seconds=seconds), "within") == pytest.approx(seconds)


@pytest.mark.parametrize("wrong", ["50", "soon", "5 parsecs", "0s", "-1s", "1s 2s", ""])
def test_sdk_and_command_line_refuse_the_same_durations(wrong: str) -> None:
    with pytest.raises(plait.ArgumentInvalid):
        durations.seconds(wrong, "within")
    with pytest.raises(click.BadParameter):
        DURATION.convert(wrong, None, None)


def test_every_duration_may_be_a_text() -> None:
    async def story() -> None:
        async with testing.Network() as network:
            client = await network.connect(timeout="3s", heartbeat="500ms")
            async with client.subscribe("has(n)", within="50ms") as events:
                with pytest.raises(plait.Timeout, match="no event within 0.02 s"):
                    await events.next("20ms")
                await client.publish({"n": 1}, ttl="2s", deadline="1m", confirm="broker", timeout="1s")
                event = await events.next(timedelta(seconds=1))
                assert event.lifetime_left == pytest.approx(2, abs=0.1)
                with pytest.raises(plait.Timeout, match="no reply within 0.03 s"):
                    await client.request({"n": 2}, timeout="30ms")
                assert await client.rtt("1s") >= 0
                await client.flush("1s")
                await events.drain("1s")
            await client.drain("1s")

    testing.run(story())


def test_a_start_without_a_durable_subscription_is_refused_for_that_reason() -> None:
    async def story() -> None:
        async with testing.Network() as network:
            client = await network.connect()
            for start in ("all", 5, datetime.now(UTC)):
                with pytest.raises(plait.ArgumentInvalid, match="without durable=.*durable subscriptions only"):
                    client.subscribe("true", start=start)
            async with client.subscribe("true", start="new"):
                pass

    testing.run(story())


async def test_an_unknown_option_is_rejected_by_mypy_and_at_run_time() -> None:
    """Each `type: ignore` here would be reported as unused if mypy accepted the option."""
    with pytest.raises(TypeError, match="connect.. got an unexpected keyword argument 'nome'"):
        plait.connect(AT, nome="a")  # type: ignore[call-arg]
    async with testing.Network() as network:
        client = await network.connect()
        with pytest.raises(TypeError, match="subscribe.. got an unexpected keyword argument 'whithin'"):
            client.subscribe("true", whithin=1)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="publish.. got an unexpected keyword argument 'confrim'"):
            await client.publish({}, confrim="broker")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="try_publish.. got an unexpected keyword argument 'confirm'"):
            client.try_publish({}, confirm="broker")  # type: ignore[call-arg]
        async with client.advertise("true") as advertisement:
            with pytest.raises(TypeError, match="unexpected keyword argument 'tll'"):
                await advertisement.publish({}, tll=1)  # type: ignore[call-arg]


def test_help_shows_every_option_with_its_meaning() -> None:
    for function, options in (
        (plait.connect, [plait.ConnectOptions]),
        (plait.sync.connect, [plait.ConnectOptions]),
        (plait.Client.publish, [plait.EventOptions, plait.PublishOptions]),
        (plait.Client.try_publish, [plait.EventOptions]),
        (plait.Advertisement.publish, [plait.EventOptions, plait.PublishOptions]),
        (plait.Client.subscribe, [plait.SubscribeOptions]),
        (plait.sync.Client.subscribe, [plait.SubscribeOptions]),
    ):
        for name in (name for each in options for name in each.__annotations__):
            assert f"- `{name}`: " in (function.__doc__ or "")


async def test_a_foreign_server_is_not_taken_for_a_broker() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(plait.FrameError) as said:
        await plait.connect(f"plait://127.0.0.1:{port}", reconnect=False)
    assert "no Plait broker" in said.value.hint
    server.close()
    await server.wait_closed()

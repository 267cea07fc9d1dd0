"""Wrong arguments: each raises one of Plait's errors, with a hint, before anything is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import plait
from plait import testing

AT = "plait://127.0.0.1:4680"


@pytest.mark.parametrize(
    ("wrongly", "right"),
    [
        ({"name": 5}, "text"),
        ({"auth": 5}, "token"),
        ({"tls": 5}, "SSLContext"),
        ({"heartbeat": "2s"}, "seconds"),
        ({"timeout": True}, "seconds"),
        ({"reconnect": 5}, "plait.Reconnect"),
        ({"outbox": 5}, "plait.Outbox"),
    ],
)
def test_connect_refuses_invalid_arguments_with_a_hint(wrongly: dict[str, Any], right: str) -> None:
    with pytest.raises(plait.NotAvailable) as said:
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
        for wrongly in ({"late": "never"}, {"buffer": 5}):
            with pytest.raises(plait.NotAvailable, match=next(iter(wrongly))):
                client.subscribe("true", **wrongly)
        for duration in ("50ms", True, float("nan")):
            with pytest.raises(plait.EventInvalid, match="seconds above zero"):
                client.subscribe("true", within=duration)
            with pytest.raises(plait.EventInvalid, match="seconds above zero"):
                await client.publish({}, ttl=duration)
        with pytest.raises(plait.EventInvalid, match="mapping"):
            await client.publish({}, headers=5)
        for schema in (5, {"price": "float"}):
            with pytest.raises(plait.NotAvailable, match="types"):
                client.advertise("true", schema=schema)
        assert client.stats.published == 0
        await client.close()
        with pytest.raises(plait.Closed):
            await client.rtt()

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

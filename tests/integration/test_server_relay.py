"""The relay between real sockets, on both event loops: bytes, ends, resets, pressure; and its control port."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from plait.errors import ConnectionLost, Refused
from plait.relay.connection import reset
from plait.relay.control import ask_control, serve_control
from plait.relay.relay import Relay, Shape

PATIENCE_S = 10.0


class Echo:
    """An echo server that reports the received bytes."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()
        """Whether some connection was closed or reset."""

    def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.tasks.add(asyncio.get_running_loop().create_task(self._converse(reader, writer)))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            self.ended.set()
            await closed(writer)


@asynccontextmanager
async def relayed(forth: Shape | None = None, back: Shape | None = None) -> AsyncIterator[tuple[Relay, Echo]]:
    echo = Echo()
    server = await asyncio.start_server(echo.converse, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE_S):
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Relay(place, forth=forth, back=back) as relay:
            yield relay, echo
        await asyncio.gather(*echo.tasks)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def dialled(place: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = place.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        await closed(writer)


async def said_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> float:
    """Send data and wait for its complete echo. Return the seconds that it took."""
    started = time.monotonic()
    writer.write(data)
    assert await reader.readexactly(len(data)) == data
    return time.monotonic() - started


@pytest.mark.parametrize(
    "shape",
    [
        Shape(),
        Shape(delay_s=0.005, jitter_s=0.005),
        Shape(bandwidth_bit_s=50e6),
        Shape(delay_s=0.001, loss=0.002, bandwidth_bit_s=200e6),
    ],
    ids=["plain", "jitter", "bandwidth", "all"],
)
async def test_a_stream_comes_back_as_it_went(shape: Shape) -> None:
    async with relayed(shape, shape) as (relay, _), dialled(relay.listen) as (reader, writer):
        data = random.Random(5).randbytes(1_000_000)
        reading = asyncio.create_task(reader.readexactly(len(data)))
        writer.write(data)
        assert await reading == data
        writer.write_eof()
        assert not await reader.read()
        assert relay.state()["forth"]["carried_bytes"] == relay.state()["back"]["carried_bytes"] == len(data)


async def test_each_direction_has_a_delay_of_its_own_that_can_change() -> None:
    async with relayed() as (relay, _), dialled(relay.listen) as (reader, writer):
        await said_back(reader, writer, b"hello")
        relay.shape("forth", delay_s=0.1)
        assert await said_back(reader, writer, b"once") >= 0.1
        relay.shape("back", delay_s=0.1)
        assert await said_back(reader, writer, b"both") >= 0.2
        relay.shape(delay_s=0)
        took = [await said_back(reader, writer, b"none") for _ in range(5)]
        assert min(took) < 0.1


async def test_a_frozen_link_holds_and_loses_nothing() -> None:
    async with relayed() as (relay, echo), dialled(relay.listen) as (reader, writer):
        await said_back(reader, writer, b"hello")
        relay.shape(flow="frozen")
        data = random.Random(6).randbytes(3_000_000)
        writer.write(data)
        while relay.state()["forth"]["held_bytes"] < 200_000:  # noqa: ASYNC110 - it cannot be awaited
            await asyncio.sleep(0.01)
        assert relay.state()["back"]["carried_bytes"] == 5
        relay.shape(flow="open")
        assert await reader.readexactly(len(data)) == data
        assert not echo.ended.is_set()


async def test_one_direction_may_be_frozen_alone() -> None:
    async with relayed() as (relay, _), dialled(relay.listen) as (reader, writer):
        await said_back(reader, writer, b"hello")
        relay.shape("back", flow="frozen")
        writer.write(b"heard")
        while relay.state()["back"]["held_bytes"] < 5:  # noqa: ASYNC110 - it cannot be awaited
            await asyncio.sleep(0.01)
        assert relay.state()["forth"]["carried_bytes"] == 10
        assert relay.state()["back"]["carried_bytes"] == 5
        relay.shape("back", flow="open")
        assert await reader.readexactly(5) == b"heard"


async def test_a_stream_with_a_hole_is_cut_when_the_link_opens_again() -> None:
    async with relayed() as (relay, echo), dialled(relay.listen) as (reader, writer):
        await said_back(reader, writer, b"hello")
        relay.shape("forth", flow="lost")
        writer.write(b"nobody hears this")
        while relay.state()["forth"]["dropped_bytes"] < 17:  # noqa: ASYNC110 - it cannot be awaited
            await asyncio.sleep(0.01)
        assert not echo.ended.is_set()
        relay.shape("forth", flow="open")
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        await echo.ended.wait()


async def test_a_cut_resets_both_ends_and_refuses_connections_until_mend() -> None:
    async with relayed() as (relay, echo):
        async with dialled(relay.listen) as (reader, writer):
            await said_back(reader, writer, b"hello")
            relay.cut()
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
            await echo.ended.wait()
        async with dialled(relay.listen) as late:
            with pytest.raises(ConnectionResetError):
                await said_back(*late, b"anyone?")
        assert relay.state()["refused"] == 1
        relay.mend()
        async with dialled(relay.listen) as again:
            await said_back(*again, b"again")


async def test_a_reset_end_ends_the_other_after_what_was_in_flight() -> None:
    async with relayed() as (relay, echo), dialled(relay.listen) as (reader, writer):
        await said_back(reader, writer, b"hello")
        relay.shape("back", delay_s=0.05)
        writer.write(b"last")
        while relay.state()["back"]["held_bytes"] < 4:  # noqa: ASYNC110 - it cannot be awaited
            await asyncio.sleep(0.001)
        reset(echo.writers[0].transport)
        assert await reader.readexactly(4) == b"last"
        assert not await reader.read()
        while relay.state()["connections"]:  # noqa: ASYNC110 - it cannot be awaited
            await asyncio.sleep(0.01)


async def test_a_relay_passes_flow_control_on() -> None:
    async with relayed() as (relay, _), dialled(relay.listen) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        block, accepted, carried = bytes(1 << 20), 0, -1
        while carried != (carried := relay.state()["back"]["carried_bytes"]) or accepted < 4 << 20:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    writer.write(block)
                    accepted += len(block)
                    await writer.drain()
            assert accepted < 200 << 20, "somebody takes without end"
        state = relay.state()
        assert state["forth"]["held_bytes"] + state["back"]["held_bytes"] < 2 << 20


async def test_a_relay_without_a_destination_resets_connections() -> None:
    async with asyncio.timeout(PATIENCE_S), Relay("127.0.0.1:1") as relay, dialled(relay.listen) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)


async def test_the_control_port_shapes_reports_and_refuses_invalid_requests() -> None:
    async with relayed() as (relay, _), serve_control(relay, "127.0.0.1:0") as place:
        state = await ask_control(place, {"both": {"delay_s": 0.02}, "back": {"loss": 0.5, "flow": "frozen"}})
        assert state["forth"]["delay_ms"] == state["back"]["delay_ms"] == 20
        assert (state["forth"]["flow"], state["back"]["flow"], state["back"]["loss"]) == ("open", "frozen", 0.5)
        assert (await ask_control(place, {"cut": True}))["cut"]
        assert not (await ask_control(place, {"cut": False}))["cut"]
        before = relay.state()
        for wrong in ({"both": {"delay_s": -1}}, {"both": {"delay_s": "x"}}, {"both": {"speed": 1}}, {"all": {}},
                      {"forth": 1}, {"both": {"flow": "sideways"}}):  # fmt: skip
            with pytest.raises(Refused):
                await ask_control(place, wrong)
        assert relay.state() == before
        async with dialled(place) as (reader, writer):
            writer.write(b"x" * 10_000)
            with suppress(ConnectionResetError):  # it closes with most of it unread
                assert not await reader.read()
    with pytest.raises(ConnectionLost):
        await ask_control(place, {})

"""The asyncio client over real loopback sockets, against a small broker that is built from the wire frames alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import plait
from plait.options.addresses import parse_address
from plait.options.limits import YIELD_EVERY
from plait_core import parse
from plait_core.wire import (
    Close,
    Confirm,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Publish,
    Welcome,
    deliver_head,
    encode_frame,
)
from plait_core.wire.frame_types.session_frames import (
    CONFIRM,
    DURABLE,
    Acknowledge,
    Advertise,
    Code,
    Done,
    Failed,
    Matching,
    Receipt,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

TRADE = {"symbol": "IBM", "price": 121.5}
FAST = plait.Reconnect(first_s=0.01, max_s=0.02)


class LittleBroker(asyncio.Protocol):
    """One connection of the broker, which routes between all its connections."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.decoder = FrameDecoder()
        self.filters: dict[int, Any] = {}
        self.durable: set[int] = set()
        self.position = 0
        self.unread: dict[int, tuple[LittleBroker, int]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.town.links.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.town.links.remove(self)

    def say(self, *frames: Any, version: int = 1) -> None:
        self.transport.write(b"".join(encode_frame(frame, version) for frame in frames))

    def data_received(self, data: bytes) -> None:
        self.decoder.feed(data)
        while frames := self.decoder.take():
            for frame in frames:
                self.town.heard.append(frame)
                self.town.on_frame(self, frame)
                self.handle(frame)

    def handle(self, frame: Any) -> None:
        match frame:
            case Hello():
                self.decoder.establish(1)
                if self.town.refuses is not None:
                    self.say(self.town.refuses, version=0)
                    self.transport.close()
                else:
                    self.say(Welcome(1, (), "hub", 77, len(self.town.heard), 5.0))
            case Ping(nonce):
                self.say(Pong(nonce))
            case Subscribe():
                if self.town.silent:
                    return
                self.filters[frame.subscription] = parse(frame.filter)
                if frame.durable:
                    self.durable.add(frame.subscription)
                self.say(Done(frame.request))
            case Unsubscribe():
                self.filters.pop(frame.subscription, None)
                self.say(Done(frame.request))
            case Advertise():
                self.say(Done(frame.request), Matching(frame.advertisement, True))
            case Unadvertise():
                self.say(Done(frame.request))
            case Acknowledge():
                for position in frame.positions:
                    link, sequence = self.unread.pop(position, (self, 0))
                    if sequence:
                        link.say(Receipt((sequence,), (1,)))
                if frame.request:
                    self.say(Done(frame.request))
            case Publish():
                self.route(frame)

    def route(self, frame: Publish) -> None:
        matched = 0
        for link in self.town.links:
            for id, filter in link.filters.items():
                if filter.matches(frame.attributes()):
                    matched += 1
                    link.position += 1
                    asks = frame.confirm is Confirm.SUBSCRIBERS
                    flags = (CONFIRM if asks else 0) | (DURABLE if id in link.durable else 0)
                    if asks:
                        link.unread[link.position] = (self, frame.sequence)
                    head = deliver_head(frame.block, 2000, 0, (33, 77), [(id, flags, link.position)])
                    link.transport.write(head + frame.block)
        if frame.confirm is Confirm.BROKER or (frame.confirm and not matched):
            self.say(Receipt((frame.sequence,), (matched,)))


class Town:
    """The broker: a listening socket, its connections, and all frames that it received."""

    def __init__(self) -> None:
        self.links: list[LittleBroker] = []
        self.heard: list[Any] = []
        self.refuses: Close | None = None
        self.silent = False
        self.on_frame: Callable[[LittleBroker, Any], None] = lambda link, frame: None
        self.server: asyncio.Server | None = None
        self.port = 0

    async def listen(self) -> None:
        self.server = await asyncio.get_running_loop().create_server(lambda: LittleBroker(self), "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def fall(self) -> None:
        """Stop as in a crash: reset every connection."""
        assert self.server is not None
        self.server.close()
        for link in self.links:
            link.transport.abort()
        while self.links:  # noqa: ASYNC110 - the transports say so themselves
            await asyncio.sleep(0)
        await self.server.wait_closed()

    @property
    def url(self) -> str:
        return f"plait://127.0.0.1:{self.port}"

    def count(self, kind: type) -> int:
        return sum(isinstance(frame, kind) for frame in self.heard)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - any condition at all
                await asyncio.sleep(0.001)


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    town = Town()
    await town.listen()
    yield town
    await town.fall()


# --- the ten lines ----------------------------------------------------------------------------------------------------


async def test_the_ten_lines_of_the_design(town: Town) -> None:
    async with plait.connect(town.url) as client:
        async with client.subscribe("symbol == 'IBM' and 100 < price <= 130", within=0.050) as quotes:
            await client.publish(TRADE, ttl=2)
            async for event in quotes:
                assert event["symbol"] == "IBM"
                assert event.delay >= 0.002
                assert event.path == ("0000000000000021", "hub")
                break


async def test_everything_about_an_event(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("true") as events:
        before = datetime.now(UTC)
        receipt = await client.publish(TRADE, b"payload", priority=7, headers={"trace-id": "x"})
        event = await events.next(5)
        assert dict(event) == TRADE
        assert (len(event), "price" in event, event.get("missing", 5)) == (2, True, 5)
        assert event.payload == b"payload"
        assert event.id == receipt.id == plait.EventId(client.publisher, 1)
        assert (event.publisher, event.seq, event.hops, event.priority) == (client.publisher, 1, 1, 7)
        assert event.headers == {"trace-id": "x"}
        assert abs(event.published_at - before) < timedelta(seconds=5)
        assert event.verified is None
        assert not event.late
        assert "IBM" in repr(event)


async def test_await_gives_the_same_as_a_block(town: Town) -> None:
    client = await plait.connect([town.url])
    events = await client.subscribe(plait.F.price > 100)
    await client.publish(TRADE)
    assert (await events.next(5))["price"] == 121.5
    await events.close()
    await client.close()
    await client.close()
    assert client.closed


# --- connecting -------------------------------------------------------------------------------------------------------


async def test_a_missing_broker_is_an_error_with_the_address(town: Town) -> None:
    await town.fall()
    with pytest.raises(plait.ConnectionLost, match="refused") as failed:
        await plait.connect(town.url, reconnect=False)
    assert failed.value.retryable
    with pytest.raises(plait.ConnectionLost, match=r"within 0\.2 s"):
        await plait.connect(town.url, timeout=0.2)
    await town.listen()


async def test_the_first_address_that_answers_is_taken(town: Town) -> None:
    async with plait.connect(["plait://127.0.0.1:1", town.url], reconnect=FAST) as client:
        assert client.connected
        assert client.broker == "hub"


async def test_a_wrong_token_fails_at_once(town: Town) -> None:
    town.refuses = Close(Code.AUTH, "who are you?")
    with pytest.raises(plait.AuthFailed, match="token") as failed:
        await plait.connect(town.url, auth=lambda: "wrong")
    assert "wrong" not in str(failed.value)
    assert not failed.value.retryable
    assert town.heard[0].token == "wrong"


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "plait://",
        "plait://h:99999",
        "plait://h/path",
        "localhost",
        "h:x",
        "h:99999",
        "t@h:1",
        "plait://h:x",
    ],
)
def test_urls_that_name_no_broker(url: str) -> None:
    with pytest.raises(plait.Error) as failed:
        plait.connect(url)
    assert failed.value.hint


@pytest.mark.parametrize(("text", "url"), [("h:99", "plait://h:99"), ("[::1]:99", "plait://[::1]:99")])
def test_host_and_port_are_an_address(text: str, url: str) -> None:
    assert str(parse_address(text)) == url


def test_secrets_are_not_shown() -> None:
    address = parse_address("plaits://s%40cret@[::1]:99")
    assert (address.host, address.port, address.tls, address.token) == ("::1", 99, True, "s@cret")
    assert "cret" not in f"{address} {address!r}"
    with pytest.raises(plait.AddressInvalid) as failed:
        parse_address("plait://secret@h:1/no")
    assert "secret" not in str(failed.value)


async def test_tls_to_a_broker_without_it_fails_clearly(town: Town) -> None:
    with pytest.raises(plait.ConnectionLost):
        await plait.connect(f"plaits://127.0.0.1:{town.port}", reconnect=False)


async def test_cancelling_connect_leaves_nothing(town: Town) -> None:
    town.refuses = Close("later", retryable=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await plait.connect(town.url, reconnect=FAST)


# --- arguments --------------------------------------------------------------------------------------------------------


async def test_invalid_arguments_are_refused_before_anything_is_sent(town: Town) -> None:
    async with plait.connect(town.url) as client:
        with pytest.raises(plait.FilterSyntax) as wrong:
            client.subscribe("price >> 3")
        assert wrong.value.column
        with pytest.raises(plait.FilterTooComplex):
            client.subscribe(" and ".join(f"(a{n} == 1 or b{n} == 2)" for n in range(12)))
        with pytest.raises(plait.PayloadTooLarge):
            await client.publish({}, b"x" * (1 << 20) + b"x")
        with pytest.raises(plait.EventInvalid):
            await client.publish({}, headers={"a b": "c"})
        for attributes in ({"a b": 1}, {"x": object()}, {"x": 1 << 300}, {"x": "\ud800"}, [1]):
            with pytest.raises(plait.EventInvalid):
                await client.publish(attributes)
        with pytest.raises(plait.DeadlineMissed):
            await client.publish({}, deadline=datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(plait.ArgumentInvalid):
            client.subscribe("true", durable="d", start=-1)
        assert town.count(Publish) == 0
        await client.publish({"fine": 1 << 200, "long": "ä" * 8000})
        await town.until(lambda: town.count(Publish))
        assert town.heard[-1].sequence == 1


async def test_unfinished_features_raise_not_available(town: Town) -> None:
    async with plait.connect(town.url) as client:
        with pytest.raises(plait.NotAvailable):
            client.subscribe_pattern("a -> b")
        with pytest.raises(plait.NotAvailable):
            client.predict("true", within=0.05)


async def test_terms_reach_the_broker(town: Town) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    async with plait.connect(town.url) as client:
        await client.subscribe(
            "x>1", within=timedelta(milliseconds=50), late="flag", durable="me", start=moment,
            buffer=plait.Buffer(10, 2000, "block"),
        )  # fmt: skip
        asked = next(frame for frame in town.heard if isinstance(frame, Subscribe))
        assert (asked.filter, asked.within_us, asked.late, asked.full) == ("x > 1", 50_000, "flag", "block")
        assert (asked.items_max, asked.bytes_max, asked.durable) == (10, 2000, "me")
        assert (asked.start, asked.start_at) == ("time", round(moment.timestamp() * 1e6))
        await client.publish({}, ttl=5, deadline=timedelta(seconds=3))
        await town.until(lambda: town.count(Publish))
        # The shorter of the two, less the time in the publish queue, which `protocol/test_session.py` measures.
        assert 0 < town.heard[-1].lifetime_us <= 3_000_000


# --- publishing -------------------------------------------------------------------------------------------------------


async def test_confirmations(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("price > 100") as events:
        assert (await client.publish(TRADE)).matched is None
        assert (await client.publish(TRADE, confirm="broker")).matched == 1
        assert (await client.publish({"price": 1}, confirm="subscribers")).matched == 0
        waiting = asyncio.create_task(client.publish(TRADE, confirm="subscribers"))
        for _ in range(3):
            await events.next(5)
        await asyncio.sleep(0.01)
        assert not waiting.done()  # the application has it, and has not dealt with it yet
        with pytest.raises(plait.Timeout):
            await events.next(0.01)
        assert (await waiting).matched == 1
        with pytest.raises(plait.Timeout) as late:
            await client.publish(TRADE, confirm="subscribers", timeout=0.01)
        assert late.value.retryable


async def test_publishing_does_not_suspend_below_the_mark_and_then_waits(town: Town) -> None:
    async with plait.connect(town.url, outbox=plait.Outbox(items=100)) as client:
        suspended: list[int] = []

        async def other() -> None:
            while True:
                suspended.append(client.stats.published)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for n in range(1000):
            await client.publish({"n": n})
        task.cancel()
        assert suspended[0] == 100
        assert all(step % 50 == 0 for step in suspended)
        await client.flush()
        assert [frame.attributes()["n"] for frame in town.heard if isinstance(frame, Publish)] == list(range(1000))


async def test_try_publish_never_waits(town: Town) -> None:
    async with plait.connect(town.url, outbox=plait.Outbox(items=3)) as client:
        assert [client.try_publish({}) for _ in range(5)] == [True, True, True, False, False]
        await client.flush()
        assert client.try_publish({})
    with pytest.raises(plait.Closed):
        client.try_publish({})
    with pytest.raises(plait.Closed):
        await client.publish({})


async def test_a_block_that_ends_has_sent_what_it_published(town: Town) -> None:
    async with plait.connect(town.url) as client:
        for _ in range(500):
            await client.publish(TRADE, b"x" * 10_000)
    await town.until(lambda: town.count(Close))
    assert town.count(Publish) == 500


async def test_writes_of_one_turn_are_joined(town: Town) -> None:
    writes: list[int] = []
    async with plait.connect(town.url) as client:
        driver = client._driver
        assert driver._wire is not None
        transport = driver._wire.transport
        assert transport is not None
        write = transport.write
        transport.write = lambda data: (writes.append(len(data)), write(data))[1]  # type: ignore[method-assign,assignment,func-returns-value]
        for n in range(100):
            await client.publish({"n": n})
        await asyncio.sleep(0)
        assert len(writes) == 1


# --- subscribing ------------------------------------------------------------------------------------------------------


async def test_a_subscription_ends_cleanly_when_it_is_closed(town: Town) -> None:
    async with plait.connect(town.url) as client:
        events = await client.subscribe("true")

        async def read() -> list[Any]:
            return [event async for event in events]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        await events.close()
        assert await reading == []
        with pytest.raises(plait.Closed):
            await events.next()
        with pytest.raises(plait.Closed):
            await events.update("x > 1")


async def test_draining_hands_out_what_is_queued(town: Town) -> None:
    client = await plait.connect(town.url)
    events = await client.subscribe("true")
    for n in range(5):
        await client.publish({"n": n}, confirm="broker")
    await client.drain()
    assert [event["n"] async for event in events] == list(range(5))
    assert client.closed


async def test_a_given_up_connection_is_raised_to_everyone_after_what_is_queued(town: Town) -> None:
    async with plait.connect(town.url, reconnect=False) as client:
        events = await client.subscribe("true")
        await client.publish(TRADE, confirm="broker")
        unheard = asyncio.create_task(client.publish(TRADE, confirm="subscribers"))
        await town.until(lambda: events.stats.pending == 2)
        await town.fall()
        await town.until(lambda: client.closed)
        assert await events.next() == TRADE
        assert await events.next() == TRADE
        with pytest.raises(plait.ConnectionLost):
            async for _ in events:
                pass
        for failing in (unheard, client.publish(TRADE), client.flush(), client.subscribe("true")):
            with pytest.raises(plait.ConnectionLost):
                await failing
    await town.listen()


async def test_a_client_reconnects_by_itself_and_reports_the_gap(town: Town) -> None:
    async with plait.connect(town.url, reconnect=FAST) as client:
        events = await client.subscribe("symbol == 'IBM'")
        offer = await client.advertise("symbol == 'IBM'")
        await town.fall()
        await town.until(lambda: not client.connected)
        publishing = [asyncio.create_task(client.publish(TRADE, confirm="broker")) for _ in range(3)]
        await client.publish(TRADE)
        town.heard.clear()
        await town.listen()
        assert [(await p).seq for p in publishing] == [2, 3, 4]
        assert (town.count(Subscribe), town.count(Advertise)) == (1, 1)
        assert [(await events.next(5)).seq for _ in range(4)] == [1, 2, 3, 4]
        async for notice in events.notices():
            assert notice == plait.Gap("reconnected")
            break
        assert client.stats.connections == 2
        assert offer.matching


async def test_the_filter_changes_in_place(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("a == 1") as events:
        await events.update(plait.F.a == 2)
        assert events.filter == "a == 2"
        await client.publish({"a": 1})
        await client.publish({"a": 2})
        assert (await events.next(5))["a"] == 2


async def test_a_subscription_that_is_never_installed_is_a_timeout(town: Town) -> None:
    town.silent = True
    async with plait.connect(town.url, timeout=0.1) as client:
        with pytest.raises(plait.Timeout):
            await client.subscribe("true")
        assert not client._driver.readers


async def test_cancelling_subscribe_takes_it_back(town: Town) -> None:
    town.silent = True
    async with plait.connect(town.url) as client:
        task = asyncio.ensure_future(_await(client.subscribe("true")))
        await town.until(lambda: town.count(Subscribe))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await town.until(lambda: town.count(Unsubscribe))
        assert not client._subscriptions


async def _await(opening: Any) -> Any:
    return await opening


async def test_cancelling_a_reader_loses_no_event(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("true") as events:
        for n in range(50):
            reader = asyncio.create_task(events.next())
            await asyncio.sleep(0)
            await client.publish({"n": n}, confirm="broker")
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        got = events.stats.delivered + events.stats.pending
        assert got == 50


async def test_an_iteration_that_never_waits_lets_others_run(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("true") as events:
        for _ in range(3 * YIELD_EVERY):
            await client.publish({})
        await client.flush()
        await town.until(lambda: events.stats.pending == 3 * YIELD_EVERY)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(3 * YIELD_EVERY):
            await events.next()
        task.cancel()
        assert turns >= 2


async def test_callbacks_in_order_errors_counted_nothing_stops(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    async def fails_on_two(event: plait.Event) -> None:
        await asyncio.sleep(0)
        seen.append(event["n"])
        if event["n"] == 2:
            raise ZeroDivisionError("on two")

    async with plait.connect(town.url) as client:
        events = (await client.subscribe("true")).on(fails_on_two)
        for n in range(5):
            await client.publish({"n": n})
        await client.flush()
        await events.drain()
    assert seen == list(range(5))
    assert events.stats.errors == 1
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None


async def test_callbacks_run_as_many_at_a_time_as_asked(town: Town) -> None:
    running = most = 0

    async def slow(event: plait.Event) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1

    async with plait.connect(town.url) as client:
        events = (await client.subscribe("true")).on(slow, concurrency=3)
        for _ in range(12):
            await client.publish({})
        await client.flush()
        await events.drain()
        assert most == 3
        with pytest.raises(ValueError, match="at least 1"):
            events.on(slow, concurrency=0)


async def test_auto_acknowledges_when_the_reader_comes_back_or_closes(town: Town) -> None:
    async with plait.connect(town.url) as client:
        async with client.subscribe("true", durable="me") as events:
            for _ in range(3):
                await client.publish({}, confirm="broker")
            await events.next()
            await events.next()
        acknowledged = [p for f in town.heard if isinstance(f, Acknowledge) for p in f.positions]
        assert acknowledged == [1, 2]


async def test_an_error_in_the_block_leaves_the_event_undealt_with(town: Town) -> None:
    async with plait.connect(town.url) as client:
        events = await client.subscribe("true", durable="me")
        await client.publish({}, confirm="broker")
        await events.next()
        await events.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert not [p for f in town.heard if isinstance(f, Acknowledge) for p in f.positions]


async def test_acknowledging_by_hand_and_declining(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("true", durable="me", ack="manual") as events:
        for n in range(4):
            await client.publish({"n": n}, confirm="broker")
        first, second = await events.next(), await events.next()
        second.nak()
        first.ack()
        first.ack()
        rest = [await events.next() for _ in range(3)]
        assert [event["n"] for event in rest] == [2, 3, 1]
        await asyncio.sleep(0.01)
        assert [f.positions for f in town.heard if isinstance(f, Acknowledge)] == [(1,)]
        events.ack_up_to(rest[1])
        await town.until(lambda: town.count(Acknowledge) == 2)
        assert town.heard[-1].positions in ((2, 3, 4), (3, 4, 2))


async def test_draining_a_durable_subscription_waits_for_its_reader(town: Town) -> None:
    async with plait.connect(town.url) as client:
        events = await client.subscribe("true", durable="me")
        got: list[Any] = []

        async def read() -> None:
            async for event in events:
                got.append(event["n"])
                await asyncio.sleep(0.001)

        reading = asyncio.create_task(read())
        for n in range(20):
            await client.publish({"n": n}, confirm="broker")
        await asyncio.sleep(0.005)
        await events.drain()
        await reading
        acknowledged = [p for f in town.heard if isinstance(f, Acknowledge) for p in f.positions]
        assert got == list(range(len(got)))
        assert sorted(acknowledged) == [n + 1 for n in got]


# --- typed ------------------------------------------------------------------------------------------------------------


@dataclass
class Trade:
    symbol: str
    price: float
    size: int | None = None
    payload: bytes = b""


async def test_typed_events_are_converted_both_ways_and_misfits_reported(town: Town) -> None:
    async with plait.connect(town.url) as client, client.subscribe("true", as_=Trade) as trades:
        await client.publish({"symbol": "IBM"})
        await client.publish({"symbol": 3, "price": 1.0})
        await client.publish(Trade("IBM", 3.0, payload=b"hello"))
        await client.publish({"symbol": "IBM", "price": 3, "other": True})
        assert await trades.next(5) == Trade("IBM", 3.0, None, b"hello")
        assert trades.event is not None
        assert trades.event.seq == 3
        assert await trades.next(5) == Trade("IBM", 3.0)
        stats = trades.stats
        assert (stats.dropped, stats.delivered) == (2, 2)
        async for notice in trades.notices():
            assert notice == plait.Gap("not_convertible", 2, client.publisher, 1, 2)
            break
        with pytest.raises(plait.ArgumentInvalid):
            client.subscribe("true", as_=int)
        with pytest.raises(plait.EventInvalid):
            await client.publish(Trade)


async def test_models_with_pydantics_interface(town: Town) -> None:
    class Model:
        model_fields = {"x": SimpleNamespace(alias=None, annotation=int)}  # noqa: RUF012

        def __init__(self, x: int) -> None:
            self.x = x

        @classmethod
        def model_validate(cls, given: dict[str, Any]) -> Model:
            return cls(int(given["x"]))

        def model_dump(self, *, by_alias: bool) -> dict[str, Any]:
            assert by_alias
            return {"x": self.x}

    async with plait.connect(town.url) as client, client.subscribe("true", as_=Model) as models:
        await client.publish(Model(7))
        assert (await models.next(5)).x == 7


# --- the rest ---------------------------------------------------------------------------------------------------------


async def test_requests_and_replies(town: Town) -> None:
    async with plait.connect(town.url) as asker, plait.connect(town.url) as server:
        questions = await server.subscribe("question == true")

        async def answer(event: plait.Event) -> None:
            await event.reply({"answer": event["n"] + 1}, b"p")  # type: ignore[operator]

        questions.on(answer, concurrency=4)
        replies = await asyncio.gather(*[asker.request({"question": True, "n": n}) for n in range(20)])
        assert [reply["answer"] for reply in replies] == [n + 1 for n in range(20)]
        assert replies[0].payload == b"p"
        with pytest.raises(plait.Timeout, match="no reply"):
            await asker.request({"nobody": "listens"}, timeout=0.05)
        assert town.count(Subscribe) == 2
        plain = await server.subscribe("plain == true")
        await asker.publish({"plain": True})
        with pytest.raises(plait.EventInvalid, match="no reply"):
            await (await plain.next(5)).reply({})


async def test_advertisements(town: Town) -> None:
    async with plait.connect(town.url) as client:
        async with client.advertise("price > 0 and symbol == 'IBM'", rate=10, schema={"price": float}) as offer:
            changes = offer.matching_changes()
            assert await anext(changes) in (True, False)
            await town.until(lambda: offer.matching)
            await offer.publish({"symbol": "IBM", "price": 3})
            for wrong in ({"symbol": "IBM", "price": -1}, {"symbol": "IBM"}, {"symbol": "IBM", "price": True}):
                with pytest.raises(plait.EventInvalid):
                    await offer.publish(wrong)
            await changes.aclose()  # type: ignore[attr-defined]
        assert not offer.matching
        assert [change async for change in offer.matching_changes()] == []
        assert town.count(Unadvertise) == 1


async def test_flush_and_rtt(town: Town) -> None:
    async with plait.connect(town.url) as client:
        assert 0 < await client.rtt() < 1
        for _ in range(100):
            await client.publish({})
        await client.flush()
        assert town.count(Publish) == 100
        town.on_frame = lambda link, frame: setattr(link, "handle", lambda frame: None)
        with pytest.raises(plait.Timeout):
            await client.flush(timeout=0.05)
        with pytest.raises(plait.Timeout):
            await client.rtt(timeout=0.05)


async def test_an_unawaited_refusal_is_logged_once(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    from plait_core.wire.frame_types.session_frames import Refusal

    def refuse(link: LittleBroker, frame: Any) -> None:
        if isinstance(frame, Publish):
            link.say(Refusal(frame.sequence, Code.NOT_ALLOWED, "not you"))

    town.on_frame = refuse
    async with plait.connect(town.url) as client:
        for _ in range(5):
            await client.publish({})
        await client.flush()
        assert client.stats.refused == 5
        with pytest.raises(plait.NotAllowed, match="not you"):
            await client.publish({}, confirm="broker")
    assert len([record for record in caplog.records if "not you" in record.message]) == 1


async def test_failed_requests_raise_the_message_of_the_broker(town: Town) -> None:
    def fail(link: LittleBroker, frame: Any) -> None:
        if isinstance(frame, Subscribe):
            link.say(Failed(frame.request, Code.LIMIT, "too many", "close some", True))

    town.on_frame = fail
    async with plait.connect(town.url) as client:
        with pytest.raises(plait.LimitReached, match="too many") as failed:
            await client.subscribe("true")
        assert (failed.value.code, failed.value.hint, failed.value.retryable) == ("limit", "close some", True)


async def test_block_holds_the_broker_back_and_loses_nothing(town: Town) -> None:
    async with plait.connect(town.url) as sender, plait.connect(town.url) as receiver:
        events = await receiver.subscribe("true", buffer=plait.Buffer(items=50, full="block"))
        for n in range(5000):
            await sender.publish({"n": n}, b"x" * 1000)
        await sender.flush()
        await asyncio.sleep(0.05)
        assert events.stats.pending < 5000
        assert [(await events.next(5))["n"] for _ in range(5000)] == list(range(5000))
        assert events.stats.dropped == 0


async def test_churn_of_subscriptions_leaves_nothing_behind(town: Town) -> None:
    async with plait.connect(town.url) as client:
        for _ in range(50):
            async with client.subscribe("true") as events:
                await client.publish({}, confirm="broker")
                await events.next(5)
        session = client._session
        assert not client._subscriptions
        assert not client._driver.readers
        assert not client._driver.completions
        assert not session.desired.subscriptions
        gc.collect()
        left = [thing for thing in gc.get_objects() if type(thing) is plait.Subscription]
        assert len(left) <= 1


async def test_events_that_are_there_cost_no_turn_of_the_loop(town: Town) -> None:
    """Reading 2,000 pending events takes a few turns of the event loop, and not one each."""
    async with plait.connect(town.url) as client, client.subscribe("true") as events:
        for _ in range(2000):
            await client.publish(TRADE)
        await client.flush()
        await town.until(lambda: events.stats.pending == 2000)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        for _ in range(2000):
            await events.__anext__()
        counting.cancel()
        assert turns <= 2000 / YIELD_EVERY + 1

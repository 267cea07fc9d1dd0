"""The sync client over real sockets, against the real broker protocol in another thread."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from sealed_world import World, areas

import plait
import plait.sync
from plait_broker import Broker, BrokerSettings, Caller, OpenGate, Persist, Probe, Send
from plait_broker import Close as CloseLink
from plait_broker.pipeline.tag_test_worker import TagTestWorker
from plait_core import parse
from plait_crypto import RingClosed
from plait_keyserver import PublisherRing, SubscriberRing

plait.sync._new_loop().close()  # uvloop opens a pipe with its first loop, and keeps it for the life of the process


class Link(asyncio.Protocol):
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.hub.count += 1
        self.id = self.hub.count
        self.hub.links[self.id] = self
        self.hub.broker.connected(self.id, Caller("127.0.0.1"), time.monotonic())
        self.hub.pump()

    def data_received(self, data: bytes) -> None:
        self.hub.broker.receive(self.id, data, time.monotonic())
        self.hub.pump()

    def connection_lost(self, error: Exception | None) -> None:
        self.hub.links.pop(self.id, None)
        self.hub.broker.disconnected(self.id, time.monotonic())
        self.hub.pump()


class Hub:
    """A broker on a socket. Its log confirms storing at once and stores nothing."""

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self.count = 0
        self.port = 0
        self.prober = TagTestWorker()
        wall_us = time.time_ns() // 1000
        self.broker = Broker(
            BrokerSettings(name="hub"), random.Random(1), OpenGate(), now=time.monotonic(), wall_us=wall_us
        )
        self.ready = threading.Event()
        self.stop = asyncio.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve()))
        self.thread.start()
        self.ready.wait()

    async def serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        server = await self.loop.create_server(lambda: Link(self), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self.stop.wait()
        server.close()
        await server.wait_closed()
        for link in list(self.links.values()):
            link.transport.abort()
        await asyncio.sleep(0.01)

    def pump(self) -> None:
        while outputs := self.broker.take_output():
            for output in outputs:
                match output:
                    case Send(link, chunks) if link in self.links:
                        self.links[link].transport.write(b"".join(chunks))
                    case CloseLink(link) if link in self.links:
                        self.links[link].transport.close()
            for output in outputs:
                if isinstance(output, Persist):
                    self.broker.persisted(output.ticket, None, time.monotonic())
                elif isinstance(output, Probe):
                    self.broker.probed(output.ticket, self.prober.answer(output), time.monotonic())

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()


@pytest.fixture
def url() -> Iterator[str]:
    hub = Hub()
    yield f"plait://127.0.0.1:{hub.port}"
    hub.end()


def test_the_ten_lines_without_asyncio(url: str) -> None:
    with plait.sync.connect(url) as client:
        with client.subscribe("symbol == 'IBM' and 100 < price <= 130", within=0.5) as quotes:
            client.publish({"symbol": "IBM", "price": 121.5}, ttl=2)
            for event in quotes:
                assert event["symbol"] == "IBM"
                assert event.path == ("hub",)
                break


def test_the_url_comes_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_URL", url)
    with plait.sync.connect() as client:
        assert client.broker == "hub"


def test_publishing_subscribing_and_knowing(url: str) -> None:
    with plait.sync.connect(url, name="ibis") as client, client.subscribe("x > 0") as events:
        assert (client.name, client.connected, client.closed) == ("ibis", True, False)
        assert client.publish({"x": 1}, confirm="broker").matched == 1
        assert client.try_publish({"x": 2})
        client.flush()
        assert [events.next(5)["x"], events.next(5)["x"]] == [1, 2]
        assert events.stats.delivered == 2
        with pytest.raises(plait.Timeout):
            events.next(0.01)
        events.update("x < 0")
        client.publish({"x": 1})
        client.publish({"x": -1})
        assert next(events)["x"] == -1
        assert 0 < client.rtt() < 1
        assert client.stats.published == 4
        with pytest.raises(plait.FilterSyntax):
            client.subscribe("x >")
        with pytest.raises(plait.EventInvalid):
            client.publish({"x": object()})


def test_a_thousand_events_in_order(url: str) -> None:
    with plait.sync.connect(url) as sender, plait.sync.connect(url) as receiver, receiver.subscribe("true") as events:
        for n in range(1000):
            assert sender.try_publish({"n": n})
        assert [next(events)["n"] for _ in range(1000)] == list(range(1000))


def test_iteration_ends_cleanly_after_draining(url: str) -> None:
    client = plait.sync.connect(url)
    events = client.subscribe("true")
    for n in range(3):
        client.publish({"n": n}, confirm="broker")
    events.drain()
    assert [event["n"] for event in events] == [0, 1, 2]
    with pytest.raises(plait.Closed):
        events.next()
    client.close()
    client.close()
    with pytest.raises(plait.Closed):
        client.publish({})


def test_closing_from_another_thread_ends_an_iteration(url: str) -> None:
    client = plait.sync.connect(url)
    events = client.subscribe("true")
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.extend(events))
    reader.start()
    client.publish({"n": 1}, confirm="broker")
    while not got:
        time.sleep(0.001)
    events.close()
    reader.join(5)
    assert not reader.is_alive()
    client.close()


def test_requests_callbacks_and_replies(url: str) -> None:
    with plait.sync.connect(url) as asker, plait.sync.connect(url) as server:

        def answer(event: plait.sync.Event) -> None:
            event.reply({"sum": event["a"] + event["b"]})  # type: ignore[operator]

        server.subscribe("a > 0 and b > 0").on(answer)
        assert asker.request({"a": 2, "b": 3})["sum"] == 5


def test_a_responder_that_raises_fails_the_request(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with plait.sync.connect(url) as asker, plait.sync.connect(url) as server:

        def answer(event: plait.sync.Event) -> None:
            if event["late"]:
                event.reply({"late": True})
            raise ValueError("no such symbol")

        with caplog.at_level(logging.CRITICAL, "plait"):
            server.subscribe("has(late)").on(answer)
            with pytest.raises(plait.RequestFailed, match="^ValueError: no such symbol"):
                asker.request({"late": False}, timeout=20)
            assert asker.request({"late": True}, timeout=20)["late"]
            server.flush()
        assert server.stats.published == 2  # one failure, one reply


def test_an_exception_that_leaves_the_block_fails_the_request(url: str) -> None:
    with plait.sync.connect(url) as asker, plait.sync.connect(url) as server, ThreadPoolExecutor(1) as pool:
        requests = server.subscribe("ask == true")
        asking = pool.submit(asker.request, {"ask": True}, timeout=20)
        with pytest.raises(IndexError), requests:
            for _ in requests:
                raise IndexError("none left")
        with pytest.raises(plait.RequestFailed, match="^IndexError: none left"):
            asking.result(20)


def test_reprs_show_the_state(url: str) -> None:
    with plait.sync.connect(url, name="desk") as client, client.advertise("n > 0") as offer:
        assert repr(client).startswith("<sync.Client desk: connected to ")
        assert repr(client.subscribe("n > 0")) == "<sync.Subscription 'n > 0': open, 0 pending, 0 dropped>"
        assert repr(offer).startswith("<sync.Advertisement 'n > 0': ")


def test_a_durable_place_is_kept_between_clients(url: str) -> None:
    with plait.sync.connect(url) as sender:
        with plait.sync.connect(url) as client, client.subscribe("true", durable="me") as events:
            for n in range(4):
                sender.publish({"n": n}, confirm="broker")
            assert [events.next(5)["n"], events.next(5)["n"]] == [0, 1]
        with plait.sync.connect(url) as client, client.subscribe("true", durable="me", ack="manual") as events:
            assert [events.next(5)["n"], events.next(5)["n"]] == [2, 3]
            assert events.event is not None
            events.event.ack()
        with plait.sync.connect(url) as client:
            events = client.subscribe("true", durable="me")
            assert events.next(5)["n"] == 2
            events.close(forget=True)


def test_typed_events_and_notices(url: str) -> None:
    @dataclass
    class Point:
        x: int

    with plait.sync.connect(url) as client, client.subscribe("true", as_=Point) as points:
        client.publish({"y": 1})
        client.publish(Point(4))
        assert points.next(5) == Point(4)
        assert next(points.notices()) == plait.Gap("not_convertible", 1, client.publisher, 1, 1)
        points.close()
        assert list(points.notices()) == []


def test_advertisements(url: str) -> None:
    with plait.sync.connect(url) as client, client.advertise("x > 0") as offer:
        client.subscribe("x == 3")
        client.flush()
        assert offer.matching
        assert offer.publish({"x": 3}).seq == 1
        with pytest.raises(plait.EventInvalid):
            offer.publish({"x": -3})


def test_no_broker_is_an_error_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with pytest.raises(plait.ConnectionLost):
        plait.sync.connect("plait://127.0.0.1:1", reconnect=False)
    assert threading.active_count() == before


def test_calling_from_the_clients_own_thread_is_refused_rather_than_stuck(url: str) -> None:
    with plait.sync.connect(url) as client:

        async def inside() -> None:
            client.flush()

        with pytest.raises(plait.Closed, match="own thread"):
            client._thread.call(inside())


def test_the_sync_client_has_every_method_of_the_asyncio_client() -> None:
    def names(thing: type) -> set[str]:
        return {name for name in dir(thing) if not name.startswith("_")}

    internal = {
        "start",
        "reply_to",
        "forget_subscription",
        "manual_ack",
        "convert",
        "take_batch",
        "report_unusable",
        "cancel_workers",
    }
    internal |= {"detach", "matching_changes", "reply_failure", "take_opened", "unsealing"}
    for asynchronous, sync in (
        (plait.Client, plait.sync.Client),
        (plait.Subscription, plait.sync.Subscription),
        (plait.Advertisement, plait.sync.Advertisement),
    ):
        assert names(asynchronous) - names(sync) <= internal
        for name in names(asynchronous) & names(sync):
            assert getattr(sync, name).__doc__, name


def test_sealed_events_without_asyncio(url: str) -> None:
    world = World.of(areas())
    chance, clock = random.Random(1), lambda: world.now_us
    asked: dict[str, Any] = {"epoch": world.epoch, "now_us": world.now_us, "randomness": chance}
    london, paris = {"area": 3, "location": "London"}, {"area": 99, "location": "Paris"}
    with plait.sync.connect(url) as client:
        sealing = PublisherRing(world.realm, 7, now_us=clock, randomness=chance)
        opening = SubscriberRing(world.realm, now_us=clock, randomness=chance)
        client.run(sealing.add(world.authority.publisher_keys("p", 7, parse("true"), **asked)))
        client.run(opening.add(world.authority.subscriber_keys("r", parse("area < 16"), **asked)))
        with client.subscribe("area < 16", unseal=opening) as events:
            for attributes in (london, paris, london):
                client.publish(attributes, b"the secret", seal=plait.Seal(sealing))
            for _ in range(2):
                event = events.next(20)
                assert (dict(event), event.payload) == (london, b"the secret")
                assert event.verified is not None
            with pytest.raises(plait.Timeout):
                events.next(0.01)
            heard: list[Any] = []
            events.on(heard.append)
            client.publish(london, seal=plait.Seal(sealing, ()))
            patience = time.monotonic() + 20
            while not heard and time.monotonic() < patience:
                time.sleep(0.01)
            assert [dict(event) for event in heard] == [london]
            assert heard[0].verified.publisher == 7
            for ring in (sealing, opening):
                ring.close()
            with pytest.raises(RingClosed):
                client.publish(london, seal=plait.Seal(sealing))
        with client.subscribe("area < 16", unseal=opening) as events:
            others = PublisherRing(world.realm, 7, now_us=clock, randomness=chance)
            client.run(others.add(world.authority.publisher_keys("p", 7, parse("true"), **asked)))
            client.publish(london, seal=plait.Seal(others))
            with pytest.raises(RingClosed):
                events.next(20)
            others.close()

"""A broker on real sockets: the protocol with clients, and the handling of misbehaving ones."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from dataclasses import replace
from typing import Any

import pytest
from scripted import LOCAL, PATIENCE_S, ScriptedClient, client_of, running

from plait_broker import DropReason
from plait_broker.server.config.configuration import Configuration, parse_configuration
from plait_broker.server.connection_limits import ConnectionLimits
from plait_broker.server.endpoints import Endpoint, ListenFailed
from plait_broker.server.server import BrokerServer
from plait_broker.settings import BrokerSettings
from plait_core.wire import (
    VERSION_MAX,
    Close,
    CloseCode,
    Confirm,
    ControlFrame,
    Deliver,
    Ping,
    Pong,
    Welcome,
    encode_frame,
)
from plait_core.wire.frame_header import PREFIX, PUBLISH
from plait_core.wire.frame_types.session_frames import (
    Acknowledge,
    Advertise,
    Code,
    Done,
    Failed,
    Full,
    Notice,
    Receipt,
    Refusal,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)


async def eventually(condition: Any) -> None:
    """Wait until a condition is true."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come to hold"
        await asyncio.sleep(0.01)


def published(server: BrokerServer) -> int:
    """Return the number of events that arrived."""
    return server.broker.counters.published if server.broker is not None else 0


# --- the job ----------------------------------------------------------------------------------------------------------


async def test_an_event_reaches_those_it_matches() -> None:
    async with running(name="north") as server, client_of(server, "a", 1) as a, client_of(server, "b", 2) as b:
        assert a.welcome is not None
        assert a.welcome.broker_name == "north"
        await a.subscribe("price > 100")
        await b.subscribe("price <= 100")
        await b.publish({"symbol": "IBM", "price": 121.5}, b"payload")
        delivered = await a.expect(Deliver)
        assert delivered.event().attributes == {"symbol": "IBM", "price": 121.5}
        assert delivered.event().payload == b"payload"
        await a.publish({"price": 99})
        assert await b.delivered() == {"price": 99}


async def test_many_events_in_one_write_come_in_order_and_at_once() -> None:
    async with running() as server, client_of(server, "a", 1) as publisher, client_of(server, "b", 2) as subscriber:
        await subscriber.subscribe("true")
        await publisher.send_bytes(b"".join(publisher.published({"n": n}) for n in range(5_000)))
        assert [(await subscriber.delivered())["n"] for _ in range(5_000)] == list(range(5_000))


async def test_bytes_may_come_one_at_a_time() -> None:
    async with running() as server, client_of(server) as client:
        await client.subscribe("true")
        for byte in client.published({"n": 1}):
            await client.send_bytes(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.delivered() == {"n": 1}


async def test_confirmations_come_back() -> None:
    async with running() as server, client_of(server) as client:
        sequence = await client.publish({"n": 1}, confirm=Confirm.BROKER)
        receipt = await client.expect(Receipt)
        assert (list(receipt.sequences), list(receipt.matched)) == ([sequence], [0])


async def test_without_a_log_nothing_is_promised_to_last() -> None:
    async with running() as server, client_of(server) as client:
        await client.send(Subscribe(1, 1, "true", durable="mine"))
        refused = await client.expect(Failed)
        assert refused.code == Code.DURABILITY
        assert "--data" in refused.message
        await client.publish({"n": 1}, confirm=Confirm.BROKER)
        assert isinstance(await client.next_frame(), Receipt | Refusal)
        await client.subscribe("true", 2)


async def test_durable_subscriptions_survive_the_broker(tmp_path: Any) -> None:
    config = replace(LOCAL, data=tmp_path / "log")
    async with running(config) as server, client_of(server) as client:
        await client.subscribe("true", durable="mine")
    async with running(config) as server, client_of(server, "publisher", 2) as client:
        await client.publish({"n": 1}, confirm=Confirm.BROKER)
        await client.expect(Receipt)
    async with running(config) as server, client_of(server, "client", 1) as client:
        await client.subscribe("true", durable="mine")
        delivered = await client.expect(Deliver)
        assert delivered.event().attributes == {"n": 1}
        await client.send(Acknowledge(1, (delivered.deliveries[0][2],), request=9))
        assert (await client.expect(Done)).request == 9
        assert server.status == "ready"


async def test_a_silent_connection_is_pinged_and_then_closed() -> None:
    async with running(heartbeat_s=0.2) as server, client_of(server) as client:
        with pytest.raises(TimeoutError):  # one that answers stays
            async with asyncio.timeout(1.2):
                await client.next_frame()
        client.decoder.feed(await client.hung_up())
        *pings, closed = client.decoder.take()
        assert pings
        assert isinstance(closed, Close)
        assert closed.code == Code.TIMEOUT


async def test_a_session_goes_on_after_its_connection_broke() -> None:
    async with running(resume_s=5.0) as server, client_of(server, "publisher", 2) as publisher:
        async with client_of(server) as client:
            assert client.welcome is not None
            session = client.welcome.session
            await client.subscribe("true")
            client.writer.transport.abort()
        await eventually(lambda: server.facts()["connections"] == 1)
        await publisher.publish({"n": 1}, confirm=Confirm.BROKER)
        await publisher.expect(Receipt)
        async with await ScriptedClient.connect(server.port) as again:
            assert (await again.hello(resume=session)).resumed
            assert await again.delivered() == {"n": 1}


async def test_a_broker_listens_on_ipv6_and_on_names() -> None:
    for host, at in [("::1", "::1"), ("localhost", "127.0.0.1")]:
        async with running(replace(LOCAL, listen=Endpoint(host, 0))) as server:
            assert server.listen in (f"[::1]:{server.port}", f"localhost:{server.port}")
            async with await ScriptedClient.connect(server.port, host=at) as client:
                await client.hello()


async def test_a_port_in_use_is_reported_and_leaves_nothing_behind() -> None:
    async with running() as server:
        with pytest.raises(ListenFailed, match="Address already in use.*choose another port"):
            await BrokerServer(Configuration(listen=Endpoint("127.0.0.1", server.port), http=None)).start()
        with pytest.raises(ListenFailed):
            taken = replace(LOCAL, http=Endpoint("127.0.0.1", server.port))
            await BrokerServer(taken).start()


# --- those who misbehave ----------------------------------------------------------------------------------------------


async def bystander(server: BrokerServer, client: ScriptedClient) -> None:
    """Check that an unrelated client is still served."""
    await client.publish({"bystander": True})
    assert await client.delivered() == {"bystander": True}


@pytest.mark.parametrize(
    ("garbage", "fault"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "oversize"),
        (bytes(64), "type"),
        (b"\xff" * 64, "oversize"),
        (PREFIX.pack(4, 1, 0x10, 0) + b"\xc1\xc1\xc1\xc1", "body"),
        (PREFIX.pack(1, 9, 0x77, 0) + b"\x80", "type"),
        (PREFIX.pack(2, 1, PUBLISH, 2) + b"\0\0", "order"),
    ],
)  # fmt: skip
async def test_garbage_is_answered_with_a_reason_and_harms_nobody(garbage: bytes, fault: str) -> None:
    async with running() as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        async with await ScriptedClient.connect(server.port) as stranger:
            await stranger.send_bytes(garbage)
            closed = await stranger.refused()
        assert closed.code == CloseCode.PROTOCOL
        assert server.broker is not None
        assert sum(server.broker.counters.faults.values()) == 1, server.broker.counters.faults
        await bystander(server, honest)


async def test_a_flood_of_garbage_still_receives_the_reason() -> None:
    """Closing a socket with unread bytes resets it and discards the Close frame, unless it lingers."""
    async with running() as server, await ScriptedClient.connect(server.port) as stranger:
        stranger.writer.write(b"\xff" * (4 << 20))
        closed = await stranger.expect(Close)
        assert closed.code == CloseCode.PROTOCOL


FIRST: list[ControlFrame] = [
    Welcome(1, (), "b", 1, 1, 1.0),
    Ping(1),
    Pong(1),
    Done(1),
    Failed(1, "auth"),
    Subscribe(1, 1, "true"),
    Unsubscribe(1, 1),
    Advertise(1, 1, "true"),
    Unadvertise(1, 1),
    Receipt((1,), (1,)),
    Refusal(1, "auth"),
    Acknowledge(1, (1,)),
]


@pytest.mark.parametrize("frame", FIRST, ids=lambda frame: type(frame).__name__)
async def test_any_first_frame_but_hello_is_refused(frame: ControlFrame) -> None:
    async with running() as server, await ScriptedClient.connect(server.port) as stranger:
        await stranger.send_bytes(encode_frame(frame, VERSION_MAX))
        assert (await stranger.refused()).code == CloseCode.PROTOCOL
        assert server.broker is not None
        assert not len(server.broker.sessions)


@pytest.mark.parametrize("length", [4 * 1024 + 1, 1 << 20, 2**32 - 1])
async def test_a_length_that_is_too_large_is_refused_on_the_header(length: int) -> None:
    async with running() as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        async with await ScriptedClient.connect(server.port) as stranger:
            await stranger.send_bytes(struct.pack(">I", length) + PREFIX.pack(0, 1, 0x10, 0)[4:])
            assert (await stranger.refused()).code == CloseCode.PROTOCOL
        async with client_of(server, "known", 8) as known:
            await known.send_bytes(struct.pack(">I", 2**32 - 1) + PREFIX.pack(0, VERSION_MAX, PUBLISH, 0)[4:])
            assert (await known.refused()).code == CloseCode.PROTOCOL
        await bystander(server, honest)


async def test_connections_with_a_late_hello_are_closed() -> None:
    async with running(hello_timeout_s=0.6, heartbeat_s=0.4) as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        slow = [await ScriptedClient.connect(server.port) for _ in range(20)]
        began = time.monotonic()
        for client in slow[:10]:
            await client.send_bytes(encode_frame(Ping(1), 1)[:3])
        heard = await asyncio.gather(*(client.hung_up() for client in slow))
        assert time.monotonic() - began < BrokerSettings().hello_timeout_s, "its own timeout counts"
        assert all(heard), "each client received the close"
        for client in slow:
            async with client:
                pass
        await bystander(server, honest)


async def test_a_client_that_reads_nothing_does_not_delay_others() -> None:
    async with running(outbox_items_max=100) as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("n > 0 or bystander")
        async with client_of(server, "deaf", 8) as deaf, client_of(server, "publisher", 9) as publisher:
            await deaf.subscribe("n > 0", full=Full.DROP_OLDEST)
            payload = bytes(10_000)
            for n in range(1, 2001):  # 20 MB: more than kernels and buffers take
                await publisher.publish({"n": n}, payload)
                assert (await honest.delivered())["n"] == n
            assert server.broker is not None
            assert server.broker.counters.dropped[DropReason.OUTBOX_ITEMS] > 0
            await bystander(server, honest)
            kinds: set[type] = set()
            while not kinds >= {Notice, Deliver}:
                kinds.add(type(await deaf.next_frame()))


async def test_a_connection_that_is_gone_at_once_harms_nobody() -> None:
    async with running() as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        for _ in range(50):
            reset = socket.create_connection(("127.0.0.1", server.port))
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.close()
        await bystander(server, honest)
        await eventually(lambda: server.facts()["connections"] == 1)


async def test_the_protocol_failing_costs_the_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as server, client_of(server, "honest", 7) as honest, client_of(server, "odd", 8) as odd:
        await honest.subscribe("true")
        assert server.broker is not None
        receive = server.broker.receive

        def fail(link: int, data: bytes, now: float) -> None:
            if b"boom" in data:
                raise RuntimeError("a bug")
            receive(link, data, now)

        server.broker.receive = fail  # type: ignore[method-assign]
        await odd.publish({"x": "boom"})
        await odd.hung_up()
        await bystander(server, honest)
        assert server.broker.counters.faults["internal"] == 1
        assert "internal error" in caplog.text


async def test_connections_beyond_the_limit_are_refused_with_the_reason() -> None:
    limits = ConnectionLimits(connections_max=3)
    async with running(replace(LOCAL, connection_limits=limits)) as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        async with client_of(server, "b", 8), client_of(server, "c", 9):
            async with await ScriptedClient.connect(server.port) as fourth:
                refused = await fourth.refused()
            assert (refused.code, refused.retryable) == (Code.LIMIT, True)
            assert "3 connections are open" in refused.message
            await bystander(server, honest)
            assert server.broker is not None
            assert server.broker.counters.rejected["limit"] == 1
        await eventually(lambda: server.facts()["connections"] == 1)
        async with client_of(server, "d", 10):
            pass


async def test_a_storm_of_connections_is_served_in_order() -> None:
    limits = ConnectionLimits(accepts_per_s=100.0)
    async with running(replace(LOCAL, connection_limits=limits)) as server:
        began = time.monotonic()
        clients = await asyncio.gather(*(ScriptedClient.connect(server.port) for _ in range(130)))
        await asyncio.gather(*(client.hello(f"c{n}", n + 1) for n, client in enumerate(clients)))
        assert time.monotonic() - began > 0.2, "the hundred of the first second, then a hundred a second"
        for client in clients:
            async with client:
                pass


async def test_a_storm_of_reconnects_with_half_done_handshakes_settles() -> None:
    async with running(hello_timeout_s=2.0) as server, client_of(server, "honest", 7) as honest:
        await honest.subscribe("true")
        for _ in range(3):
            clients = await asyncio.gather(*(ScriptedClient.connect(server.port) for _ in range(200)))
            await asyncio.gather(*(client.hello(f"c{n}", 100 + n) for n, client in enumerate(clients[::2])))
            for client in clients[1::2]:
                client.writer.write(b"\0\0")
            for client in clients:
                client.writer.transport.abort()
            await bystander(server, honest)
        await eventually(lambda: server.facts()["connections"] == 1)


# --- who may come in --------------------------------------------------------------------------------------------------


def guarded(text: str, **changes: Any) -> Configuration:
    access = parse_configuration(text.encode()).access
    return replace(LOCAL, access=access, **changes)


async def test_a_token_is_asked_for() -> None:
    async with running(guarded("[access]\ntoken = 'open-sesame'")) as server:
        for wrong in (None, "", "open-sesame ", "OPEN-SESAME"):
            async with await ScriptedClient.connect(server.port) as stranger:
                await stranger.say_hello(token=wrong)
                assert (await stranger.refused()).code == Code.AUTH
        async with await ScriptedClient.connect(server.port) as friend:
            await friend.hello(token="open-sesame")


async def test_a_broker_open_to_other_machines_draws_a_token_by_default() -> None:
    async with running(replace(LOCAL, listen=Endpoint("0.0.0.0", 0))) as server:
        assert server.generated_token
        async with await ScriptedClient.connect(server.port) as stranger:
            await stranger.say_hello()
            assert (await stranger.refused()).code == Code.AUTH
        async with await ScriptedClient.connect(server.port) as friend:
            await friend.hello(token=server.generated_token)
        was = server.generated_token
        server.reload(server.configuration)
        assert server.generated_token == was


async def test_a_reload_changes_who_comes_in_next_and_disturbs_nobody() -> None:
    async with running(guarded("[access]\ntoken = 'before-before'")) as server:
        async with await ScriptedClient.connect(server.port) as old:
            await old.hello(publisher=5, token="before-before")
            await old.subscribe("true")
            server.reload(
                guarded("[access]\ntoken = 'after-after'", connection_limits=ConnectionLimits(connections_max=2))
            )
            async with await ScriptedClient.connect(server.port) as stranger:
                await stranger.say_hello(token="before-before")
                assert (await stranger.refused()).code == Code.AUTH
            async with await ScriptedClient.connect(server.port) as friend:
                await friend.hello(publisher=6, token="after-after")
                await friend.publish({"n": 1})
                assert await old.delivered() == {"n": 1}
                async with await ScriptedClient.connect(server.port) as third:
                    assert (await third.refused()).code == Code.LIMIT


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_a_stopping_broker_notifies_its_clients_and_delivers_their_queues() -> None:
    server = BrokerServer(LOCAL)
    await server.start()
    async with client_of(server, "a", 1) as publisher, client_of(server, "b", 2) as subscriber:
        await subscriber.subscribe("true")
        await publisher.send_bytes(b"".join(publisher.published({"n": n}, bytes(1000)) for n in range(2000)))
        assert server.broker is not None
        await eventually(lambda: published(server) == 2000)
        stopping = asyncio.create_task(server.stop())
        assert [(await subscriber.delivered())["n"] for _ in range(2000)] == list(range(2000))
        closed = await subscriber.refused()
        assert (closed.code, closed.retryable) == (Code.DRAINING, True)
        assert (await publisher.refused()).code == Code.DRAINING
        await stopping
    with pytest.raises(ConnectionRefusedError):
        await ScriptedClient.connect(server.port)


async def test_a_client_that_reads_nothing_delays_a_drain_by_at_most_drain_s() -> None:
    server = BrokerServer(replace(LOCAL, connection_limits=ConnectionLimits(drain_s=0.5)))
    await server.start()
    async with client_of(server, "a", 1) as publisher, client_of(server, "b", 2) as deaf:
        await deaf.subscribe("true")
        for n in range(1500):
            await publisher.publish({"n": n}, bytes(10_000))
        await eventually(lambda: published(server) == 1500)
        began = time.monotonic()
        await server.stop()
        assert time.monotonic() - began < ConnectionLimits().drain_s, "its own limit counts"


async def test_a_server_can_be_restarted_many_times() -> None:
    for _ in range(5):
        async with running(replace(LOCAL, http=Endpoint("127.0.0.1", 0))) as server, client_of(server):
            pass

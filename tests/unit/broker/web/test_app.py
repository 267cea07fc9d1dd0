"""The HTTP server on real sockets: permissions and answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripted import LOCAL, ScriptedClient, client_of, running

from plait_broker import DropReason
from plait_broker.server.config.configuration import Configuration, parse_configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.web import http_server, sse
from plait_broker.web.live_api import LiveApi
from plait_broker.web.sse import Sample, difference
from plait_core.ids import id_text
from plait_core.wire import Close
from plait_core.wire.frame_types.session_frames import Advertise, Done, Matching

WITH_HTTP = replace(LOCAL, http=Endpoint("127.0.0.1", 0))
PATHS = ["broker", "links", "clients", "subscriptions", "advertisements", "topology", "overview", "events", "stream"]


@asynccontextmanager
async def served(
    configuration: Configuration = WITH_HTTP, **settings: Any
) -> AsyncIterator[tuple[BrokerServer, httpx.AsyncClient]]:
    """Start a broker with its HTTP server."""
    async with running(configuration, **settings) as server:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.http_port}", trust_env=False) as browser:
            yield server, browser


async def metrics(browser: httpx.AsyncClient) -> dict[str, float]:
    """Return all samples of the metrics page, by name and labels."""
    page = (await browser.get("/metrics")).text
    return {
        sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def raw(server: BrokerServer, request: bytes) -> bytes:
    """Return the complete response to a literal request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()
    return answer


# --- what is shown ----------------------------------------------------------------------------------------------------


async def test_health_and_the_index() -> None:
    async with served() as (_, browser):
        assert (await browser.get("/healthz")).json() == {"status": "alive"}
        ready = await browser.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        index = await browser.get("/")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        paths = (await browser.get("/api/v1")).json()["paths"]
        assert {f"/api/v1/{path}" for path in PATHS} <= set(paths)
        assert index.headers["x-content-type-options"] == "nosniff"
        assert "server" not in index.headers
        assert "date" in index.headers


async def test_lists_show_clients_subscriptions_and_advertisements() -> None:
    async with served(name="north") as (server, browser), client_of(server, "a", 1) as a, client_of(server, "b", 2):
        await a.subscribe("price > 100")
        await a.send(Advertise(2, 1, "price > 0"))
        assert {type(await a.next_frame()) for _ in range(2)} == {Done, Matching}
        about = (await browser.get("/api/v1/broker")).json()
        assert (about["name"], about["status"], about["listen"]) == ("north", "ready", server.listen)
        clients = (await browser.get("/api/v1/clients")).json()
        assert clients["total"] == 2
        assert [client["name"] for client in clients["items"]] == ["a", "b"]
        (subscription,) = (await browser.get("/api/v1/subscriptions")).json()["items"]
        assert subscription["filter"] == "price > 100"
        assert (await browser.get("/api/v1/advertisements")).json()["total"] == 1
        assert (await browser.get("/api/v1/links")).json()["total"] == 2
        topology = (await browser.get("/api/v1/topology")).json()
        assert [broker["name"] for broker in topology["brokers"]] == ["north"]
        assert topology["links"] == []


async def test_long_lists_come_in_parts() -> None:
    async with served() as (server, browser), client_of(server) as client:
        for number in range(1, 8):
            await client.subscribe(f"n == {number}", number)
        part = (await browser.get("/api/v1/subscriptions", params={"offset": 2, "limit": 3})).json()
        assert (part["total"], part["offset"]) == (7, 2)
        assert [item["filter"] for item in part["items"]] == ["n == 3", "n == 4", "n == 5"]
        for wrong in ({"limit": "-1"}, {"limit": "x"}, {"limit": "10001"}, {"offset": "1e3"}, {"offset": "9" * 30}):
            assert (await browser.get("/api/v1/subscriptions", params=wrong)).status_code == 400


async def test_metrics_count_what_happens() -> None:
    async with served(name="north") as (server, browser), client_of(server) as client:
        await client.subscribe("n > 0")
        for n in (1, 2, -1):
            await client.publish({"n": n})
        assert [(await client.delivered())["n"] for _ in range(2)] == [1, 2]
        found = await metrics(browser)
        assert found["plait_events_published_total"] == 3
        assert found["plait_events_delivered_total"] == 2
        assert {f"plait_events_dropped_total{{{reason}}}" for reason in DropReason} <= found.keys()
        assert found["plait_events_dropped_total{unmatched}"] == 1
        assert (found["plait_connections"], found["plait_sessions"], found["plait_subscriptions"]) == (1, 1, 1)
        assert (
            found["plait_delivery_queue_events"],
            found["plait_delivery_queue_bytes"],
            found["plait_slow_consumers"],
        ) == (0, 0, 0)
        assert "north" in next(name for name in found if name.startswith("plait_build_info"))
        assert found["process_open_fds"] > 0
        async with asyncio.timeout(30):
            while not (await metrics(browser))["plait_loop_lag_seconds_count"]:  # noqa: ASYNC110 - it cannot be awaited
                await asyncio.sleep(0.05)
        labels = [name.partition("{")[2] for name in found]
        assert not any("client" in label or id_text(1) in label for label in labels), "no label for each client"


async def test_metrics_of_the_log(tmp_path: Path) -> None:
    async with served(replace(WITH_HTTP, data=tmp_path)) as (server, browser), client_of(server) as client:
        await client.subscribe("true", durable="mine")
        await client.publish({"n": 1})
        await client.delivered()
        found = await metrics(browser)
        assert found["plait_log_records"] == 1
        assert found["plait_log_commits_total"] >= 1
        assert found["plait_log_failing"] == 0
        assert (await browser.get("/api/v1/broker")).json()["log"]["records"] == 1


async def test_openmetrics_for_who_prefers_it() -> None:
    async with served() as (_, browser):
        page = await browser.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert page.headers["content-type"].startswith("application/openmetrics-text")
        assert page.text.endswith("# EOF\n")


async def test_two_brokers_in_one_process_count_apart() -> None:
    async with served() as (first, one), served() as (_, other), client_of(first):
        assert (await metrics(one))["plait_connections"] == 1
        assert (await metrics(other))["plait_connections"] == 0


async def test_readiness_follows_the_broker(tmp_path: Path) -> None:
    async with served(replace(WITH_HTTP, data=tmp_path)) as (server, browser), client_of(server) as client:
        await client.subscribe("true")
        assert server.broker is not None
        server.broker.drain(time.monotonic())
        ready = await browser.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        assert (await browser.get("/healthz")).status_code == 200
        await client.expect(Close)
    starting = BrokerServer(WITH_HTTP)
    assert starting.status == "starting"


async def test_a_log_that_fails_is_no_place_to_send_clients_to(tmp_path: Path) -> None:
    async with served(replace(WITH_HTTP, data=tmp_path)) as (server, browser):
        assert server._event_log is not None
        server._event_log._writer.failing = "the disk is full"
        ready = await browser.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "the log fails: the disk is full"})
        assert (await metrics(browser))["plait_log_failing"] == 1


async def test_no_session_id_and_no_token_in_any_answer() -> None:
    token = "canary-0123456789"
    access = parse_configuration(f"[access]\ntoken = '{token}'".encode()).access
    async with served(replace(WITH_HTTP, access=access)) as (server, browser):
        async with await ScriptedClient.connect(server.port) as client:
            session = (await client.hello(token=token)).session
            await client.subscribe("true")
            async with event_stream(server) as sse:
                said = [str(await sse.message())]
            for path in ("/", "/metrics", *(f"/api/v1/{path}" for path in PATHS[:-1])):
                said.append((await browser.get(path)).text)
            for text in said:
                assert token not in text
                assert str(session) not in text
                assert id_text(session) not in text


# --- the stream -------------------------------------------------------------------------------------------------------


class EventStream:
    """Reads server-sent events."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    async def message(self) -> tuple[str, Any]:
        """Return the kind and the data of the next message."""
        kind = ""
        while line := await asyncio.wait_for(self.reader.readline(), 5):
            if line.startswith(b"event: "):
                kind = line.removeprefix(b"event: ").decode().strip()
            elif line.startswith(b"data: "):
                return kind, json.loads(line.removeprefix(b"data: "))
        raise EOFError


@asynccontextmanager
async def event_stream(server: BrokerServer) -> AsyncIterator[EventStream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    writer.write(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/event-stream" in head
    yield EventStream(reader)
    writer.close()
    await writer.wait_closed()


async def test_a_stream_is_a_snapshot_and_then_what_changes() -> None:
    async with served() as (server, _), event_stream(server) as sse:
        kind, state = await sse.message()
        assert kind == "snapshot"
        assert state["clients"] == {}
        began, deltas = time.monotonic(), 0
        async with client_of(server, "a", 1):
            while not state["clients"]:
                kind, changes = await sse.message()
                assert kind == "delta"
                deltas += 1
                for section, values in changes.items():
                    state[section] |= values
        assert state["clients"][id_text(1)]["name"] == "a"
        assert deltas <= 2 * (time.monotonic() - began) + 1, "two a second at most"


async def test_streams_end_when_the_broker_does(caplog: pytest.LogCaptureFixture) -> None:
    server = BrokerServer(WITH_HTTP)
    await server.start()
    async with event_stream(server) as one, event_stream(server) as other:
        assert {(await sse.message())[0] for sse in (one, other)} == {"snapshot"}
        await server.stop()
        assert (await one.reader.read()).endswith(b"0\r\n\r\n"), "the stream came to its proper end"
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


async def test_a_watcher_who_leaves_is_not_sampled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "INTERVAL_S", 0.02)
    async with served() as (server, _):
        async with event_stream(server) as watching:
            await watching.message()
        tasks = {task for task in asyncio.all_tasks() if "_keep_sampling" in repr(task)}
        assert len(tasks) == 1
        async with asyncio.timeout(5):
            await asyncio.wait(tasks)
        async with event_stream(server) as watching:
            assert (await watching.message())[0] == "snapshot"


async def test_only_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "STREAMS_MAX", 1)
    async with served() as (server, browser), event_stream(server):
        refused = await browser.get("/api/v1/stream")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_differences_make_the_one_state_from_the_other() -> None:
    before: Sample = {"broker": {"a": 1, "b": 2}, "links": {"1": {"x": 1}}}
    after: Sample = {"broker": {"a": 1, "b": 3}, "links": {"2": {"x": 1}}, "new": {"k": 0}}
    assert difference(before, after) == {"broker": {"b": 3}, "links": {"1": None, "2": {"x": 1}}, "new": {"k": 0}}
    assert difference(after, after) == {}
    assert difference(after, {})["broker"] == {"a": None, "b": None}


# --- who may ask ------------------------------------------------------------------------------------------------------


async def test_beyond_this_machine_a_token_is_asked_for() -> None:
    access = parse_configuration(b"[access]\ntoken = 'the-broker-token'\nhttp_token = 'the-http-token'").access
    everywhere = replace(WITH_HTTP, http=Endpoint("0.0.0.0", 0), access=access)
    async with served(everywhere) as (_, browser):
        for path in ("/healthz", "/readyz", "/", "/analytics", "/static/main.js"):  # pages hold no data
            assert (await browser.get(path)).status_code == 200
        for path in ("/api/v1", "/metrics", "/nowhere", *(f"/api/v1/{path}" for path in PATHS)):
            for headers in (
                {},
                {"authorization": "Bearer wrong-wrong"},
                {"authorization": "Bearer"},
                {"authorization": "Basic dGhlLWh0dHAtdG9rZW4="},
                {"authorization": "Bearer the-http-token the-http-token"},
            ):
                refused = await browser.get(path, headers=headers)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
        for token in ("the-http-token", "the-broker-token"):
            for scheme in ("Bearer", "bearer"):
                good = await browser.get("/metrics", headers={"authorization": f"{scheme} {token}"})
                assert good.status_code == 200


async def test_http_beyond_this_machine_draws_a_token_by_default() -> None:
    async with served(replace(WITH_HTTP, http=Endpoint("0.0.0.0", 0))) as (server, browser):
        assert (await browser.get("/metrics")).status_code == 401
        assert server.generated_token
        headers = {"authorization": f"Bearer {server.generated_token}"}
        assert (await browser.get("/metrics", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]", 200), ("[::1]:4681", 200)]
    + [("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost:80@evil.example", 421)],
)
async def test_a_rebound_name_reads_nothing(host: str, status: int) -> None:
    async with served() as (_, browser):
        assert (await browser.get("/healthz", headers={"host": host})).status_code == status


# --- what is too much -------------------------------------------------------------------------------------------------


async def test_methods_paths_and_bodies_have_bounds() -> None:
    async with served() as (server, browser):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            refused = await browser.request(method, "/api/v1/broker")
            assert refused.status_code == 405, method
            assert refused.json() == {"error": "Method Not Allowed"}
            assert "GET" in refused.headers["allow"]
        assert (await browser.head("/healthz")).status_code == 200
        assert (await browser.get("/nowhere")).json() == {"error": "Not Found"}
        assert (await browser.get("/" + "x" * 5000)).status_code == 414
        assert (await browser.get("/healthz?" + "x" * 5000)).status_code == 414
        large = await raw(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nxx")
        assert b" 413 " in large.splitlines()[0]
        chunked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n"
        assert b" 413 " in (await raw(server, chunked)).splitlines()[0]
        headers = b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(40))
        assert b" 400 " in (await raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + headers)).splitlines()[0]
        assert b" 400 " in (await raw(server, b"\x00\xff garbage\r\n\r\n")).splitlines()[0]
        assert (await browser.get("/healthz")).status_code == 200


async def test_a_request_that_does_not_end_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    usual_s = http_server.REQUEST_S
    monkeypatch.setattr(http_server, "REQUEST_S", 0.3)
    async with served() as (server, _):
        began = time.monotonic()
        answers = await asyncio.gather(
            raw(server, b""), raw(server, b"GET / HT"), raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
            return_exceptions=True,
        )  # fmt: skip
        assert all(answer == b"" or isinstance(answer, ConnectionError) for answer in answers)
        assert time.monotonic() - began < usual_s, "its own timeout counts"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in await reader.readline()
        writer.write(b"GET /hea")  # a second request on the same connection counts from its own beginning
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(10_000), usual_s)
        writer.close()
        async with event_stream(server) as sse:
            await sse.message()
            await asyncio.sleep(0.5)
            assert await sse.message(), "a stream may last"


async def test_http_can_be_off() -> None:
    async with running(replace(WITH_HTTP, http=None)) as server:
        assert (server.http, server.http_port) == ("", 0)


async def test_a_question_that_nobody_has_answered_ends_with_the_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def unanswered(self: LiveApi, question: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(LiveApi, "_tail", unanswered)
    async with running(WITH_HTTP) as server:
        url = f"http://127.0.0.1:{server.http_port}/api/v1/events"
        async with httpx.AsyncClient(trust_env=False) as browser:
            waiting = asyncio.create_task(browser.get(url, timeout=30))
            await asked.wait()
            await server.stop()
            answer = await waiting
    assert (answer.status_code, answer.json()) == (503, {"error": "the broker is stopping"})
    assert "Traceback" not in caplog.text

"""The API of the live page, without a browser: overview, last events, one event, the trees of a
subscription."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from typing import Any

import httpx
import pytest
from scripted import LOCAL, client_of, running

import plait_broker.web
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.web import app, live_api
from plait_broker.web.incidents import Incidents
from plait_broker.web.sse import Feed, Sample, difference
from plait_broker.web.summary_reader import CounterDelta, SummaryReading, percentile_ms, short
from plait_core.wire.frame_types.session_frames import Advertise, Done

WITH_HTTP = replace(LOCAL, http=Endpoint("127.0.0.1", 0))
HOSTILE = "<img src=x onerror=alert(1)>"


@asynccontextmanager
async def watched(**settings: Any) -> AsyncIterator[tuple[BrokerServer, httpx.AsyncClient]]:
    async with running(WITH_HTTP, **settings) as server:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.http_port}", trust_env=False) as browser:
            yield server, browser


async def overview(browser: httpx.AsyncClient) -> Any:
    return (await browser.get("/api/v1/overview")).json()


# --- the overview -----------------------------------------------------------------------------------------------------


async def test_the_overview_shows_what_goes_on() -> None:
    async with watched(name="north") as (server, browser), client_of(server, HOSTILE, 1) as client:
        await client.subscribe("n > 0")
        for n in (1, 2, -1):
            await client.publish({"n": n})
        assert [(await client.delivered())["n"] for _ in range(2)] == [1, 2]
        said = await overview(browser)
        (broker,) = said["brokers"].values()
        assert (broker["name"], broker["status"], broker["clients"], broker["subscriptions"]) == (
            "north",
            "ready",
            1,
            1,
        )
        assert broker["drops"] == {"unmatched": 1}
        assert broker["lost"] == 0, "unmatched events are no loss"
        assert broker["rss"] > 1_000_000
        (subscription,) = said["subscriptions"].values()
        assert (subscription["filter"], subscription["delivered"], subscription["client"]) == ("n > 0", 2, HOSTILE)
        assert said["now"]["brokers_up"] == said["now"]["brokers"] == 1
        async with asyncio.timeout(10):
            while not (await overview(browser))["now"]["published_s"]:
                await client.publish({"n": 3})
                await asyncio.sleep(0.1)


async def test_the_overview_streams_what_changes() -> None:
    async with watched(name="north") as (server, browser):
        async with browser.stream("GET", "/api/v1/overview/stream") as stream, aclosing(stream.aiter_lines()) as lines:
            state: Sample = {}
            async with asyncio.timeout(10), client_of(server, "a", 1):
                async for line in lines:
                    if line.startswith("data: "):
                        for section, values in json.loads(line.removeprefix("data: ")).items():
                            state.setdefault(section, {}).update(values)
                        if state["now"]["clients"] == 1:
                            break


async def test_a_bound_is_counted_as_it_is_kept() -> None:
    async with watched() as (server, browser), client_of(server, "a", 1) as client:
        await client.subscribe("n > 0", within_us=30_000_000)
        for n in (1, 2):
            await client.publish({"n": n})
            await client.delivered()
        (row,) = (await overview(browser))["subscriptions"].values()
        assert (row["within_ms"], row["late"], row["missed"], row["delivered"]) == (30_000, 0, 0, 2)
        assert 0 < row["p50_ms"] <= row["p99_ms"] < 30_000


def test_one_difference_is_written_for_all_who_watch() -> None:
    samples: list[Sample] = [{"now": {"n": n}} for n in range(4)]
    feed = Feed(iter(samples).__next__)
    feed._take()
    first = feed._latest
    feed._take()
    second = feed._latest
    assert feed._message("delta", first) is feed._message("delta", first)
    assert json.loads(feed._message("delta", first).partition("data: ")[2]) == {"now": {"n": 1}}
    feed._take()
    late = feed._message("delta", first)
    assert json.loads(late.partition("data: ")[2]) == difference(first, samples[2])
    assert feed._message("delta", second) == late


# --- events, their ways, trees ----------------------------------------------------------------------------------------


async def test_the_last_events_are_filtered() -> None:
    async with watched(name="north") as (server, browser), client_of(server, "a", 1) as client:
        await client.subscribe("symbol == 'IBM'")
        for symbol, price in (("IBM", 120), ("SAP", 90), (HOSTILE, 10)):
            await client.publish({"symbol": symbol, "price": price})
        await client.delivered()
        plain = (await browser.get("/api/v1/events")).json()["events"]
        assert [event["attributes"]["symbol"] for event in plain] == [HOSTILE, "SAP", "IBM"]
        assert {event["at"] for event in plain} == {"north"}
        tried = (await browser.get("/api/v1/events", params={"filter": "symbol = 'IBM' AND price > 100"})).json()
        assert tried["filter"] == "symbol == 'IBM' and price > 100"
        assert [event["result"] for event in tried["events"]] == [False, False, True]
        assert any("symbol == 'IBM' is false" in why for why in tried["events"][1]["why"])
        only = {"filter": "price < 100", "matching": "1"}
        found = (await browser.get("/api/v1/events", params=only)).json()["events"]
        assert [event["attributes"]["price"] for event in found] == [10, 90]
        wrong = await browser.get("/api/v1/events", params={"filter": "price >"})
        assert (wrong.status_code, wrong.json()["error"].startswith("filter: ")) == (400, True)


async def test_the_way_of_an_event_that_is_past() -> None:
    async with watched(name="north") as (server, browser), client_of(server, "a", 1) as client:
        await client.subscribe("n > 0")
        await client.publish({"n": 1})
        await client.delivered()
        (event,) = (await browser.get("/api/v1/events")).json()["events"]
        found = (await browser.get("/api/v1/event", params={"event": event["event"]})).json()
        (here,) = found["brokers"]
        assert (here["broker"], here["seen"]) == ("north", {"as": "published", "for": []})
        (party,) = here["parties"]
        assert (party["state"], party["client"], party["filter"]) == ("delivered", "a", "n > 0")
        assert (await browser.get("/api/v1/event", params={"event": "nonsense"})).status_code == 400
        assert (await browser.get("/api/v1/event")).status_code == 400


async def test_the_trees_of_a_subscription() -> None:
    async with watched(name="north") as (server, browser), client_of(server, "a", 1) as client:
        await client.send(Advertise(2, 1, "symbol == 'IBM'"))
        await client.expect(Done)
        tree = (await browser.get("/api/v1/tree", params={"at": "north", "filter": "symbol == 'IBM'"})).json()
        (root,) = tree["roots"]
        assert (root["name"], root["path"], root["delay_ms"]) == ("north", [tree["home"]], 0)
        none = (await browser.get("/api/v1/tree", params={"filter": "symbol == 'SAP'"})).json()
        assert none["roots"] == []
        assert (await browser.get("/api/v1/tree", params={"at": "nowhere", "filter": "true"})).status_code == 404


async def test_questions_have_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_api, "QUERIES_BURST", 1.0)
    monkeypatch.setattr(live_api, "QUERIES_PER_S", 0.001)
    async with watched() as (_, browser):
        asked = [await browser.get("/api/v1/events", params={"filter": f"n == {n}"}) for n in range(3)]
        assert [answer.status_code for answer in asked] == [200, 429, 429]
        again = await browser.get("/api/v1/events", params={"filter": "n == 0"})
        assert again.status_code == 200, "the same question has its answer for a second"


async def test_requests_have_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REQUESTS_BURST", 3.0)
    monkeypatch.setattr(app, "REQUESTS_PER_S", 0.001)
    async with watched() as (_, browser):
        assert [(await browser.get("/healthz")).status_code for _ in range(4)] == [200, 200, 200, 429]


# --- the pages --------------------------------------------------------------------------------------------------------


async def test_pages_are_whole_and_bring_their_own_policy() -> None:
    async with watched() as (_, browser):
        for page in ("/", "/analytics"):
            answer = await browser.get(page)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            wanted = re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text)
            assert wanted
            for path in wanted:
                assert (await browser.get(path)).status_code == 200, path
        assert (await browser.get("/static/main.js")).headers["content-type"].startswith("text/javascript")
        for outside in ("/static/..%2fhttp.py", "/static/http.py", "/static/nothing.js", "/static/"):
            assert (await browser.get(outside)).status_code == 404
        assert (await browser.post("/")).status_code == 405


def test_scripts_make_no_markup_and_load_nothing_from_elsewhere() -> None:
    static = files(plait_broker.web).joinpath("static")
    for entry in static.iterdir():
        text = entry.read_text()
        if entry.name.endswith(".js"):
            assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", text), entry.name
            for module in re.findall(r'from "\./([^"]+)"', text):
                assert static.joinpath(module).is_file(), f"{entry.name} imports {module}"
        if entry.name.endswith(".html"):
            assert not re.search(r"\sstyle=|\son\w+=|<script>", text), entry.name
        addresses = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not addresses, f"{entry.name} contains {addresses}"


# --- digests from others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"counts": 7, "dropped": [], "times": "x", "links": {}, "shown": 3, "resources": None, "at": "now"},
        {"counts": {"published": -1, "delivered": "9", "late": 1e400}, "dropped": {"late": {}}, "name": 5},
        {"times": {"delivery": {"99999999999": 1, "-1": 3, "٣": 4, "7": 2}}, "links": [1, None, {"delay_ms": []}]},
        {"shown": [{"dropped": 4, "filter": ["x"], "number": None, "within_ms": "soon"}]},
    ],
)
def test_a_summary_of_another_broker_may_contain_anything(said: dict[str, Any]) -> None:
    reading = SummaryReading(said)
    change = CounterDelta(SummaryReading({}), reading)
    assert all(value >= 0 for value in change.counts.values())
    assert all(isinstance(change.rate(name), int | float) for name in change.counts)
    percentile_ms(change.times["delivery"], 0.99)


def test_restarted_counters_give_no_negative_rate() -> None:
    before = SummaryReading({"at": 10, "counts": {"delivered": 1000}, "dropped": {"late": 5}})
    after = SummaryReading({"at": 12, "counts": {"delivered": 10}, "dropped": {"late": 6, "unmatched": 4}})
    change = CounterDelta(before, after)
    assert (change.rate("delivered"), change.lost, change.dropped) == (5, 1, {"late": 1, "unmatched": 4})


def test_numbers_are_as_short_as_they_are_true() -> None:
    assert [short(n) for n in (0, 0.012345, 3.14159, 99.96, 12345.6, float("inf"))] == [
        0,
        0.0123,
        3.14,
        100.0,
        12346,
        0,
    ]


def test_incidents_are_what_differs() -> None:
    incidents = Incidents()
    north, south = {"name": "north", "status": "ready"}, {"name": "south", "status": "ready"}
    link = {"a>b": {"from": "a", "to": "b", "state": "up"}, "b>a": {"from": "b", "to": "a", "state": "up"}}
    incidents.update(100.0, {"a": north, "b": south}, link)
    assert incidents.shown == {}, "what one finds is no incident"
    cut = {key: one | {"state": "silent"} for key, one in link.items()}
    burst = north | {"dropped_s": 50, "lost": 100, "reasons": {"late": 45, "unmatched": 900, "expired": 5}}
    incidents.update(101.0, {"a": burst, "b": south | {"status": "silent"}}, cut)
    said = [one["text"] for one in incidents.shown.values()]
    assert said == ["north drops 50 a second: late", "south is silent", "north – south is silent"]
    incidents.update(102.0, {"a": burst | {"lost": 200}, "b": south, "c": {"name": "west", "status": "ready"}}, link)
    said = [one["text"] for one in incidents.shown.values()][3:]
    assert said == ["south is back", "west joined", "north – south is up"]

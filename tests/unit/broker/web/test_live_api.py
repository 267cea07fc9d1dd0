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
from plait_broker.server.config.configuration import parse_configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.tracing.broker_summary import SUBSCRIPTIONS_SHOWN, describe_summary
from plait_broker.web import app, live_api
from plait_broker.web.incidents import SAME_S, SHOWN_MAX, IncidentList
from plait_broker.web.overlay_view import OverlayView
from plait_broker.web.sse import Feed, Sample, difference
from plait_broker.web.summary_reader import CounterDelta, SummaryReading, percentile_ms, short
from plait_core.ids import id_text
from plait_core.wire.frame_types.session_frames import Advertise, Done
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX

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
        assert (row["within_ms"], row["late"], row["lost"], row["delivered"]) == (30_000, 0, 0, 2)
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
    assert (change.rate("delivered"), change.lost, change.dropped) == (5, 0, {"late": 1, "unmatched": 4})
    assert change.late == 1, "a late event is none that was lost"


def test_numbers_are_as_short_as_they_are_true() -> None:
    assert [short(n) for n in (0, 0.012345, 3.14159, 99.96, 12345.6, float("inf"))] == [
        0,
        0.0123,
        3.14,
        100.0,
        12346,
        0,
    ]


def reading(*incidents: dict[str, Any]) -> SummaryReading:
    return SummaryReading({"recorded": max((one["number"] for one in incidents), default=0), "incidents": [*incidents]})


def incident(number: int, of: str, text: str, ago_s: float = 1.0, kind: str = "link down") -> dict[str, Any]:
    return {"number": number, "ago_s": ago_s, "kind": kind, "of": of, "text": text}


def test_an_incident_that_several_brokers_have_seen_is_shown_once() -> None:
    incidents = IncidentList()
    incidents.take(1, "a", reading(incident(1, "a>b", "link a – b is down")), 100.0)
    incidents.take(2, "b", reading(incident(1, "b>a", "link b – a is down", 3.0)), 100.0)
    assert [(one["at"], one["text"]) for one in incidents.shown.values()] == [(99.0, "link a – b is down")]
    later = incident(2, "b>a", "link b – a is down", 3.0)
    incidents.take(2, "b", reading(later), 100.0 + 2 * SAME_S)
    assert len(incidents.shown) == 2, "it has gone down again"


def test_a_summary_brings_only_later_incidents() -> None:
    incidents = IncidentList()
    first, second = incident(1, "a", "first", 50.0), incident(2, "a", "second")
    incidents.take(1, "a", reading(first), 100.0)
    assert incidents.seen(1) == 1
    incidents.take(1, "a", reading(first, second), 100.0)
    assert [one["text"] for one in incidents.shown.values()] == ["first", "second"]
    incidents.take(1, "a", reading(incident(1, "a", "after its restart", 0.0)), 200.0)
    assert [one["text"] for one in incidents.shown.values()][2:] == ["after its restart"]


def test_a_hostile_broker_fills_no_more_than_the_list() -> None:
    incidents = IncidentList()
    for start in range(0, 500, 50):
        many = [incident(n, f"{n}", HOSTILE * 1000, 1e300) for n in range(start + 1, start + 51)]
        incidents.take(1, "a", reading(*many), 1e9)
    assert len(incidents.shown) <= SHOWN_MAX
    assert all(len(one["text"]) < 1000 for one in incidents.shown.values())


A, B, C = id_text(1), id_text(2), id_text(3)


def shown_texts(incidents: IncidentList) -> list[str]:
    return [one["text"] for one in incidents.shown.values()]


def test_a_hostile_broker_hides_no_incident_of_another() -> None:
    incidents = IncidentList()
    incidents.own_id = C
    for kind, of in (("security", A), ("link down", f"{A}>{C}"), ("leave", A)):
        incidents.take(2, "b", reading(incident(1, of, "-", kind=kind)), 100.0)
        incidents._seen.clear()
    incidents.take(1, "a", reading(incident(1, A, "a refused a caller", kind="security")), 103.0)
    incidents.take(1, "a", reading(incident(2, f"{A}>{C}", "link a – c is down")), 103.0)
    incidents.take(3, "c", reading(incident(1, A, "a is out of reach of c", kind="leave")), 103.0)
    incidents.take(2, "b", reading(incident(2, f"{A}>{C}", "-")), 103.0)
    own = [one["text"] for one in incidents.shown.values() if one["by"] != B]
    assert own == ["a refused a caller", "link a – c is down", "a is out of reach of c"]
    assert shown_texts(incidents).count("-") == 1, "of a kind that one broker reports, each report is shown"


def test_a_hostile_broker_displaces_no_incident_of_another() -> None:
    incidents = IncidentList()
    for n in range(3):
        incidents.take(1, "a", reading(incident(n + 1, A, f"{n}")), 100.0)
    for turn in range(20, 0, -1):  # its number falls, so all of its reports are new
        many = [incident(n, f"{turn}.{n}", HOSTILE, 0.0) for n in range(turn, turn + 60)]
        incidents.take(2, "b", reading(*many), 1000.0 - turn)
    assert len(incidents.shown) == SHOWN_MAX
    assert shown_texts(incidents)[:3] == ["0", "1", "2"]


def test_a_repeated_incident_is_shown_once_with_its_count() -> None:
    incidents = IncidentList()
    once = incident(1, A, "refused", 0.0, "security")
    incidents.take(1, "a", reading(once), 100.0)
    incidents.take(1, "a", reading(once | {"number": 2, "count": 7, "first_ago_s": 60.0}), 160.0)
    (found,) = incidents.shown.values()
    assert (found["at"], found["first"], found["count"]) == (160.0, 100.0, 7)


async def test_a_summary_fits_whatever_filters_clients_have() -> None:
    astral = "\U0001f600" * 240  # twelve characters of JSON each
    async with running(LOCAL, name="north") as server, client_of(server, "client") as client:
        for number in range(1, SUBSCRIPTIONS_SHOWN + 1):
            await client.subscribe(f"x = '{astral}'", number)
        broker = server.broker
        assert broker is not None
        broker.explainer.incidents.record("drain", id_text(broker.id), "short", 0.0)
        summary = describe_summary(broker, {}, broker.started_at + 1.0)
        assert len(json.dumps(summary)) <= FACTS_CHARACTERS_MAX
        assert len(summary["shown"]) > SUBSCRIPTIONS_SHOWN / 2
        assert [one["text"] for one in summary["incidents"]] == ["short"], "the longest rows are left out first"


async def test_looking_again_after_a_pause_finds_no_broker_silent() -> None:
    """Summaries of other brokers lapse while nobody asks for them. That is no incident."""
    now = 1000.0
    async with running(WITH_HTTP, name="north") as north:
        linked = f'name = "south"\nlisten = "127.0.0.1:0"\nhttp = "off"\n[overlay]\nlinks = ["127.0.0.1:{north.port}"]'
        async with BrokerServer(parse_configuration(linked.encode())) as south, asyncio.timeout(60):
            broker = south.broker
            assert broker is not None
            while len(broker.overlay.reached) < 2:  # noqa: ASYNC110 - the broker has no event for it
                await asyncio.sleep(0.05)
            view = OverlayView(lambda: broker, south.query_brokers, "1", lambda: now)
            view.sample()
            for _ in range(3):  # it is opened, closed for long, and opened again
                before = {id: seen.received_at for id, seen in view._brokers.items()}
                while any(seen.received_at == before[id] for id, seen in view._brokers.items()):
                    sample = view.sample()
                    assert {one["status"] for one in sample["brokers"].values()} == {"ready"}
                    assert sample["incidents"] == {}
                    await asyncio.sleep(0.05)
                    now += 0.05
                now += 45.0
            await view.close()

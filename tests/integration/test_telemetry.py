"""Telemetry of running brokers: of a single one, and of two with the link between them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scripted import client_of, running

import plait
from plait_analytics import take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.tables.presentation import presented_tables
from plait_broker.server.config.configuration import Configuration
from plait_broker.server.config.overlay_config import OverlayConfig
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer
from plait_broker.settings import BrokerSettings, LinkSettings
from plait_core.ids import id_text
from plait_core.telemetry import RECORD_BYTES, RecordKind, SegmentHeader, parse_seal, record_dtype
from plait_telemetry.recording import TelemetryConfig, TelemetryError

EVENTS = 40
ANY = Endpoint("127.0.0.1", 0)


def configured(directory: Path, name: str = "north", *links: str) -> Configuration:
    place = OverlayConfig(links=LinkSettings(links=links))
    return Configuration(BrokerSettings(name=name), ANY, None, overlay=place, telemetry=TelemetryConfig(directory))


def recorded(directory: Path, *, sealed: bool) -> np.ndarray:
    """Return all records of a broker in the order of writing."""
    found = []
    for path in sorted(directory.glob("*.seg")):
        data = path.read_bytes()
        data = data[: len(data) // RECORD_BYTES * RECORD_BYTES]
        assert SegmentHeader.parse(data).version == 1
        ends = parse_seal(data[-RECORD_BYTES:]) is not None
        assert ends is sealed
        found.append(np.frombuffer(data[RECORD_BYTES : -RECORD_BYTES if ends else None], record_dtype()))
    return np.concatenate(found) if found else np.zeros(0, record_dtype())


def of(records: np.ndarray, kind: RecordKind) -> np.ndarray:
    return records[records["kind"] == kind]


async def test_the_telemetry_of_a_broker_agrees_with_its_events(tmp_path: Path) -> None:
    home = tmp_path / "broker-north"
    async with (
        running(configured(tmp_path)) as server,
        client_of(server, "subscriber", 1) as subscriber,
        client_of(server, "publisher", 2) as source,
    ):
        assert server.broker is not None
        await subscriber.subscribe("n < 30", 1, within_us=10_000_000)
        await subscriber.subscribe("n >= 20", 2)
        await source.send_bytes(b"".join(source.published({"n": n}) for n in range(EVENTS)))
        for n in range(EVENTS):
            assert await subscriber.delivered() == {"n": n}
        async with asyncio.timeout(5):  # while the segment grows
            while len(of(recorded(home, sealed=False), RecordKind.DELIVERY)) < 50:  # noqa: ASYNC110 - files cannot be awaited
                await asyncio.sleep(0.01)
        facts = server.facts()["telemetry"]
        broker = server.broker.id
    assert (facts["lost"], facts["weight"], facts["failing"]) == (0, 1, None)
    records = recorded(home, sealed=True)
    published, delivered = of(records, RecordKind.PUBLISH), of(records, RecordKind.DELIVERY)
    assert published["sequence"].tolist() == list(range(1, EVENTS + 1))
    assert published["expected"].tolist() == [1 + (20 <= n < 30) for n in range(EVENTS)]
    assert set(published["publisher"].tolist()) == {2}
    assert Counter(delivered["subject"].tolist()) == {1: 30, 2: 20}
    assert delivered["expected"].sum() == 20 * 1 + 10 * 2 * 2 + 10 * 1, (
        "each record counts the destinations of its event"
    )
    assert set(delivered["bound_us"].tolist()) == {0, 10_000_000}
    assert of(records, RecordKind.MATCH)["count"].sum() == EVENTS
    assert len(of(records, RecordKind.QUEUE)) >= 2, "at the start and at the end"
    assert not len(of(records, RecordKind.DROP))
    names = [json.loads(line) for path in home.glob("*.names.jsonl") for line in path.read_text().splitlines()]
    assert {"kind": "broker", "id": f"{broker:016x}", "name": "north"} in names
    clients = {n["id"]: n["name"] for n in names if n["kind"] == "publisher"}
    assert clients == {id_text(1): "subscriber", id_text(2): "publisher"}, "any client may publish"
    assert [(n["id"], n["filter"], n["client"], n["within_us"]) for n in names if n["kind"] == "subscription"] == [
        (1, "n < 30", "subscriber", 10_000_000),
        (2, "n >= 20", "subscriber", 0),
    ]


async def test_two_brokers_write_both_ends_of_a_link(tmp_path: Path) -> None:
    async with running(configured(tmp_path, "north")) as north:
        async with running(configured(tmp_path, "south", f"127.0.0.1:{north.port}")) as south:
            assert north.broker is not None
            assert south.broker is not None
            ids = {"north": north.broker.id, "south": south.broker.id}
            async with (
                plait.connect(f"plait://127.0.0.1:{south.port}") as far,
                plait.connect(f"plait://127.0.0.1:{north.port}") as near,
                far.subscribe("true") as quotes,
            ):
                for n in range(EVENTS):
                    await near.publish({"n": n}, confirm="broker")
                async with asyncio.timeout(5):
                    for n in range(EVENTS):
                        assert (await anext(aiter(quotes)))["n"] == n
            await _sampled(tmp_path, ids)
    at = {name: recorded(tmp_path / f"broker-{name}", sealed=True) for name in ids}
    assert of(at["north"], RecordKind.PUBLISH)["count"].tolist() == [1] * EVENTS, "each went to one other broker"
    forwarded = of(at["north"], RecordKind.FORWARD)
    assert set(forwarded["subject"].tolist()) == {ids["south"]}
    arrived = of(at["south"], RecordKind.ARRIVAL)
    assert arrived["sequence"].tolist() == list(range(1, EVENTS + 1))
    assert set(arrived["subject"].tolist()) == {ids["north"]}
    delivered = of(at["south"], RecordKind.DELIVERY)
    assert delivered["sequence"].tolist() == list(range(1, EVENTS + 1))
    assert set(delivered["hops"].tolist()) == {2}
    assert not len(of(at["north"], RecordKind.DELIVERY))
    for name, other in (("north", "south"), ("south", "north")):
        assert ids[other] in of(at[name], RecordKind.LINK)["subject"].tolist()
        assert ids[other] in of(at[name], RecordKind.MEMBERSHIP)["subject"].tolist()
        ways = of(at[name], RecordKind.ROUTING)
        assert (ids[other], ids[other]) in zip(ways["subject"].tolist(), ways["publisher"].tolist(), strict=True)


async def _sampled(place: Path, ids: dict[str, int]) -> None:
    """Wait until each has sampled its link, because the broker that stops last has none at its end."""

    def seen(name: str, other: str) -> bool:
        records = recorded(place / f"broker-{name}", sealed=False)
        return all(
            ids[other] in of(records, kind)["subject"]
            for kind in (RecordKind.LINK, RecordKind.MEMBERSHIP, RecordKind.ROUTING)
        )

    async with asyncio.timeout(30):
        while not (seen("north", "south") and seen("south", "north")):  # noqa: ASYNC110 - files cannot be awaited
            await asyncio.sleep(0.05)


async def test_a_place_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TelemetryError, match="telemetry cannot be written"):
        await BrokerServer(configured(tmp_path / "file")).start()


async def test_the_tables_of_real_brokers_account_for_every_event(tmp_path: Path) -> None:
    """The analysis of both brokers' records finds the deliveries that the subscribers counted."""
    heard = 0
    async with running(configured(tmp_path, "north")) as north:
        async with running(configured(tmp_path, "south", f"127.0.0.1:{north.port}")) as south:
            async with (
                plait.connect(f"plait://127.0.0.1:{south.port}") as far,
                plait.connect(f"plait://127.0.0.1:{north.port}") as near,
                far.subscribe("n < 30") as some,
                near.subscribe("true") as everything,
            ):
                for n in range(EVENTS):
                    await (near if n % 2 else far).publish({"n": n}, confirm="broker")
                async with asyncio.timeout(5):
                    for subscription, count in ((some, 30), (everything, EVENTS)):
                        for _ in range(count):
                            await anext(aiter(subscription))
                            heard += 1
    inventory = take_inventory([tmp_path])
    tables = presented_tables(compute_by_duckdb(inventory), inventory)
    journeys = tables["journeys"].to_pylist()
    assert sum(row["events"] for row in journeys) == sum(row["accounted"] for row in journeys) == EVENTS
    assert sum(row["delivered"] for row in journeys) == sum(row["expected"] for row in journeys) == heard == 70
    assert tables["unaccounted"].num_rows == 0
    by_filter = {row["filter"]: row["delivered"] for row in tables["subscriptions"].to_pylist()}
    assert by_filter == {"n < 30": 30, "true": EVENTS}
    assert sorted(set(tables["brokers"]["broker_name"].to_pylist())) == ["north", "south"]
    crossed = sum(row["events"] for row in tables["flows"].to_pylist() if row["source"] != row["destination"])
    assert crossed == 15 + EVENTS // 2

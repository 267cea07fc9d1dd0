"""Both engines compute the tables from generated telemetry; they are compared with counts made by the generator."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import spark
from telemetry_world import BROKERS, MINUTE_US, PUBLISHERS, START_US, SUBSCRIPTIONS, World, publisher_name

from plait_analytics import TABLES, Inventory, Lake, take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb as by_duckdb
from plait_analytics.records import batches
from plait_analytics.records.batches import read_counts, read_pieces, read_weights, slices_of
from plait_analytics.records.counts import KEY
from plait_analytics.records.counts import SCHEMA as COUNTS
from plait_analytics.records.id_names import read_names
from plait_analytics.records.words import IdNames
from plait_analytics.tables.derive_tables import merged
from plait_analytics.tables.end_to_end import AUDITS, pieced
from plait_analytics.tables.presentation import ids_of, presented
from plait_analytics.tables.sql_dialect import with_window
from plait_core.ids import id_text
from plait_core.telemetry import RecordKind, bucket_bounds_us, bucket_of
from plait_core.telemetry.records import RECORD
from plait_telemetry.telemetry import sampled_out
from plait_telemetry.writer import SegmentLimits, SegmentWriter

EVENTS = 1500
SPARK_S = 280
"""Timeout for a JVM on a busy machine."""
LOST = ("expired", "late", "overflow", "forbidden", "gone", "other")
Tables = Mapping[str, pa.Table]
pytestmark = pytest.mark.timeout(SPARK_S + 20)


@pytest.fixture(scope="module")
def world() -> World:
    return World(4).run(EVENTS)


@pytest.fixture(scope="module")
def home(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write(tmp_path_factory.mktemp("telemetry"))


def analyzed(home: Path, out: Path, engine: str) -> Tables:
    """Return the tables that `plait analyze` stores, run in its own process, which ends its JVM."""
    command = [sys.executable, "-m", "plait", "analyze", str(home), "--engine", engine, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_S, check=False)
    assert done.returncode == 0, done.stderr
    return stored(out)


def stored(out: Path) -> Tables:
    lake = Lake(out)
    return {name: lake.read(name) for name in TABLES}


@pytest.fixture(scope="module")
def duckdb_tables(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return analyzed(home, tmp_path_factory.mktemp("duckdb"), "duckdb")


@pytest.fixture(scope="module")
def spark_tables(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    spark.require()
    out = spark.made_once(tmp_path_factory, "spark-tables", lambda place: analyzed(home, place, "spark"))
    return stored(out)


@pytest.fixture(params=["duckdb", "spark"])
def tables(request: pytest.FixtureRequest) -> Tables:
    found: Tables = request.getfixturevalue(f"{request.param}_tables")
    return found


def rows(tables: Tables, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return a table by key, with ids and windows as numbers."""
    found = {}
    for row in tables[name].to_pylist():
        shown = {key: int(value, 16) if key in _IDS else value for key, value in row.items()}
        shown["window_us"] = round(shown.pop("window").timestamp()) * 1_000_000
        key = tuple(shown[part] for part in TABLES[name].key)
        assert key not in found, "a key is there once"
        found[key] = shown
    return found


_IDS = {"broker", "publisher", "neighbour", "source", "destination", "other_broker"}


def quantile_bucket(values: list[int], percent: int) -> int:
    """Return the bucket of the smallest value that is at least as great as `percent` of the values."""
    ordered = sorted(values)
    return bucket_of(ordered[-(-percent * len(ordered) // 100) - 1])


def in_bucket(value: float, bucket: int) -> bool:
    least, greatest = bucket_bounds_us(bucket)
    return least < value < greatest


def test_subscriptions(world: World, tables: Tables) -> None:
    truth = world.truth.subscriptions
    found = rows(tables, "subscriptions")
    assert set(found) == {key for key, facts in truth.items() if facts}
    for key, row in found.items():
        facts, delays = truth[key], world.truth.delays[key]
        counted = {name: row[name] for name in ("matched", "delivered", "on_time", "late")}
        counted |= {f"lost_{reason}": row[f"lost_{reason}"] for reason in LOST}
        assert counted == {name: facts[name] for name in counted}, key
        assert row["bytes"] == 100 * len(delays)
        assert row["bound_us"] == SUBSCRIPTIONS[key[1:]]
        assert (row["filter"], row["client"]) == (f"f == {key[2]}", f"c{BROKERS.index(key[1])}")
        for percent in (50, 90, 99):
            assert in_bucket(row[f"p{percent}_us"], quantile_bucket(delays, percent))


def test_links(world: World, tables: Tables) -> None:
    found = rows(tables, "links")
    assert set(found) == set(world.truth.links) | set(world.truth.copies)
    for key, row in found.items():
        delays = world.truth.links[key]
        assert row["samples"] == len(delays)
        assert row["delay_mean_us"] == pytest.approx(sum(delays) / len(delays))
        assert (row["delay_min_us"], row["delay_max_us"]) == (min(delays), max(delays))
        assert row["jitter_mean_us"] == pytest.approx(sum(delay // 10 for delay in delays) / len(delays))
        assert (row["copies"], row["bytes"]) == (world.truth.copies[key], 100 * world.truth.copies[key])
        assert row["copies_per_s"] == pytest.approx(world.truth.copies[key] / 60)
        assert in_bucket(row["p90_us"], quantile_bucket(delays, 90))
        lanes = world.truth.lanes[key]
        assert row["samples_full"] == sum(lane.full for lane in lanes)
        assert row["bytes_written"] == sum(lane.bytes for lane in lanes)
        assert row["waiting_bytes_max"] == max(lane.waiting_bytes for lane in lanes)
        assert row["waiting_max_us"] == max(lane.waiting_us for lane in lanes)
        assert row["capacity"] == max(lane.capacity for lane in lanes)


def test_brokers(world: World, tables: Tables) -> None:
    found = rows(tables, "brokers")
    columns = {"published": "PUBLISH", "arrived": "ARRIVAL", "forwarded": "FORWARD", "delivered": "DELIVERY"}
    columns |= {"dropped": "DROP", "expired": "EXPIRY"}
    assert set(found) == {key for key, facts in world.truth.brokers.items() if facts}
    for key, row in found.items():
        facts = world.truth.brokers[key]
        assert {column: row[column] for column in columns} == {c: facts[kind] for c, kind in columns.items()}
        assert row["broker_name"] == f"b{BROKERS.index(key[1])}"
        reads = world.truth.matching[key]
        assert (row["matched"], row["matching_us"]) == tuple(map(sum, zip(*reads, strict=True)))
        each = [elapsed_us // events for events, elapsed_us in reads for _ in range(events)]
        assert in_bucket(row["match_p50_us"], quantile_bucket(each, 50))


def test_publishers_rate_and_regularity(world: World, tables: Tables) -> None:
    found = rows(tables, "publishers")
    assert set(found) == set(world.truth.published)
    for key, row in found.items():
        sent = world.truth.published[key]
        gaps = [later[1] - earlier[1] for earlier, later in pairwise(sent)]
        if sent[0][0] > 1:  # the gap to the last of the minute before
            before = world.truth.published[key[0] - MINUTE_US, key[1]][-1]
            gaps.insert(0, sent[0][1] - before[1])
        mean = sum(gaps) / len(gaps)
        variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
        assert row["events"] == len(sent)
        assert row["gap_mean_us"] == pytest.approx(mean)
        assert row["gap_variation"] == pytest.approx(variance / mean**2)


def test_content_by_cells_of_the_space(world: World, tables: Tables) -> None:
    found, truth = rows(tables, "content"), world.truth.content
    assert set(found) == set(truth)
    for key, row in found.items():
        bounded = [lifetime_us for lifetime_us in truth[key] if lifetime_us]
        located = sum(len(truth[other]) for other in truth if other[:3] == key[:3])
        assert (row["events"], row["bytes"], row["with_lifetime"]) == (
            len(truth[key]),
            100 * row["events"],
            len(bounded),
        )
        ends = (min(bounded), max(bounded)) if bounded else (None, None)
        assert (row["lifetime_min_us"], row["lifetime_max_us"]) == ends
        assert row["share"] == pytest.approx(len(truth[key]) / located)


def test_journeys_account_for_every_event_or_list_it(world: World, tables: Tables) -> None:
    listed = {(row["publisher"], row["sequence"]) for row in rows(tables, "unaccounted").values()}
    assert listed == set(world.truth.missing)
    assert set(world.truth.missing.values()) == {"a copy vanished", "a delivery vanished", "delivered twice"}
    journeys = rows(tables, "journeys").values()
    assert sum(row["events"] for row in journeys) == EVENTS
    assert sum(row["accounted"] for row in journeys) == EVENTS - len(world.truth.missing)


@pytest.mark.parametrize("stretch", [17, 64, 1 << 18])
def test_events_are_accounted_for_by_pieces_as_by_all_records(
    home: Path, duckdb_tables: Tables, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of Spark's workers does not depend on where their chunks begin and end."""
    monkeypatch.setattr(batches, "PIECED_RECORDS", stretch)
    inventory = take_inventory([home])
    pieces, names = pa.Table.from_batches(read_pieces(slices_of(inventory.segments), 1)), IdNames(read_names(inventory))
    with duckdb.connect() as connection:
        connection.register("pieces", pieces)
        for name in sorted(AUDITS):
            found = connection.sql(with_window(pieced(TABLES[name]), MINUTE_US)).to_arrow_table()
            assert presented(name, found, names).equals(duckdb_tables[name]), name


def test_flows_and_selectivity(world: World, tables: Tables) -> None:
    found = {key: (row["events"], row["matched"]) for key, row in rows(tables, "flows").items()}
    assert found == {key: (facts["events"], facts["matched"]) for key, facts in world.truth.flows.items()}
    for key, row in rows(tables, "selectivity").items():
        assert row["published"] == world.truth.brokers[key]["PUBLISH"]
        assert row["copies"] == sum(n for (at, home, _), n in world.truth.copies.items() if (at, home) == key)
        assert 0 <= row["regionalism"] <= 1


def test_delays_add_up_to_what_was_delivered(world: World, tables: Tables) -> None:
    expected: Counter[tuple[int | str, ...]] = Counter()
    for (at, broker, number), delays in world.truth.delays.items():
        expected.update((at, "delivery", broker, str(number), bucket_of(delay)) for delay in delays)
    found = {key: row["n"] for key, row in rows(tables, "delays").items() if key[1] == "delivery"}
    assert found == expected


def test_similar_subscriptions_are_found_and_measured_exactly(tmp_path: Path) -> None:
    chance, records, wanted = Random(6), [], {}
    for subscription in range(1, 13):  # in threes, the more alike the earlier
        group, noise = (subscription - 1) // 3, 0.02 + 0.1 * ((subscription - 1) // 3)
        base = Random(group)
        wanted[subscription] = {n for n in range(1, 401) if (base.random() < 0.4) ^ (chance.random() < noise)}
        for n in sorted(wanted[subscription]):
            records.append(delivery(7, n, subscription, START_US + n))
    found = {
        (row["subscription"], row["other"]): (row["shared"], row["either"], row["jaccard"])
        for row in by_duckdb(one_broker(tmp_path, records), only=["similarity"])["similarity"].to_pylist()
    }
    truth = {
        (one, other): (len(wanted[one] & wanted[other]), len(wanted[one] | wanted[other]))
        for one, other in combinations(wanted, 2)
    }
    assert all(found[pair][:2] == truth[pair] and found[pair][2] == truth[pair][0] / truth[pair][1] for pair in found)
    alike = {pair for pair, (both, either) in truth.items() if both / either > 0.8}
    assert len(alike) >= 3
    assert alike <= set(found)


def test_a_rate_that_departs_from_its_history_is_an_incident(tmp_path: Path) -> None:
    chance, records = Random(2), []
    for minute in range(20):
        at = START_US // MINUTE_US * MINUTE_US + minute * MINUTE_US
        for n in range(400 if minute == 15 else chance.randrange(95, 105)):
            records.append(record(RecordKind.PUBLISH, at + n, publisher=1, sequence=1000 * minute + n + 1, expected=1))
        for n in range(10):
            delay_us = 90_000 if minute == 17 else chance.randrange(9_000, 11_000)
            records.append(record(RecordKind.LINK, at + n, subject=5, delay_us=delay_us))
    found = by_duckdb(one_broker(tmp_path, records), only=["incidents"])["incidents"].to_pylist()
    first = START_US // MINUTE_US * MINUTE_US
    incidents = {
        ((row["window_us"] - first) // MINUTE_US, row["entity"], row["measure"], row["subject"]) for row in found
    }
    assert incidents == {(15, "broker", "rate", 0), (17, "link", "delay", 5)}


def record(kind: RecordKind, ts_us: int, *, publisher: int = 0, sequence: int = 0, subject: int = 0,
           delay_us: int = 0, expected: int = 0, weight: int = 1) -> bytes:  # fmt: skip
    return RECORD.pack(
        ts_us, ts_us, publisher, sequence, subject, delay_us, 0, 1, 0, expected, weight, int(kind), 0, 1, 0
    )


def delivery(publisher: int, sequence: int, subscription: int, ts_us: int) -> bytes:
    return record(RecordKind.DELIVERY, ts_us, publisher=publisher, sequence=sequence, subject=subscription, expected=1)


def one_broker(directory: Path, records: list[bytes]) -> Inventory:
    segments = SegmentWriter(directory, 0xF000000000000001, START_US, SegmentLimits())
    segments.open()
    segments.write([memoryview(b"".join(records))], 0.0)
    segments.seal()
    return take_inventory([directory])


def test_sampled_records_count_for_those_that_they_stand_for(tmp_path: Path) -> None:
    """One broker kept all of 4,000 events, the other every fourth: the audit uses the events that both kept."""
    kept = [n for n in range(1, 4001) if not sampled_out(n, 3)]
    near = [record(RecordKind.PUBLISH, START_US + n, publisher=1, sequence=n, expected=1) for n in range(1, 4001)]
    near += [record(RecordKind.DELIVERY, START_US + n, publisher=1, sequence=n, subject=3, weight=4) for n in kept]
    inventory = one_broker(tmp_path, near)
    tables = by_duckdb(inventory, only=["subscriptions", "journeys"])
    (subscription,), (journey,) = tables["subscriptions"].to_pylist(), tables["journeys"].to_pylist()
    assert subscription["delivered"] == 4 * len(kept)
    assert journey["events"] == journey["accounted"] == len(kept), "none is missing that was only not sampled"
    (weight,) = {row for batch in read_weights(slices_of(inventory.segments)) for row in batch["weight"].to_pylist()}
    pieces = pa.Table.from_batches(read_pieces(slices_of(inventory.segments), weight))
    with duckdb.connect() as connection:
        connection.register("pieces", pieces)
        found = connection.sql(with_window(pieced(TABLES["journeys"]), MINUTE_US)).to_arrow_table()
    assert presented("journeys", found).equals(presented("journeys", tables["journeys"])), "Spark's workers as well"


def test_names_stand_beside_ids_and_codes_are_words(world: World, tables: Tables) -> None:
    texts = {id_text(id): f"b{place}" for place, id in enumerate(BROKERS)}
    publishers = {id_text(id): publisher_name(id) for id in PUBLISHERS}
    shown = {name: table.to_pylist() for name, table in tables.items()}
    for name, found in shown.items():
        for row in found:
            for column in {"broker", "neighbour", "source", "destination", "other_broker"} & row.keys():
                assert row[f"{column}_name"] == texts[row[column]], (name, column)
            if "publisher" in row:
                assert row["publisher_name"] == publishers[row["publisher"]], name
    for row in shown["similarity"]:
        clients = (row["broker_name"].replace("b", "c"), row["other_broker_name"].replace("b", "c"))
        assert (row["client"], row["other_client"]) == clients
    for row in shown["delays"]:
        client, link = row["broker_name"].replace("b", "c"), texts.get(row["subject"] or "")
        assert row["subject_name"] == {"delivery": client, "link": link, "match": None}[row["kind"]]
        assert (row["from_us"], row["to_us"]) == bucket_bounds_us(row["bucket"])
    kinds = {"publish", "arrival", "forward", "delivery", "drop", "expiry", "link", "match", "queue", "lane"}
    assert {row["kind"] for row in shown["counts"]} == kinds
    lost = {(row["reason"], row["marks"]) for row in shown["counts"] if row["kind"] == "drop"}
    assert {("unreachable", "to_broker"), ("outbox_items", None)} <= lost
    assert {row["marks"] for row in shown["counts"] if row["kind"] == "lane"} == {"full", None}
    entities = {(row["kind"], row["entity"], row["entity_name"]) for row in shown["counts"]}
    assert ("publish", id_text(7), publisher_name(7)) in entities
    assert ("delivery", "1", "c0") in entities
    assert ("forward", id_text(BROKERS[1]), "b1") in entities
    assert ("match", None, None) in entities


def test_the_stored_counts_can_be_merged_again(home: Path, duckdb_tables: Tables) -> None:
    inventory = take_inventory([home])
    counts = merged(pa.Table.from_batches(read_counts(slices_of(inventory.segments), MINUTE_US), COUNTS), MINUTE_US)
    order = [(name, "ascending") for name in KEY]
    assert ids_of(duckdb_tables["counts"]).sort_by(order).equals(counts.sort_by(order))


def test_both_engines_give_the_same(duckdb_tables: Tables, spark_tables: Tables) -> None:
    for name in TABLES:
        one, other = duckdb_tables[name], spark_tables[name]
        assert one.schema == other.schema, name
        for column in one.column_names:
            values, others = one[column].to_pylist(), other[column].to_pylist()
            exact = one.schema.field(column).type != pa.float64()
            assert values == (others if exact else pytest.approx(others, rel=1e-9, nan_ok=True)), (name, column)

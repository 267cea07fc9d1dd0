"""The summary for brokers and predictions: delays, rates and distributions of the last windows, in one file.

    {"format", "from", "to", "seconds", "links": [...], "brokers": [...], "publishers": [...], "subscriptions": [...]}

Distributions are `{"BUCKET": n}` with the buckets of `plait_core.telemetry` (floor(8 log2 microseconds)). A reader may
add them up or compute any quantile; common quantiles are included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from plait_core.telemetry import RecordKind, bucket_bounds_us
from plait_core.values import Json

from ..records.counts import NONE
from .derive_tables import merged

FORMAT: Final = 1
SUMMARY: Final = "summary.json"

WINDOWS: Final = 30
"""Windows that are summarised: half an hour of minutes, or five minutes of ten seconds."""

_ALL: Final = 1 << 62
"""A window width that includes all windows, so that the engine adds them up instead of Python."""

ROWS_MAX: Final = 10_000
"""Rows of each list, those with the most records first: a broker reads the file at once."""

Rows = list[Json]

_USED: Final = [
    *("broker", "kind", "entity", "bucket", "records", "weight", "bytes", "items", "expected", "delay_us", "bound_us"),
    *("bound_min", "bound_max"),
]
"""The columns of counts that the summary needs."""


def summary(counts: pa.Table, names: pa.Table, window_us: int, windows: int = WINDOWS) -> Json:
    """Return the summary of the last windows of counts of one width."""
    known = sorted(set(counts["window_us"].to_pylist()))[-windows:]
    if not known:
        return {"format": FORMAT, "from": None, "to": None, "seconds": 0.0, **{name: [] for name in _LISTS}}
    chosen = merged(counts.filter(pc.greater_equal(counts["window_us"], known[0])), _ALL)
    end_us = known[-1] + window_us
    seconds = (end_us - known[0]) / 1_000_000
    entries = {(row["kind"], row["broker"], row["id"]): row for row in names.to_pylist()}
    return {
        "format": FORMAT,
        "from": _iso(known[0]),
        "to": _iso(end_us),
        "seconds": seconds,
        **{name: made(chosen, entries, seconds)[:ROWS_MAX] for name, made in _LISTS.items()},
    }


def summary_bytes(counts: pa.Table, names: pa.Table, window_us: int) -> bytes:
    """Return the summary as the bytes of its file."""
    return json.dumps(summary(counts, names, window_us), separators=(",", ":")).encode()


def quantile_us(delays: Mapping[str, int], fraction: float) -> float | None:
    """Return a quantile of a distribution, as the middle of its bucket, or None if the distribution is empty."""
    threshold, below = fraction * sum(delays.values()), 0
    for bucket in sorted(map(int, delays)):
        below += delays[str(bucket)]
        if below >= threshold:
            least, most = bucket_bounds_us(bucket)
            return (least * most) ** 0.5
    return None


def _links(counts: pa.Table, entries: Mapping[tuple[str, int, int], Any], seconds: float) -> Rows:
    found = []
    for (broker, neighbour), rows in _by(counts, (RecordKind.LINK, RecordKind.FORWARD), "broker", "entity"):
        samples = [row for row in rows if row["kind"] == RecordKind.LINK]
        copies = [row for row in rows if row["kind"] == RecordKind.FORWARD]
        looks = sum(row["records"] for row in samples)
        delays = _distribution(samples, "weight")
        found.append(
            {
                "broker": _text(broker), "neighbour": _text(neighbour), "samples": looks, "delays": delays,
                "delay_us": sum(row["delay_us"] for row in samples) / looks if looks else None,
                "jitter_us": sum(row["bound_us"] for row in samples) / looks if looks else None,
                "p99_us": quantile_us(delays, 0.99),
                "pings_missing": sum(row["expected"] for row in samples),
                "copies_per_s": sum(row["weight"] for row in copies) / seconds,
                "bytes_per_s": sum(row["bytes"] for row in copies) / seconds,
            }
        )  # fmt: skip
    return found


def _brokers(counts: pa.Table, entries: Mapping[tuple[str, int, int], Any], seconds: float) -> Rows:
    found = []
    for (broker,), rows in _by(
        counts, (RecordKind.PUBLISH, RecordKind.ARRIVAL, RecordKind.MATCH, RecordKind.DELIVERY), "broker"
    ):
        matching = _distribution([row for row in rows if row["kind"] == RecordKind.MATCH], "items")
        events = [row for row in rows if row["kind"] in (RecordKind.PUBLISH, RecordKind.ARRIVAL)]
        name = entries.get(("broker", 0, broker))
        found.append(
            {
                "broker": _text(broker), "name": name["name"] if name else None,
                "events_per_s": sum(row["weight"] for row in events) / seconds,
                "deliveries_per_s": sum(row["weight"] for row in rows if row["kind"] == RecordKind.DELIVERY) / seconds,
                "matching": matching, "match_p50_us": quantile_us(matching, 0.5),
                "match_p99_us": quantile_us(matching, 0.99),
            }
        )  # fmt: skip
    return found


def _publishers(counts: pa.Table, entries: Mapping[tuple[str, int, int], Any], seconds: float) -> Rows:
    found = []
    for (publisher,), rows in _by(counts, (RecordKind.PUBLISH,), "entity"):
        events = sum(row["weight"] for row in rows)
        least = min(row["bound_min"] for row in rows)
        found.append(
            {
                "publisher": _text(publisher), "broker": _text(rows[0]["broker"]), "events_per_s": events / seconds,
                "bytes_mean": sum(row["bytes"] for row in rows) / events,
                "matched_mean": sum(row["expected"] for row in rows) / events,
                "brokers_mean": sum(row["items"] for row in rows) / events,
                "lifetime_min_us": least if least != NONE else None,
                "lifetime_max_us": max(row["bound_max"] for row in rows) or None,
            }
        )  # fmt: skip
    return found


def _subscriptions(counts: pa.Table, entries: Mapping[tuple[str, int, int], Any], seconds: float) -> Rows:
    found = []
    for (broker, number), rows in _by(counts, (RecordKind.DELIVERY,), "broker", "entity"):
        delays = _distribution(rows, "weight")
        name = entries.get(("subscription", broker, number))
        found.append(
            {
                "broker": _text(broker), "subscription": number, "filter": name["filter"] if name else None,
                "per_s": sum(row["weight"] for row in rows) / seconds,
                "bound_us": max(row["bound_max"] for row in rows) or None, "delays": delays,
                "p50_us": quantile_us(delays, 0.5), "p99_us": quantile_us(delays, 0.99),
            }
        )  # fmt: skip
    return found


_LISTS: Final = {
    "links": _links,
    "brokers": _brokers,
    "publishers": _publishers,
    "subscriptions": _subscriptions,
}


def _by(counts: pa.Table, kinds: Iterable[RecordKind], *key: str) -> list[tuple[tuple[int, ...], Rows]]:
    """Return the rows of some kinds by key, the greatest weight first."""
    kind_numbers = pa.array([int(kind) for kind in kinds], pa.int32())
    groups: dict[tuple[int, ...], Rows] = {}
    for row in counts.select(_USED).filter(pc.is_in(counts["kind"], kind_numbers)).to_pylist():
        groups.setdefault(tuple(row[part] for part in key), []).append(row)
    return sorted(groups.items(), key=lambda item: (-sum(row["weight"] for row in item[1]), item[0]))


def _distribution(rows: Rows, value: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[str(row["bucket"])] = found.get(str(row["bucket"]), 0) + row[value]
    return {bucket: found[bucket] for bucket in sorted(found, key=int)}


def _text(id: int) -> str:
    return f"{id & 0xFFFFFFFFFFFFFFFF:016x}"


def _iso(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

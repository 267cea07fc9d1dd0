"""The short report: a few lines about the tables, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plait_core.values import Json


def report(tables: Mapping[str, pa.Table]) -> Json:
    """Return the numbers by name, and `lines` for people."""
    journeys, subscriptions, links, brokers = (tables[t] for t in ("journeys", "subscriptions", "links", "brokers"))
    names = pc.coalesce(brokers["broker_name"], brokers["broker"]).to_pylist()  # a restarted broker has a new id
    facts: Json = {
        "brokers": len(set(names)),
        "events": _sum(brokers, "published"),
        "deliveries": _sum(brokers, "delivered"),
        "delivery_p50_ms": _quantile_ms(tables["delays"], "delivery", 0.5),
        "delivery_p99_ms": _quantile_ms(tables["delays"], "delivery", 0.99),
        "late": _sum(subscriptions, "late"),
        "dropped": _sum(brokers, "dropped") + _sum(brokers, "expired"),
        "handed_out": _sum(subscriptions, "handed_out"),
        "client_dropped": _sum(brokers, "client_dropped"),
        "unseen": _sum(journeys, "unseen"),
        "audited": _sum(journeys, "events"),
        "accounted": _sum(journeys, "accounted"),
        "missing": _sum(journeys, "missing") + _sum(journeys, "missing_homes"),
        "duplicates": _sum(journeys, "duplicates"),
        "links": len({tuple(row.values()) for row in links.select(["broker", "neighbour"]).to_pylist()}),
        "link_p50_ms": _quantile_ms(tables["delays"], "link", 0.5),
        "records_lost": _sum(brokers, "records_lost"),
    }
    facts["lines"] = _lines(facts)
    return facts


def _lines(facts: Mapping[str, Any]) -> list[str]:
    lines = [
        f"brokers     {facts['brokers']}, {facts['links']} directions of links (half of the samples within "
        f"{facts['link_p50_ms']:.2f} ms)",
        f"events      {facts['events']:,} published, {facts['deliveries']:,} deliveries, {facts['dropped']:,} dropped",
        f"delays      half within {facts['delivery_p50_ms']:.2f} ms, 99% within {facts['delivery_p99_ms']:.2f} ms; "
        f"{facts['late']:,} delivered late",
        f"end to end  {facts['accounted']:,} of {facts['audited']:,} events accounted for, {facts['missing']:,} "
        f"missing, {facts['duplicates']:,} duplicates",
    ]
    if facts["handed_out"] or facts["client_dropped"]:
        lines.append(
            f"clients     {facts['handed_out']:,} deliveries handed to applications, "
            f"{facts['client_dropped']:,} dropped by clients"
        )
    if facts["records_lost"]:
        lines.append(f"telemetry   {facts['records_lost']:,} records were lost: the numbers above are too small")
    return lines


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column]).as_py() or 0)


def _quantile_ms(delays: pa.Table, kind: str, fraction: float) -> float:
    """Return a quantile over the buckets of all rows."""
    counts: dict[int, int] = {}
    chosen = delays.filter(pc.equal(delays["kind"], kind))
    for bucket, n in zip(chosen["bucket"].to_pylist(), chosen["n"].to_pylist(), strict=True):
        counts[bucket] = counts.get(bucket, 0) + n
    threshold, below = fraction * sum(counts.values()), 0
    for bucket in sorted(counts):
        below += counts[bucket]
        if below >= threshold:
            return float(2 ** ((bucket + 0.5) / 8)) / 1000
    return 0.0

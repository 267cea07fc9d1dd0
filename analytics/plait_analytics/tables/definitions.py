"""The tables: a description of each, and the SQL text that computes it from counts.

The texts read the views `counts` (`counts.py`, windows of one width), `gaps` and `names`. Tables about single events
are in `end_to_end.py`, `interarrival.py` and `similarity.py`. DuckDB and Spark interpret all texts alike. Windows
follow the broker's calendar and last one minute by default. Counts are of events: a record that stands for eight events
counts as eight.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from plait_core.telemetry import FULL, LATE, TO_BROKER, RecordKind, reason_code

from ..records.counts import COLUMNS, KEY, NONE
from .end_to_end import JOURNEYS, UNACCOUNTED
from .incidents import INCIDENTS_SQL
from .similarity import SIMILARITY_SQL
from .sql_dialect import POSTPONED, quantiles, total, with_window
from .table import WINDOW_US, Table

_PUBLISH, _ARRIVAL, _FORWARD = int(RecordKind.PUBLISH), int(RecordKind.ARRIVAL), int(RecordKind.FORWARD)
_DELIVERY, _DROP, _EXPIRY = int(RecordKind.DELIVERY), int(RecordKind.DROP), int(RecordKind.EXPIRY)
_LINK, _MATCH, _QUEUE, _ROUTING = (
    int(RecordKind.LINK),
    int(RecordKind.MATCH),
    int(RecordKind.QUEUE),
    int(RecordKind.ROUTING),
)
_CLIENT, _UNSEEN, _LANE = int(RecordKind.CLIENT), int(RecordKind.UNSEEN), int(RecordKind.LANE)
_CLIENT_DROP: Final = f"kind = {_UNSEEN} and reason <> {reason_code('waiting')}"
"""Losses of clients. Events that wait in a client are not lost yet."""
_OVERFLOW: Final = f"{reason_code('outbox_items')}, {reason_code('outbox_bytes')}"


_LOST: Final = f"kind in ({_DROP}, {_EXPIRY}) and entity <> 0 and (marks & {TO_BROKER}) = 0"

SUBSCRIPTIONS: Final = Table(
    "subscriptions",
    "Deliveries and losses of the events that a subscription matched, and their delays.",
    ("window_us", "broker", "subscription"),
    f"""
with r as (select * from counts),
counted as (
  select window_us, broker, entity as subscription,
    {total("weight", f"kind not in ({_CLIENT}, {_UNSEEN})")} as matched,
    {total("weight", f"kind = {_DELIVERY}")} as delivered,
    {total("items", f"kind = {_CLIENT}")} as handed_out,
    {total("items", _CLIENT_DROP)} as client_dropped,
    max(case when kind = {_CLIENT} then bytes_max else 0 end) as client_waiting_max,
    greatest({total("weight", f"kind = {_DELIVERY} and (marks & {LATE}) = 0")} - {total("items", _CLIENT_DROP)}, 0)
      as on_time,
    {total("weight", f"kind = {_DELIVERY} and (marks & {LATE}) <> 0")} as late,
    {total("weight", f"kind = {_EXPIRY}")} as lost_expired,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('late')}")} as lost_late,
    {total("weight", f"kind = {_DROP} and reason in ({_OVERFLOW})")} as lost_overflow,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('forbidden')}")} as lost_forbidden,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('gone')}")} as lost_gone,
    {total("bytes", f"kind = {_DELIVERY}")} as bytes,
    max(case when kind = {_DELIVERY} then bound_max else 0 end) as bound_us
  from r where kind in ({_DELIVERY}, {_CLIENT}, {_UNSEEN}) or ({_LOST}) group by window_us, broker, entity),
{quantiles(("window_us", "broker", "entity"), f"kind = {_DELIVERY}")}
select c.*, c.matched - c.delivered - c.lost_expired - c.lost_late - c.lost_overflow - c.lost_forbidden - c.lost_gone
    as lost_other, q.p50_us, q.p90_us, q.p99_us, n.filter, n.client
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.entity = c.subscription
left join names n on n.kind = 'subscription' and n.broker = c.broker and n.id = c.subscription""",
    {
        "matched": "deliveries due: delivered or lost",
        "delivered": "written to the subscriber",
        "handed_out": "handed to the application by its client, as reported; 0 if the client reports nothing",
        "client_dropped": "dropped by its client after delivery, as reported",
        "client_waiting_max": "maximum of events that waited in its client",
        "on_time": "delivered within the bound, without those that its client dropped",
        "late": "delivered beyond the bound",
        "lost_expired": "lost because their lifetime had ended",
        "lost_late": "lost because they were beyond the bound and the subscriber drops late events",
        "lost_overflow": "lost because its queue was full",
        "lost_forbidden": "lost because its owner may not receive them",
        "lost_gone": "lost with its session, in whose queue they were",
        "lost_other": "lost for another reason",
        "bytes": "bytes of event blocks delivered",
        "bound_us": "its delay bound, 0 without one",
        "p50_us": "median delay of deliveries, from buckets, within 4.4%",
        "p90_us": "90th percentile",
        "p99_us": "99th percentile",
        "filter": "its latest filter",
        "client": "name of its client",
    },
)

LINKS: Final = Table(
    "links",
    "Each direction of a link, sampled once a second, with its traffic.",
    ("window_us", "broker", "neighbour"),
    f"""
with r as (select * from counts),
counted as (
  select window_us, broker, entity as neighbour,
    {total("records", f"kind = {_LINK}")} as samples,
    cast(sum(case when kind = {_LINK} then delay_us end) as double)
      / sum(case when kind = {_LINK} then records end) as delay_mean_us,
    min(case when kind = {_LINK} then delay_min end) as delay_min_us,
    max(case when kind = {_LINK} then delay_max end) as delay_max_us,
    cast(sum(case when kind = {_LINK} then bound_us end) as double)
      / sum(case when kind = {_LINK} then records end) as jitter_mean_us,
    {total("expected", f"kind = {_LINK}")} as pings_missing,
    {total("busy", f"kind = {_LINK}")} as samples_busy,
    max(case when kind in ({_LINK}, {_LANE}) then bytes_max else 0 end) as waiting_bytes_max,
    max(case when kind = {_LANE} then delay_max else 0 end) as waiting_max_us,
    {total("records", f"kind = {_LANE} and (marks & {FULL}) <> 0")} as samples_full,
    max(case when kind = {_LANE} then bound_max else 0 end) as capacity,
    {total("items", f"kind = {_LANE}")} as bytes_written,
    {total("weight", f"kind = {_FORWARD}")} as copies,
    {total("bytes", f"kind = {_FORWARD}")} as bytes,
    {total("items", f"kind = {_FORWARD}")} as destinations
  from r where kind in ({_LINK}, {_LANE}, {_FORWARD}) group by window_us, broker, entity),
{quantiles(("window_us", "broker", "entity"), f"kind = {_LINK}")}
select c.*, cast(c.copies as double) * 1000000 / {POSTPONED} as copies_per_s, q.p50_us, q.p90_us, q.p99_us
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.entity = c.neighbour""",
    {
        "samples": "samples of the link while it was up, one a second",
        "delay_mean_us": "mean delay of one direction",
        "delay_min_us": "minimum delay",
        "delay_max_us": "maximum delay",
        "jitter_mean_us": "mean change of the delay from one ping to the next",
        "pings_missing": "pings without a pong, over all samples",
        "samples_busy": "samples with bytes waiting for the link",
        "waiting_bytes_max": "maximum of bytes waiting",
        "waiting_max_us": "longest wait of the oldest event, in samples",
        "samples_full": "samples in which events had waited for a second or longer",
        "capacity": "greatest bytes/s while events waited, 0: unknown",
        "bytes_written": "all bytes of events written to it; per second and divided by the capacity, its utilisation",
        "copies": "copies of events sent",
        "bytes": "bytes of these copies",
        "destinations": "destinations of these copies, added up",
        "copies_per_s": "copies a second over the window",
        "p50_us": "median delay",
        "p90_us": "90th percentile of the delay",
        "p99_us": "99th percentile of the delay",
    },
)

BROKERS: Final = Table(
    "brokers",
    "Events arriving at a broker, their regularity, the time of matching (M_b), and queues.",
    ("window_us", "broker"),
    f"""
with r as (select * from counts),
counted as (
  select window_us, broker,
    {total("weight", f"kind = {_PUBLISH}")} as published,
    {total("weight", f"kind = {_ARRIVAL}")} as arrived,
    {total("weight", f"kind = {_FORWARD}")} as forwarded,
    {total("weight", f"kind = {_DELIVERY}")} as delivered,
    {total("weight", f"kind = {_DROP}")} as dropped,
    {total("weight", f"kind = {_EXPIRY}")} as expired,
    {total("items", _CLIENT_DROP)} as client_dropped,
    {total("items", f"kind = {_MATCH}")} as matched,
    {total("delay_us", f"kind = {_MATCH}")} as matching_us,
    max(case when kind = {_QUEUE} then items_max else 0 end) as queue_items_max,
    max(case when kind = {_QUEUE} then bytes_max else 0 end) as queue_bytes_max,
    max(case when kind = {_QUEUE} then expected_max else 0 end) as slow_max,
    max(case when kind = {_QUEUE} then subject_max else 0 end) as subscriptions_max,
    {total("delay_us", f"kind = {_QUEUE}")} as records_lost,
    {total("records", f"kind = {_ROUTING}")} as reroutes,
    max(weight_max) as weight_max
  from r group by window_us, broker),
{quantiles(("window_us", "broker"), f"kind = {_MATCH}", "items")}
select c.*, cast(c.published + c.arrived as double) * 1000000 / {POSTPONED} as rate_per_s,
  g.gap_sum / g.gaps as gap_mean_us,
  (g.gaps * g.gap_squares - g.gap_sum * g.gap_sum) / nullif(g.gap_sum * g.gap_sum, 0.0) as gap_variation,
  q.p50_us as match_p50_us, q.p90_us as match_p90_us, q.p99_us as match_p99_us
from counted c
left join gaps g on g.whose = 'broker' and g.window_us = c.window_us and g.entity = c.broker
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker""",
    {
        "published": "events of its own publishers",
        "arrived": "events from other brokers for its subscribers",
        "forwarded": "copies forwarded",
        "delivered": "deliveries written to subscribers",
        "dropped": "events, copies and deliveries dropped here, without expired ones",
        "expired": "events, copies and deliveries whose lifetime ended here",
        "client_dropped": "deliveries that its clients have dropped, as reported",
        "matched": "events whose matching was timed",
        "matching_us": "total time of matching",
        "queue_items_max": "maximum of items queued for subscribers",
        "queue_bytes_max": "maximum of bytes queued for subscribers",
        "slow_max": "maximum of slow subscriptions at one time",
        "subscriptions_max": "maximum of subscriptions",
        "records_lost": "telemetry records lost; if not 0, the other numbers are too small",
        "reroutes": "changes of a next hop to another broker",
        "weight_max": "maximum weight; above 1, events were sampled",
        "rate_per_s": "events published and arrived, a second",
        "gap_mean_us": "mean time between two recorded events",
        "gap_variation": "variance of the gap over its squared mean: 0 regular, 1 random, above 1 bursty",
        "match_p50_us": "median time of matching an event",
        "match_p90_us": "90th percentile",
        "match_p99_us": "99th percentile",
    },
)

PUBLISHERS: Final = Table(
    "publishers",
    "Rate, regularity (I_p) and lifetimes of a publisher's events, and their reach.",
    ("window_us", "publisher"),
    f"""
with counted as (
  select window_us, entity as publisher, {total("weight")} as events, {total("bytes")} as bytes,
    cast({total("weight")} as double) * 1000000 / {POSTPONED} as rate_per_s,
    {total("bounded")} as with_lifetime,
    min(nullif(bound_min, {NONE})) as lifetime_min_us,
    nullif(max(bound_max), 0) as lifetime_max_us,
    {total("expected")} as matched_here, {total("items")} as brokers_reached,
    {total("weight", "bucket = 0")} as unmatched
  from counts where kind = {_PUBLISH} group by window_us, entity)
select c.*, g.gap_sum / nullif(g.gaps, 0) as gap_mean_us,
  (g.gaps * g.gap_squares - g.gap_sum * g.gap_sum) / nullif(g.gap_sum * g.gap_sum, 0.0) as gap_variation
from counted c
left join gaps g on g.whose = 'publisher' and g.window_us = c.window_us and g.entity = c.publisher""",
    {
        "events": "events admitted at its broker",
        "bytes": "bytes of their blocks",
        "rate_per_s": "events a second over the window",
        "gap_mean_us": "mean time between consecutive events, by the publisher's calendar",
        "gap_variation": "variance of the gap over its squared mean",
        "with_lifetime": "events with a lifetime",
        "lifetime_min_us": "shortest lifetime",
        "lifetime_max_us": "longest lifetime",
        "matched_here": "subscriptions matched at its own broker, added up",
        "brokers_reached": "other brokers that its events were sent to, added up",
        "unmatched": "events that matched no subscription",
    },
)

CONTENT: Final = Table(
    "content",
    "Content and lifetimes of a publisher's events (C_p), by cells of the event space if there is one.",
    ("window_us", "broker", "publisher", "cell"),
    f"""
with located as (
  select window_us, broker, entity as publisher, substr(bin(cell), 2) as cell, {total("weight")} as events,
    {total("bytes")} as bytes, {total("bounded")} as with_lifetime,
    min(nullif(bound_min, {NONE})) as lifetime_min_us, nullif(max(bound_max), 0) as lifetime_max_us
  from counts where kind = {_PUBLISH} and cell <> 0 group by window_us, broker, entity, counts.cell)
select *, cast(events as double) / sum(events) over (partition by window_us, broker, publisher) as share
from located""",
    {
        "events": "events in the cell",
        "bytes": "bytes of their blocks",
        "with_lifetime": "events with a lifetime",
        "lifetime_min_us": "shortest lifetime",
        "lifetime_max_us": "longest lifetime",
        "share": "share of the publisher's events in the space",
    },
)

DELAYS: Final = Table(
    "delays",
    "Distributions of delay in buckets of 9%, of deliveries, links and matching. They add up over any rows.",
    ("window_us", "kind", "broker", "subject", "bucket"),
    f"""
select window_us, kind, broker, entity as subject, bucket,
  {total(f"case when kind = {_MATCH} then items else weight end")} as n
from counts where kind in ({_DELIVERY}, {_LINK}, {_MATCH}) group by window_us, kind, broker, entity, bucket""",
    {"n": "deliveries, samples or events in the bucket floor(8 log2 microseconds)"},
)

FLOWS: Final = Table(
    "flows",
    "Events from publishers' brokers to subscribers' brokers, and the subscriptions that they matched.",
    ("window_us", "source", "destination"),
    f"""
select window_us, case when kind = {_PUBLISH} then broker else entity end as source, broker as destination,
  {total("weight", "bucket in (1, 3)")} as events, {total("expected")} as matched
from counts where kind = {_ARRIVAL} or (kind = {_PUBLISH} and bucket in (1, 3))
group by window_us, case when kind = {_PUBLISH} then broker else entity end, broker""",
    {
        "events": "events that matched at the destination",
        "matched": "subscriptions matched at the destination, added up",
    },
)

SELECTIVITY: Final = Table(
    "selectivity",
    "The reach of a broker's events, which decides between sending to few brokers and flooding.",
    ("window_us", "broker"),
    f"""
select window_us, broker, {total("weight")} as published, {total("weight", "bucket > 0")} as wanted,
  {total("weight", "bucket in (1, 3)")} as wanted_here, {total("weight", "bucket = 1")} as wanted_here_only,
  {total("items")} as copies,
  cast({total("weight", "bucket = 1")} as double) / nullif({total("weight", "bucket > 0")}, 0) as regionalism
from counts where kind = {_PUBLISH} group by window_us, broker""",
    {
        "published": "events of its publishers",
        "wanted": "events that matched a subscription",
        "wanted_here": "events that matched a subscription at the same broker",
        "wanted_here_only": "events that matched at the same broker only",
        "copies": "other brokers that the events were sent to, added up",
        "regionalism": "share of matched events that matched at the same broker only",
    },
)

SIMILARITY: Final = Table(
    "similarity",
    "Pairs of subscriptions that match largely the same events and may be clustered. See similarity.py.",
    ("window_us", "broker", "subscription", "other_broker", "other"),
    SIMILARITY_SQL,
    {
        "shared": "events that both received",
        "either": "events that at least one of them received",
        "jaccard": "shared / either, exact for the pairs found",
    },
    of="records",
)

INCIDENTS: Final = Table(
    "incidents",
    "Windows whose rate, delay or loss is far from that of the ten windows before.",
    ("window_us", "entity", "broker", "subject", "measure"),
    INCIDENTS_SQL,
    {
        "value": "events, microseconds or drops, according to the measure",
        "usual": "mean over the windows before",
        "deviation": "standard deviation over the windows before",
    },
)

COUNTS: Final = Table(
    "counts",
    "Records added up by window, kind, entity and bucket: the source of all tables but those of single events.",
    KEY,
    "select * from counts",
    {name: text for name, text in COLUMNS.items() if name not in KEY},
)

TABLES: Final = MappingProxyType(
    {
        table.name: table
        for table in (
            *(SUBSCRIPTIONS, LINKS, BROKERS, PUBLISHERS, JOURNEYS, UNACCOUNTED),
            *(CONTENT, FLOWS, SELECTIVITY, SIMILARITY, INCIDENTS, DELAYS, COUNTS),
        )
    }
)


def text_of(table: Table, window_us: int = WINDOW_US) -> str:
    """Return the SQL of a table for windows of a width."""
    return with_window(table.sql, window_us)

"""The tables: a description of each, and the SQL text that computes it from counts.

The texts read the views `counts` (`counts.py`, windows of one width), `gaps` and `names`. Tables about single events
are in `end_to_end.py`, `interarrival.py` and `similarity.py`. DuckDB and Spark interpret all texts alike. Windows
follow the broker's calendar and last one minute by default. Counts are of events: a record that stands for eight events
counts as eight.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from plait_core.telemetry import LATE, TO_BROKER, RecordKind, reason_code

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
_OVERFLOW: Final = f"{reason_code('outbox_items')}, {reason_code('outbox_bytes')}"


_LOST: Final = f"kind in ({_DROP}, {_EXPIRY}) and entity <> 0 and (marks & {TO_BROKER}) = 0"

SUBSCRIPTIONS: Final = Table(
    "subscriptions",
    "What became of the events that a subscription matched, and how long they took.",
    ("window_us", "broker", "subscription"),
    f"""
with r as (select * from counts),
counted as (
  select window_us, broker, entity as subscription,
    {total("weight")} as matched,
    {total("weight", f"kind = {_DELIVERY}")} as delivered,
    {total("weight", f"kind = {_DELIVERY} and (marks & {LATE}) = 0")} as on_time,
    {total("weight", f"kind = {_DELIVERY} and (marks & {LATE}) <> 0")} as late,
    {total("weight", f"kind = {_EXPIRY}")} as lost_expired,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('late')}")} as lost_late,
    {total("weight", f"kind = {_DROP} and reason in ({_OVERFLOW})")} as lost_overflow,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('forbidden')}")} as lost_forbidden,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('gone')}")} as lost_gone,
    {total("bytes", f"kind = {_DELIVERY}")} as bytes,
    max(case when kind = {_DELIVERY} then bound_max else 0 end) as bound_us
  from r where kind = {_DELIVERY} or ({_LOST}) group by window_us, broker, entity),
{quantiles(("window_us", "broker", "entity"), f"kind = {_DELIVERY}")}
select c.*, c.matched - c.delivered - c.lost_expired - c.lost_late - c.lost_overflow - c.lost_forbidden - c.lost_gone
    as lost_other, q.p50_us, q.p90_us, q.p99_us, n.filter, n.client
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.entity = c.subscription
left join names n on n.kind = 'subscription' and n.broker = c.broker and n.id = c.subscription""",
    {
        "matched": "deliveries that were due: delivered or lost",
        "delivered": "written to the subscriber",
        "on_time": "of these, within the bound",
        "late": "of these, beyond it",
        "lost_expired": "their lifetime was over",
        "lost_late": "beyond the bound, which the subscriber does not take",
        "lost_overflow": "its queue was full",
        "lost_forbidden": "it may not hear them",
        "lost_gone": "its session ended with them queued",
        "lost_other": "for any other reason",
        "bytes": "of event blocks delivered",
        "bound_us": "the delay that it tolerates; 0 when it named none",
        "p50_us": "half of the deliveries took no longer; from buckets, within 4.4%",
        "p90_us": "nine of ten",
        "p99_us": "99 of 100",
        "filter": "its filter, as it was last",
        "client": "whose it is",
    },
)

LINKS: Final = Table(
    "links",
    "How each direction of a link was, once a second, and what went over it.",
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
    max(case when kind = {_LINK} then bytes_max else 0 end) as waiting_bytes_max,
    {total("weight", f"kind = {_FORWARD}")} as copies,
    {total("bytes", f"kind = {_FORWARD}")} as bytes,
    {total("items", f"kind = {_FORWARD}")} as destinations
  from r where kind in ({_LINK}, {_FORWARD}) group by window_us, broker, entity),
{quantiles(("window_us", "broker", "entity"), f"kind = {_LINK}")}
select c.*, cast(c.copies as double) * 1000000 / {POSTPONED} as copies_per_s, q.p50_us, q.p90_us, q.p99_us
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.entity = c.neighbour""",
    {
        "samples": "looks at the link while it stood; fewer than seconds: it was down",
        "delay_mean_us": "of one direction",
        "delay_min_us": "the least",
        "delay_max_us": "the greatest",
        "jitter_mean_us": "how much the delay moved from one ping to the next",
        "pings_missing": "pings without an answer, over all looks",
        "samples_busy": "looks at which bytes waited for the link: its utilisation, of `samples`",
        "waiting_bytes_max": "the most that waited",
        "copies": "of events, handed over",
        "bytes": "of these",
        "destinations": "brokers that these were for",
        "copies_per_s": "over the window",
        "p50_us": "of the delay",
        "p90_us": "of the delay",
        "p99_us": "of the delay",
    },
)

BROKERS: Final = Table(
    "brokers",
    "What came to a broker and how regularly, how long matching took (M_b), and what waited.",
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
  q.p50_us as match_p50_us, q.p90_us as match_p90_us, q.p99_us as match_p99_us, n.name
from counted c
left join gaps g on g.whose = 'broker' and g.window_us = c.window_us and g.entity = c.broker
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker
left join names n on n.kind = 'broker' and n.id = c.broker""",
    {
        "published": "events of its own publishers",
        "arrived": "events from other brokers for its subscribers",
        "forwarded": "copies handed on",
        "delivered": "deliveries written",
        "dropped": "events, copies and deliveries that ended here, but for expiry",
        "expired": "the same, their lifetime over",
        "matched": "events whose matching was timed",
        "matching_us": "how long that took altogether",
        "queue_items_max": "the most that waited for subscribers",
        "queue_bytes_max": "the same in bytes",
        "slow_max": "the most subscriptions that were slow at once",
        "subscriptions_max": "the most subscriptions",
        "records_lost": "of telemetry itself; where this is not 0, the other numbers are too small",
        "reroutes": "ways to other brokers that changed",
        "weight_max": "above 1: events were sampled",
        "rate_per_s": "published and arrived, over the window",
        "gap_mean_us": "between two of them that were recorded",
        "gap_variation": "its variance over its squared mean: 0 regular, 1 at random, above in bursts",
        "match_p50_us": "half of the events were matched in no longer",
        "match_p90_us": "nine of ten",
        "match_p99_us": "99 of 100",
        "name": "what it is called",
    },
)

PUBLISHERS: Final = Table(
    "publishers",
    "How often, how regularly (I_p) and with what lifetimes a publisher published, and how many that reached.",
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
        "events": "admitted at its broker",
        "bytes": "of their blocks",
        "rate_per_s": "over the window",
        "gap_mean_us": "between two events in a row, by the publisher's calendar",
        "gap_variation": "its variance over its squared mean",
        "with_lifetime": "events that had a lifetime",
        "lifetime_min_us": "the shortest",
        "lifetime_max_us": "the longest",
        "matched_here": "subscriptions matched at its own broker",
        "brokers_reached": "other brokers that its events went to, summed over events",
        "unmatched": "events that nobody wanted",
    },
)

CONTENT: Final = Table(
    "content",
    "What a publisher's events are about, and how long they live (C_p): by cells of the event space, if it is known.",
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
        "events": "that lie there",
        "bytes": "of their blocks",
        "with_lifetime": "events that had a lifetime",
        "lifetime_min_us": "the shortest",
        "lifetime_max_us": "the longest",
        "share": "of the publisher's events there that lie in the space",
    },
)

DELAYS: Final = Table(
    "delays",
    "How many took how long, in buckets of 9%: of deliveries, links and matching. These add up over any rows.",
    ("window_us", "kind", "broker", "subject", "bucket"),
    f"""
select window_us, kind, broker, entity as subject, bucket,
  {total(f"case when kind = {_MATCH} then items else weight end")} as n
from counts where kind in ({_DELIVERY}, {_LINK}, {_MATCH}) group by window_us, kind, broker, entity, bucket""",
    {"n": "deliveries, samples or events of which floor(8 log2 microseconds) is the bucket"},
)

FLOWS: Final = Table(
    "flows",
    "From publishers' brokers to subscribers' brokers: how many events went, and how many subscriptions they met.",
    ("window_us", "source", "destination"),
    f"""
select window_us, case when kind = {_PUBLISH} then broker else entity end as source, broker as destination,
  {total("weight", "bucket in (1, 3)")} as events, {total("expected")} as matched
from counts where kind = {_ARRIVAL} or (kind = {_PUBLISH} and bucket in (1, 3))
group by window_us, case when kind = {_PUBLISH} then broker else entity end, broker""",
    {"events": "that matched there", "matched": "subscriptions that they matched there"},
)

SELECTIVITY: Final = Table(
    "selectivity",
    "How far a broker's events go: what decides whether to send to few or to flood.",
    ("window_us", "broker"),
    f"""
select window_us, broker, {total("weight")} as published, {total("weight", "bucket > 0")} as wanted,
  {total("weight", "bucket in (1, 3)")} as wanted_here, {total("weight", "bucket = 1")} as wanted_here_only,
  {total("items")} as copies,
  cast({total("weight", "bucket = 1")} as double) / nullif({total("weight", "bucket > 0")}, 0) as regionalism
from counts where kind = {_PUBLISH} group by window_us, broker""",
    {
        "published": "events of its publishers",
        "wanted": "that matched anyone",
        "wanted_here": "that matched a subscription at the same broker",
        "wanted_here_only": "and none elsewhere",
        "copies": "other brokers they went to, summed",
        "regionalism": "the part of what is wanted that stays",
    },
)

SIMILARITY: Final = Table(
    "similarity",
    "Pairs of subscriptions that match largely the same events: what may be clustered. See similarity.py.",
    ("window_us", "broker", "subscription", "other_broker", "other"),
    SIMILARITY_SQL,
    {
        "shared": "events that both got",
        "either": "events that one of them got",
        "jaccard": "the first over the second; exact, of pairs that were found",
    },
    of="records",
)

INCIDENTS: Final = Table(
    "incidents",
    "Where a rate, a delay or a loss is far from what it was in the ten windows before.",
    ("window_us", "entity", "broker", "subject", "measure"),
    INCIDENTS_SQL,
    {
        "value": "what it is: events, microseconds, or drops",
        "usual": "its mean over the windows before",
        "deviation": "and its standard deviation",
    },
)

COUNTS: Final = Table(
    "counts",
    "What all the others but those of single events follow from: records by window, kind, thing and bucket, added up.",
    KEY,
    "select * from counts",
    {name: says for name, says in COLUMNS.items() if name not in KEY},
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

"""The tables: what each says, and the one SQL text that both engines compute it by.

A text takes the views `records` (see `batches.py`) and `names`, and gives a table: a pure function of them. It keeps to
what DuckDB and Spark both mean the same by: whole numbers are cast where one of them widens, buckets come with the
records, nothing depends on an order that is not asked for. Windows are of the broker's calendar, one minute unless told
otherwise. Counts are of events, not of records: one that stands for eight counts eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from plait_core.telemetry import DURABLE, LATE, TO_BROKER, Kind, reason_code

from .portable import POSTPONED, quantiles, total
from .similarity import INCIDENTS_SQL, SIMILARITY_SQL

WINDOW_US: Final = 60_000_000
"""One minute: some thousand rows a day for each entity."""

_PUBLISH, _ARRIVAL, _FORWARD = int(Kind.PUBLISH), int(Kind.ARRIVAL), int(Kind.FORWARD)
_DELIVERY, _DROP, _EXPIRY = int(Kind.DELIVERY), int(Kind.DROP), int(Kind.EXPIRY)
_LINK, _MATCH, _QUEUE, _ROUTING = int(Kind.LINK), int(Kind.MATCH), int(Kind.QUEUE), int(Kind.ROUTING)
_OVERFLOW: Final = f"{reason_code('outbox_items')}, {reason_code('outbox_bytes')}"


class Table(NamedTuple):
    """One table."""

    name: str
    says: str
    key: tuple[str, ...]
    """What no two rows have in common."""
    sql: str
    columns: Mapping[str, str]
    """What each column beside the key says."""


_LOST = f"kind in ({_DROP}, {_EXPIRY}) and subject <> 0 and (flags & {TO_BROKER}) = 0"

SUBSCRIPTIONS: Final = Table(
    "subscriptions",
    "What became of the events that a subscription matched, and how long they took.",
    ("window_us", "broker", "subscription"),
    f"""
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records),
counted as (
  select window_us, broker, subject as subscription,
    {total("weight")} as matched,
    {total("weight", f"kind = {_DELIVERY}")} as delivered,
    {total("weight", f"kind = {_DELIVERY} and (flags & {LATE}) = 0")} as on_time,
    {total("weight", f"kind = {_DELIVERY} and (flags & {LATE}) <> 0")} as late,
    {total("weight", f"kind = {_EXPIRY}")} as lost_expired,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('late')}")} as lost_late,
    {total("weight", f"kind = {_DROP} and reason in ({_OVERFLOW})")} as lost_overflow,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('forbidden')}")} as lost_forbidden,
    {total("weight", f"kind = {_DROP} and reason = {reason_code('gone')}")} as lost_gone,
    {total("bytes * weight", f"kind = {_DELIVERY}")} as bytes,
    max(case when kind = {_DELIVERY} then bound_us else 0 end) as bound_us
  from r where kind = {_DELIVERY} or ({_LOST}) group by window_us, broker, subject),
{quantiles(("window_us", "broker", "subject"), f"kind = {_DELIVERY}")}
select c.*, c.matched - c.delivered - c.lost_expired - c.lost_late - c.lost_overflow - c.lost_forbidden - c.lost_gone
    as lost_other, q.p50_us, q.p90_us, q.p99_us, n.filter, n.client
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.subject = c.subscription
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
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records),
counted as (
  select window_us, broker, subject as neighbour,
    {total("1", f"kind = {_LINK}")} as samples,
    cast(sum(case when kind = {_LINK} then delay_us end) as double)
      / count(case when kind = {_LINK} then 1 end) as delay_mean_us,
    min(case when kind = {_LINK} then delay_us end) as delay_min_us,
    max(case when kind = {_LINK} then delay_us end) as delay_max_us,
    cast(sum(case when kind = {_LINK} then bound_us end) as double)
      / count(case when kind = {_LINK} then 1 end) as jitter_mean_us,
    {total("expected", f"kind = {_LINK}")} as pings_missing,
    {total("1", f"kind = {_LINK} and bytes > 0")} as samples_busy,
    max(case when kind = {_LINK} then bytes else 0 end) as waiting_bytes_max,
    {total("weight", f"kind = {_FORWARD}")} as copies,
    {total("bytes * weight", f"kind = {_FORWARD}")} as bytes,
    {total("items * weight", f"kind = {_FORWARD}")} as destinations
  from r where kind in ({_LINK}, {_FORWARD}) group by window_us, broker, subject),
{quantiles(("window_us", "broker", "subject"), f"kind = {_LINK}")}
select c.*, cast(c.copies as double) * 1000000 / {POSTPONED} as copies_per_s, q.p50_us, q.p90_us, q.p99_us
from counted c
left join quantiles q on q.window_us = c.window_us and q.broker = c.broker and q.subject = c.neighbour""",
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
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records),
gaps as (
  select window_us, broker,
    ts_us - lag(ts_us) over (partition by window_us, broker order by ts_us) as gap_us
  from r where kind in ({_PUBLISH}, {_ARRIVAL})),
gapped as (
  select window_us, broker, count(gap_us) as gaps, cast(sum(gap_us) as double) as gap_sum,
    sum(cast(gap_us as double) * gap_us) as gap_squares
  from gaps group by window_us, broker),
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
    max(case when kind = {_QUEUE} then items else 0 end) as queue_items_max,
    max(case when kind = {_QUEUE} then bytes else 0 end) as queue_bytes_max,
    max(case when kind = {_QUEUE} then expected else 0 end) as slow_max,
    max(case when kind = {_QUEUE} then subject else 0 end) as subscriptions_max,
    {total("delay_us", f"kind = {_QUEUE}")} as records_lost,
    {total("1", f"kind = {_ROUTING}")} as reroutes,
    max(weight) as weight_max
  from r group by window_us, broker),
{quantiles(("window_us", "broker"), f"kind = {_MATCH}", "items")}
select c.*, cast(c.published + c.arrived as double) * 1000000 / {POSTPONED} as rate_per_s,
  g.gap_sum / g.gaps as gap_mean_us,
  (g.gaps * g.gap_squares - g.gap_sum * g.gap_sum) / nullif(g.gap_sum * g.gap_sum, 0.0) as gap_variation,
  q.p50_us as match_p50_us, q.p90_us as match_p90_us, q.p99_us as match_p99_us, n.name
from counted c
left join gapped g on g.window_us = c.window_us and g.broker = c.broker
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
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records where kind = {_PUBLISH}),
gaps as (
  select *, case when sequence = 1 + lag(sequence) over (partition by publisher order by sequence)
    then published_us - lag(published_us) over (partition by publisher order by sequence) end as gap_us
  from r)
select window_us, publisher, {total("weight")} as events, {total("bytes * weight")} as bytes,
  cast({total("weight")} as double) * 1000000 / {POSTPONED} as rate_per_s,
  cast(sum(gap_us) as double) / count(gap_us) as gap_mean_us,
  (count(gap_us) * sum(cast(gap_us as double) * gap_us) - cast(sum(gap_us) as double) * cast(sum(gap_us) as double))
    / nullif(cast(sum(gap_us) as double) * cast(sum(gap_us) as double), 0.0) as gap_variation,
  {total("weight", "bound_us > 0")} as with_lifetime,
  min(case when bound_us > 0 then bound_us end) as lifetime_min_us,
  max(case when bound_us > 0 then bound_us end) as lifetime_max_us,
  {total("expected * weight")} as matched_here,
  {total("items * weight")} as brokers_reached,
  {total("weight", "expected = 0 and items = 0")} as unmatched
from gaps group by window_us, publisher""",
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

DELAYS: Final = Table(
    "delays",
    "How many took how long, in buckets of 9%: of deliveries, links and matching. These add up over any rows.",
    ("window_us", "kind", "broker", "subject", "bucket"),
    f"""
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records)
select window_us, kind, broker, case when kind = {_MATCH} then 0 else subject end as subject, bucket,
  {total(f"case when kind = {_MATCH} then items else weight end")} as n
from r where kind in ({_DELIVERY}, {_LINK}, {_MATCH})
group by window_us, kind, broker, case when kind = {_MATCH} then 0 else subject end, bucket""",
    {"n": "deliveries, samples or events of which floor(8 log2 microseconds) is the bucket"},
)

_EVENTS: Final = f"""
with whole as (select cast(max(weight) as bigint) as w from records),
r as (select e.* from records e cross join whole
  where sequence <> 0 and ((((sequence & 1048575) * 2654435761) >> 12) & (w - 1)) = 0),
deliveries as (
  select publisher, sequence, count(*) as delivered, cast(sum(again) as bigint) as duplicates from (
    select publisher, sequence, broker, subject,
      case when {total("1", f"(flags & {DURABLE}) = 0")} > 1 then {total("1", f"(flags & {DURABLE}) = 0")} - 1
        else 0 end as again
    from r where kind = {_DELIVERY} group by publisher, sequence, broker, subject) d
  group by publisher, sequence),
events as (
  select publisher, sequence, min(case when kind = {_PUBLISH} then ts_us end) as ts_us,
    {total("1", f"kind = {_PUBLISH}")} as publishes,
    {total("expected", f"kind in ({_PUBLISH}, {_ARRIVAL})")} as expected,
    {total("items", f"kind = {_PUBLISH}")} as homes,
    {total("1", f"kind = {_ARRIVAL}")} as arrivals,
    {total("1", _LOST)} as lost,
    {total("1", f"kind in ({_DROP}, {_EXPIRY}) and (flags & {TO_BROKER}) <> 0")} as lost_homes
  from r where kind in ({_PUBLISH}, {_ARRIVAL}, {_DROP}, {_EXPIRY}) group by publisher, sequence),
joined as (
  select e.*, coalesce(d.delivered, 0) as delivered, coalesce(d.duplicates, 0) as duplicates,
    greatest(e.homes - e.arrivals - e.lost_homes, 0) as missing_homes,
    greatest(e.expected - coalesce(d.delivered, 0) - e.lost, 0) as missing,
    e.ts_us - e.ts_us % {POSTPONED} as window_us
  from events e left join deliveries d on d.publisher = e.publisher and d.sequence = e.sequence
  where e.publishes > 0)"""

JOURNEYS: Final = Table(
    "journeys",
    "Of each publisher's events, end to end: expected deliveries against those there were, by event id.",
    ("window_us", "publisher"),
    f"""{_EVENTS}
select window_us, publisher, count(*) as events, {total("expected")} as expected, {total("delivered")} as delivered,
  {total("duplicates")} as duplicates, {total("lost")} as lost, {total("lost_homes")} as lost_homes,
  {total("missing")} as missing, {total("missing_homes")} as missing_homes,
  {total("1", "missing = 0 and missing_homes = 0 and duplicates = 0")} as accounted
from joined group by window_us, publisher""",
    {
        "events": "whose publication is recorded, and which every broker would have sampled",
        "expected": "deliveries that their matching at all brokers asks for",
        "delivered": "deliveries, each subscription once",
        "duplicates": "deliveries beyond these, but for those of durable subscriptions",
        "lost": "deliveries that ended with a reason",
        "lost_homes": "copies for other brokers that ended with a reason",
        "missing": "deliveries of which nothing is known: a durable subscription that is away may still get them",
        "missing_homes": "copies for other brokers of which nothing is known",
        "accounted": "events of which all is known: with none missing and no duplicate this equals `events`",
    },
)

UNACCOUNTED: Final = Table(
    "unaccounted",
    "The events behind `journeys` of which not all is known, one by one. Empty when nothing was lost or repeated.",
    ("window_us", "publisher", "sequence"),
    f"""{_EVENTS}
select window_us, publisher, sequence, expected, delivered, duplicates, lost, missing, missing_homes
from joined where missing > 0 or missing_homes > 0 or duplicates > 0""",
    {
        "expected": "as in journeys",
        "delivered": "as in journeys",
        "duplicates": "as in journeys",
        "lost": "as in journeys",
        "missing": "as in journeys",
        "missing_homes": "as in journeys",
    },
)

FLOWS: Final = Table(
    "flows",
    "From publishers' brokers to subscribers' brokers: how many events went, and how many subscriptions they met.",
    ("window_us", "source", "destination"),
    f"""
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records)
select window_us, case when kind = {_PUBLISH} then broker else subject end as source, broker as destination,
  {total("weight", "expected > 0")} as events, {total("expected * weight")} as matched
from r where kind = {_ARRIVAL} or (kind = {_PUBLISH} and expected > 0)
group by window_us, case when kind = {_PUBLISH} then broker else subject end, broker""",
    {"events": "that matched there", "matched": "subscriptions that they matched there"},
)

SELECTIVITY: Final = Table(
    "selectivity",
    "How far a broker's events go: what decides whether to send to few or to flood.",
    ("window_us", "broker"),
    f"""
with r as (select *, ts_us - ts_us % {POSTPONED} as window_us from records where kind = {_PUBLISH})
select window_us, broker, {total("weight")} as published,
  {total("weight", "expected > 0 or items > 0")} as wanted,
  {total("weight", "expected > 0")} as wanted_here,
  {total("weight", "expected > 0 and items = 0")} as wanted_here_only,
  {total("items * weight")} as copies,
  cast({total("weight", "expected > 0 and items = 0")} as double)
    / nullif({total("weight", "expected > 0 or items > 0")}, 0) as regionalism
from r group by window_us, broker""",
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

TABLES: Final = MappingProxyType(
    {
        table.name: table
        for table in (
            *(SUBSCRIPTIONS, LINKS, BROKERS, PUBLISHERS, JOURNEYS, UNACCOUNTED),
            *(FLOWS, SELECTIVITY, SIMILARITY, INCIDENTS, DELAYS),
        )
    }
)


def text_of(table: Table, window_us: int = WINDOW_US) -> str:
    """The SQL of a table, for windows of so long."""
    assert window_us > 0
    return table.sql.replace(POSTPONED, str(window_us))

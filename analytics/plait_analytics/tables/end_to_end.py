"""The end-to-end audit: each event's publication, the deliveries that its matching expects, and those recorded.

It joins publications and deliveries by event id. It is exact for all events that every broker recorded.
"""

from __future__ import annotations

from typing import Final

from plait_core.telemetry import DURABLE, FELL, TO_BROKER, RecordKind

from ..records.event_fragments import PIECED
from .sql_dialect import POSTPONED, total
from .table import Table

_PUBLISH, _ARRIVAL, _DELIVERY = int(RecordKind.PUBLISH), int(RecordKind.ARRIVAL), int(RecordKind.DELIVERY)
_DROP, _EXPIRY = int(RecordKind.DROP), int(RecordKind.EXPIRY)
_UNSEEN: Final = int(RecordKind.UNSEEN)
_LOST: Final = f"kind in ({_DROP}, {_EXPIRY}) and subject <> 0 and (flags & {TO_BROKER}) = 0"

EVENTS: Final = f"""
whole as (select cast(max(weight) as bigint) as w from records),
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
    {total("1", f"kind in ({_DROP}, {_EXPIRY}) and (flags & {TO_BROKER}) <> 0")} as lost_homes,
    {total(f"case when (flags & {FELL}) = 0 then items else -items end", f"kind = {_UNSEEN}")} as unseen
  from r where kind in ({_PUBLISH}, {_ARRIVAL}, {_DROP}, {_EXPIRY}, {_UNSEEN}) group by publisher, sequence),
joined as (
  select e.*, coalesce(d.delivered, 0) as delivered, coalesce(d.duplicates, 0) as duplicates
  from events e left join deliveries d on d.publisher = e.publisher and d.sequence = e.sequence)"""
"""SQL from the view `records` to `joined`: a row for each event."""

_AUDITED: Final = f"""audited as (
  select *, greatest(homes - arrivals - lost_homes, 0) as missing_homes,
    greatest(expected - delivered - lost, 0) as missing, ts_us - ts_us % {POSTPONED} as window_us
  from joined where publishes > 0)"""

JOURNEYS: Final = Table(
    "journeys",
    "Each publisher's events, end to end: expected and recorded deliveries, joined by event id.",
    ("window_us", "publisher"),
    f"""with {EVENTS}, {_AUDITED}
select window_us, publisher, count(*) as events, {total("expected")} as expected,
  greatest({total("delivered")} - {total("unseen")}, 0) as delivered, {total("unseen")} as unseen,
  {total("duplicates")} as duplicates, {total("lost")} as lost, {total("lost_homes")} as lost_homes,
  {total("missing")} as missing, {total("missing_homes")} as missing_homes,
  {total("1", "missing = 0 and missing_homes = 0 and duplicates = 0")} as accounted
from audited group by window_us, publisher""",
    {
        "events": "events whose publication is recorded, and which every broker would have sampled",
        "expected": "deliveries due by their matching at all brokers",
        "delivered": "deliveries that applications were handed, each subscription counted once; of clients without "
        "reports, those written",
        "unseen": "deliveries that clients have dropped, or held at their last report, exact without sampling; each "
        "report is counted with the last of its events",
        "duplicates": "repeated deliveries, without those of durable subscriptions",
        "lost": "deliveries dropped with a reason",
        "lost_homes": "copies for other brokers dropped with a reason",
        "missing": "deliveries without a record; an absent durable subscription may still get them",
        "missing_homes": "copies for other brokers without a record",
        "accounted": "events with none missing and no duplicate: all `events`, unless some were lost or repeated",
    },
    of="records",
)

UNACCOUNTED: Final = Table(
    "unaccounted",
    "The single events that `journeys` does not account for. Empty if nothing was lost silently or repeated.",
    ("window_us", "publisher", "sequence"),
    f"""with {EVENTS}, {_AUDITED}
select window_us, publisher, sequence, expected, delivered, duplicates, lost, missing, missing_homes
from audited where missing > 0 or missing_homes > 0 or duplicates > 0""",
    {
        "expected": "as in journeys",
        "delivered": "deliveries written, each subscription counted once",
        "duplicates": "as in journeys",
        "lost": "as in journeys",
        "missing": "as in journeys",
        "missing_homes": "as in journeys",
    },
    of="records",
)


def pieced(table: Table) -> str:
    """Return the SQL of one of these tables over the view `pieces`."""
    return table.sql.replace(EVENTS, PIECED)


AUDITS: Final = frozenset({"journeys", "unaccounted"})
"""The tables that can be computed from event fragments."""

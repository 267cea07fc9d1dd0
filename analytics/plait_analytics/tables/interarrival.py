"""Interarrival times of events at a broker and of a publisher, as sums of powers."""

from __future__ import annotations

from typing import Final

from plait_core.telemetry import RecordKind

from .sql_dialect import POSTPONED

INTERARRIVAL: Final = f"""
with r as (
  select ts_us - ts_us % {POSTPONED} as window_us, ts_us, published_us, broker, publisher, sequence, kind
  from records where kind in ({int(RecordKind.PUBLISH)}, {int(RecordKind.ARRIVAL)})),
arrived as (
  select window_us, broker, ts_us - lag(ts_us) over (partition by window_us, broker order by ts_us) as gap_us from r),
sent as (
  select window_us, publisher, case when sequence = 1 + lag(sequence) over (partition by publisher order by sequence)
    then published_us - lag(published_us) over (partition by publisher order by sequence) end as gap_us
  from r where kind = {int(RecordKind.PUBLISH)})
select window_us, 'broker' as whose, broker as entity, count(gap_us) as gaps, cast(sum(gap_us) as double) as gap_sum,
  sum(cast(gap_us as double) * gap_us) as gap_squares
from arrived group by window_us, broker
union all
select window_us, 'publisher', publisher, count(gap_us), cast(sum(gap_us) as double),
  sum(cast(gap_us as double) * gap_us)
from sent group by window_us, publisher"""

WITH_GAPS: Final = frozenset({"brokers", "publishers"})
"""The tables that use gaps."""

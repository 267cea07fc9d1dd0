"""Incidents: windows in which a rate, a delay or a loss of an entity deviates from the windows before."""

from __future__ import annotations

from typing import Final

from plait_core.telemetry import RecordKind

from .sql_dialect import total

HISTORY: Final = 10
"""Windows before a window that it is compared with."""

HISTORY_MIN: Final = 5
"""Windows that must exist before one can be called unusual."""

SIGMAS: Final = 4
"""Standard deviations from the mean that are unusual. The difference must also be at least half of the mean, since a
steady entity has a deviation near zero."""

_RATES: Final = f"""
  select window_us, 'broker' as entity, broker, cast(0 as bigint) as subject, 'rate' as measure,
    cast({total("weight", f"kind in ({int(RecordKind.PUBLISH)}, {int(RecordKind.ARRIVAL)})")} as double) as value
  from counts group by window_us, broker
  union all
  select window_us, 'link' as entity, broker, entity as subject, 'delay' as measure,
    cast(sum(delay_us) as double) / sum(records) as value
  from counts where kind = {int(RecordKind.LINK)} group by window_us, broker, counts.entity
  union all
  select window_us, 'broker' as entity, broker, cast(0 as bigint) as subject, 'lost' as measure,
    cast({total("weight", f"kind in ({int(RecordKind.DROP)}, {int(RecordKind.EXPIRY)})")} as double) as value
  from counts group by window_us, broker"""

_BEFORE: Final = f"""over (partition by entity, broker, subject, measure order by window_us
      rows between {HISTORY} preceding and 1 preceding)"""

INCIDENTS_SQL: Final = f"""
with measured as ({_RATES}),
compared as (
  select *, avg(value) {_BEFORE} as usual, stddev_pop(value) {_BEFORE} as deviation, count(value) {_BEFORE} as windows
  from measured)
select window_us, entity, broker, subject, measure, value, usual, deviation
from compared
where windows >= {HISTORY_MIN} and abs(value - usual) > {SIGMAS} * deviation and abs(value - usual) > 0.5 * usual"""

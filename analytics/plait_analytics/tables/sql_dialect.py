"""SQL fragments that DuckDB and Spark interpret alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

POSTPONED: Final = "$window"
"""The placeholder for the window width until a table is computed."""

QUANTILES: Final = (50, 90, 99)


def total(what: str, where: str | None = None) -> str:
    """Return a sum of integers, 0 over no rows. The casts keep one engine from widening it to 128 bits."""
    term = f"case when {where} then {what} else 0 end" if where is not None else what
    return f"cast(coalesce(sum(cast({term} as bigint)), 0) as bigint)"


def with_window(text: str, window_us: int) -> str:
    """Return a text with the placeholder replaced by a window width."""
    assert window_us > 0
    return text.replace(POSTPONED, str(window_us))


def quantiles(key: Sequence[str], where: str, weight: str = "weight") -> str:
    """Return subqueries up to `quantiles`: for each key of `r`, the middle of the bucket of each quantile."""
    keys = ", ".join(key)
    least = ", ".join(f"min(case when 100 * below >= {q} * whole then bucket end) as b{q}" for q in QUANTILES)
    middles = ", ".join(f"power(2.0, (b{q} + 0.5) / 8.0) as p{q}_us" for q in QUANTILES)
    return f"""bucketed as (
  select {keys}, bucket, {total(weight)} as n from r where {where} group by {keys}, bucket),
ranked as (
  select *, sum(n) over (partition by {keys} order by bucket) as below, sum(n) over (partition by {keys}) as whole
  from bucketed),
found as (select {keys}, {least} from ranked group by {keys}),
quantiles as (select {keys}, {middles} from found)"""

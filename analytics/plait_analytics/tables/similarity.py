"""Similar subscriptions: the Jaccard similarity of the events they matched last, without comparing all pairs.

MinHash sketches a subscription by the minimum of each hash function over its events. Two sketches agree in one place
with a probability equal to the similarity. Pairs that agree in a whole band of places are candidates; only for these is
the similarity computed, exactly.
"""

from __future__ import annotations

from typing import Final

from plait_core.telemetry import RecordKind

from .sql_dialect import POSTPONED, total

PSI: Final = 100_000
"""The newest events that are compared, by delivery time."""

BANDS, PLACES = 8, 2
"""Bands and places of a band: pairs of similarity 0.8 become candidates with probability 0.9997, of 0.2 with 0.28."""

_PRIME: Final = 2_147_483_647
"""2^31 - 1: products of two residues fit 63 bits."""


def _multipliers() -> list[tuple[int, int]]:
    """Return a and b of the hash functions (a x + b) mod p. They are fixed: equal records give equal candidates."""
    state, found = 12_345, []
    for _ in range(BANDS * PLACES):
        state = state * 48_271 % _PRIME
        a = state
        state = state * 48_271 % _PRIME
        found.append((a, state))
    return found


_HASHES: Final = ", ".join(
    f"min((event * {a} + {b}) % {_PRIME}) as h{place}" for place, (a, b) in enumerate(_multipliers())
)
_BANDED: Final = " union all ".join(
    f"select window_us, broker, subscription, {band} as band, "
    + ", ".join(f"h{band * PLACES + place} as v{place}" for place in range(PLACES))
    + " from sketched"
    for band in range(BANDS)
)
_AGREE: Final = " and ".join(f"x.v{place} = y.v{place}" for place in range(PLACES))

SIMILARITY_SQL: Final = f"""
with delivered as (
  select distinct ts_us - ts_us % {POSTPONED} as window_us, broker, subject as subscription, publisher, sequence, ts_us
  from records where kind = {int(RecordKind.DELIVERY)}),
ranked as (
  select window_us, broker, subscription, publisher, sequence,
    dense_rank() over (partition by window_us order by ts_us desc, publisher, sequence) as age from delivered),
matched as (
  select distinct window_us, broker, subscription, publisher, sequence,
    (((publisher % {_PRIME}) + {_PRIME}) % {_PRIME} * 31 + ((sequence % {_PRIME}) + {_PRIME}) % {_PRIME} * 7919)
      % {_PRIME} as event
  from ranked where age <= {PSI}),
sketched as (
  select window_us, broker, subscription, {_HASHES} from matched group by window_us, broker, subscription),
banded as ({_BANDED}),
candidates as (
  select distinct x.window_us, x.broker, x.subscription, y.broker as other_broker, y.subscription as other
  from banded x join banded y on x.window_us = y.window_us and x.band = y.band and {_AGREE}
  where x.broker < y.broker or (x.broker = y.broker and x.subscription < y.subscription)),
sizes as (
  select window_us, broker, subscription, cast(count(*) as bigint) as n from matched
  group by window_us, broker, subscription),
shared as (
  select c.window_us, c.broker, c.subscription, c.other_broker, c.other, {total("1")} as both
  from candidates c
  join matched m on m.window_us = c.window_us and m.broker = c.broker and m.subscription = c.subscription
  join matched o on o.window_us = c.window_us and o.broker = c.other_broker and o.subscription = c.other
    and o.publisher = m.publisher and o.sequence = m.sequence
  group by c.window_us, c.broker, c.subscription, c.other_broker, c.other)
select s.window_us, s.broker, s.subscription, s.other_broker, s.other, s.both as shared, a.n + b.n - s.both as either,
  cast(s.both as double) / (a.n + b.n - s.both) as jaccard
from shared s
join sizes a on a.window_us = s.window_us and a.broker = s.broker and a.subscription = s.subscription
join sizes b on b.window_us = s.window_us and b.broker = s.other_broker and b.subscription = s.other"""

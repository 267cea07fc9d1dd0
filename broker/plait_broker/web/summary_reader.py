"""Digests as they come (`tracing/broker_summary.py`), made into what is shown: rates from two of them, checked and
rounded.

A digest may come from any broker of the overlay, so nothing of it is taken for what it should be: what is not a number
counts as none, what is not text is shown as text, and everything has an end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from ..histograms import DelayHistogram

Json: TypeAlias = dict[str, Any]

STAGES: Final = ("delivery", "matching", "waiting")
"""Of which every broker keeps a histogram; the links and the ways to clients are sampled."""

COUNTS: Final = (
    "published", "delivered", "forwarded", "arrived", "late", "bytes_in", "bytes_out", "rerouted", "links_dead",
)  # fmt: skip

HARMLESS: Final = frozenset({"unmatched", "duplicate"})
"""Reasons for which an event ends without anyone missing it."""

NAMES_MAX: Final = 32
ITEMS_MAX: Final = 64
TEXT_MAX: Final = 300
BITS_MAX: Final = 64


class SummaryReading:
    """One broker's digest, read."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.at = number(said.get("at"))
        self.name = text(said.get("name"))
        self.draining = said.get("draining") is True
        counts = mapping(said.get("counts"))
        self.counts = {name: number(counts.get(name)) for name in COUNTS}
        self.dropped = numbers(said.get("dropped"))
        self.refused = numbers(said.get("rejected")) | numbers(said.get("faults")) | numbers(said.get("broken"))
        times = mapping(said.get("times"))
        self.times = {stage: numbers(times.get(stage), BITS_MAX + 1) for stage in STAGES}
        self.held = {
            name: number(said.get(name))
            for name in (
                "clients", "sessions", "subscriptions", "durables", "advertisements", "exported", "table", "awaiting",
                "pending", "pending_bytes", "slow_consumers",
            )
        }  # fmt: skip
        self.links = list(items(said.get("links")))
        self.shown = list(items(said.get("shown")))
        self.resources = mapping(said.get("resources"))
        self.uptime_s = number(said.get("uptime_s"))

    @property
    def lost(self) -> float:
        """Events and deliveries that someone may miss."""
        return sum(count for reason, count in self.dropped.items() if reason not in HARMLESS)


class CounterDelta:
    """What happened between two readings of one broker."""

    def __init__(self, before: SummaryReading, after: SummaryReading) -> None:
        self.elapsed_s = max(after.at - before.at, 0.05)
        self.counts = {name: grown(before.counts[name], after.counts[name]) for name in COUNTS}
        self.lost = grown(before.lost, after.lost)
        self.dropped = _grown_each(before.dropped, after.dropped)
        self.refused = _grown_each(before.refused, after.refused)
        self.times = {stage: _grown_each(before.times[stage], after.times[stage]) for stage in STAGES}

    def rate(self, name: str) -> float:
        """Of one count, a second."""
        return short(self.counts[name] / self.elapsed_s)


def grown(before: float, after: float) -> float:
    """Of a count that starts anew with its broker."""
    return after - before if after >= before else after


def _grown_each(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    found = {name: grown(before.get(name, 0), count) for name, count in after.items()}
    return {name: count for name, count in found.items() if count}


# --- times ------------------------------------------------------------------------------------------------------------


def histogram_of(counts: Mapping[str, float]) -> DelayHistogram:
    """Sparse counts by bits, to ask for percentiles."""
    found = DelayHistogram()
    for bits, count in counts.items():
        if bits.isascii() and bits.isdecimal() and len(bits) < 3 and int(bits) <= BITS_MAX:
            found.counts[int(bits)] += int(count)
    return found


def percentile_ms(counts: Mapping[str, float], fraction: float) -> float | None:
    """None while there are none."""
    found = histogram_of(counts).percentile_us(fraction)
    return None if found is None else short(found / 1000)


# --- values of which nothing is known ---------------------------------------------------------------------------------


def number(value: object) -> float:
    """Itself, if it is a number that makes sense as a count or a measure; else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 <= value < 2**63 and math.isfinite(value) else 0


def number_or_none(value: object) -> float | None:
    """The same of what may not be known."""
    return None if value is None else short(number(value))


def text(value: object) -> str:
    """Short text."""
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object."""
    return value if isinstance(value, dict) else {}


def numbers(value: object, most: int = NAMES_MAX) -> dict[str, float]:
    """Numbers by name."""
    return {name[:TEXT_MAX]: number(count) for name, count in islice(mapping(value).items(), most)}


def items(value: object) -> Iterator[Mapping[str, Any]]:
    """JSON objects of a list."""
    if isinstance(value, list):
        yield from (item for item in islice(value, ITEMS_MAX) if isinstance(item, dict))


def short(value: float) -> float:
    """Three digits: more of a rate is noise, and would be sent each time."""
    if not value or not math.isfinite(value):
        return 0
    if abs(value) >= 1000:
        return round(value)
    return round(value, 2 - math.floor(math.log10(abs(value))))

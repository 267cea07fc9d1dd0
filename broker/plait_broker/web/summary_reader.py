"""Read the summaries of brokers (`tracing/broker_summary.py`): check and round them, and compute rates from two of
them.

A summary may come from any broker of the overlay, so it is untrusted: values that are no numbers count as 0, values
that are no text as empty text, and everything has a limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from ..drop_reasons import count_late, count_lost
from ..histograms import DelayHistogram

STAGES: Final = ("delivery", "matching", "waiting")
"""Stages whose delays every broker keeps in a histogram."""

COUNTS: Final = (
    "published", "delivered", "forwarded", "arrived", "late", "bytes_in", "bytes_out",
)  # fmt: skip

NAMES_MAX: Final = 32
ITEMS_MAX: Final = 64
TEXT_MAX: Final = 300
BITS_MAX: Final = 64


class SummaryReading:
    """One broker's summary, checked."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self.at = number(summary.get("at"))
        self.name = text(summary.get("name"))
        self.http = http_address(text(summary.get("http")))
        self.draining = summary.get("draining") is True
        counts = mapping(summary.get("counts"))
        self.counts = {name: number(counts.get(name)) for name in COUNTS}
        in_clients = numbers(summary.get("client_dropped"))
        self.dropped = numbers(summary.get("dropped")) | {f"client_{reason}": n for reason, n in in_clients.items()}
        self.refused = (
            numbers(summary.get("rejected")) | numbers(summary.get("faults")) | numbers(summary.get("broken"))
        )
        times = mapping(summary.get("times"))
        self.times = {stage: numbers(times.get(stage), BITS_MAX + 1) for stage in STAGES}
        self.held = {
            name: number(summary.get(name))
            for name in (
                "clients", "sessions", "subscriptions", "durables", "advertisements", "exported", "table", "awaiting",
                "pending", "pending_bytes", "slow_consumers",
            )
        }  # fmt: skip
        self.links = list(items(summary.get("links")))
        self.shown = list(items(summary.get("shown")))
        self.resources = mapping(summary.get("resources"))
        self.busy_s = number(summary.get("busy_s"))
        self.uptime_s = number(summary.get("uptime_s"))
        self.recorded = number(summary.get("recorded"))
        self.incidents = list(items(summary.get("incidents")))

    @property
    def lost(self) -> float:
        """Lost events and deliveries."""
        return count_lost(self.dropped)

    @property
    def late(self) -> float:
        """Late events, whether they were dropped or delivered."""
        return count_late(self.dropped, self.counts["late"])


class CounterDelta:
    """The difference of two summaries of one broker."""

    def __init__(self, before: SummaryReading, after: SummaryReading) -> None:
        self.elapsed_s = max(after.at - before.at, 0.05)
        self.counts = {name: growth(before.counts[name], after.counts[name]) for name in COUNTS}
        self.busy = short(min(1.0, growth(before.busy_s, after.busy_s) / self.elapsed_s))
        """Share of the time in which the loop was busy."""
        self.lost = growth(before.lost, after.lost)
        self.late = growth(before.late, after.late)
        self.dropped = _growth_of_each(before.dropped, after.dropped)
        self.refused = _growth_of_each(before.refused, after.refused)
        self.times = {stage: _growth_of_each(before.times[stage], after.times[stage]) for stage in STAGES}

    def rate(self, name: str) -> float:
        """Return the rate of one counter per second."""
        return short(self.counts[name] / self.elapsed_s)


def growth(before: float, after: float) -> float:
    """Return the growth of a counter that restarts at 0 with its broker."""
    return after - before if after >= before else after


def _growth_of_each(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    found = {name: growth(before.get(name, 0), count) for name, count in after.items()}
    return {name: count for name, count in found.items() if count}


# --- times ------------------------------------------------------------------------------------------------------------


def histogram_of(counts: Mapping[str, float]) -> DelayHistogram:
    """Return a histogram of sparse counts by bits."""
    found = DelayHistogram()
    for bits, count in counts.items():
        if bits.isascii() and bits.isdecimal() and len(bits) < 3 and int(bits) <= BITS_MAX:
            found.counts[int(bits)] += int(count)
    return found


def percentile_ms(counts: Mapping[str, float], fraction: float) -> float | None:
    """Return a percentile in milliseconds, or None while there are no counts."""
    found = histogram_of(counts).percentile_us(fraction)
    return None if found is None else short(found / 1000)


_HTTP: Final = re.compile(r"(https?)://((?:[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])?):(\d{1,5})", re.ASCII)


def http_address(value: str) -> tuple[str, str, str] | None:
    """Return scheme, host and port of a broker's HTTP side. The host may be empty. Return None for any other text."""
    found = _HTTP.fullmatch(value)
    return None if found is None else (found[1], found[2], found[3])


# --- untrusted values -------------------------------------------------------------------------------------------------


def number(value: object) -> float:
    """Return a finite number that is not negative; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 <= value < 2**63 and math.isfinite(value) else 0


def number_or_none(value: object) -> float | None:
    """Return None for None, else a checked number."""
    return None if value is None else short(number(value))


def text(value: object) -> str:
    """Return short text; empty for any other value."""
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def numbers(value: object, most: int = NAMES_MAX) -> dict[str, float]:
    """Return numbers by name."""
    return {name[:TEXT_MAX]: number(count) for name, count in islice(mapping(value).items(), most)}


def items(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a list."""
    if isinstance(value, list):
        yield from (item for item in islice(value, ITEMS_MAX) if isinstance(item, dict))


def short(value: float) -> float:
    """Round to three digits: more of a rate is noise, and would be sent each time."""
    if not value or not math.isfinite(value):
        return 0
    if abs(value) >= 1000:
        return round(value)
    return round(value, 2 - math.floor(math.log10(abs(value))))

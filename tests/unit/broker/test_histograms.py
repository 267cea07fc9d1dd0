"""Histograms: times fall into the buckets that bound them, and Prometheus' own parser accepts the metrics page."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest as classic
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from plait_broker.histograms import FIRST_BITS, LAST_BITS, DelayHistogram
from plait_broker.web.metrics.metric_types import histogram as as_metric

Parse = Callable[[str], Iterable[Any]]


def filled(times_us: Iterable[int]) -> DelayHistogram:
    histogram = DelayHistogram()
    for time_us in times_us:
        histogram.observe(time_us)
    return histogram


def drawn(seed: int, count: int = 2000) -> list[int]:
    rng = random.Random(seed)
    return [int(2 ** rng.uniform(0, 40)) - 1 for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_buckets_are_what_counting_all_times_finds(seed: int) -> None:
    times_us = drawn(seed)
    ordered = sorted(times_us)
    histogram = filled(times_us)
    for bound_s, below in histogram.cumulative():
        assert below == bisect.bisect_left(ordered, bound_s * 1_000_000)
    assert (len(histogram), histogram.sum_us) == (len(times_us), sum(times_us))


@pytest.mark.parametrize("bits", range(FIRST_BITS, LAST_BITS + 1))
def test_a_bound_parts_what_is_below_from_what_is_not(bits: int) -> None:
    below = dict(filled([2**bits - 1, 2**bits]).cumulative())
    assert below[2**bits / 1_000_000] == 1
    assert below[float("inf")] == 2


def test_the_extremes_are_counted_somewhere() -> None:
    histogram = filled([0, 1, 2**63])
    counts = [count for _, count in histogram.cumulative()]
    assert (counts[0], counts[-1]) == (2, 3)
    with pytest.raises(AssertionError):
        histogram.observe(-1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.99, 1.0])
def test_a_percentile_lies_in_the_bucket_of_the_true_one(seed: int, fraction: float) -> None:
    times_us = sorted(drawn(seed))
    true_us = times_us[max(0, math.ceil(fraction * len(times_us)) - 1)]
    found_us = filled(times_us).percentile_us(fraction)
    assert found_us is not None
    bits = true_us.bit_length()
    assert (1 << bits) >> 1 <= found_us <= 1 << bits


def test_an_empty_histogram_has_no_percentile() -> None:
    assert DelayHistogram().percentile_us(0.5) is None


def test_a_weight_counts_as_often() -> None:
    histogram, one_by_one = DelayHistogram(), filled([100] * 7)
    histogram.observe(100, 7)
    assert (histogram.counts, histogram.sum_us) == (one_by_one.counts, one_by_one.sum_us)


class _Page:
    def __init__(self, histogram: DelayHistogram) -> None:
        self._histogram = histogram

    def collect(self) -> Iterator[Metric]:
        yield as_metric("plait_delay_seconds", "How long.", self._histogram)


@pytest.mark.parametrize(("encode", "parse"), [(openmetrics, parse_openmetrics), (classic, parse_classic)])
@pytest.mark.parametrize("times_us", [[], [0], drawn(7)], ids=["none", "one", "many"])
def test_the_page_reads_back(encode: Callable[..., bytes], parse: Parse, times_us: list[int]) -> None:
    """The parser checks order, bounds, +Inf and that the count equals the last bucket's."""
    registry = CollectorRegistry()
    registry.register(_Page(filled(times_us)))
    (family,) = parse(encode(registry).decode())
    assert (family.name, family.type) == ("plait_delay_seconds", "histogram")
    samples = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert samples["plait_delay_seconds_count", None] == len(times_us)
    assert samples["plait_delay_seconds_sum", None] == pytest.approx(sum(times_us) / 1_000_000)
    read = {float(bound): count for (name, bound), count in samples.items() if name.endswith("_bucket")}
    assert read == dict(filled(times_us).cumulative())
    assert len(read) == LAST_BITS - FIRST_BITS + 2


def test_the_parser_would_notice() -> None:
    """The parser rejects pages that the test above relies on it to reject."""
    registry = CollectorRegistry()
    registry.register(_Page(filled(drawn(3))))
    page = openmetrics(registry).decode()
    for wrong in (page.replace("_count 2000.0", "_count 1999.0"), page.replace('le="+Inf"', 'le="135.0"')):
        assert wrong != page
        with pytest.raises(ValueError):
            list(parse_openmetrics(wrong))

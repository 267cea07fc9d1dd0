"""One metric of each kind, from a name, what it says and its value.

Names follow Prometheus: `plait_`, what is counted, its unit (seconds, bytes, ratio); counters end in `_total`, which
the library adds. Each help text stands alone: it is read in a query editor, without those around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ...histograms import DelayHistogram


def counter(name: str, says: str, value: float) -> Metric:
    """What only rises."""
    return CounterMetricFamily(name, says, value=value)


def gauge(name: str, says: str, value: float) -> Metric:
    """What rises and falls."""
    return GaugeMetricFamily(name, says, value=value)


def histogram(name: str, says: str, times: DelayHistogram) -> Metric:
    """Its buckets, cumulated, its sum and its count, in seconds."""
    buckets = [("+Inf" if bound == math.inf else repr(bound), count) for bound, count in times.cumulative()]
    return HistogramMetricFamily(name, says, buckets=buckets, sum_value=times.sum_us / 1_000_000)


def counters(name: str, says: str, label: str, always: Iterable[str], counts: Mapping[Any, int]) -> Metric:
    """One series for each that there may be, so that a rate is known from the first one on."""
    family = CounterMetricFamily(name, says, labels=[label])
    for key in sorted({*map(str, always), *map(str, counts)}):
        family.add_metric([key], counts.get(key, 0))
    return family


def gauges(name: str, says: str, label: str, values: Mapping[str, float]) -> Metric:
    """One series for each that there is now."""
    family = GaugeMetricFamily(name, says, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family

"""One function for each type of metric: name, help text and value.

Names follow Prometheus: `plait_`, the thing counted, its unit (seconds, bytes, ratio). Counters end in `_total`, which
the library adds. Each help text stands alone: a query editor shows it without its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ...histograms import DelayHistogram


def counter(name: str, help: str, value: float) -> Metric:
    """Return a metric that only rises."""
    return CounterMetricFamily(name, help, value=value)


def gauge(name: str, help: str, value: float) -> Metric:
    """Return a metric that rises and falls."""
    return GaugeMetricFamily(name, help, value=value)


def histogram(name: str, help: str, times: DelayHistogram) -> Metric:
    """Return cumulative buckets, sum and count, in seconds."""
    buckets = [("+Inf" if bound == math.inf else repr(bound), count) for bound, count in times.cumulative()]
    return HistogramMetricFamily(name, help, buckets=buckets, sum_value=times.sum_us / 1_000_000)


def counters(name: str, help: str, label: str, always: Iterable[str], counts: Mapping[Any, int]) -> Metric:
    """Return one series for each possible label, so that a rate is known from the first count on."""
    family = CounterMetricFamily(name, help, labels=[label])
    for key in sorted({*map(str, always), *map(str, counts)}):
        family.add_metric([key], counts.get(key, 0))
    return family


def gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return one series for each present label."""
    family = GaugeMetricFamily(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family

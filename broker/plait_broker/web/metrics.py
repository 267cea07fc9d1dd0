"""The metrics page: the broker's own counters, read when somebody asks, and how late its loop runs.

Labels are of small closed sets (reasons, codes, faults), never a client, a subscription or an event.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from plait_core.errors import FrameFault

from ..histograms import DelayHistogram
from ..reasons import DropReason

if TYPE_CHECKING:
    from ..broker import Broker
    from ..log.event_log import LogStats

LAG_INTERVAL_S: Final = 0.1
"""Between two looks at how late the loop runs: a stall of one interval is always seen, at ten wake-ups a second."""


class LoopLag:
    """Measures how much later than asked a timer of the running loop fires."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.last_s = 0.0
        self._lags = DelayHistogram()
        registry.register(self)
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._due = monotonic() + LAG_INTERVAL_S
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self) -> None:
        self.last_s = max(0.0, monotonic() - self._due)
        self._lags.observe(int(self.last_s * 1_000_000))
        self.start()

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance, as below."""
        return []

    def collect(self) -> Iterator[Metric]:
        """How late, as it is now."""
        yield _histogram("plait_loop_lag_seconds", "How late the event loop runs.", self._lags)


class BrokerCollector:
    """Reads a broker at each scrape."""

    def __init__(
        self, version: str, broker: Callable[[], Broker | None], log_stats: Callable[[], LogStats | None]
    ) -> None:
        """`broker` gives none while the broker starts; `log_stats` none when it keeps no log."""
        self._version = version
        self._broker = broker
        self._log_stats = log_stats

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: a registry asks for this so as not to collect while it is being built."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric, as it is now."""
        broker = self._broker()
        yield InfoMetricFamily(
            "plait_build",
            "What runs here.",
            {"version": self._version, "name": broker.settings.name if broker is not None else ""},
        )
        if broker is not None:
            yield from _counted(broker)
            yield from _held(broker)
        stats = self._log_stats()
        if stats is not None:
            yield from _logged(stats)


def new_registry(collector: BrokerCollector) -> CollectorRegistry:
    """A registry of one broker: several may live in a process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _counted(broker: Broker) -> Iterator[Metric]:
    counters = broker.counters
    yield _counter("plait_events_published", "Events that arrived from publishers.", counters.published)
    yield _counter("plait_events_admitted", "Events that were let in.", counters.admitted)
    yield _counter("plait_events_delivered", "Deliveries written; for three subscriptions, three.", counters.delivered)
    yield _counter("plait_events_logged", "Events stored.", counters.logged)
    yield _counter("plait_events_confirmed", "Events confirmed to their publishers.", counters.confirmed)
    yield _counter("plait_events_refused", "Events refused to their publishers.", counters.refused)
    yield _labelled(
        "plait_events_dropped", "Events and deliveries dropped.", "reason", list(DropReason), counters.dropped
    )
    yield _histogram(
        "plait_delivery_delay_seconds", "How long delivered events had been under way.", counters.delivery_delays
    )
    yield _histogram(
        "plait_matching_seconds", "From the read that brought an event until it was matched.", counters.matching_times
    )
    yield _counter("plait_received_bytes", "Bytes from connections.", counters.bytes_in)
    yield _counter("plait_sent_bytes", "Bytes to connections.", counters.bytes_out)
    yield _counter("plait_connections_opened", "Connections taken.", counters.connections)
    yield _labelled(
        "plait_faults", "Connections closed for what they sent.", "fault", list(FrameFault), counters.faults
    )
    yield _labelled("plait_rejected", "Connections and requests refused.", "code", [], counters.rejected)


def _held(broker: Broker) -> Iterator[Metric]:
    sessions = broker.sessions.all()
    waiting = broker.interest.waiting
    yield _gauge("plait_connections", "Clients connected.", sum(session.link is not None for session in sessions))
    yield _gauge("plait_sessions", "Sessions, connected or soon back.", len(sessions))
    yield _gauge("plait_subscriptions", "Open subscriptions.", sum(len(session.subscriptions) for session in sessions))
    yield _gauge("plait_advertisements", "Open advertisements.", sum(len(s.advertisements) for s in sessions))
    yield _gauge("plait_outbox_events", "Deliveries that wait.", waiting.items)
    yield _gauge("plait_outbox_bytes", "Their size.", waiting.bytes)
    yield _gauge("plait_slow_consumers", "Subscriptions that fall behind.", waiting.slow)
    yield _gauge("plait_unconfirmed_events", "Events that wait for confirmation.", len(broker.confirmations))
    yield _gauge("plait_draining", "1 while the broker stops.", int(broker.draining))


def _logged(stats: LogStats) -> Iterator[Metric]:
    yield _gauge("plait_log_records", "Events in the log.", stats.records)
    yield _gauge("plait_log_bytes", "Their size.", stats.bytes)
    yield _gauge("plait_log_queue_events", "Requests to store that wait.", stats.queue_items)
    yield _gauge("plait_log_queue_bytes", "Their size.", stats.queue_bytes)
    yield _gauge("plait_log_last_commit_seconds", "How long the last commit took.", stats.last_commit_s)
    yield _gauge("plait_log_failing", "1 while the log cannot store.", int(stats.failing is not None))
    yield _counter("plait_log_commits", "Transactions stored.", stats.commits)
    yield _counter("plait_log_commits_failed", "Transactions that failed.", stats.commits_failed)
    yield _counter("plait_log_records_stored", "Events stored.", stats.records_stored)
    yield _counter("plait_log_records_trimmed", "Events let go by retention.", stats.records_trimmed)
    yield _counter("plait_log_records_damaged", "Damaged events met, and not served.", stats.records_damaged)
    yield _counter("plait_log_persists_refused", "Requests to store turned away.", stats.persists_refused)


def _counter(name: str, says: str, value: float) -> Metric:
    return CounterMetricFamily(name, says, value=value)


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)


def _histogram(name: str, says: str, histogram: DelayHistogram) -> Metric:
    """Its buckets, cumulated, its sum and its count, in seconds."""
    buckets = [("+Inf" if bound == math.inf else repr(bound), count) for bound, count in histogram.cumulative()]
    return HistogramMetricFamily(name, says, buckets=buckets, sum_value=histogram.sum_us / 1_000_000)


def _labelled(name: str, says: str, label: str, always: Iterable[str], counts: Mapping[Any, int]) -> Metric:
    """One series for each that there may be, so that a rate is known from the first one on."""
    family = CounterMetricFamily(name, says, labels=[label])
    for key in sorted({*map(str, always), *map(str, counts)}):
        family.add_metric([key], counts.get(key, 0))
    return family

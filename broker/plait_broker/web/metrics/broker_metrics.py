"""The metrics page: the broker's counters, read at each scrape, and the lag of its loop.

Labels come from small closed sets (reasons, codes, faults) or are names of neighbours; never a client, a subscription
or an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import InfoMetricFamily, Metric

from plait_core.errors import FrameFault
from plait_core.wire.frame_types.session_frames import Code, Unseen

from ...clients.client_reports import OUTCOMES as REPORTED
from ...drop_reasons import DropReason, count_late
from ...histograms import DelayHistogram
from ...pipeline.sealed_matching import OUTCOMES
from .durable_metrics import durable_metrics
from .metric_types import counter, counters, gauge, histogram
from .overlay_metrics import overlay_metrics

if TYPE_CHECKING:
    from plait_telemetry.recording import Recording

    from ...broker_view import BrokerView
    from ...log.event_log import LogStats

LAG_INTERVAL_S: Final = 0.1
"""Time between two measurements of the loop's lag: a stall of one interval is always noticed, at ten wake-ups a
second."""


class LoopLag:
    """Measures how late a timer of the running loop fires."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.last_s = 0.0
        self._lags = DelayHistogram()
        registry.register(self)
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring."""
        self._due = monotonic() + LAG_INTERVAL_S
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._measure)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self) -> None:
        self.last_s = max(0.0, monotonic() - self._due)
        self._lags.observe(int(self.last_s * 1_000_000))
        self.start()

    def describe(self) -> Iterable[Metric]:
        """Return no metrics in advance, as `BrokerCollector.describe`."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the present lag."""
        yield histogram("plait_loop_lag_seconds", "How late the event loop runs.", self._lags)
        yield gauge("plait_tasks", "Tasks of the event loop that have not ended.", len(asyncio.all_tasks(self._loop)))


class BrokerCollector:
    """Reads a broker at each scrape."""

    def __init__(
        self,
        version: str,
        broker: Callable[[], BrokerView | None],
        log_stats: Callable[[], LogStats | None],
        telemetry: Callable[[], Recording | None],
    ) -> None:
        """`broker` returns None while the broker starts; `log_stats` and `telemetry` return None without a log or
        telemetry."""
        self._version = version
        self._broker = broker
        self._log_stats = log_stats
        self._telemetry = telemetry

    def describe(self) -> Iterable[Metric]:
        """Return no metrics in advance: a registry calls this so as not to collect while it is being built."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present value."""
        broker = self._broker()
        yield InfoMetricFamily(
            "plait_build",
            "Version and name of the broker.",
            {"version": self._version, "name": broker.settings.name if broker is not None else ""},
        )
        if broker is not None:
            yield from _counted(broker)
            yield from _held(broker)
            yield from durable_metrics(broker)
            yield from _reported(broker, monotonic())
            yield from overlay_metrics(broker, monotonic())
        stats, telemetry = self._log_stats(), self._telemetry()
        if stats is not None:
            yield from _logged(stats)
        if telemetry is not None:
            yield from _recorded(telemetry)


def new_registry(collector: BrokerCollector) -> CollectorRegistry:
    """Return a registry for one broker: several may live in a process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _counted(broker: BrokerView) -> Iterator[Metric]:
    counts = broker.counters
    yield counter("plait_events_published", "Events that arrived from publishers.", counts.published)
    yield counter("plait_events_admitted", "Events admitted.", counts.admitted)
    yield counter("plait_events_delivered", "Deliveries written: an event for three subscriptions is three.",
                  counts.delivered)  # fmt: skip
    yield counter("plait_events_logged", "Events stored for durable subscriptions.", counts.logged)
    yield counter("plait_events_confirmed", "Events confirmed to their publishers.", counts.confirmed)
    yield counter("plait_events_refused", "Events refused to their publishers.", counts.refused)
    yield counters("plait_events_dropped", "Events and deliveries dropped, by reason.", "reason", list(DropReason),
                   counts.dropped)  # fmt: skip
    yield histogram("plait_delivery_delay_seconds", "How long delivered events had been under way.",
                    counts.delivery_delays)  # fmt: skip
    yield counter(
        "plait_events_late",
        "Late events: beyond the delay bound of their subscription, dropped or delivered with a flag.",
        count_late(counts.dropped, counts.late),
    )
    yield histogram(
        "plait_waiting_seconds", "How long deliveries that could not be written at once waited.", counts.waiting_times
    )
    yield counter("plait_copies_received", "Copies of events from other brokers, to deliver or to send on.",
                  counts.copies)  # fmt: skip
    yield counter("plait_loop_busy_seconds", "Time of reading, matching and writing: its rate is how busy the loop is.",
                  counts.busy_s)  # fmt: skip
    yield histogram("plait_matching_seconds", "From the read that brought an event or a copy until it was matched.",
                    counts.matching_times)  # fmt: skip
    yield counter("plait_received_bytes", "Bytes from connections of clients and brokers.", counts.bytes_in)
    yield counter("plait_sent_bytes", "Bytes to connections of clients and brokers.", counts.bytes_out)
    yield counter("plait_connections_opened", "Connections accepted.", counts.connections)
    yield counters("plait_faults", "Connections closed because of what they sent, by fault.", "fault",
                   [*FrameFault, Code.FLOOD, Code.FORGED], counts.faults)  # fmt: skip
    yield counters("plait_rejected", "Connections and requests refused, by code.", "code", list(Code), counts.rejected)
    yield counter("plait_system_events", "Telemetry records published as system events.",
                  broker.system.events)  # fmt: skip
    yield counter("plait_system_missed", "Telemetry records that exceeded the limit of system events.",
                  broker.system.missed)  # fmt: skip
    yield counters(
        "plait_tags",
        "Tests of sealed events' tags, and deposits by their outcome for each event. over_budget: openings on which "
        "the tests of a client or broker exceeded its budget.",
        "outcome",
        OUTCOMES,
        counts.tags,
    )


def _held(broker: BrokerView) -> Iterator[Metric]:
    sessions = broker.sessions.all()
    waiting = broker.interest.waiting
    yield gauge("plait_connections", "Clients connected.", sum(session.connection is not None for session in sessions))
    yield gauge("plait_sessions", "Sessions of clients, connected or able to resume.", len(sessions))
    yield gauge("plait_subscriptions", "Open subscriptions.", sum(len(session.subscriptions) for session in sessions))
    yield gauge("plait_advertisements", "Open advertisements.", sum(len(s.advertisements) for s in sessions))
    yield gauge("plait_delivery_queue_events", "Deliveries queued for subscribers.", waiting.items)
    yield gauge("plait_delivery_queue_bytes", "Size of the deliveries queued for subscribers.", waiting.bytes)
    yield gauge("plait_slow_consumers", "Subscriptions whose queue is half full or more.", waiting.slow)
    yield gauge("plait_unconfirmed_events", "Events that wait for confirmation.", len(broker.confirmations))
    yield gauge("plait_draining", "1 while the broker stops.", int(broker.draining))


def _reported(broker: BrokerView, now: float) -> Iterator[Metric]:
    counts, reports = broker.counters, broker.client_reports
    reasons = [reason for reason in Unseen if reason is not Unseen.WAITING]
    yield counter("plait_client_events_handed_out", "Deliveries that clients have handed to their applications.",
                  counts.handed_out)  # fmt: skip
    yield counters("plait_client_events_dropped", "Deliveries that clients have dropped, by reason.", "reason", reasons,
                   counts.client_dropped)  # fmt: skip
    yield gauge("plait_client_events_waiting", "Deliveries in the buffers of clients.", reports.waiting)
    yield gauge("plait_losing_subscriptions", "Subscriptions whose clients dropped events within the last minute.",
                reports.losing(now))  # fmt: skip
    yield counters("plait_client_reports", "Reports of clients about their deliveries, by outcome.", "outcome",
                   REPORTED, counts.client_reports)  # fmt: skip


def _logged(stats: LogStats) -> Iterator[Metric]:
    yield gauge("plait_log_records", "Events in the log.", stats.records)
    yield gauge("plait_log_bytes", "Size of the events in the log.", stats.bytes)
    yield gauge("plait_log_queue_events", "Requests to store that wait for the disk.", stats.queue_items)
    yield gauge("plait_log_queue_bytes", "Size of the requests to store that wait for the disk.", stats.queue_bytes)
    yield gauge("plait_log_last_commit_seconds", "How long the last commit of the log took.", stats.last_commit_s)
    yield gauge("plait_log_failing", "1 while the log cannot store.", int(stats.failing is not None))
    yield counter("plait_log_commits", "Transactions of the log that were stored.", stats.commits)
    yield counter("plait_log_commits_failed", "Transactions of the log that failed.", stats.commits_failed)
    yield counter("plait_log_records_stored", "Events stored in the log.", stats.records_stored)
    yield counter("plait_log_records_trimmed", "Events that retention removed from the log.", stats.records_trimmed)
    yield counter(
        "plait_log_records_damaged", "Damaged events found in the log, and not served.", stats.records_damaged
    )
    yield counter("plait_log_persists_refused", "Requests to store that were refused.", stats.persists_refused)


def _recorded(telemetry: Recording) -> Iterator[Metric]:
    facts = telemetry.facts()
    yield counter("plait_telemetry_records", "Records of telemetry taken.", facts["records"])
    yield counter("plait_telemetry_lost", "Records of telemetry lost: the ring was full, or the disk failed.",
                  facts["lost"])  # fmt: skip
    yield counter("plait_telemetry_unread_deleted", "Segments deleted although a reader had not read them.",
                  facts["unread_deleted"])  # fmt: skip
    yield gauge("plait_telemetry_weight", "Events that one recorded event stands for: above 1 while sampled.",
                facts["weight"])  # fmt: skip
    yield gauge("plait_telemetry_failing", "1 while telemetry cannot be written.", int(bool(facts["failing"])))

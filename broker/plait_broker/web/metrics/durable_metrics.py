"""Metrics of durable subscriptions, as totals of a broker: names and clients have no bound, so they are no labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric

from ...status import durable_totals
from .metric_types import gauge

if TYPE_CHECKING:
    from ...broker_view import BrokerView


def durable_metrics(broker: BrokerView) -> Iterator[Metric]:
    """Yield the totals of all durable subscriptions."""
    totals = durable_totals(broker)
    yield gauge("plait_durables", "Durable subscriptions.", totals.subscriptions)
    yield gauge("plait_durable_orphans", "Durable subscriptions that no connected client holds.", totals.orphans)
    yield gauge("plait_durable_orphan_seconds", "The longest time for which one had no connected client.",
                totals.away_s)  # fmt: skip
    yield gauge("plait_durable_backlog_events", "Events stored for durable subscriptions and not acknowledged.",
                totals.events)  # fmt: skip
    yield gauge("plait_durable_backlog_bytes", "Size of the events that are not acknowledged.", totals.bytes)
    yield gauge("plait_durable_backlog_seconds", "Age of the oldest event that is not acknowledged.", totals.oldest_s)
    yield gauge("plait_durable_uncounted", "Durable subscriptions whose backlog is still being counted.",
                totals.uncounted)  # fmt: skip

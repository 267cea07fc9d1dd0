"""Recording rules and alerts for Prometheus over the brokers' metrics.

An alert has a query and a condition. They are separate so that a test can check with a real Prometheus that the query
finds series while nothing is wrong. docs/reference/alerts.md has a section with the name of each alert.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

LOST: Final = "durability|gone|invalid|outbox_bytes|outbox_items|overlay_full|retention|unreachable"
"""Drop reasons that mean a loss for a subscriber, as in `plait_broker.drop_reasons`. The other reasons are requested
behaviour."""


class Recording(NamedTuple):
    """A query that Prometheus evaluates all the time, under a name."""

    name: str
    query: str


class Alert(NamedTuple):
    """A fault that exists when `query condition` has been true for `lasting`."""

    name: str
    severity: str
    query: str
    condition: str
    lasting: str
    summary: str


def _percentile(fraction: float, histogram: str, by: str = "broker") -> str:
    return f"histogram_quantile({fraction}, sum by ({by}, le) (rate({histogram}_bucket[1m])))"


_DROPPED: Final = 'sum by (broker) (rate(plait_events_dropped_total{reason="late"}[5m]))'
_DELIVERED: Final = "sum by (broker) (rate(plait_events_delivered_total[5m]))"
_LATE: Final = "sum by (broker) (rate(plait_events_late_total[5m]))"
"""Late events, dropped or delivered with a flag."""

RECORDINGS: Final = (
    Recording("broker:plait_events_published:rate1m", "sum by (broker) (rate(plait_events_published_total[1m]))"),
    Recording("broker:plait_events_delivered:rate1m", "sum by (broker) (rate(plait_events_delivered_total[1m]))"),
    Recording(
        "broker:plait_events_lost:rate1m",
        f'sum by (broker) (rate(plait_events_dropped_total{{reason=~"{LOST}"}}[1m]))',
    ),
    Recording("broker:plait_delivery_delay_seconds:p50", _percentile(0.5, "plait_delivery_delay_seconds")),
    Recording("broker:plait_delivery_delay_seconds:p99", _percentile(0.99, "plait_delivery_delay_seconds")),
    Recording("broker:plait_matching_seconds:p99", _percentile(0.99, "plait_matching_seconds")),
    Recording("broker:plait_loop_lag_seconds:p99", _percentile(0.99, "plait_loop_lag_seconds")),
    Recording(
        "broker:plait_late:ratio5m",
        f"{_LATE} / ({_DROPPED} + {_DELIVERED} > 0)",
    ),
)

ALERTS: Final = (
    Alert("BrokerDown", "critical", 'up{job="plait"}', "== 0", "30s", "{{ $labels.broker }} does not answer"),
    Alert(
        "OverlaySplit", "critical", "plait_brokers_known - plait_brokers_reachable", "> 0", "30s",
        "{{ $labels.broker }} has no path to {{ $value }} brokers",
    ),
    Alert(
        "LinkLost", "warning", "max_over_time(plait_links[1h]) - plait_links", "> 0", "1m",
        "{{ $labels.broker }} has {{ $value }} links fewer than within the last hour",
    ),
    Alert(
        "LinkSilent", "warning", "plait_link_up", "== 0", "10s",
        "{{ $labels.neighbour }} does not answer {{ $labels.broker }}",
    ),
    Alert(
        "LinkFull", "warning", "plait_link_full", "== 1", "1m",
        "the link from {{ $labels.broker }} to {{ $labels.neighbour }} is given more events than it carries",
    ),
    Alert(
        "RoutesFlapping", "warning", "rate(plait_route_changes_total[10m])", "> 0.2", "10m",
        "{{ $labels.broker }} changes paths {{ $value | humanize }} times a second",
    ),
    Alert(
        "EventsLost", "warning", f'rate(plait_events_dropped_total{{reason=~"{LOST}"}}[5m])', "> 0", "1m",
        "{{ $labels.broker }} loses {{ $value | humanize }} events a second: {{ $labels.reason }}",
    ),
    Alert(
        "BoundsMissed", "warning", "broker:plait_late:ratio5m", "> 0.01", "5m",
        "{{ $labels.broker }}: {{ $value | humanizePercentage }} of deliveries come too late",
    ),
    Alert(
        "ClientsLoseEvents", "warning", "plait_losing_subscriptions", "> 0", "1m",
        "clients of {{ $value }} subscriptions of {{ $labels.broker }} drop events",
    ),
    Alert(
        "SlowConsumers", "warning", "plait_slow_consumers", "> 0", "5m",
        "{{ $value }} subscriptions of {{ $labels.broker }} fall behind",
    ),
    Alert(
        "DurableBehind", "warning", "plait_durable_backlog_seconds", "> 3600", "5m",
        "{{ $labels.broker }} keeps an event for a durable subscription since {{ $value | humanizeDuration }}",
    ),
    Alert(
        "LogFailing", "critical", "plait_log_failing", "== 1", "10s",
        "{{ $labels.broker }} cannot store events, and refuses durable ones",
    ),
    Alert(
        "LogDamaged", "critical", "increase(plait_log_records_damaged_total[1h])", "> 0", "0s",
        "{{ $labels.broker }} found damaged events in its log",
    ),
    Alert(
        "LoopBlocked", "warning", "broker:plait_loop_lag_seconds:p99", "> 0.1", "5m",
        "the loop of {{ $labels.broker }} runs {{ $value | humanizeDuration }} late",
    ),
    Alert(
        "Forged", "critical", 'increase(plait_overlay_incidents_total{incident=~"forged|incarnation_claimed"}[10m])',
        "> 0", "0s",
        "{{ $labels.broker }} received forged messages",
    ),
    Alert(
        "WrongTokens", "warning", 'rate(plait_rejected_total{code="auth"}[5m])', "> 1", "2m",
        "{{ $value | humanize }} connections a second to {{ $labels.broker }} have a wrong token",
    ),
    Alert(
        "TelemetryLost", "warning", "increase(plait_telemetry_lost_total[5m])", "> 0", "0s",
        "{{ $labels.broker }} lost {{ $value | humanize }} records of telemetry",
    ),
    Alert(
        "FilesScarce", "warning", 'process_open_fds{job="plait"} / process_max_fds{job="plait"}', "> 0.9", "1m",
        "{{ $labels.broker }} has nearly reached its limit of open files",
    ),
)  # fmt: skip


def recording_rules() -> str:
    """Return the rules file with the recording rules."""
    rules = [f"      - record: {record.name}\n        expr: {json.dumps(record.query)}" for record in RECORDINGS]
    return _HEAD + "groups:\n  - name: plait\n    rules:\n" + "\n".join(rules) + "\n"


def alerting_rules(runbooks: str) -> str:
    """Return the rules file with the alerts, which link to their sections of the page `runbooks`."""
    return (
        _HEAD + "groups:\n  - name: plait-alerts\n    rules:\n" + "\n".join(_rule(a, runbooks) for a in ALERTS) + "\n"
    )


def _rule(alert: Alert, runbooks: str) -> str:
    return f"""      - alert: {alert.name}
        expr: {json.dumps(f"{alert.query} {alert.condition}")}
        for: {alert.lasting}
        labels: {{severity: {alert.severity}}}
        annotations:
          summary: {json.dumps(alert.summary)}
          runbook_url: {json.dumps(f"{runbooks}#{alert.name.lower()}")}"""


_HEAD: Final = "# Written by `plait gen prometheus`.\n"

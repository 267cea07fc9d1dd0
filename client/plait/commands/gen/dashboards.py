"""Dashboards: the query of each panel, for the brokers selected at the top of the page."""

from __future__ import annotations

from typing import Final

from .panels import Dashboard, Panel
from .rules import LOST

_HERE: Final = 'broker=~"$broker"'


def _rate(metric: str, labels: str = "", by: str = "broker") -> str:
    return f"sum by ({by}) (rate({metric}{{{_HERE}{labels}}}[1m]))"


def _percentile(fraction: float, metric: str) -> str:
    return f"histogram_quantile({fraction}, sum by (broker, le) (rate({metric}_bucket{{{_HERE}}}[1m])))"


def _heat(metric: str) -> str:
    return f"sum by (le) (increase({metric}_bucket{{{_HERE}}}[$__rate_interval]))"


def _now(metric: str, labels: str = "") -> str:
    return f"{metric}{{{_HERE}{labels}}}"


def _each(title: str, metric: str, unit: str = "short", says: str = "", labels: str = "") -> Panel:
    """Return a panel with a line for each broker."""
    return Panel(title, ((_now(metric, labels), "{{broker}}"),), unit, says=says)


def _link(title: str, query: str, unit: str, says: str = "", kind: str = "timeseries") -> Panel:
    """Return a panel with a line for each link and direction."""
    return Panel(title, ((query, "{{broker}} → {{neighbour}}"),), unit, kind, says, width=12)


def _stat(title: str, query: str, unit: str = "short", says: str = "", bad_from: float | None = None,
          bad_below: float | None = None) -> Panel:  # fmt: skip
    return Panel(title, ((query, ""),), unit, "stat", says, 4, 4, bad_from, bad_below)


_LOST: Final = f', reason=~"{LOST}"'

OVERVIEW: Final = Dashboard(
    "overview",
    "Plait: overview",
    "State and throughput of all brokers.",
    (
        _stat("Brokers up", f'sum(up{{job="plait", {_HERE}}})', bad_below=1),
        _stat("Published", f"sum({_rate('plait_events_published_total')})", "eps"),
        _stat("Delivered", f"sum({_rate('plait_events_delivered_total')})", "eps"),
        _stat("Delay, 99%", f"max({_percentile(0.99, 'plait_delivery_delay_seconds')})", "s"),
        _stat("Lost", f"sum({_rate('plait_events_dropped_total', _LOST)})", "eps", "Events lost to subscribers.", 1e-9),
        _stat("Out of reach", f"max(plait_brokers_known{{{_HERE}}} - plait_brokers_reachable{{{_HERE}}})", bad_from=1),
        Panel("Published", ((_rate("plait_events_published_total"), "{{broker}}"),), "eps"),
        Panel("Delivered", ((_rate("plait_events_delivered_total"), "{{broker}}"),), "eps"),
        Panel("Between brokers", (
            (_rate("plait_events_forwarded_total"), "{{broker}} forwards"),
            (_rate("plait_events_arrived_total"), "{{broker}} receives"),
        ), "eps"),
        Panel("Drops by reason", ((_rate("plait_events_dropped_total", by="reason"), "{{reason}}"),), "eps",
              says="`unmatched` events match no subscription. They end at their broker."),
        Panel("Delivery delay", (
            (_percentile(0.5, "plait_delivery_delay_seconds"), "{{broker}} 50%"),
            (_percentile(0.99, "plait_delivery_delay_seconds"), "{{broker}} 99%"),
        ), "s"),
        _each("Waiting for subscribers", "plait_delivery_queue_events"),
        _each("Clients", "plait_connections"),
        Panel("Processor", ((f"rate(process_cpu_seconds_total{{{_HERE}}}[1m])", "{{broker}}"),), "percentunit",
              says="Share of one core: a broker uses at most one."),
        _each("Memory", "process_resident_memory_bytes", "bytes"),
        Panel("Loop busy", ((f"rate(plait_loop_busy_seconds_total{{{_HERE}}}[1m])", "{{broker}}"),), "percentunit",
              says="Share of the time in which the loop reads, matches and writes."),
    ),
)  # fmt: skip

LINKS: Final = Dashboard(
    "links",
    "Plait: links",
    "Each link and direction between brokers.",
    (
        _link("Delay", _now("plait_link_delay_seconds"), "s", "Half the round trip, smoothed; paths follow it."),
        _link("Jitter", _now("plait_link_jitter_seconds"), "s"),
        _link("Events", f"rate(plait_link_events_total{{{_HERE}}}[1m])", "eps"),
        _link("Waiting", _now("plait_link_queue_bytes_max"), "bytes", "Most bytes that waited within ten seconds."),
        _link("Waiting time, 99%", _now("plait_link_wait_p99_seconds"), "s", "How long events waited for the link."),
        _link("Utilisation", _now("plait_link_utilisation_ratio"), "percentunit",
              "Of the capacity, which is known once the link was full."),
        _link("Traffic", f"rate(plait_link_bytes_total{{{_HERE}}}[1m])", "Bps", "Bytes of events."),
        _link("Capacity", _now("plait_link_capacity_bytes_per_second"), "Bps", "0 until the link was full once."),
        _link("Capacity, as it arrives", _now("plait_link_arriving_capacity_bytes_per_second"), "Bps",
              "Of the lane from the neighbour, measured here."),
        _link("Full", _now("plait_link_full"), "short", "Events wait for a second or longer.", "state-timeline"),
        Panel("Delay of events, 99%", ((_now("plait_link_transit_p99_seconds"), "{{neighbour}} → {{broker}}"),), "s",
              says="From the write at the neighbour to the read.", width=12),
        _link("Loss of pings", _now("plait_link_loss_ratio"), "percentunit"),
        _link("Up", _now("plait_link_up"), "short", "The series ends when the link is removed.", "state-timeline"),
        _each("Links", "plait_links"),
        _each("Brokers within reach", "plait_brokers_reachable"),
        Panel("Changes of path", ((_rate("plait_route_changes_total"), "{{broker}}"),), "ops"),
        _each("Unacknowledged", "plait_stream_events", says="Events that other brokers have not acknowledged yet."),
        Panel("Retransmitted", ((_rate("plait_events_retransmitted_total"), "{{broker}}"),), "eps"),
        Panel("Incidents", ((_rate("plait_overlay_incidents_total", by="broker, incident"),
                                       "{{broker}} {{incident}}"),), "ops"),
    ),
)  # fmt: skip

SUBSCRIPTIONS: Final = Dashboard(
    "subscriptions",
    "Plait: subscriptions and delays",
    "Subscriptions, their delays and their backlogs.",
    (
        Panel("Delivery delay", ((_heat("plait_delivery_delay_seconds"), "{{le}}"),), "s", "heatmap", width=12),
        Panel("From read to matched", ((_heat("plait_matching_seconds"), "{{le}}"),), "s", "heatmap", width=12),
        Panel("Delivery delay, percentiles", tuple(
            (_percentile(fraction, "plait_delivery_delay_seconds"), f"{{{{broker}}}} {name}")
            for fraction, name in ((0.5, "50%"), (0.9, "90%"), (0.99, "99%"), (0.999, "99.9%"))
        ), "s"),
        Panel("Too late", (("broker:plait_late:ratio5m", "{{broker}}"),), "percentunit",
              says="Deliveries beyond their subscription's delay bound, dropped or flagged."),
        Panel("Matching, 99%", ((_percentile(0.99, "plait_matching_seconds"), "{{broker}}"),), "s"),
        _each("Subscriptions", "plait_subscriptions"),
        _each("Advertisements", "plait_advertisements"),
        _each("Slow subscriptions", "plait_slow_consumers", says="Subscriptions whose queue is at least half full."),
        _each("Waiting for subscribers", "plait_delivery_queue_bytes", "bytes"),
        _each("Waiting for confirmation", "plait_unconfirmed_events"),
        _each("Backlog of durable subscriptions", "plait_durable_backlog_events",
              says="Events that are stored and not acknowledged. After a start the broker counts them in the log."),
        _each("Oldest event of a backlog", "plait_durable_backlog_seconds", "s"),
        _each("Durable subscriptions without a client", "plait_durable_orphans",
              says="`plait durable ls` names them, `plait durable rm` removes one."),
        Panel("Lost", ((_rate("plait_events_dropped_total", _LOST, "broker, reason"),
                        "{{broker}} {{reason}}"),), "eps"),
        Panel("Dropped by clients", ((_rate("plait_client_events_dropped_total", by="broker, reason"),
                                      "{{broker}} {{reason}}"),), "eps",
              says="Deliveries that applications have not seen, as their clients report."),
        Panel("In queues, 99%", ((_percentile(0.99, "plait_waiting_seconds"), "{{broker}}"),), "s",
              says="Waiting time of deliveries that had to wait for their subscriber."),
        Panel("Tags of sealed events", ((_rate("plait_tags_total", by="outcome"), "{{outcome}}"),), "ops"),
        Panel("Refused", ((_rate("plait_rejected_total", by="code"), "{{code}}"),), "ops"),
        Panel("Broken frames", ((_rate("plait_faults_total", by="fault"), "{{fault}}"),), "ops"),
        Panel("Loop runs late, 99%", ((_percentile(0.99, "plait_loop_lag_seconds"), "{{broker}}"),), "s"),
    ),
)  # fmt: skip

STORAGE: Final = Dashboard(
    "telemetry",
    "Plait: log and telemetry",
    "Writes to disk.",
    (
        Panel("Records of telemetry", ((_rate("plait_telemetry_records_total"), "{{broker}}"),), "ops"),
        Panel("Records lost", ((_rate("plait_telemetry_lost_total"), "{{broker}}"),), "ops"),
        _each("Events for each record", "plait_telemetry_weight", says="Above 1 events are sampled."),
        Panel("Records as events", (
            (_rate("plait_system_events_total"), "{{broker}} published"),
            (_rate("plait_system_missed_total"), "{{broker}} dropped"),
        ), "ops", says="Published while a subscription names $ attributes."),
        Panel("Deleted unread", ((_rate("plait_telemetry_unread_deleted_total"), "{{broker}}"),), "ops",
              says="Segments that were deleted at the size limit before a remote reader had read them."),
        _each("Events in the log", "plait_log_records"),
        _each("Size of the log", "plait_log_bytes", "bytes"),
        _each("Last commit", "plait_log_last_commit_seconds", "s"),
        Panel("Stored", ((_rate("plait_log_records_stored_total"), "{{broker}}"),), "eps"),
        _each("Waiting for the disk", "plait_log_queue_events"),
        Panel("Commits", (
            (_rate("plait_log_commits_total"), "{{broker}} stored"),
            (_rate("plait_log_commits_failed_total"), "{{broker}} failed"),
        ), "ops"),
        Panel("Failing", (
            (_now("plait_log_failing"), "{{broker}} log"),
            (_now("plait_telemetry_failing"), "{{broker}} telemetry"),
        )),
    ),
)  # fmt: skip

DASHBOARDS: Final = (OVERVIEW, LINKS, SUBSCRIPTIONS, STORAGE)

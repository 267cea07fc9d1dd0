"""Metrics of other brokers, and of each link to one.

The label of a link is its neighbour's name, which survives the neighbour's restarts: there are never more series than
links. If two neighbours have the same name, the series is that of the link with more traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric

from ...overlay.transport.lane_figures import PEAKS
from ...status import link_loss
from .metric_types import counter, counters, gauge, gauges

if TYPE_CHECKING:
    from ...broker_view import BrokerView
    from ...overlay.topology.neighbours import Neighbour

INCIDENTS: Final = {
    "bad_documents": "a stored document of another broker cannot be read",
    "bad_filters": "a filter of another broker cannot be parsed here",
    "bad_messages": "a message of another broker is malformed",
    "brokers_refused": "an overlay has too many brokers, and one was ignored",
    "detours": "a frame was sent along a source route, around a path that loses frames",
    "documents_refused": "too many documents that this version cannot read",
    "origin_refused": "a broker floods more documents than one may, and one was refused",
    "disputed": "a neighbour advertises a far shorter delay of its link here than is measured",
    "control_lost": "a message for one other broker had no route",
    "expired": "a copy passed its event's lifetime on the way",
    "forged": "a message failed its MAC or its signature",
    "false_echoes": "a neighbour acknowledged events that were not sent to it",
    "group_acks_twice": "a member of a stream group acknowledged something twice",
    "group_acks_wrong": "the acknowledgement of a member of a stream group was wrong, and the member left the group",
    "group_members_moved": "a member of a stream group did not acknowledge, or lost its path, and left the group",
    "group_repairs": "events of a stream group were missing, and were asked for again",
    "group_strays": "events of a stream group came from a broker that is not the parent in its tree",
    "groups_opened": "an event had too many destinations, and a stream group was opened",
    "links_mute": "a neighbour answered pings and acknowledged no event for long, and the link to it was closed",
    "lane_full": "too many copies waited for a link, and one was dropped; it is retransmitted",
    "links_dead": "a link was closed because nothing was received on it",
    "loops": "a message came back to its source, and was dropped",
    "no_way": "a copy had no next hop; it is retransmitted when there is one",
    "advertisements_unacked": "a broker did not acknowledge an advertisement in time",
    "overlay_full": "too many events were kept for a broker, and the oldest was dropped",
    "relays_refused": "a neighbour exceeded the rate of messages that one broker may have relayed",
    "tree_entries_refused": "an entry of a neighbour's message for the tree tables was refused",
    "unexpected": "a neighbour sent a frame that it has no reason to send",
    "unknown_documents": "a document of a kind that this version does not know was stored and relayed",
    "unknown_frames": "a neighbour sent a frame of a type that this version does not know",
    "unknown_messages": "another broker sent a message of a kind that this version does not know",
    "unreachable": "an unreachable broker was removed with everything kept for it",
    "interest_unacked": "a broker did not acknowledge an interest update in time",
    "incarnation_claimed": "a broker claimed the log of another",
}
"""The overlay's counters of unusual occurrences."""


def overlay_metrics(broker: BrokerView, now: float) -> Iterator[Metric]:
    """Yield the metrics of the overlay as this broker sees it."""
    overlay, counted = broker.overlay, broker.counters
    counts = overlay.counts + overlay.strategy.counts
    distances = overlay.map.distances(broker.id)
    streams = overlay.event_streams.outgoing.values()
    yield counter("plait_events_forwarded", "Copies of events handed to neighbours.", counted.forwarded)
    yield counter("plait_events_arrived", "Events from other brokers for subscribers here.", counted.arrived)
    yield counter(
        "plait_events_retransmitted",
        "Copies of events retransmitted because they were not acknowledged.",
        counts["again"],
    )
    yield gauge("plait_brokers_known", "Brokers in the link state, including this one.", len(overlay.map.link_states))
    yield gauge("plait_brokers_reachable", "Reachable brokers, including this one.", len(distances))
    yield counter("plait_route_changes", "Changes of the next hop to a broker.", overlay.routes.changes)
    yield gauge("plait_stream_events", "Events kept until their destinations acknowledge them.",
                sum(len(stream.kept) + len(stream.waiting) for stream in streams))  # fmt: skip
    yield gauge("plait_stream_bytes", "Size of the events kept until their destinations acknowledge them.",
                sum(stream.kept_bytes + stream.waiting_bytes for stream in streams))  # fmt: skip
    yield gauge("plait_stream_waiting_events", "Events that wait until the window of their stream has room.",
                sum(len(stream.waiting) for stream in streams))  # fmt: skip
    yield counters("plait_overlay_incidents", "Unusual occurrences between brokers.", "incident", INCIDENTS,
                   {incident: counts[incident] for incident in INCIDENTS})  # fmt: skip
    yield from _links(broker, now)


def _links(broker: BrokerView, now: float) -> Iterator[Metric]:
    neighbours = sorted(broker.overlay.neighbours.values(), key=lambda neighbour: neighbour.sent)
    named = {neighbour.name: neighbour for neighbour in neighbours}
    yield gauge("plait_links", "Links to other brokers.", len(neighbours))
    yield gauges("plait_link_up", "1 while the neighbour answers, 0 while pings stay unanswered.", "neighbour",
                 {name: int(near.unanswered(now) <= 1) for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_delay_seconds", "Delay to the neighbour: half the round trip, smoothed.", "neighbour",
                 {name: near.delay_us / 1_000_000 for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_jitter_seconds", "How much the delay to the neighbour varies, smoothed.", "neighbour",
                 {name: near.jitter_us / 1_000_000 for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_loss_ratio", "Share of the last pings to the neighbour without an answer.", "neighbour",
                 {name: link_loss(near, now) for name, near in named.items()})  # fmt: skip
    yield counters("plait_link_events", "Copies of events handed to the neighbour since the link came up.",
                   "neighbour", (), {name: near.sent for name, near in named.items()})  # fmt: skip
    yield from _lanes(named, now)


def _lanes(named: Mapping[str, Neighbour], now: float) -> Iterator[Metric]:
    """Yield the metrics of the lane to each neighbour."""
    lanes = {name: near.lane for name, near in named.items()}
    oldest = {name: lane.queue.oldest_at() for name, lane in lanes.items()}
    used = {name: lane.figures.utilisation(now) for name, lane in lanes.items()}
    waits = {name: lane.figures.waits.percentile_us(0.99) for name, lane in lanes.items()}
    arrivals = {name: near.arrivals.percentile_us(0.99) for name, near in named.items()}
    yield gauges("plait_link_full", "1 while events have waited for the link for a second or longer.", "neighbour",
                 {name: int(lane.figures.is_full(now)) for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_queue_events", "Events that wait for the link to the neighbour.", "neighbour",
                 {name: lane.queue.items for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_queue_bytes", "Bytes of events that wait for the link to the neighbour.", "neighbour",
                 {name: lane.queue.bytes for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_queue_bytes_max", "Most bytes that have waited for the link in the last ten seconds.",
                 "neighbour", {name: lane.figures.peak(PEAKS, now).bytes for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_queue_seconds", "How long the oldest of the events has waited for the link.", "neighbour",
                 {name: 0.0 if at is None else now - at for name, at in oldest.items()})  # fmt: skip
    yield gauges("plait_link_capacity_bytes_per_second", "Greatest rate of the link while events waited; 0: unknown.",
                 "neighbour", {name: lane.figures.capacity.bytes_per_s for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_arriving_capacity_bytes_per_second",
                 "Greatest rate at which bytes arrived while the neighbour's events waited; 0: unknown.",
                 "neighbour", {name: lane.figures.arrivals.bytes_per_s for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_utilisation_ratio", "Share of its capacity that the link used lately; NaN: unknown.",
                 "neighbour", {name: _known(share) for name, share in used.items()})  # fmt: skip
    yield counters("plait_link_bytes", "Bytes of events handed to the neighbour since the link came up.",
                   "neighbour", (), {name: lane.figures.bytes for name, lane in lanes.items()})  # fmt: skip
    yield gauges("plait_link_wait_p99_seconds", "How long 99% of the last events have waited for the link at most.",
                 "neighbour", {name: _known(us) / 1_000_000 for name, us in waits.items()})  # fmt: skip
    yield gauges("plait_link_transit_p99_seconds", "Transit delay that 99% of the neighbour's last events had at most.",
                 "neighbour", {name: _known(us) / 1_000_000 for name, us in arrivals.items()})  # fmt: skip


def _known(value: float | None) -> float:
    return nan if value is None else value

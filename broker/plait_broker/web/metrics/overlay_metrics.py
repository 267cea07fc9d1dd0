"""What the metrics page says of other brokers, and of each link to one.

A link is labelled by its neighbour's name, which outlives the neighbour's restarts: there are never more series than
links. Should two neighbours have one name, the link that is used more speaks for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric

from ...status import link_loss
from .metric_types import counter, counters, gauge, gauges

if TYPE_CHECKING:
    from ...broker import Broker

INCIDENTS: Final = {
    "bad_filters": "a filter of another broker cannot be parsed here",
    "bad_messages": "a message of another broker is malformed",
    "brokers_refused": "there are more brokers than an overlay can have, and one was not taken for one",
    "detours": "a frame was sent along a source route, around a path that loses frames",
    "documents_refused": "too many documents that this version cannot read",
    "disputed": "a neighbour floods a far shorter delay of its link here than is measured",
    "control_lost": "a message for one other broker found no way",
    "expired": "a copy passed its event's lifetime on the way",
    "forged": "a MAC or a signature is not its alleged author's",
    "relay_buffer_full": "too many events waited for brokers to learn that such events may come",
    "links_dead": "a link was given up because nothing came over it",
    "loops": "a message came back to its source, and was dropped",
    "no_way": "nobody could be handed a copy; it is sent again when there is someone",
    "advertisements_unacked": "a broker did not ack an advertisement of this one in time",
    "overlay_full": "too much was kept for a broker, and the oldest was dropped",
    "relays_refused": "a neighbour sent more to relay than others can take from one broker",
    "unexpected": "a neighbour sent a frame that it has no reason to send",
    "unknown_documents": "a document of a kind that this version does not know was stored and relayed",
    "unknown_frames": "a neighbour sent a frame of a type that this version does not know",
    "unknown_messages": "another broker sent a message of a kind that this version does not know",
    "unreachable": "a broker was forgotten with what was kept for it",
    "interest_unacked": "a broker did not ack an interest update in time",
    "incarnation_claimed": "a broker claimed the log of another",
}
"""The counters of the overlay that are out of the ordinary."""


def overlay_metrics(broker: Broker, now: float) -> Iterator[Metric]:
    """The overlay, as this broker sees it."""
    overlay, told = broker.joining.overlay, broker.counters
    counts = overlay.counts
    distances = overlay.map.distances(broker.id)
    streams = overlay.dissemination.outgoing.values()
    yield counter("plait_events_forwarded", "Copies of events handed to neighbours.", told.forwarded)
    yield counter("plait_events_arrived", "Events from other brokers for subscribers here.", told.arrived)
    yield counter(
        "plait_events_retransmitted", "Copies of events sent again because nobody reported them.", counts["again"]
    )
    yield gauge("plait_brokers_known", "Brokers on the map, this one included.", len(overlay.map.link_states))
    yield gauge("plait_brokers_reachable", "Brokers that a path leads to, this one included.", len(distances))
    yield counter("plait_route_changes", "Times that events for a broker took to another link.", overlay.routes.changes)
    yield gauge("plait_stream_events", "Events kept until the brokers they are for have taken them.",
                sum(len(stream.kept) for stream in streams))  # fmt: skip
    yield gauge("plait_stream_bytes", "Size of the events kept until the brokers they are for have taken them.",
                sum(stream.kept_bytes for stream in streams))  # fmt: skip
    yield counters("plait_overlay_incidents", "What went out of the ordinary between brokers.", "incident", INCIDENTS,
                   {incident: counts[incident] for incident in INCIDENTS})  # fmt: skip
    yield from _links(broker, now)


def _links(broker: Broker, now: float) -> Iterator[Metric]:
    neighbours = sorted(broker.joining.overlay.neighbours.values(), key=lambda neighbour: neighbour.sent)
    named = {neighbour.name: neighbour for neighbour in neighbours}
    waiting = {link.id: link.data_bytes for link, _ in broker.connections if link.neighbour}
    yield gauge("plait_links", "Links to other brokers.", len(neighbours))
    yield gauges("plait_link_up", "1 while the neighbour answers, 0 while pings stay unanswered.", "neighbour",
                 {name: int(near.unanswered(now) <= 1) for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_delay_seconds", "Delay to the neighbour: half the round trip, smoothed.", "neighbour",
                 {name: near.delay_us / 1_000_000 for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_jitter_seconds", "How much the delay to the neighbour varies, smoothed.", "neighbour",
                 {name: near.jitter_us / 1_000_000 for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_loss_ratio", "Share of the last pings to the neighbour without answer.", "neighbour",
                 {name: link_loss(near, now) for name, near in named.items()})  # fmt: skip
    yield gauges("plait_link_queue_bytes", "Bytes of events that wait for the connection to the neighbour.",
                 "neighbour", {name: waiting.get(near.link, 0) for name, near in named.items()})  # fmt: skip
    yield counters("plait_link_events", "Copies of events handed to the neighbour since the link came up.",
                   "neighbour", (), {name: near.sent for name, near in named.items()})  # fmt: skip

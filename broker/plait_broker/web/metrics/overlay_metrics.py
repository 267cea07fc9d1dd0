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
    "bad_filters": "a broker offers or wants something by a filter that cannot be read here",
    "brokers_refused": "there are more brokers than an overlay can have, and one was not taken for one",
    "detours": "something was sent around the usual way, which lost it",
    "disputed": "a neighbour tells others that its link here is far faster than it is",
    "control_lost": "a message for one other broker found no way",
    "expired": "a copy passed its event's lifetime on the way",
    "forged": "something failed its proof or its signature",
    "relay_buffer_full": "too many events waited for brokers to learn that such events may come",
    "links_dead": "a link was given up because nothing was heard of it",
    "loops": "what is wanted came back to the broker that wants it, and was dropped",
    "no_way": "nobody could be handed a copy; it is sent again when there is someone",
    "advertisements_unacked": "a broker did not tell in time that it has seen what is offered here",
    "overlay_full": "too much was kept for a broker, and the oldest was dropped",
    "relays_refused": "a neighbour wanted more passed on to others than they could take from one broker",
    "unexpected": "a neighbour said what it has no reason to say",
    "unreachable": "a broker was forgotten with what was kept for it",
    "interest_unacked": "a broker did not answer in time to what subscribers want of it",
    "incarnation_claimed": "a broker claimed the log of another",
}
"""Of all that the overlay counts, what is out of the ordinary."""


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
    yield gauge("plait_brokers_known", "Brokers on the map, this one included.", len(overlay.map.sheets))
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
    waiting = {link.id: link.data_bytes for link, _ in broker.links if link.neighbour}
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

"""One broker's summary for the live page, which requests it from every broker up to twice a second.

Counters only rise and gauges are current values; the reader divides two summaries by the difference of their `at`. Only
the most interesting subscriptions are included: slow ones, those that miss their bound, the busiest. A summary never
contains a secret.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from plait_core.ids import id_text
from plait_core.values import Json

from ..histograms import DelayHistogram
from ..status import neighbour_facts, queue_facts

if TYPE_CHECKING:
    from ..broker_view import BrokerView
    from ..clients.sessions import Subscription

ResourceFacts: TypeAlias = Callable[[], Json]

SUBSCRIPTIONS_SHOWN: Final = 24
"""Subscriptions in one summary; a page of sixty brokers then has over a thousand rows."""

SUBSCRIPTIONS_LOOKED_AT: Final = 4_000
"""Subscriptions to choose from, the oldest first: examining them takes two milliseconds."""

LINKS_SHOWN: Final = 64

FILTER_CHARACTERS: Final = 240
"""Characters of a filter that are shown."""

BROKEN: Final = ("forged", "bad_filters", "unexpected", "loops", "incarnation_claimed", "disputed")
"""Counters of the overlay that rise only because of a faulty or hostile broker."""


def describe_summary(broker: BrokerView, question: Json, now: float) -> Json:
    """Return the summary of a broker."""
    counters, overlay = broker.counters, broker.overlay
    sessions = broker.sessions.all()
    return {
        "at": round(now, 6),
        "name": broker.settings.name,
        "id": id_text(broker.id),
        "draining": broker.draining,
        "uptime_s": round(now - broker.started_at, 1),
        "counts": {
            "published": counters.published,
            "delivered": counters.delivered,
            "forwarded": counters.forwarded,
            "arrived": counters.arrived,
            "late": counters.late,
            "logged": counters.logged,
            "bytes_in": counters.bytes_in,
            "bytes_out": counters.bytes_out,
            "rerouted": overlay.routes.changes,
            "links_dead": overlay.counts["links_dead"],
        },
        "dropped": {reason.value: count for reason, count in sorted(counters.dropped.items()) if count},
        "rejected": dict(sorted(counters.rejected.items())),
        "faults": dict(sorted(counters.faults.items())),
        "broken": {name: overlay.counts[name] for name in BROKEN if overlay.counts[name]},
        "times": {
            "delivery": _sparse(counters.delivery_delays),
            "matching": _sparse(counters.matching_times),
            "waiting": _sparse(counters.waiting_times),
        },
        "clients": sum(session.connection is not None for session in sessions),
        "sessions": len(sessions),
        "subscriptions": len(broker.interest),
        "durables": len(broker.durables),
        "advertisements": len(broker.interest.advertisements),
        "exported": overlay.interest_sync.exported,
        "table": len(overlay.remote_interest) + len(broker.interest),
        "awaiting": len(broker.confirmations),
        **queue_facts(broker.interest),
        "links": _links(broker, now),
        "shown": [_subscription(one) for one in _worth_showing(broker)],
        "resources": broker.explainer.resources(),
    }


def _sparse(times: DelayHistogram) -> Json:
    """Return the counts that are not zero, by the number of bits of their microseconds."""
    return {str(bits): count for bits, count in enumerate(times.counts) if count}


def _links(broker: BrokerView, now: float) -> list[Json]:
    """Return the links to other brokers."""
    links = ((link, at) for link, at in broker.connections if link.neighbour)
    return [
        neighbour_facts(link, broker, now) | {"pending_bytes": link.data_bytes}
        for link, _ in islice(links, LINKS_SHOWN)
    ]


def _worth_showing(broker: BrokerView) -> list[Subscription]:
    looked_at = islice(broker.interest.subscriptions, SUBSCRIPTIONS_LOOKED_AT)
    return heapq.nlargest(SUBSCRIPTIONS_SHOWN, looked_at, key=_urgency)


def _urgency(subscription: Subscription) -> tuple[int, int, int, int]:
    """Sort slow subscriptions first, then those that missed their bound, those with a bound, the busiest."""
    missed = subscription.late + subscription.dropped.total()
    return len(subscription.outbox), missed, bool(subscription.within_us), subscription.delivered


def _subscription(subscription: Subscription) -> Json:
    session, delays = subscription.session, subscription.delays
    p50, p99 = (None, None) if delays is None else (delays.percentile_us(0.5), delays.percentile_us(0.99))
    return {
        "number": subscription.number,
        "client": session.name,
        "filter": subscription.filter.text[:FILTER_CHARACTERS],
        "within_ms": subscription.within_us / 1000 if subscription.within_us else None,
        "connected": session.connection is not None,
        "durable": bool(subscription.terms.durable),
        "delivered": subscription.delivered,
        "late": subscription.late,
        "dropped": {reason.value: count for reason, count in sorted(subscription.dropped.items())},
        "pending": len(subscription.outbox),
        "pending_bytes": subscription.outbox.bytes,
        "slow": subscription.slow,
        "p50_ms": None if p50 is None else round(p50 / 1000, 3),
        "p99_ms": None if p99 is None else round(p99 / 1000, 3),
    }

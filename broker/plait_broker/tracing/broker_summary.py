"""One broker's summary for the live page, which requests it from every broker up to twice a second.

Counters only rise and gauges are current values; the reader divides two summaries by the difference of their `at`. Only
the most interesting subscriptions are included: slow ones, those that miss their bound, the busiest. A summary always
fits into a QueryResult, and never contains a secret.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from plait_core.ids import id_text
from plait_core.values import Json
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX

from ..histograms import DelayHistogram
from ..status import (
    absent_durable_facts,
    backlog_facts,
    delivery_facts,
    durable_totals,
    is_slow,
    lane_facts,
    neighbour_facts,
    queue_facts,
)

if TYPE_CHECKING:
    from ..broker_view import BrokerView
    from ..clients.sessions import Subscription

ResourceFacts: TypeAlias = Callable[[], Json]

SUBSCRIPTIONS_SHOWN: Final = 24
"""Subscriptions in one summary; a page of sixty brokers then has over a thousand rows."""

SUBSCRIPTIONS_LOOKED_AT: Final = 4_000
"""Subscriptions to choose from, the oldest first: examining them takes two milliseconds."""

ORPHANS_SHOWN: Final = 8
"""Durable subscriptions without a client in one summary, besides the subscriptions."""

LINKS_SHOWN: Final = 64

FILTER_CHARACTERS: Final = 240
"""Characters of a filter that are shown."""

ROWS: Final = ("links", "shown", "incidents")
"""Lists of a summary whose rows may be left out."""

BROKEN: Final = ("forged", "group_acks_wrong", "bad_filters", "unexpected", "loops", "incarnation_claimed", "disputed")
"""Counters of the overlay that rise only because of a faulty or hostile broker."""


def describe_summary(broker: BrokerView, question: Json, now: float) -> Json:
    """Return the summary of a broker, with its incidents after the number that the question names.

    A client determines the length of its filters and name, and a neighbour that of its name. The longest rows are left
    out if the summary is too long for a QueryResult: other brokers would show a broker without a summary as silent.
    """
    counters, overlay = broker.counters, broker.overlay
    sessions, incidents = broker.sessions.all(), broker.explainer.incidents
    after = question.get("after")
    summary: Json = {
        "at": round(now, 6),
        "name": broker.settings.name,
        "id": id_text(broker.id),
        "draining": broker.draining,
        "http": broker.http,
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
        },
        "busy_s": round(counters.busy_s, 3),
        "dropped": {reason.value: count for reason, count in sorted(counters.dropped.items()) if count},
        "client_dropped": {reason.value: count for reason, count in sorted(counters.client_dropped.items()) if count},
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
        "backlog": _backlog(broker),
        "shown": [*(_subscription(one, broker.now_us) for one in _worth_showing(broker)), *_orphans(broker)],
        "resources": broker.explainer.resources(),
        "recorded": incidents.recorded,
        "incidents": incidents.describe(after if isinstance(after, int) else 0, now),
    }
    _shorten(summary)
    return summary


def _shorten(summary: Json) -> None:
    """Remove the longest links, subscriptions and incidents until the summary fits."""
    surplus = len(json.dumps(summary)) - FACTS_CHARACTERS_MAX
    if surplus <= 0:
        return
    sizes = [(len(json.dumps(row)), part, row) for part in ROWS for row in summary[part]]
    for size, part, row in sorted(sizes, key=lambda item: item[0], reverse=True):
        summary[part] = [one for one in summary[part] if one is not row]
        surplus -= size
        if surplus <= 0:
            return


def _sparse(times: DelayHistogram) -> Json:
    """Return the counts that are not zero, by the number of bits of their microseconds."""
    return {str(bits): count for bits, count in enumerate(times.counts) if count}


def _links(broker: BrokerView, now: float) -> list[Json]:
    """Return the links to other brokers."""
    links = ((link, at) for link, at in broker.connections if link.neighbour)
    return [neighbour_facts(link, broker, now) | lane_facts(link.lane, now) for link, _ in islice(links, LINKS_SHOWN)]


def _worth_showing(broker: BrokerView) -> list[Subscription]:
    looked_at = islice(broker.interest.subscriptions, SUBSCRIPTIONS_LOOKED_AT)
    return heapq.nlargest(SUBSCRIPTIONS_SHOWN, looked_at, key=_urgency)


def _orphans(broker: BrokerView) -> list[Json]:
    """Return the durable subscriptions without a client that have the largest backlogs."""
    away = (durable for durable in broker.durables.all() if durable.subscription is None)
    shown = heapq.nlargest(ORPHANS_SHOWN, away, key=lambda durable: (durable.backlog.events, -durable.number))
    blank: Json = {"late": 0, "p50_ms": None, "p99_ms": None}
    return [
        absent_durable_facts(durable)
        | blank
        | backlog_facts(durable, broker.now_us)
        | {"filter": durable.filter.text[:FILTER_CHARACTERS]}
        for durable in shown
    ]


def _backlog(broker: BrokerView) -> Json:
    totals = durable_totals(broker)
    return {"orphans": totals.orphans, "events": totals.events, "bytes": totals.bytes, "oldest_s": totals.oldest_s}


def _urgency(subscription: Subscription) -> tuple[int, int, int, int]:
    """Sort slow subscriptions first, then those that missed their bound, those with a bound, the busiest."""
    figures = subscription.figures
    waiting = subscription.durable.backlog.events if subscription.durable is not None else len(subscription.outbox)
    if figures is not None and subscription.durable is None and is_slow(subscription):
        waiting += figures.waiting
    dropped = figures.dropped.total() if figures is not None else 0
    missed = subscription.late + subscription.dropped.total() + dropped
    return waiting, missed, bool(subscription.within_us), subscription.delivered


def _subscription(subscription: Subscription, now_us: int) -> Json:
    session, delays = subscription.session, subscription.delays
    p50, p99 = (None, None) if delays is None else (delays.percentile_us(0.5), delays.percentile_us(0.99))
    return {
        "number": subscription.number,
        "client": session.name,
        "filter": subscription.filter.text[:FILTER_CHARACTERS],
        "within_ms": subscription.within_us / 1000 if subscription.within_us else None,
        "connected": session.connection is not None,
        "durable": subscription.terms.durable or None,
        "delivered": subscription.delivered,
        "late": subscription.late,
        "dropped": {reason.value: count for reason, count in sorted(subscription.dropped.items())},
        "pending": len(subscription.outbox),
        "pending_bytes": subscription.outbox.bytes,
        "slow": is_slow(subscription),
        **delivery_facts(subscription),
        "p50_ms": None if p50 is None else round(p50 / 1000, 3),
        "p99_ms": None if p99 is None else round(p99 / 1000, 3),
        **backlog_facts(subscription.durable, now_us),
    }

"""The status of a running broker as plain JSON, for the HTTP server and `plait ls`. It never contains a secret.

A client resumes its session with its session id and its token, so neither appears. Clients are named by the name that
they gave, their publisher id and their address.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from plait_core.ids import id_text
from plait_core.values import Json

from .drop_reasons import count_late, count_lost
from .overlay.transport.lane_figures import PEAKS

if TYPE_CHECKING:
    from plait_core.wire.frame_types.overlay_frames import LinkState

    from .broker_view import BrokerView, IndexView
    from .clients.connection import Connection
    from .clients.sessions import ClientAdvertisement, DurableSubscription, Session, Subscription
    from .counters import Counters
    from .histograms import DelayHistogram
    from .overlay import Overlay
    from .overlay.topology.neighbours import Neighbour
    from .overlay.transport.lane import Lane
    from .overlay.transport.lane_figures import ExcessDelays


SHOWN_MAX: Final = 1024
"""Advertisements of other brokers, and filters of theirs, in one description: what a person can look through."""

NOTHING_REPORTED: Final[Json] = {"handed_out": None, "client_waiting": None, "client_dropped": {}}
"""The facts about deliveries in a client that has not reported about them."""

PINGS_COUNTED: Final = 16
"""Last pings to a broker over which its loss ratio is computed: those of about eight seconds."""


def counters_facts(counters: Counters) -> Json:
    """Return all counters, drops by reason."""
    return {
        "published": counters.published,
        "admitted": counters.admitted,
        "delivered": counters.delivered,
        "logged": counters.logged,
        "forwarded": counters.forwarded,
        "arrived": counters.arrived,
        "confirmed": counters.confirmed,
        "late": count_late(counters.dropped, counters.late),
        "lost": count_lost(counters.dropped),
        "refused": counters.refused,
        "delivery_delay_ms": _percentiles_ms(counters.delivery_delays),
        "matching_ms": _percentiles_ms(counters.matching_times),
        "waiting_ms": _percentiles_ms(counters.waiting_times),
        "bytes_in": counters.bytes_in,
        "bytes_out": counters.bytes_out,
        "connections": counters.connections,
        "dropped": {reason.value: count for reason, count in sorted(counters.dropped.items())},
        "faults": dict(sorted(counters.faults.items())),
        "rejected": dict(sorted(counters.rejected.items())),
        "tags": dict(sorted(counters.tags.items())),
        "handed_out": counters.handed_out,
        "client_dropped": {reason.value: count for reason, count in sorted(counters.client_dropped.items())},
        "client_reports": dict(sorted(counters.client_reports.items())),
    }


def _percentiles_ms(times: DelayHistogram) -> Json:
    """Return percentiles in milliseconds, each None while nothing was measured."""
    found = {f"p{percent}": times.percentile_us(percent / 100) for percent in (50, 90, 99)}
    return {name: None if us is None else round(us / 1000, 3) for name, us in found.items()}


def queue_facts(interest: IndexView) -> Json:
    """Return the totals of all delivery queues, and the number of slow consumers."""
    waiting = interest.waiting
    return {"pending": waiting.items, "pending_bytes": waiting.bytes, "slow_consumers": waiting.slow}


def connection_facts(connection: Connection, session: Session | None, now: float) -> Json:
    """Describe one connection."""
    hello = connection.hello
    return {
        "id": connection.id,
        "role": hello.role.value if hello is not None else "unknown",
        "name": session.name if session is not None else "",
        "address": connection.caller.address,
        "open_s": round(now - connection.opened_at, 3),
        "silent_s": round(now - connection.received_at, 3),
        "delay_ms": session.link_delay_us / 1000 if session is not None else None,
        "writable": connection.writable,
    }


def client_facts(session: Session) -> Json:
    """Describe one client, connected or able to resume."""
    return {
        "name": session.name,
        "publisher": id_text(session.publisher),
        "principal": session.principal.name,
        "address": session.connection.caller.address if session.connection is not None else None,
        "connected": session.connection is not None,
        "subscriptions": len(session.subscriptions),
        "advertisements": len(session.advertisements),
        "published": session.published,
        "delivered": session.delivered,
        "pending": sum(len(subscription.outbox) for subscription in session.subscriptions.values()),
        "pending_bytes": session.queued_bytes,
        "delay_ms": session.link_delay_us / 1000,
        "slow": any(is_slow(subscription) for subscription in session.subscriptions.values()),
    }


def delivery_facts(subscription: Subscription) -> Json:
    """Describe what became of a subscription's deliveries in its client. None: the client has not reported it."""
    figures = subscription.figures
    if figures is None:
        return NOTHING_REPORTED
    return {
        "handed_out": figures.handed_out,
        "client_waiting": figures.waiting,
        "client_dropped": {reason.value: count for reason, count in sorted(figures.dropped.items())},
    }


def is_slow(subscription: Subscription) -> bool:
    """Return whether a subscriber falls behind: its queue here was half full, or its client's buffer is."""
    figures = subscription.figures
    return subscription.slow or (figures is not None and 2 * figures.waiting >= subscription.terms.items_max)


def subscription_facts(subscription: Subscription) -> Json:
    """Describe one open subscription."""
    terms, session = subscription.terms, subscription.session
    return {
        "number": subscription.number,
        "client": session.name,
        "publisher": id_text(session.publisher),
        "filter": subscription.filter.text,
        "within_ms": subscription.within_us / 1000 if subscription.within_us else None,
        "durable": terms.durable or None,
        "connected": session.connection is not None,
        "delivered": subscription.delivered,
        "pending": len(subscription.outbox),
        "pending_bytes": subscription.outbox.bytes,
        "in_flight": len(subscription.durable.in_flight) if subscription.durable is not None else 0,
        "slow": is_slow(subscription),
        "late": count_late(subscription.dropped, subscription.late),
        "lost": count_lost(subscription.dropped),
        "dropped": {reason.value: count for reason, count in sorted(subscription.dropped.items())},
        **delivery_facts(subscription),
    }


def backlog_facts(durable: DurableSubscription | None, now_us: int) -> Json:
    """Describe the backlog of a durable subscription, and when a client was last connected that held it. `counted` is
    False while the log is still being read to count it."""
    if durable is None:
        return {}
    backlog, seen_s = durable.backlog, _absence_s(durable, now_us)
    return {
        "owner": durable.owner,
        "pending": backlog.events,
        "pending_bytes": backlog.bytes,
        "oldest_s": _age_s(backlog.oldest_us, now_us),
        "counted": backlog.complete,
        "seen_s": None if seen_s is None else round(seen_s, 1),
        "acknowledged": durable.acknowledged,
    }


def _age_s(since_us: int, now_us: int) -> float | None:
    return round(max(0, now_us - since_us) / 1_000_000, 1) if since_us else None


def _absence_s(durable: DurableSubscription, now_us: int) -> float | None:
    """Return for how long no client was connected that held it: 0 while one is, None if the log knows of none."""
    if durable.held:
        return 0.0
    return _age_s(durable.seen_us, now_us)


class DurableTotals(NamedTuple):
    """All durable subscriptions of a broker together."""

    subscriptions: int
    orphans: int
    """Durable subscriptions that no connected client holds."""
    away_s: float
    """The longest time for which one of these had none; from the start of the broker if the log knows of none."""
    events: int
    bytes: int
    oldest_s: float
    uncounted: int
    """Durable subscriptions whose backlog is not completely counted."""


def durable_totals(broker: BrokerView) -> DurableTotals:
    """Return the totals of all durable subscriptions."""
    durables, now_us = broker.durables.all(), broker.now_us
    orphans = [durable for durable in durables if not durable.held]
    up_s = broker.up_s
    absences = (_absence_s(durable, now_us) for durable in orphans)
    return DurableTotals(
        len(durables),
        len(orphans),
        max((up_s if absence is None else absence for absence in absences), default=0.0),
        sum(durable.backlog.events for durable in durables),
        sum(durable.backlog.bytes for durable in durables),
        max((_age_s(durable.backlog.oldest_us, now_us) or 0.0 for durable in durables), default=0.0),
        sum(not durable.backlog.complete for durable in durables),
    )


def absent_durable_facts(durable: DurableSubscription) -> Json:
    """Describe a durable subscription without a client, with the fields of an open one, so that one table holds
    both."""
    return {
        "number": durable.number,
        "client": None,
        "publisher": None,
        "filter": durable.filter.text,
        "within_ms": None,
        "durable": durable.name,
        "connected": False,
        "delivered": 0,
        "pending": 0,
        "pending_bytes": 0,
        "in_flight": 0,
        "slow": False,
        "late": 0,
        "lost": 0,
        "dropped": {},
        **NOTHING_REPORTED,
    }


def advertisement_facts(advertisement: ClientAdvertisement) -> Json:
    """Describe one advertisement."""
    return {
        "number": advertisement.number,
        "client": advertisement.session.name,
        "publisher": id_text(advertisement.session.publisher),
        "filter": advertisement.filter.text,
        "rate": advertisement.rate or None,
        "values": None,
        "matching": advertisement.matching,
    }


# --- a whole broker ---------------------------------------------------------------------------------------------------


def describe_links(broker: BrokerView) -> list[Json]:
    """List the connections: clients, and other brokers."""
    return [
        connection_facts(connection, broker.sessions.by_connection.get(connection.id), now)
        | (link_facts(connection, broker, now) if connection.neighbour else {})
        for connection, now in broker.connections
    ]


def describe_clients(broker: BrokerView) -> list[Json]:
    """List the clients, connected or able to resume."""
    return [client_facts(session) for session in broker.sessions.all()]


def describe_subscriptions(broker: BrokerView) -> list[Json]:
    """List the subscriptions, including durable ones without a client."""
    away = [durable for durable in broker.durables.all() if durable.subscription is None]
    found = [(subscription_facts(one), one.durable) for one in broker.interest.subscriptions]
    found += [(absent_durable_facts(durable), durable) for durable in away]
    return [
        {"id": f"{broker.settings.name}/{facts['number']}", **facts, **backlog_facts(durable, broker.now_us)}
        for facts, durable in found
    ]


def describe_advertisements(broker: BrokerView) -> list[Json]:
    """List the advertisements of clients."""
    return [advertisement_facts(advertisement) for advertisement in broker.interest.advertisements]


def describe_topology(broker: BrokerView) -> Json:
    """Return the overlay as this broker knows it: brokers and links are the same from every broker, once they have
    settled. Advertisements and interest are those of other brokers, up to `SHOWN_MAX` of each."""
    overlay = broker.overlay
    distances = overlay.map.distances(broker.id)
    link_states = overlay.map.link_states
    return {
        "brokers": [
            {
                "name": link_state.name,
                "id": id_text(link_state.origin),
                "reachable": link_state.origin in distances,
                "distance_ms": distances[link_state.origin] / 1000 if link_state.origin in distances else None,
                "neighbours": len(link_state.neighbours),
                "address": link_state.address,
                "segments": list(link_state.segments),
                "listen": link_state.address or None,
                "status": "reachable" if link_state.origin in distances else "out of reach",
                **(broker.describe() if link_state.origin == broker.id else {}),
            }
            for link_state in sorted(
                link_states, key=lambda link_state: (link_state.origin != broker.id, link_state.name, link_state.origin)
            )
        ],
        "links": [
            {"from": id_text(link_state.origin), "to": id_text(far), "delay_ms": delay_us / 1000}
            | {"capacity": capacity_of(link_state, far)}
            for link_state in link_states
            for far, delay_us in zip(link_state.neighbours, link_state.delays_us, strict=True)
        ],
        "advertisements": [
            {
                "broker": id_text(origin),
                "number": number,
                "filter": filter.text,
                "rate": document.rate or None,
                "values": document.values.hex() or None,
            }
            for (origin, number), filter in islice(overlay.remote_advertisements.items(), SHOWN_MAX)
            if (document := overlay.flooding.advertisement(origin, number)) is not None
        ],
        "interest": [
            {
                "broker": id_text(home),
                "number": number,
                "filter": text,
                "within_ms": us / 1000 if us else None,
            }
            for home, number, text, us in islice(_remote_filters(overlay), SHOWN_MAX)
        ],
    }


def capacity_of(link_state: LinkState | None, neighbour: int) -> int | None:
    """Return the bytes/s that a link carries as one of its ends floods it, or None when it is not known."""
    if link_state is None or not link_state.capacities or neighbour not in link_state.neighbours:
        return None
    return link_state.capacities[link_state.neighbours.index(neighbour)] or None


def _remote_filters(overlay: Overlay) -> Iterator[tuple[int, int, str, int]]:
    """Return the filters of other home brokers: broker, number, text and delay bound."""
    for home, known in overlay.remote_interest.homes.items():
        for number, text in overlay.remote_interest.texts(home):
            yield home, number, text, known.table.within_us.get(number, 0)


def neighbour_facts(link: Connection, broker: BrokerView, now: float) -> Json:
    """Describe a link to another broker."""
    overlay = broker.overlay
    neighbour = overlay.neighbours.get(link.neighbour)
    if neighbour is None:
        return {"role": "broker", "state": "opening"}
    theirs = overlay.map.known.get(neighbour.id)
    return {
        "role": "broker",
        "name": neighbour.name,
        "broker": id_text(neighbour.id),
        "delay_ms": round(neighbour.delay_us / 1000, 3),
        "advertised_ms": neighbour.flooded_us / 1000,
        "jitter_ms": round(neighbour.jitter_us / 1000, 3),
        "loss": round(link_loss(neighbour, now), 3),
        "state": "silent" if neighbour.unanswered(now) > 1 else "disputed" if neighbour.disputed else "up",
        **({"claims_ms": neighbour.claimed_us / 1000} if neighbour.disputed else {}),
        "events": neighbour.sent,
        "capacity": capacity_of(overlay.map.known.get(broker.id), neighbour.id),
        "neighbour_capacity": capacity_of(theirs, broker.id),
        "segments": list(theirs.segments) if theirs is not None else [],
    }


def link_facts(link: Connection, broker: BrokerView, now: float) -> Json:
    """Describe a link to another broker, with its lane and the delays of its events."""
    neighbour, lane = broker.overlay.neighbours.get(link.neighbour), link.lane
    delays = {
        "round_trip_ms": lane.figures.round_trips,
        "wait_ms": lane.figures.waits,
        **({"arrival_ms": neighbour.arrivals} if neighbour is not None else {}),
    }
    return (
        neighbour_facts(link, broker, now)
        | lane_facts(lane, now)
        | {name: _excess_delay_ms(found) for name, found in delays.items()}
    )


def lane_facts(lane: Lane, now: float) -> Json:
    """Describe what waits for a neighbour, and what the lane to it carries. None: nothing waits, or it is unknown."""
    queue, figures = lane.queue, lane.figures
    oldest_at, utilisation = queue.oldest_at(), figures.utilisation(now)
    return {
        "full": figures.is_full(now),
        "pending": queue.items,
        "pending_bytes": queue.bytes,
        "pending_bytes_max": figures.peak(PEAKS, now).bytes,
        "oldest_s": None if oldest_at is None else round(now - oldest_at, 3),
        "in_flight_bytes": lane.in_flight,
        "bytes_s": round(figures.bytes_per_s(now)),
        "measured_capacity": round(figures.capacity.bytes_per_s) or None,
        "arriving_capacity": round(figures.arrivals.bytes_per_s) or None,
        "utilisation": None if utilisation is None else round(utilisation, 3),
    }


def _excess_delay_ms(delays: ExcessDelays) -> Json:
    """Return the least delay and percentiles in milliseconds, each None while nothing was measured."""
    found = {"least": delays.base_us if delays.counts else None}
    found |= {f"p{percent}": delays.percentile_us(percent / 100) for percent in (50, 90, 99)}
    return {name: None if us is None else round(us / 1000, 3) for name, us in found.items()}


def link_loss(neighbour: Neighbour, now: float) -> float:
    """Return the share of the last pings that a neighbour has not answered."""
    missing = neighbour.unanswered(now)
    return missing / (missing + min(neighbour.answered, PINGS_COUNTED)) if missing else 0.0

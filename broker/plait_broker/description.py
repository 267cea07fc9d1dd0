"""What a running broker looks like from outside: plain JSON for the HTTP side and `plait ls`. Never a secret in it.

Session ids and tokens are what lets a client take up its session again, so neither appears; clients are named by the
name that they gave, their publisher id and their address.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from plait_core.ids import id_text

from .counters import Counters
from .durables import Durable
from .interest import Interest
from .links import Link
from .sessions import Advertisement, Session
from .subscriptions import Subscription

Json: TypeAlias = dict[str, Any]


def counters_facts(counters: Counters) -> Json:
    """Everything that is counted, drops by reason."""
    return {
        "published": counters.published,
        "admitted": counters.admitted,
        "delivered": counters.delivered,
        "logged": counters.logged,
        "confirmed": counters.confirmed,
        "refused": counters.refused,
        "bytes_in": counters.bytes_in,
        "bytes_out": counters.bytes_out,
        "connections": counters.connections,
        "dropped": {reason.value: count for reason, count in sorted(counters.dropped.items())},
        "faults": dict(sorted(counters.faults.items())),
        "rejected": dict(sorted(counters.rejected.items())),
    }


def queue_facts(interest: Interest) -> Json:
    """What waits for subscribers, in all, and for how many of them too long."""
    waiting = interest.waiting
    return {"pending": waiting.items, "pending_bytes": waiting.bytes, "slow_consumers": waiting.slow}


def link_facts(link: Link, now: float) -> Json:
    """One connection."""
    hello, session = link.hello, link.session
    return {
        "id": link.id,
        "role": hello.role.value if hello is not None else "unknown",
        "name": session.name if session is not None else "",
        "address": link.caller.address,
        "open_s": round(now - link.opened_at, 3),
        "silent_s": round(now - link.heard_at, 3),
        "delay_ms": session.link_delay_us / 1000 if session is not None else None,
        "writable": link.writable,
    }


def client_facts(session: Session) -> Json:
    """One client, connected or expected back."""
    return {
        "name": session.name,
        "publisher": id_text(session.publisher),
        "principal": session.principal.name,
        "address": session.link.caller.address if session.link is not None else None,
        "connected": session.link is not None,
        "subscriptions": len(session.subscriptions),
        "advertisements": len(session.advertisements),
        "published": session.published,
        "delivered": session.delivered,
        "pending": sum(len(subscription.outbox) for subscription in session.subscriptions.values()),
        "pending_bytes": session.queued_bytes,
        "delay_ms": session.link_delay_us / 1000,
        "slow": any(subscription.slow for subscription in session.subscriptions.values()),
    }


def subscription_facts(subscription: Subscription) -> Json:
    """One open subscription."""
    terms, session = subscription.terms, subscription.session
    return {
        "number": subscription.number,
        "client": session.name,
        "publisher": id_text(session.publisher),
        "filter": subscription.filter.text,
        "within_ms": subscription.within_us / 1000 if subscription.within_us else None,
        "durable": terms.durable or None,
        "connected": session.link is not None,
        "delivered": subscription.delivered,
        "pending": len(subscription.outbox),
        "pending_bytes": subscription.outbox.bytes,
        "in_flight": len(subscription.durable.in_flight) if subscription.durable is not None else 0,
        "slow": subscription.slow,
        "dropped": {reason.value: count for reason, count in sorted(subscription.dropped.items())},
    }


def absent_durable_facts(durable: Durable) -> Json:
    """A durable subscription whose client is away; with the fields of an open one, so that one table holds both."""
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
        "dropped": {},
    }


def advertisement_facts(advertisement: Advertisement) -> Json:
    """One advertisement."""
    return {
        "number": advertisement.number,
        "client": advertisement.session.name,
        "publisher": id_text(advertisement.session.publisher),
        "filter": advertisement.filter.text,
        "rate": advertisement.rate or None,
        "matching": advertisement.matching,
    }

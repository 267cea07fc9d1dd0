"""One broker's report about an event and a subscription: its part of the answer to `plait why`.

`delivery_explanation.py` joins the reports of all brokers. The query names `event`, and either `number` (a subscription
of this broker) or `filter` and `home` (a subscription of another broker; no `filter` if that broker does not answer).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait_core.errors import FrameError
from plait_core.events import EventId
from plait_core.filters import Filter, parse
from plait_core.ids import id_text
from plait_core.values import Json
from plait_core.wire import EventFrame

from ..clients.sessions import DurableSubscription, Subscription
from .event_history import Remembered

if TYPE_CHECKING:
    from ..broker_view import BrokerView


REASONS_SHOWN: Final = 16
"""Atoms of a filter that are explained."""

DROPS_SHOWN: Final = 16
"""Drops shown of one event."""


def describe_local_status(broker: BrokerView, query: Json, now: float) -> Json:
    """Return this broker's report. Raise EventInvalid or FilterError if the query names no event or no filter."""
    id = EventId.parse(str(query.get("event", "")))
    known = broker.explainer.history.find(id)
    report: Json = {
        "broker": broker.settings.name,
        "history": _history(broker, now),
        "event": None if known is None else _event(broker, known, now),
        "drops": _drops(broker, id, now),
    }
    number = query.get("number")
    if isinstance(number, int):
        party = broker.interest.party(number)
        report["subscription"] = None if party is None else _subscription(party, now)
        if party is not None and known is not None:
            report["matches"] = _matches(party.filter, known.frame)
            if report["matches"]["result"] is True:
                report["fate"] = outcome_of(broker, party, known, now)
    elif known is not None:
        home, filter = str(query.get("home", "")), query.get("filter")
        if filter is not None:
            report["matches"] = _matches(parse(str(filter)), known.frame)
        report["sent"] = _sent(broker, known, home, now)
    return report


def _history(broker: BrokerView, now: float) -> Json:
    """Describe how far back the history goes: to this broker's start unless it is full."""
    history = broker.explainer.history
    since = history.since()
    return {
        "events": len(history.events),
        "full": since is not None,
        "since_s": round(now - (broker.started_at if since is None else since), 3),
    }


def _event(broker: BrokerView, known: Remembered, now: float) -> Json:
    """Describe how the event reached this broker."""
    arrival = known.arrival
    name = broker.overlay.map.name
    return {
        "saw": "published" if arrival is None else "arrived",
        "ago_s": round(now - known.at, 6),
        "delay_ms": None if arrival is None else arrival.delay_us / 1000,
        "path": [] if arrival is None else [name(passed) or id_text(passed) for passed in arrival.path],
        "for": [name(home) or id_text(home) for home in known.destinations],
    }


def _drops(broker: BrokerView, id: EventId, now: float) -> list[Json]:
    """Return the drops of the event at this broker."""
    name = broker.overlay.map.name
    drops = [drop for drop, _ in zip(broker.explainer.history.drops(id), range(DROPS_SHOWN), strict=False)]
    return [
        {
            "reason": drop.reason,
            "ago_s": round(now - drop.at, 6),
            "subscription": drop.subscription or None,
            "for": (name(drop.broker) or id_text(drop.broker)) if drop.broker else None,
        }
        for drop in drops
    ]


def _subscription(party: Subscription | DurableSubscription, now: float) -> Json:
    subscription = party if isinstance(party, Subscription) else party.subscription
    return {
        "filter": party.filter.text,
        "client": subscription.session.name if subscription is not None else None,
        "connected": subscription is not None and subscription.session.connection is not None,
        "durable": party.name if isinstance(party, DurableSubscription) else None,
        "since_s": round(now - party.since, 6) if party.since else None,
        "within_ms": subscription.within_us / 1000 if subscription is not None and subscription.within_us else None,
    }


def _matches(filter: Filter, frame: EventFrame) -> Json:
    """Return whether the filter matches the event, and which attributes decide it."""
    try:
        explanation = filter.explain(frame.attributes())
    except FrameError:
        return {"result": None, "why": ["its attributes cannot be read"]}
    return {"result": explanation.result, "why": [str(reason) for reason in explanation.reasons[:REASONS_SHOWN]]}


# --- at the subscription's broker -------------------------------------------------------------------------------------


def outcome_of(broker: BrokerView, party: Subscription | DurableSubscription, known: Remembered, now: float) -> Json:
    """Return the outcome of an event here for a subscription whose filter matches it."""
    id, history = known.frame.id, broker.explainer.history
    if not broker.fits(known.frame, party.number):
        return {"state": "other_tags"}
    if party.since > known.at:
        return {"state": "not_yet", "by_s": round(party.since - known.at, 6)}
    for drop in history.drops(id):
        if drop.subscription == party.number:
            return {"state": "dropped", "reason": drop.reason, "ago_s": round(now - drop.at, 6)}
    if isinstance(party, DurableSubscription):
        return _durable_outcome(broker, party, id)
    waiting = party.outbox.find(id)
    if waiting is not None:
        before, entry = waiting
        state = "behind" if party.session.connection is not None else "away"
        return {"state": "waiting", "reason": state, "before": before, "since_s": round(now - entry.arrived, 6)}
    written = history.written_at(id, party.number)
    at = known.at if written is None else written
    delay_us = (known.arrival.delay_us if known.arrival is not None else 0) + round((at - known.at) * 1_000_000)
    return {
        "state": "delivered",
        "client": party.session.name,
        "ago_s": round(now - at, 6),
        "delay_ms": delay_us / 1000,
        "waited_ms": round((at - known.at) * 1000, 3),
    }


def _durable_outcome(broker: BrokerView, durable: DurableSubscription, id: EventId) -> Json:
    """Return the event's position in the log, if still in memory, and its state relative to the subscription's
    cursor."""
    position = broker.durables.position_of(id)
    if position is None:
        return {"state": "stored", "reason": "its position in the log is no longer in memory"}
    facts: Json = {"position": position, "acknowledged_up_to": durable.acknowledged}
    if position <= durable.acknowledged or position in durable.beyond:
        return facts | {"state": "delivered", "acknowledged": True}
    if position in durable.in_flight:
        return facts | {"state": "delivered", "acknowledged": False}
    return facts | {"state": "waiting", "reason": "away" if durable.subscription is None else "behind"}


# --- at the publisher's broker ----------------------------------------------------------------------------------------


def _sent(broker: BrokerView, known: Remembered, home: str, now: float) -> Json | None:
    """Return whether the event was for a home broker and whether that broker has acknowledged it, or None if it was not
    published here."""
    if known.arrival is not None:
        return None
    overlay = broker.overlay
    found = next((link_state.origin for link_state in overlay.map.link_states if id_text(link_state.origin) == home), 0)
    if found not in known.destinations:
        return {"for_it": False}
    stream = overlay.event_streams.outgoing.get(found)
    if stream is None:
        return {"for_it": True, "waiting": False}
    held = ((party[1] if party else 0, frame) for frame, *_, party in stream.waiting)
    for position, frame in [*((position, kept[0]) for position, kept in stream.kept.items()), *held]:
        if frame.id == known.frame.id:
            return {
                "for_it": True,
                "waiting": True,
                "position": position,
                "acked_up_to": stream.acked,
                "since_s": round(now - known.at, 6),
                "reachable": broker.id in overlay.map.distances(found),
            }
    return {"for_it": True, "waiting": False}

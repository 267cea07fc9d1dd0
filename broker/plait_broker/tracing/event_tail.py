"""The last events of a broker, and what one broker knows of one event: for the live page's event tail and trace view.

Both read the history (`event_history.py`), so events need no mark and take no extra step. The broker that an event was
published at lists it; other brokers report what they know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from plait_core.errors import FrameError
from plait_core.events import EventId
from plait_core.filters import Filter, parse
from plait_core.ids import id_text
from plait_core.values import Attributes, Json
from plait_core.wire import EventFrame

from .event_history import Remembered
from .local_status import DROPS_SHOWN, outcome_of

if TYPE_CHECKING:
    from ..broker_view import BrokerView
    from ..clients.sessions import DurableSubscription, Subscription


LISTED_MAX: Final = 50
"""Events of one answer."""

LOOKED_AT_MAX: Final = 256
"""Latest events to search for those that a filter matches: a millisecond."""

ATTRIBUTES_SHOWN: Final = 24
TEXT_SHOWN: Final = 120
"""Characters of a value."""

REASONS_SHOWN: Final = 4
PARTIES_SHOWN: Final = 32


def describe_recent(broker: BrokerView, query: Json, now: float) -> Json:
    """Return the latest events published here, each with the result of the query's filter. Raise FilterError if that is
    no filter."""
    text, requested = str(query.get("filter", "")), query.get("limit")
    filter = parse(text) if text else None
    limit = min(requested, LISTED_MAX) if isinstance(requested, int) and requested > 0 else LISTED_MAX
    matching = bool(query.get("matching")) and filter is not None
    found = (_list_entry(broker, entry, filter, now) for entry in _published(broker))
    events = islice((one for one in found if not matching or one["result"] is True), limit)
    return {"broker": broker.settings.name, "events": list(events)}


def describe_event(broker: BrokerView, query: Json, now: float) -> Json:
    """Return what this broker recorded of one event. Raise EventInvalid if the query names none."""
    id = EventId.parse(str(query.get("event", "")))
    known = broker.explainer.history.find(id)
    drops = broker.explainer.history.drops(id)
    report: Json = {
        "broker": broker.settings.name,
        "id": id_text(broker.id),
        "seen": None,
        "drops": [
            {
                "reason": drop.reason,
                "subscription": drop.subscription or None,
                "for": id_text(drop.broker) if drop.broker else None,
            }
            for drop in islice(drops, DROPS_SHOWN)
        ],
    }
    if known is not None:
        report["seen"] = _seen(known)
        report["event"] = _event(known.frame, now - known.at)
        report["parties"] = list(islice(_parties(broker, known, now), PARTIES_SHOWN))
    return report


def _published(broker: BrokerView) -> Iterator[Remembered]:
    """Return the latest events published here, the latest first."""
    latest = islice(reversed(broker.explainer.history.events), LOOKED_AT_MAX)
    return (entry for entry in map(Remembered._make, latest) if entry.arrival is None)


def _list_entry(broker: BrokerView, entry: Remembered, filter: Filter | None, now: float) -> Json:
    listed = _event(entry.frame, now - entry.at) | {"homes": len(entry.destinations)}
    if filter is not None:
        explanation = filter.explain(attributes_of(entry.frame))
        listed["result"] = explanation.result
        listed["why"] = [str(reason) for reason in explanation.reasons[:REASONS_SHOWN]]
    return listed


def _event(frame: EventFrame, ago_s: float) -> Json:
    attributes = attributes_of(frame)
    return {
        "event": str(frame.id),
        "ago_s": round(ago_s, 3),
        "bytes": len(frame.block),
        "attributes": {name: _shown(attributes[name]) for name in islice(attributes, ATTRIBUTES_SHOWN)},
    }


def _seen(known: Remembered) -> Json:
    """Describe how the event reached this broker."""
    arrival = known.arrival
    if arrival is None:
        return {"as": "published", "for": [id_text(destination) for destination in known.destinations]}
    return {"as": "arrived", "delay_ms": arrival.delay_us / 1000, "path": [id_text(passed) for passed in arrival.path]}


def _parties(broker: BrokerView, known: Remembered, now: float) -> Iterator[Json]:
    """Return the subscriptions here that the event matches, each with its outcome."""
    try:
        subscriptions, durables = broker.interest.match(known.frame)
    except FrameError:
        return
    parties: list[Subscription | DurableSubscription] = [*subscriptions, *durables]
    for party in parties:
        outcome = outcome_of(broker, party, known, now)
        yield {"subscription": party.number, "filter": party.filter.text[:TEXT_SHOWN], **outcome}


def attributes_of(frame: EventFrame) -> Attributes:
    """Return the attributes of an event; none if they cannot be decoded."""
    try:
        return frame.attributes()
    except FrameError:
        return {}


def _shown(value: object) -> object:
    """Return a value as JSON, cut to a readable length."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_SHOWN else value[:TEXT_SHOWN] + "…"
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)[:TEXT_SHOWN]
    return value if isinstance(value, float) and value - value == 0 else str(value)[:TEXT_SHOWN]

"""The last events of a broker, and how one of them passed: for the event tail of the page, and its trace view.

Both read the memory (`event_history.py`), so nothing was marked beforehand and nothing is added to an event's way. An
event is published at one broker, which alone lists it; where else it came to, those brokers tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core.errors import FrameError
from plait_core.events import EventId
from plait_core.filters import Filter, parse
from plait_core.ids import id_text
from plait_core.values import Attributes
from plait_core.wire import EventFrame

from .event_history import Remembered
from .local_status import DROPS_SHOWN, fate_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..clients.sessions import DurableSubscription, Subscription

Json: TypeAlias = dict[str, Any]

LISTED_MAX: Final = 50
"""Events of one answer."""

LOOKED_AT_MAX: Final = 256
"""Of the latest, for those that a filter matches: a millisecond."""

ATTRIBUTES_SHOWN: Final = 24
TEXT_SHOWN: Final = 120
"""Characters of a value."""

REASONS_SHOWN: Final = 4
PARTIES_SHOWN: Final = 32


def describe_recent(broker: Broker, question: Json, now: float) -> Json:
    """The latest events that were published here, each with what the filter of the question says of it. FilterError
    when that is none."""
    text, wanted = str(question.get("filter", "")), question.get("limit")
    filter = parse(text) if text else None
    limit = min(wanted, LISTED_MAX) if isinstance(wanted, int) and wanted > 0 else LISTED_MAX
    matching = bool(question.get("matching")) and filter is not None
    found = (_listed(broker, entry, filter, now) for entry in _published(broker))
    events = islice((one for one in found if not matching or one["result"] is True), limit)
    return {"broker": broker.settings.name, "events": list(events)}


def describe_passage(broker: Broker, question: Json, now: float) -> Json:
    """What became here of one event. EventInvalid when the question names none."""
    id = EventId.parse(str(question.get("event", "")))
    known = broker.explaining.memory.find(id)
    drops = broker.explaining.memory.drops(id)
    said: Json = {
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
        said["seen"] = _seen(known)
        said["event"] = _event(known.frame, now - known.at)
        said["parties"] = list(islice(_parties(broker, known, now), PARTIES_SHOWN))
    return said


def _published(broker: Broker) -> Iterator[Remembered]:
    """The latest first."""
    latest = islice(reversed(broker.explaining.memory.events), LOOKED_AT_MAX)
    return (entry for entry in map(Remembered._make, latest) if entry.arrival is None)


def _listed(broker: Broker, entry: Remembered, filter: Filter | None, now: float) -> Json:
    listed = _event(entry.frame, now - entry.at) | {"homes": len(entry.homes)}
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
    """How the event came here."""
    arrival = known.arrival
    if arrival is None:
        return {"as": "published", "for": [id_text(home) for home in known.homes]}
    return {"as": "arrived", "delay_ms": arrival.delay_us / 1000, "path": [id_text(passed) for passed in arrival.path]}


def _parties(broker: Broker, known: Remembered, now: float) -> Iterator[Json]:
    """The subscriptions here that it is for, and what became of it for each."""
    try:
        subscriptions, durables = broker.interest.match(known.frame)
    except FrameError:
        return
    parties: list[Subscription | DurableSubscription] = [*subscriptions, *durables]
    for party in parties:
        fate = fate_of(broker, party, known, now)
        yield {"subscription": party.number, "filter": party.filter.text[:TEXT_SHOWN], **fate}


def attributes_of(frame: EventFrame) -> Attributes:
    """None of an event whose attributes nobody had to read, and cannot."""
    try:
        return frame.attributes()
    except FrameError:
        return {}


def _shown(value: object) -> object:
    """A value as JSON has it, and not longer than one reads."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_SHOWN else value[:TEXT_SHOWN] + "…"
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)[:TEXT_SHOWN]
    return value if isinstance(value, float) and value - value == 0 else str(value)[:TEXT_SHOWN]

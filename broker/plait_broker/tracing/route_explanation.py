"""Why an event goes where it goes: for `plait route`, the destinations of a filter's events and the choice for each.

The choice is that of `overlay/topology/forwarding_table.py`, as it is made now; beyond the next broker, the path is
what the map says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core.filters import parse
from plait_core.ids import id_text

from ..overlay.topology.link_state import LinkStateDatabase
from ..overlay.topology.neighbours import Neighbour

if TYPE_CHECKING:
    from ..broker import Broker

Json: TypeAlias = dict[str, Any]

DESTINATIONS_SHOWN: Final = 64
"""Of one filter; more are counted."""

ALTERNATIVES_SHOWN: Final = 16
"""Neighbours told of for each destination, the fastest first; more are counted."""

FILTERS_SHOWN: Final = 4
"""Of each destination's filters that meet the one asked about."""


def describe_interest(broker: Broker, question: Json, now: float) -> Json:
    """Whether events that match a filter may be for this broker's subscriptions. FilterError when it is none."""
    filters = broker.interest.meeting(parse(str(question.get("filter", ""))))
    return {"subscriptions": len(filters), "filters": [filter.text for filter in filters[:FILTERS_SHOWN]]}


def describe_route(broker: Broker, question: Json, now: float) -> Json:
    """Where events that match a filter go when they are published at this broker: to those whose interest it knows,
    and to those that the question names. FilterError when the filter is none."""
    filter = parse(str(question.get("filter", "")))
    known = broker.joining.overlay.meeting(filter)
    named = question.get("homes")
    homes = {home for home in named if isinstance(home, int)} if isinstance(named, list) else set()
    destinations = sorted((known.keys() | homes) - {broker.id})
    return {
        "broker": broker.settings.name,
        "tree": id_text(broker.id),
        "filter": filter.text,
        "local_subscriptions": len(broker.interest.meeting(filter)),
        "destinations": [
            _destination(broker, home) | {"known": home in known} for home in destinations[:DESTINATIONS_SHOWN]
        ],
        "destinations_total": len(destinations),
    }


def _destination(broker: Broker, home: int) -> Json:
    overlay = broker.joining.overlay
    distances = overlay.map.distances(home)
    chosen = overlay.routes.next(home)
    feasible = overlay.routes.feasible(home)
    others = [
        neighbour for neighbour in overlay.neighbours.values() if all(neighbour is not one for one, _ in feasible)
    ]
    path = [] if chosen is None else [broker.id, *_onwards(overlay.map, chosen.id, home)]
    alternatives = [
        *(_feasible(neighbour, delay_us, chosen, feasible[0][1]) for neighbour, delay_us in feasible),
        *(_infeasible(other, distances.get(other.id), distances.get(broker.id)) for other in others),
    ]
    return {
        "broker": overlay.map.name(home) or id_text(home),
        "id": id_text(home),
        "cost_ms": _ms(distances.get(broker.id)),
        "path": [overlay.map.name(passed) or id_text(passed) for passed in path],
        "alternatives": alternatives[:ALTERNATIVES_SHOWN],
        "alternatives_total": len(alternatives),
    }


def _feasible(neighbour: Neighbour, delay_us: int, chosen: Neighbour | None, fastest_us: int) -> Json:
    """One of the neighbours that may be handed the event."""
    if neighbour is chosen:
        why = "the fastest"
        if delay_us > fastest_us:
            why = f"kept: {_shown(delay_us - fastest_us)} slower than the fastest, which is within noise"
    elif chosen is not None and delay_us == fastest_us:
        why = "the fastest, but not by more than noise: the present one is kept"
    else:
        why = f"{_shown(delay_us - fastest_us)} slower"
    return {
        "neighbour": neighbour.name,
        "id": id_text(neighbour.id),
        "chosen": neighbour is chosen,
        "feasible": True,
        "link_ms": _ms(round(neighbour.delay_us or neighbour.told_us)),
        "delay_ms": _ms(delay_us),
        "why": why,
    }


def _infeasible(neighbour: Neighbour, theirs_us: int | None, ours_us: int | None) -> Json:
    """One of those that may not."""
    if theirs_us is None:
        why = "it does not reach that broker"
    elif ours_us is None:
        why = "this broker does not reach it"
    else:
        why = f"not closer to it than this broker: {_shown(theirs_us)} against {_shown(ours_us)}"
    return {
        "neighbour": neighbour.name,
        "id": id_text(neighbour.id),
        "chosen": False,
        "feasible": False,
        "link_ms": _ms(round(neighbour.delay_us or neighbour.told_us)),
        "delay_ms": None,
        "why": why,
    }


def _onwards(map: LinkStateDatabase, near: int, home: int) -> list[int]:
    """The brokers from one on to the destination, both included, as the map has the fastest path."""
    path = [near]
    while path[-1] != home and len(path) <= len(map):
        following = map.parent(home, path[-1])
        if following is None:
            break
        path.append(following)
    return path


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000


def _shown(us: int) -> str:
    return f"{us / 1000:.2f} ms"

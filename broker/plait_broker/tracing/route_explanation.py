"""Explain routes for `plait route`: the destinations of a filter's events, and the next hop to each.

The next hop is the one that `overlay/topology/forwarding_table.py` chooses now. Beyond it the path is that of the
link-state database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait_core.filters import parse
from plait_core.ids import id_text
from plait_core.values import Json

from ..overlay.topology.link_state import LinkStateDatabase
from ..overlay.topology.neighbours import Neighbour

if TYPE_CHECKING:
    from ..broker_view import BrokerView


DESTINATIONS_SHOWN: Final = 64
"""Destinations shown of one filter; more are counted."""

ALTERNATIVES_SHOWN: Final = 16
"""Neighbours shown for each destination, the fastest first; more are counted."""

FILTERS_SHOWN: Final = 4
"""Filters shown of each destination that intersect the given one."""


def describe_interest(broker: BrokerView, query: Json, now: float) -> Json:
    """Return the filters of this broker's subscriptions that intersect a filter. Raise FilterError if that is no
    filter."""
    filters = broker.interest.intersecting(parse(str(query.get("filter", ""))))
    return {"subscriptions": len(filters), "filters": [filter.text for filter in filters[:FILTERS_SHOWN]]}


def describe_route(broker: BrokerView, query: Json, now: float) -> Json:
    """Return where events that match a filter go when published at this broker. The destinations are brokers whose
    interest is known here and brokers that the query names. Raise FilterError if the filter is none."""
    filter = parse(str(query.get("filter", "")))
    known = broker.overlay.intersecting(filter)
    named = query.get("homes")
    requested = {id for id in named if isinstance(id, int)} if isinstance(named, list) else set()
    destinations = sorted((known | requested) - {broker.id})
    shown = destinations[:DESTINATIONS_SHOWN]
    return {
        "broker": broker.settings.name,
        "tree": id_text(broker.id),
        "filter": filter.text,
        "local_subscriptions": len(broker.interest.intersecting(filter)),
        "destinations": [_destination(broker, id) | {"known": id in known} for id in shown],
        "destinations_total": len(destinations),
    }


def _destination(broker: BrokerView, destination: int) -> Json:
    overlay = broker.overlay
    distances = overlay.map.distances(destination)
    chosen = overlay.routes.next(destination)
    feasible = overlay.routes.feasible(destination)
    others = [
        neighbour for neighbour in overlay.neighbours.values() if all(neighbour is not one for one, _ in feasible)
    ]
    path = [] if chosen is None else [broker.id, *_path(overlay.map, chosen.id, destination)]
    alternatives = [
        *(_feasible(neighbour, delay_us, chosen, feasible[0][1]) for neighbour, delay_us in feasible),
        *(_infeasible(other, distances.get(other.id), distances.get(broker.id)) for other in others),
    ]
    return {
        "broker": overlay.map.name(destination) or id_text(destination),
        "id": id_text(destination),
        "cost_ms": _ms(distances.get(broker.id)),
        "path": [overlay.map.name(passed) or id_text(passed) for passed in path],
        "alternatives": alternatives[:ALTERNATIVES_SHOWN],
        "alternatives_total": len(alternatives),
    }


def _feasible(neighbour: Neighbour, delay_us: int, chosen: Neighbour | None, fastest_us: int) -> Json:
    """Describe a neighbour that is a feasible next hop."""
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
        "link_ms": _ms(round(neighbour.delay_us or neighbour.flooded_us)),
        "delay_ms": _ms(delay_us),
        "why": why,
    }


def _infeasible(neighbour: Neighbour, theirs_us: int | None, ours_us: int | None) -> Json:
    """Describe a neighbour that is no feasible next hop."""
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
        "link_ms": _ms(round(neighbour.delay_us or neighbour.flooded_us)),
        "delay_ms": None,
        "why": why,
    }


def _path(map: LinkStateDatabase, near: int, destination: int) -> list[int]:
    """Return the brokers on the fastest path of the link-state database, both ends included."""
    path = [near]
    while path[-1] != destination and len(path) <= len(map):
        following = map.parent(destination, path[-1])
        if following is None:
            break
        path.append(following)
    return path


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000


def _shown(us: int) -> str:
    return f"{us / 1000:.2f} ms"

"""The trees that lead events to a subscription: one from every broker whose clients advertise matching events.

Advertisements and link state are known to every broker, so each can compute this for a subscription of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait_core.filters import Filter
from plait_core.ids import id_text
from plait_core.values import Json

from ..overlay.topology.link_state import LinkStateDatabase

if TYPE_CHECKING:
    from ..broker_view import BrokerView


ROOTS_SHOWN: Final = 64
ADVERTISEMENTS_SHOWN: Final = 4


def describe_trees(broker: BrokerView, home: int, filter: Filter) -> Json:
    """Return, for a filter of a client at `home`, each publishers' broker with its path, and the alternative links."""
    overlay = broker.overlay
    roots: dict[int, list[str]] = {}
    for (origin, _), advertisement in overlay.advertisements.filters.items():
        if origin in overlay.map and advertisement.intersects(filter):
            roots.setdefault(origin, []).append(advertisement.text)
    known = overlay.map
    shown = sorted(roots)[:ROOTS_SHOWN]
    return {
        "home": id_text(home),
        "filter": filter.text,
        "roots": [_root(known, root, home, roots[root]) for root in shown],
        "roots_total": len(roots),
        "alternates": [[id_text(near), id_text(far)] for near, far in _alternates(known, shown, home)],
    }


def _root(known: LinkStateDatabase, root: int, home: int, advertised: list[str]) -> Json:
    path = known.path(root, home) or ()
    distance_us = known.distances(home).get(root)
    return {
        "id": id_text(root),
        "name": known.name(root) or id_text(root),
        "path": [id_text(passed) for passed in path],
        "delay_ms": None if distance_us is None else distance_us / 1000,
        "offers": advertised[:ADVERTISEMENTS_SHOWN],
        "offers_total": len(advertised),
    }


def _alternates(known: LinkStateDatabase, roots: list[int], home: int) -> list[tuple[int, int]]:
    """Return alternative links of these paths: from a broker on a path to a neighbour closer to `home`."""
    distances = known.distances(home)
    passed = {broker for root in roots for broker in known.path(root, home) or ()}
    taken = {(near, known.parent(home, near)) for near in passed}
    found: dict[tuple[int, int], None] = {}
    for link_state in known.link_states:
        if link_state.origin not in passed:
            continue
        for far in link_state.neighbours:
            closer = distances.get(far, -1) < distances.get(link_state.origin, -1)
            if far in distances and closer and (link_state.origin, far) not in taken:
                found[link_state.origin, far] = None
    return list(found)

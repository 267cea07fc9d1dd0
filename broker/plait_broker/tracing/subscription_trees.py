"""The trees that a subscription hangs on: from every broker whose clients offer what it wants, the way to it.

Offers and the map are known to every broker, so any of them can draw this for a subscription of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core.filters import Filter
from plait_core.ids import id_text

from ..overlay.topology.link_state import LinkStateDatabase

if TYPE_CHECKING:
    from ..broker import Broker

Json: TypeAlias = dict[str, Any]

ROOTS_SHOWN: Final = 64
OFFERS_SHOWN: Final = 4


def describe_trees(broker: Broker, home: int, filter: Filter) -> Json:
    """For a filter of a client at `home`: each publishers' broker, the path from it, what else could be taken."""
    overlay = broker.joining.overlay
    roots: dict[int, list[str]] = {}
    for (origin, _), offer in overlay.offered.filters.items():
        if origin in overlay.map and offer.intersects(filter):
            roots.setdefault(origin, []).append(offer.text)
    known = overlay.map
    shown = sorted(roots)[:ROOTS_SHOWN]
    return {
        "home": id_text(home),
        "filter": filter.text,
        "roots": [_root(known, root, home, roots[root]) for root in shown],
        "roots_total": len(roots),
        "alternates": [[id_text(near), id_text(far)] for near, far in _alternates(known, shown, home)],
    }


def _root(known: LinkStateDatabase, root: int, home: int, offers: list[str]) -> Json:
    path = known.path(root, home) or ()
    distance_us = known.distances(home).get(root)
    return {
        "id": id_text(root),
        "name": known.name(root) or id_text(root),
        "path": [id_text(passed) for passed in path],
        "delay_ms": None if distance_us is None else distance_us / 1000,
        "offers": offers[:OFFERS_SHOWN],
        "offers_total": len(offers),
    }


def _alternates(known: LinkStateDatabase, roots: list[int], home: int) -> list[tuple[int, int]]:
    """Links that some event on these ways may be moved to: from a broker on a path to a neighbour closer to home."""
    distances = known.distances(home)
    passed = {broker for root in roots for broker in known.path(root, home) or ()}
    taken = {(near, known.parent(home, near)) for near in passed}
    found: dict[tuple[int, int], None] = {}
    for sheet in known.link_states:
        if sheet.origin not in passed:
            continue
        for far in sheet.neighbours:
            closer = distances.get(far, -1) < distances.get(sheet.origin, -1)
            if far in distances and closer and (sheet.origin, far) not in taken:
                found[sheet.origin, far] = None
    return list(found)

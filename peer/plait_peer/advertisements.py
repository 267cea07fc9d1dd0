"""What an application of this process advertises, and whether anyone asks for it. No I/O.

Others are known by the sub-spaces that the publisher's children take, for themselves and for those below them; the
application's own subscriptions by their filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait_core.filters import Filter, parse
from plait_core.wire.frame_types.session_frames import Matching

from .group import Group
from .node import Node
from .protocol.peer import Peer
from .protocol.subspaces import Texts, related


@dataclass(slots=True)
class AdvertisedFilter:
    """One advertisement."""

    filter: Filter
    dz: Texts
    said: bool | None = None
    """What its owner was told last."""


class Advertisements:
    """Those of one application."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._offers: dict[int, AdvertisedFilter] = {}

    def add(self, id: int, text: str) -> None:
        """One more; FilterError when its filter is none."""
        filter = parse(text)
        self._offers[id] = AdvertisedFilter(filter, tuple(dz.text for dz in self._group.wanted(filter)))

    def remove(self, id: int) -> None:
        """It is withdrawn."""
        self._offers.pop(id, None)

    def news(self, asked: list[Texts], wishes: Iterable[Filter]) -> list[Matching]:
        """Which of them somebody has begun to ask for, or asks for no more."""
        wanted = list(wishes)
        found = []
        for id, offer in self._offers.items():
            matching = any(related(offer.dz, dz) for dz in asked)
            matching = matching or any(offer.filter.intersects(filter) for filter in wanted)
            if matching is not offer.said:
                offer.said = matching
                found.append(Matching(id, matching))
        return found


def asked_of(publisher: Peer, node: Node) -> list[Texts]:
    """What other processes take of a publisher's events; a peer of its own process stands for those below it."""
    found: list[Texts] = []
    seen, above = {publisher.id}, [publisher]
    while above:
        for id, child in above.pop().outgoing.children.items():
            near = node.peers.get(id)
            if near is None:
                found.append(child.dz)
            elif id not in seen:
                seen.add(id)
                above.append(near)
    return found

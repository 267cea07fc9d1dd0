"""The advertisements of an application in this process, and whether any subscription matches them. No I/O.

Remote subscriptions are known by the sub-spaces that the publisher's children take, for themselves and for peers below
them. Local subscriptions are known by their filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait_core.filters import Filter, parse
from plait_core.wire.frame_types.session_frames import Matching

from ..group import Group
from ..node import Node
from ..protocol.peer import Peer
from ..protocol.subspaces import Texts, related


@dataclass(slots=True)
class AdvertisedFilter:
    """One advertisement."""

    filter: Filter
    dz: Texts
    reported: bool | None = None
    """The last state that its owner was sent."""


class Advertisements:
    """The advertisements of one application."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._advertised: dict[int, AdvertisedFilter] = {}

    def add(self, id: int, text: str) -> None:
        """Add an advertisement, or raise FilterError if its filter is invalid."""
        filter = parse(text)
        self._advertised[id] = AdvertisedFilter(filter, tuple(dz.text for dz in self._group.subspaces(filter)))

    def remove(self, id: int) -> None:
        """Withdraw an advertisement."""
        self._advertised.pop(id, None)

    def changes(self, remote: list[Texts], filters: Iterable[Filter]) -> list[Matching]:
        """Return a Matching for each advertisement that a subscription now matches, or that none matches any more."""
        local = list(filters)
        found = []
        for id, advertised in self._advertised.items():
            matching = any(related(advertised.dz, dz) for dz in remote)
            matching = matching or any(advertised.filter.intersects(filter) for filter in local)
            if matching is not advertised.reported:
                advertised.reported = matching
                found.append(Matching(id, matching))
        return found


def remote_interest(publisher: Peer, node: Node) -> list[Texts]:
    """Return the sub-spaces that other processes take from a publisher. A local peer counts with its own children."""
    found: list[Texts] = []
    seen, pending = {publisher.id}, [publisher]
    while pending:
        for id, child in pending.pop().children.by_id.items():
            local = node.peers.get(id)
            if local is None:
                found.append(child.dz)
            elif id not in seen:
                seen.add(id)
                pending.append(local)
    return found

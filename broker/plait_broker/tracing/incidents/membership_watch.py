"""Incidents of brokers and links: brokers that join, restart, leave or are out of reach, and links of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from plait_core.ids import id_text

if TYPE_CHECKING:
    from ...broker_view import BrokerView
    from ...overlay.overlay import Overlay

QUIET_S: Final = 5.0
"""A starting broker records nothing until it has met no broker for so long: what it finds is no incident."""

START_S: Final = 60.0
"""The longest time for which a broker counts as starting: brokers that restart in a loop do not silence it."""

NAMED_MAX: Final = 3
"""Brokers that one incident names. The others are counted: a cut in the middle of the overlay takes many away."""

Noticed: TypeAlias = tuple[str, str, str]
"""Kind, subject and text of an incident."""


class MembershipWatch:
    """Compares the brokers and the links with those of a second ago."""

    def __init__(self, now: float) -> None:
        self.settled = False
        """Whether the broker has met the others, so that changes are incidents."""
        self._started_at = self._met_at = now
        self._revision = -1
        self._names: dict[int, str] = {}
        self._reached: set[int] = set()
        self._beside: dict[int, list[int]] = {}
        """By broker, the neighbours that it had last."""
        self._linked: dict[int, str] = {}
        self._disputed: set[int] = set()
        self._draining = False

    def review(self, broker: BrokerView, now: float) -> list[Noticed]:
        """Return what has happened since the last call."""
        overlay = broker.overlay
        noticed = [*self._review_links(broker), *self._review_brokers(broker, overlay, now)]
        if broker.draining and not self._draining:
            noticed.append(("drain", id_text(broker.id), f"{broker.settings.name} is draining: it was asked to stop"))
        self._draining = broker.draining
        if self.settled:
            return noticed
        self.settled = now - self._met_at >= QUIET_S or now - self._started_at >= START_S
        return []

    # --- links --------------------------------------------------------------------------------------------------------

    def _review_links(self, broker: BrokerView) -> list[Noticed]:
        overlay, name = broker.overlay, broker.settings.name
        linked = {neighbour.id: neighbour.name for neighbour in overlay.neighbours.values()}
        noticed: list[Noticed] = []
        for id, far in self._linked.items():
            if id not in linked:
                reason = overlay.links_lost.get(id, "the connection ended")
                noticed.append(("link down", _link(broker.id, id), f"link {name} – {far} is down: {reason}"))
        for id, far in linked.items():
            if id not in self._linked:
                noticed.append(("link up", _link(broker.id, id), f"link {name} – {far} is up"))
        disputed = {neighbour.id for neighbour in overlay.neighbours.values() if neighbour.disputed}
        for id in sorted(disputed - self._disputed):
            neighbour = overlay.neighbours[id]
            text = (
                f"{name} disputes the delay that {neighbour.name} floods for their link: "
                f"{neighbour.claimed_us / 1000:g} ms, measured are {neighbour.flooded_us / 1000:g} ms"
            )
            noticed.append(("security", _link(broker.id, id), text))
        self._linked, self._disputed = linked, disputed
        return noticed

    # --- brokers ------------------------------------------------------------------------------------------------------

    def _review_brokers(self, broker: BrokerView, overlay: Overlay, now: float) -> list[Noticed]:
        if overlay.map.revision == self._revision:
            return []
        self._revision = overlay.map.revision
        names = {known.origin: known.name for known in overlay.map.link_states}
        reached = {id for id in names if id in overlay.reached}
        if not names.keys() <= self._names.keys():
            self._met_at = now
        noticed: list[Noticed] = []
        lost: dict[str, list[int]] = {}
        away = {self._names[id] for id in self._names if id not in reached}
        for id in sorted(names):
            if id in reached and id not in self._reached:
                text = "is back" if id in self._names else "has restarted" if names[id] in away else "joined"
                beside = self._naming(names, list(overlay.map.costs_us(id)))
                noticed.append(("join", id_text(id), f"{names[id]} {text}: linked to {beside}"))
            elif id not in reached and id in self._reached:
                lost.setdefault(self._why_lost(overlay, id, reached), []).append(id)
        for reason, ids in lost.items():
            are = "is" if len(ids) == 1 else "are"
            noticed.append(
                (
                    "leave",
                    id_text(ids[0]),
                    f"{self._naming(names, ids)} {are} out of reach of {broker.settings.name}: {reason}",
                )
            )
        left = [id for id in sorted(self._reached) if id not in names and self._names[id] not in names.values()]
        noticed += [("leave", id_text(id), f"{self._names[id]} has left") for id in left]
        self._names, self._reached = names, reached
        self._beside = {id: list(overlay.map.costs_us(id)) or self._beside.get(id, []) for id in names}
        return noticed

    def _why_lost(self, overlay: Overlay, id: int, reached: set[int]) -> str:
        """Return why a broker is out of reach."""
        if id in self._linked or id not in overlay.links_lost:
            if overlay.map.costs_us(id):
                return "no link that is up leads there"
            beside = self._naming(self._names, self._beside.get(id, []))
            return f"its links to {beside} are down"
        return overlay.links_lost[id] if not overlay.map.costs_us(id) else "no link that is up leads there"

    def _naming(self, names: dict[int, str], ids: list[int]) -> str:
        """Return the names of brokers, of many the first."""
        found = sorted(names.get(id) or id_text(id) for id in ids)
        more = len(found) - NAMED_MAX
        return ", ".join(found[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "") or "nobody"


def _link(near: int, far: int) -> str:
    return f"{id_text(near)}>{id_text(far)}"

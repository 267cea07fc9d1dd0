"""Brokers that cannot be reached or have restarted: how long their state is kept, and which broker takes it over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..overlay import Overlay


class Membership:
    """The brokers of one overlay that are away."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._since: dict[int, float] = {}
        self._thinned: set[int] = set()
        """Brokers for which only the events of durable subscriptions are still kept."""

    def link_state_changed(self, incarnation: int, now: float) -> None:
        """Note which brokers can be reached now, and which brokers of this incarnation have restarted."""
        overlay = self._overlay
        reached = overlay.map.distances(overlay.me)
        for known in overlay.map.link_states:
            broker = known.origin
            if broker not in reached:
                self._since.setdefault(broker, now)
            elif self._since.pop(broker, None) is not None:
                self._thinned.discard(broker)
                overlay.dissemination.hurry(now, broker)
                overlay.wanting.back(broker)
        if incarnation:
            self._look_for_successors(incarnation, now)

    def expire(self, now: float) -> None:
        """Forget brokers that are away for too long."""
        overlay, settings = self._overlay, self._overlay.settings
        for broker, since in list(self._since.items()):
            if overlay.given_up and overlay.map.name(broker) in overlay.given_up:
                self._remove(broker, dead=True)
                continue
            if now - since < settings.gone_s:
                continue
            if now - since >= settings.durable_gone_s or not self._is_durable(broker):
                self._remove(broker)
            elif broker not in self._thinned:
                self._thin(broker)

    def _is_durable(self, broker: int) -> bool:
        """Return whether a broker's state is kept for longer: it has durable subscriptions, or it has a log and we have
        durable subscriptions."""
        overlay = self._overlay
        if broker in overlay.standing:
            return True
        link_state = overlay.flooding.link_state(broker)
        return bool(overlay.ours) and link_state is not None and bool(link_state.incarnation)

    def _thin(self, broker: int) -> None:
        overlay = self._overlay
        self._thinned.add(broker)
        overlay.wanted.gone(broker)
        overlay.dissemination.thin(broker, lambda frame: overlay.standing.matches(broker, frame), overlay.now)

    def _look_for_successors(self, incarnation: int, now: float) -> None:
        """Find brokers that have restarted under another id: of one incarnation only the broker born last is alive.

        It gets the events that its predecessors had not acked.
        """
        overlay = self._overlay
        same = (known for known in overlay.map.link_states if known.incarnation == incarnation)
        lives = sorted(same, key=lambda known: known.born)
        for known in lives[:-1]:
            successor = lives[-1].origin
            if known.origin == overlay.me:
                if not overlay.counts["incarnation_claimed"]:
                    overlay.host.remark(
                        f"{lives[-1].name} has started with the log of this broker, as if from a copy of its data: "
                        "events for this broker go there; stop one of the two"
                    )
                overlay.counts["incarnation_claimed"] += 1
                continue
            if successor != overlay.me:
                successor_interest = overlay.wanted.homes.get(successor)
                since = successor_interest.since if successor_interest is not None else math.inf
                overlay.dissemination.succeed(known.origin, successor, since, now)
                overlay.wanted.succeed(known.origin, successor)
                if since == math.inf:
                    overlay.standing.succeed(known.origin, successor)
            self._remove(known.origin, dead=True)
            neighbour = overlay.neighbours.get(known.origin)
            if neighbour is not None:
                overlay.host.close(neighbour.link, f"{neighbour.name} has restarted")
                overlay.link_down(known.origin, now)

    def _remove(self, broker: int, *, dead: bool = False) -> None:
        """Forget a broker that was out of reach for too long, or is dead."""
        overlay = self._overlay
        self._since.pop(broker, None)
        self._thinned.discard(broker)
        overlay.keeping.forget(broker)
        overlay.flooding.forget(broker, dead=dead)
        overlay.map.remove(broker)
        overlay.routes.forget(broker)
        overlay.unicast.forget(broker)
        overlay.offered.forget(broker)
        overlay.trust.forget(broker)
        overlay.wanting.gone(broker)
        overlay.wanted.gone(broker)
        overlay.dissemination.gone(broker, overlay.now)

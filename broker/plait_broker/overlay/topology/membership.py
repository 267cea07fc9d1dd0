"""Brokers that cannot be reached, and those that have started anew: what is kept for each, how long, and for whom."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plait_core.wire.frame_types.overlay_frames import LinkState

if TYPE_CHECKING:
    from ..overlay import Overlay


class Membership:
    """Of one broker's overlay."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._since: dict[int, float] = {}
        self._thinned: set[int] = set()
        """Those for which nothing is kept any more but what durable subscriptions want."""

    def look(self, log: int, now: float) -> None:
        """The map has changed, by what someone with this log said."""
        overlay = self._overlay
        reached = overlay.map.distances(overlay.me)
        for known in overlay.map.sheets:
            broker = known.origin
            if broker not in reached:
                self._since.setdefault(broker, now)
            elif self._since.pop(broker, None) is not None:
                self._thinned.discard(broker)
                overlay.dissemination.hurry(now, broker)
                overlay.wanting.back(broker)
        if log:
            self._look_for_successors(log, now)

    def expire(self, now: float) -> None:
        """Forget who is away for too long."""
        overlay, settings = self._overlay, self._overlay.settings
        for broker, since in list(self._since.items()):
            if overlay.given_up and overlay.map.name(broker) in overlay.given_up:
                self._gone(broker, dead=True)
                continue
            if now - since < settings.gone_s:
                continue
            if now - since >= settings.durable_gone_s or not self._is_durable(broker):
                self._gone(broker)
            elif broker not in self._thinned:
                self._thin(broker)

    def _is_durable(self, broker: int) -> bool:
        """Whether a broker is kept in mind for longer: it has durable subscriptions, or we have, and it has a log."""
        overlay = self._overlay
        if broker in overlay.standing:
            return True
        sheet = overlay.flooding.document((broker, 0))
        return bool(overlay.ours) and isinstance(sheet, LinkState) and bool(sheet.log)

    def _thin(self, broker: int) -> None:
        overlay = self._overlay
        self._thinned.add(broker)
        overlay.wanted.gone(broker)
        overlay.dissemination.thin(broker, lambda frame: overlay.standing.wants(broker, frame), overlay.now)

    def _look_for_successors(self, log: int, now: float) -> None:
        """Of brokers with the same log only the last can be alive, whether or not the end of the others was noticed:
        it has started anew under another id. Before it says what it wants now, it gets what it had not taken."""
        overlay = self._overlay
        lives = sorted((known for known in overlay.map.sheets if known.log == log), key=lambda known: known.born)
        for known in lives[:-1]:
            successor = lives[-1].origin
            if known.origin == overlay.me:
                if not overlay.counts["incarnation_claimed"]:
                    overlay.host.remark(
                        f"{lives[-1].name} has started with the log of this broker, as if from a copy of its data: "
                        "what is for this one goes there; stop one of them"
                    )
                overlay.counts["incarnation_claimed"] += 1
                continue
            if successor != overlay.me:
                anew = overlay.wanted.homes.get(successor)
                since = anew.since if anew is not None else math.inf
                overlay.dissemination.succeed(known.origin, successor, since, now)
                overlay.wanted.succeed(known.origin, successor)
                if since == math.inf:
                    overlay.standing.succeed(known.origin, successor)
            self._gone(known.origin, dead=True)
            neighbour = overlay.neighbours.get(known.origin)
            if neighbour is not None:
                overlay.host.close(neighbour.link, f"{neighbour.name} has started anew")
                overlay.link_down(known.origin, now)

    def _gone(self, broker: int, *, dead: bool = False) -> None:
        """A broker could not be reached for long, or is dead: forget it."""
        overlay = self._overlay
        self._since.pop(broker, None)
        self._thinned.discard(broker)
        overlay.keeping.forget(broker)
        overlay.flooding.forget(broker, dead=dead)
        overlay.map.remove(broker)
        overlay.routes.forget(broker)
        overlay.errands.forget(broker)
        overlay.offered.forget(broker)
        overlay.trust.forget(broker)
        overlay.wanting.gone(broker)
        overlay.wanted.gone(broker)
        overlay.dissemination.gone(broker, overlay.now)

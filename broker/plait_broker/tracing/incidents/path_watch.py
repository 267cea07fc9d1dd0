"""Incidents of paths: events for a broker take another next hop, for a reason that lasts.

A next hop that changes and changes back, or that changes between paths of equal delay, moves no event to a place where
it matters. So a change is an incident only when it has lasted. Then either the old path is gone, or the new one is
faster by more than the noise of the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plait_core.ids import id_text

if TYPE_CHECKING:
    from ...overlay.overlay import Overlay

FAILED_S: Final = 2.0
"""Time that a change lasts after its old path is gone: until the link states of a failure have flooded."""

FASTER_S: Final = 10.0
"""Time that a change lasts that measured delays have caused: a stall of one process is over by then."""

GAIN_RATIO: Final = 0.25
GAIN_US: Final = 5_000
GAIN_JITTERS: Final = 3
"""A path is faster if it gains a quarter of the delay, five milliseconds, and three times the jitter of both links.

Brokers that share a busy machine measure delays that differ by a few milliseconds from one minute to the next.
"""

NAMED_MAX: Final = 3
"""Destinations that one incident names; it counts the others."""


@dataclass(slots=True)
class Change:
    """A next hop that differs from the one before, and has not lasted yet."""

    hop: int
    since: float
    delay_us: int | None
    """The delay before it, if the destination could be reached."""
    gains_us: float = 0.0
    """The sum of what it gained in each review."""
    old_us: float = 0.0
    reviews: int = 0


class PathWatch:
    """Compares the next hops of one broker with those before."""

    def __init__(self) -> None:
        self._hops: dict[int, int] = {}
        """By destination, the next hop that was reported or adopted last."""
        self._changes: dict[int, Change] = {}
        self._distances: dict[int, int] = {}
        """The delays to all brokers a second ago."""

    def review(self, overlay: Overlay, now: float, *, quiet: bool) -> list[str]:
        """Return what has changed, one text for all destinations that move alike. `quiet`: adopt the paths instead."""
        moved: dict[tuple[int, int, str], list[tuple[int, str]]] = {}
        chosen = overlay.routes.chosen
        for to, hop in chosen.items():
            before = self._hops.setdefault(to, hop)
            if before == hop or quiet:
                self._hops[to] = hop
                self._changes.pop(to, None)
                continue
            change = self._changes.get(to)
            if change is None or change.hop != hop:
                change = self._changes[to] = Change(hop, now, self._distances.get(to))
            found = self._judge(overlay, to, before, change, now)
            if found is not None:
                why, delays = found
                self._hops[to] = hop
                del self._changes[to]
                if why:
                    moved.setdefault((before, hop, why), []).append((to, delays))
        for to in [to for to in self._hops if to not in chosen]:
            del self._hops[to]
            self._changes.pop(to, None)
        self._distances = overlay.reached
        return [_text(overlay, *key, found) for key, found in moved.items()]

    def _judge(self, overlay: Overlay, to: int, before: int, change: Change, now: float) -> tuple[str, str] | None:
        """Return why the next hop has changed, and the delays; without a reason if that does not matter, and None
        while the change has not lasted."""
        delays = {neighbour.id: us for neighbour, us in overlay.routes.feasible(to)}
        new_us = delays.get(change.hop)
        if new_us is None:  # it changes again, or the destination is out of reach: that is an incident of its own
            return ("", "") if now - change.since >= FASTER_S else None
        if before not in overlay.neighbours:
            if now - change.since < FAILED_S:
                return None
            return f"the link to {_name(overlay, before)} is down", _delays(change.delay_us, new_us)
        noise_us = sum(overlay.neighbours[id].jitter_us for id in (before, change.hop))
        if before not in delays:  # it is no nearer than this broker now, by the delays of links beyond it
            if now - change.since < FASTER_S:
                return None
            known_us = new_us if change.delay_us is None else change.delay_us
            moves = abs(new_us - known_us) > max(GAIN_US, GAIN_RATIO * known_us, GAIN_JITTERS * noise_us)
            why = f"{_name(overlay, before)} is no longer closer to it" if moves else ""
            return why, _delays(change.delay_us, new_us)
        change.gains_us += delays[before] - new_us
        change.old_us += delays[before]
        change.reviews += 1
        if now - change.since < FASTER_S:
            return None
        gain_us, old_us = change.gains_us / change.reviews, change.old_us / change.reviews
        if gain_us <= max(GAIN_US, GAIN_RATIO * old_us, GAIN_JITTERS * noise_us):
            return "", ""
        return "it is faster", _delays(round(old_us), round(old_us - gain_us))


def _text(overlay: Overlay, before: int, hop: int, why: str, moved: list[tuple[int, str]]) -> str:
    names = sorted(_name(overlay, to) for to, _ in moved)
    more = len(names) - NAMED_MAX
    others = f" and {more} more" if more > 0 else ""
    return (
        f"reaches {', '.join(names[:NAMED_MAX])}{others} via {_name(overlay, hop)} instead of "
        f"{_name(overlay, before)}: {why}{moved[0][1]}"
    )


def _name(overlay: Overlay, broker: int) -> str:
    return overlay.map.name(broker) or id_text(broker)


def _delays(before_us: int | None, after_us: int) -> str:
    return "" if before_us is None else f", delay {before_us / 1000:.3g} ms -> {after_us / 1000:.3g} ms"

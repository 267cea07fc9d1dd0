"""What goes from one broker to one other, or to a few: hop by hop along the trees, and around whoever loses it.

Brokers on the way pass on what is not for them, and can read it; they cannot make it up (`trust.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from plait_core.wire import ControlFrame, Forward
from plait_core.wire.explaining_frames import Telling
from plait_core.wire.overlay_frames import Detour, Errand, Want

from .detours import way_around, wrap
from .map import Map
from .neighbours import Neighbour
from .routes import Routes
from .trust import Trust

HOPS_MAX: Final = 64
"""What goes from one broker to one other is dropped after so many: maps that differ may send it in circles."""


class Errands:
    """One broker's, and those that it passes on."""

    def __init__(
        self,
        me: int,
        map: Map,
        routes: Callable[[], Routes],
        neighbours: dict[int, Neighbour],
        trust: Trust,
        counts: Counter[str],
        send: Callable[[int, ControlFrame], None],
    ) -> None:
        """`send` takes a neighbour and a frame."""
        self._me = me
        self._map = map
        self._routes = routes
        self._neighbours = neighbours
        self._trust = trust
        self._counts = counts
        self._send = send

    def say(self, frame: Errand | Telling, tries: int = 0) -> None:
        """Send a frame of our own to the broker that it is for; `tries`: how often that was in vain."""
        proved = self._trust.prove(frame)
        self.pass_on(proved)
        if tries:
            self.around(proved.to, proved, tries)

    def pass_on(self, frame: Errand | Telling) -> None:
        """Send a frame one step towards the broker that it is for."""
        neighbour = self._routes().next(frame.to)
        if neighbour is None or frame.hops >= HOPS_MAX:
            self._counts["errands_lost"] += 1
        else:
            self._send(neighbour.id, replace(frame, hops=frame.hops + 1))

    def say_want(self, want: Want, tries: Sequence[int]) -> None:
        """Tell some brokers what is wanted of them; for each, how often that was in vain."""
        want = self._trust.prove_want(want)
        self.spread(want, range(len(want.to)))
        for at, count in enumerate(tries):
            if count:
                self.around(want.to[at], _part(want, [at]), count)

    def spread(self, want: Want, among: Sequence[int]) -> None:
        """Send interest on to some of the brokers that it is for: one frame a neighbour."""
        if want.hops >= HOPS_MAX:
            self._counts["errands_lost"] += 1
            return
        by: dict[int, list[int]] = {}
        for at in among:
            neighbour = self._routes().next(want.to[at])
            if neighbour is not None:
                by.setdefault(neighbour.id, []).append(at)
        for broker, group in by.items():
            self._send(broker, _part(want, group))

    def around(self, to: int, frame: ControlFrame | Forward, tries: int) -> bool:
        """Send a frame on a way that the usual one has little part in; False when there is none."""
        route = way_around(self._map, self._me, to, tries - 1)
        if route is None:
            return False
        self._counts["detours"] += 1
        self.pass_detour(wrap(route, frame))
        return True

    def pass_detour(self, detour: Detour) -> None:
        """Send it to the next on its way."""
        neighbour = self._neighbours.get(detour.route[detour.at + 1])
        if neighbour is None:
            self._counts["no_way"] += 1
        else:
            delay_us = min(detour.delay_us + neighbour.hop_us, 2**32 - 1)
            self._send(neighbour.id, replace(detour, at=detour.at + 1, delay_us=delay_us))


def _part(want: Want, group: Sequence[int]) -> Want:
    """What of it is for some of those that it is for."""
    return replace(
        want,
        to=tuple(want.to[at] for at in group),
        versions=tuple(want.versions[at] for at in group),
        offers=tuple(want.offers[at] for at in group),
        proofs=tuple(want.proofs[at] for at in group) if want.proofs else (),
        hops=want.hops + 1,
    )

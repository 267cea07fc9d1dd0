"""What goes from one broker to one other, or to a few: hop by hop along the trees, and around whoever loses it.

Brokers on the way pass on what is not for them, and can read it; they cannot make it up (`message_auth.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from plait_core.wire import ControlFrame, Forward
from plait_core.wire.frame_types.overlay_frames import ROUTE_MAX, EndToEnd, InterestUpdate, SourceRouted
from plait_core.wire.frame_types.trace_frames import TraceMessage

from ..security.message_auth import MessageAuth
from ..topology.forwarding_table import ForwardingTable
from ..topology.link_state import LinkStateDatabase
from ..topology.neighbours import Neighbour
from ..topology.source_routes import ways_around, wrap

BACK_S: Final = 30.0
"""A broker from which something came around is told everything by that way, too, for so long."""

HOPS_MAX: Final = 64
"""What goes from one broker to one other is dropped after so many: maps that differ may send it in circles."""


class ControlUnicast:
    """One broker's, and those that it passes on."""

    def __init__(
        self,
        me: int,
        map: LinkStateDatabase,
        routes: Callable[[], ForwardingTable],
        neighbours: dict[int, Neighbour],
        trust: MessageAuth,
        counts: Counter[str],
        send: Callable[[int, ControlFrame], None],
        relay: Callable[[int, ControlFrame], None],
        clock: Callable[[], float],
    ) -> None:
        """`send` takes a neighbour and a frame of ours, `relay` one of another's; `clock` says when what happens now
        was heard."""
        self._me = me
        self._map = map
        self._routes = routes
        self._neighbours = neighbours
        self._trust = trust
        self._counts = counts
        self._send = send
        self._relay = relay
        self._clock = clock
        self._back: dict[int, tuple[tuple[int, ...], float]] = {}
        """By broker from which something came around, the same way back, and until when it is taken."""
        self._heard: dict[int, int] = {}
        """By such a broker, the number of the last that came around: what is played again says nothing."""
        self._number = 0
        self._ways: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self._ways_revision = -1
        """Ways around by the map as it was then, by their end and the neighbour that is usually taken to it."""

    def say(self, frame: EndToEnd | TraceMessage, tries: int = 0) -> None:
        """Send a frame of our own to the broker that it is for; `tries`: how often that was in vain."""
        proved = self._trust.prove(frame)
        self._hand_on(proved, self._send)
        self._also(proved.to, proved, tries)

    def pass_on(self, frame: EndToEnd | TraceMessage) -> None:
        """Send a frame of another's one step towards the broker that it is for."""
        self._hand_on(frame, self._relay)

    def say_want(self, want: InterestUpdate, tries: Sequence[int]) -> None:
        """Tell some brokers what is wanted of them; for each, how often that was in vain."""
        want = self._trust.prove_want(want)
        self._spread(want, range(len(want.to)), self._send)
        for at, count in enumerate(tries):
            if count or want.to[at] in self._back:
                self._also(want.to[at], _part(want, [at]), count)

    def spread(self, want: InterestUpdate, among: Sequence[int]) -> None:
        """Send another's interest on to some of the brokers that it is for."""
        self._spread(want, among, self._relay)

    def _hand_on(self, frame: EndToEnd | TraceMessage, send: Callable[[int, ControlFrame], None]) -> None:
        neighbour = self._routes().next(frame.to)
        if neighbour is None or frame.hops >= HOPS_MAX:
            self._counts["control_lost"] += 1
        else:
            send(neighbour.id, replace(frame, hops=frame.hops + 1))

    def _spread(self, want: InterestUpdate, among: Sequence[int], send: Callable[[int, ControlFrame], None]) -> None:
        """One frame a neighbour."""
        if want.hops >= HOPS_MAX:
            self._counts["control_lost"] += 1
            return
        by: dict[int, list[int]] = {}
        for at in among:
            neighbour = self._routes().next(want.to[at])
            if neighbour is not None:
                by.setdefault(neighbour.id, []).append(at)
        for broker, group in by.items():
            send(broker, _part(want, group))

    def way(self, to: int, tries: int, last: tuple[int, ...]) -> tuple[int, ...]:
        """A way that the usual one has little part in, another with every try: first the one by which its receiver has
        come to us, then the last that helped. Empty when there is none."""
        found = [self._back_to(to), last if self._stands(last) else (), *self._others(to)]
        ways = [way for way in dict.fromkeys(found) if way]
        return ways[(tries - 1) % len(ways)] if ways else ()

    def by(self, route: tuple[int, ...], frame: ControlFrame | Forward, *, back: bool = False) -> bool:
        """Send a frame on a way, if all its links are there; whether they are. What only goes `back` by the way that
        something came is not answered by it in turn, or two brokers would never end."""
        if not self._stands(route):
            return False
        self._counts["detours"] += 1
        self._number = max(self._number + 1, round(self._clock() * 1_000_000))
        detour = replace(wrap(route, frame), number=0 if back else self._number)
        self._lead(self._trust.prove_detour(detour), self._send)
        return True

    def came_around(self, detour: SourceRouted) -> None:
        """Something has come by a way that its sender chose: by it the sender can be reached."""
        route = detour.route
        if detour.number > self._heard.get(route[0], 0) and self._stands(route) and self._trust.led(detour):
            self._heard[route[0]] = detour.number
            self._back[route[0]] = (route[::-1], self._clock() + BACK_S)

    def forget(self, broker: int) -> None:
        """It is no more."""
        self._back.pop(broker, None)
        self._heard.pop(broker, None)

    def _also(self, to: int, frame: ControlFrame, tries: int) -> None:
        """Send a frame around as well, as far as there is reason to: its receiver did so, or it was in vain."""
        back = self._back_to(to)
        if back:
            self.by(back, frame, back=True)
        if tries and (ways := [way for way in self._others(to) if way != back]):
            self.by(ways[(tries - 1) % len(ways)], frame)

    def _back_to(self, to: int) -> tuple[int, ...]:
        back, until = self._back.get(to, ((), 0.0))
        return back if until > self._clock() and self._stands(back) else ()

    def _others(self, to: int) -> list[tuple[int, ...]]:
        neighbour = self._routes().next(to)
        taken = 0 if neighbour is None else neighbour.id
        if self._ways_revision != self._map.revision:
            self._ways.clear()
            self._ways_revision = self._map.revision
        ways = self._ways.get((to, taken))
        if ways is None:
            ways = self._ways[to, taken] = ways_around(self._map, self._me, to, taken or None)
        return ways

    def _stands(self, route: tuple[int, ...]) -> bool:
        links = pairwise(route)
        return 1 < len(route) <= ROUTE_MAX and all(self._map.cost_us(near, far) is not None for near, far in links)

    def pass_detour(self, detour: SourceRouted) -> None:
        """Send another's to the next on its way."""
        self._lead(detour, self._relay)

    def _lead(self, detour: SourceRouted, send: Callable[[int, ControlFrame], None]) -> None:
        neighbour = self._neighbours.get(detour.route[detour.at + 1])
        if neighbour is None:
            self._counts["no_way"] += 1
        else:
            send(neighbour.id, replace(detour, at=detour.at + 1))


def _part(want: InterestUpdate, group: Sequence[int]) -> InterestUpdate:
    """What of it is for some of those that it is for."""
    return replace(
        want,
        to=tuple(want.to[at] for at in group),
        versions=tuple(want.versions[at] for at in group),
        offers=tuple(want.offers[at] for at in group),
        proofs=tuple(want.proofs[at] for at in group) if want.proofs else (),
        hops=want.hops + 1,
    )

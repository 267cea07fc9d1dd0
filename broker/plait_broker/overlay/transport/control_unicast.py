"""Control messages from one broker to one other, or to a few: hop by hop, and around brokers that lose them.

A message travels in an `EndToEnd` envelope. Brokers on the way relay the bytes of its body. They can read the fields
that they know, and cannot make any up (`message_auth.py`). An envelope for several brokers is split where their next
hops differ, so each link carries its body once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from plait_core.errors import FrameError
from plait_core.wire import ControlFrame, Forward
from plait_core.wire.frame_types.envelope_frames import ROUTE_MAX, EndToEnd, Message, SourceRouted, narrowed

from ..security.message_auth import MessageAuth
from ..topology.forwarding_table import ForwardingTable
from ..topology.link_state import LinkStateDatabase
from ..topology.neighbours import Neighbour
from ..topology.source_routes import unwrap, ways_around, wrap

BACK_S: Final = 30.0
"""For so long a broker whose frame came by a source route is answered by the reverse route, too."""

HOPS_MAX: Final = 64
"""Hops after which a message is dropped: databases that differ may send it in circles."""


class ControlUnicast:
    """Send one broker's messages, and relay those of others."""

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
        """`send` takes a neighbour and a frame of ours, `relay` one of another broker's. `clock` returns the time of
        the current input."""
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
        """By broker whose frame came by a source route, the reverse route, and until when it is used."""
        self._last_number: dict[int, int] = {}
        """By such a broker, the number of its last source-routed frame: a replayed one is ignored."""
        self._number = 0
        self._ways: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self._ways_revision = -1
        """Routes by their end and the usual next hop to it, computed from that revision of the link states."""

    def send(self, message: Message, tries: Sequence[int] = (0,)) -> None:
        """Send a message of our own. `tries` counts, for each destination, the retransmissions without an ack."""
        self.send_envelope(self._trust.envelop_message(message), tries)

    def send_envelope(self, envelope: EndToEnd, tries: Sequence[int] = (0,)) -> None:
        """Send an envelope of our own that has its MACs."""
        self._spread(envelope, range(len(envelope.to)), self._send)
        for at, count in enumerate(tries):
            if count or envelope.to[at] in self._back:
                self._send_around(envelope.to[at], narrowed(envelope, [at]), count)

    def pass_on(self, envelope: EndToEnd, neighbour: Neighbour, now: float) -> None:
        """Relay a neighbour's envelope to its destinations other than this broker."""
        others = [at for at, to in enumerate(envelope.to) if to != self._me]
        if others and self._may_relay(neighbour, now):
            self._spread(envelope, others, self._relay)

    def _spread(self, envelope: EndToEnd, among: Sequence[int], send: Callable[[int, ControlFrame], None]) -> None:
        """Send one frame to each next hop."""
        if envelope.hops >= HOPS_MAX:
            self._counts["control_lost"] += 1
            return
        by: dict[int, list[int]] = {}
        for at in among:
            neighbour = self._routes().next(envelope.to[at])
            if neighbour is None:
                self._counts["control_lost"] += 1
            else:
                by.setdefault(neighbour.id, []).append(at)
        for broker, group in by.items():
            send(broker, narrowed(envelope, group))

    def way(self, to: int, tries: int, last: tuple[int, ...]) -> tuple[int, ...]:
        """Return a route that shares little with the usual one, another with every try. The first is the reverse of the
        route by which the destination reached us, then comes the last that worked. Empty when there is none."""
        found = [self._back_to(to), last if self._is_up(last) else (), *self._others(to)]
        ways = [way for way in dict.fromkeys(found) if way]
        return ways[(tries - 1) % len(ways)] if ways else ()

    def by(self, route: tuple[int, ...], frame: ControlFrame | Forward, *, back: bool = False) -> bool:
        """Send a frame along a route, and return whether all its links are up. A frame that goes `back` along the route
        of another is not answered by that route in turn, or two brokers would never end."""
        if not self._is_up(route):
            return False
        self._counts["detours"] += 1
        self._number = max(self._number + 1, round(self._clock() * 1_000_000))
        routed = replace(wrap(route, frame), number=0 if back else self._number)
        self._send_to_next(self._trust.prove_route(routed), self._send)
        return True

    def _came_around(self, routed: SourceRouted) -> None:
        """Note the route by which a frame came: its source can be reached by the reverse route."""
        route, last = routed.route, self._last_number.get(routed.route[0], 0)
        if routed.number > last and self._is_up(route) and self._trust.route_is_proved(routed):
            self._last_number[route[0]] = routed.number
            self._back[route[0]] = (route[::-1], self._clock() + BACK_S)

    def forget(self, broker: int) -> None:
        """Forget the routes of a broker."""
        self._back.pop(broker, None)
        self._last_number.pop(broker, None)

    def _send_around(self, to: int, frame: ControlFrame, tries: int) -> None:
        """Send a frame along source routes as well: if its destination did so, or after retransmissions without ack."""
        back = self._back_to(to)
        if back:
            self.by(back, frame, back=True)
        if tries and (ways := [way for way in self._others(to) if way != back]):
            self.by(ways[(tries - 1) % len(ways)], frame)

    def _back_to(self, to: int) -> tuple[int, ...]:
        back, until = self._back.get(to, ((), 0.0))
        return back if until > self._clock() and self._is_up(back) else ()

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

    def _is_up(self, route: tuple[int, ...]) -> bool:
        links = pairwise(route)
        return 1 < len(route) <= ROUTE_MAX and all(self._map.cost_us(near, far) is not None for near, far in links)

    def receive_routed(self, routed: SourceRouted, neighbour: Neighbour, now: float) -> EndToEnd | Forward | None:
        """Relay a neighbour's source-routed frame to the next on its route. Return what it carries if this broker is
        the end of the route; None otherwise, and for what may not come so."""
        at = routed.at
        if not at or routed.route[at] != self._me or routed.route[at - 1] != neighbour.id:
            self._counts["unexpected"] += 1
            return None
        delay_us = min(routed.delay_us + neighbour.transit.us(now), 2**32 - 1)
        routed = replace(routed, delay_us=delay_us)
        if at + 1 < len(routed.route):
            if self._may_relay(neighbour, now):
                self._send_to_next(routed, self._relay)
            return None
        try:
            frame = unwrap(routed)
        except FrameError:  # the relays could not know
            frame = None
        if frame is None:
            self._counts["unexpected"] += 1
        else:
            self._came_around(routed)
        return frame

    def _may_relay(self, neighbour: Neighbour, now: float) -> bool:
        """Return whether a neighbour may have another frame relayed; its source retransmits what is not."""
        relays = neighbour.relays.take(now)
        self._counts["relays_refused"] += not relays
        return relays

    def _send_to_next(self, routed: SourceRouted, send: Callable[[int, ControlFrame], None]) -> None:
        neighbour = self._neighbours.get(routed.route[routed.at + 1])
        if neighbour is None:
            self._counts["no_way"] += 1
        else:
            send(neighbour.id, replace(routed, at=routed.at + 1))

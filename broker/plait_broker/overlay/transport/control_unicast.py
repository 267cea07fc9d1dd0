"""Control messages from one broker to one or several others: hop by hop, or over a source route.

A message travels in an `EndToEnd` envelope. Brokers on the path relay the bytes of its body. Its MACs let the receiver
refuse changed and invented messages (`message_auth.py`). An envelope for several brokers is split where their next hops
differ, so each link carries its body once.
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

REVERSE_S: Final = 30.0
"""After a source-routed frame, its source is answered along the reverse route, too, for so long."""

HOPS_MAX: Final = 64
"""Hops after which a message is dropped: while databases differ, its path may have a loop."""


class ControlUnicast:
    """Sends the messages of one broker, and relays those of others."""

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
        """`send` takes a neighbour and a frame of ours, `relay` a neighbour and another broker's frame. `clock` returns
        the time of the current input."""
        self._me = me
        self._map = map
        self._routes = routes
        self._neighbours = neighbours
        self._trust = trust
        self._counts = counts
        self._send = send
        self._relay = relay
        self._clock = clock
        self._reverse_routes: dict[int, tuple[tuple[int, ...], float]] = {}
        """By broker that sent a source-routed frame, the reverse route and the end of its use."""
        self._last_number: dict[int, int] = {}
        """By broker, the number of its last source-routed frame: a replayed frame sets no reverse route."""
        self._number = 0
        self._alternatives_of: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self._routes_revision = -1
        """The revision of the link states that these routes, by destination and next hop, were computed from."""

    def send(self, message: Message, tries: Sequence[int] = (0,)) -> None:
        """Send a message of our own. `tries` counts, for each destination, the retransmissions without an ack."""
        self.send_envelope(self._trust.envelop_message(message), tries)

    def send_envelope(self, envelope: EndToEnd, tries: Sequence[int] = (0,)) -> None:
        """Send an envelope of our own that has its MACs."""
        self._spread(envelope, range(len(envelope.to)), self._send)
        for at, count in enumerate(tries):
            if count or envelope.to[at] in self._reverse_routes:
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
        """Return a source route for a retransmission, another with every try, or () if there is none.

        The order: the reverse of the destination's own source route, the last route that worked, then the rest.
        """
        found = [self._back_to(to), last if self._is_up(last) else (), *self._alternatives(to)]
        ways = [way for way in dict.fromkeys(found) if way]
        return ways[(tries - 1) % len(ways)] if ways else ()

    def by(self, route: tuple[int, ...], frame: ControlFrame | Forward, *, back: bool = False) -> bool:
        """Send a frame along a source route if all its links are up. Return whether they are.

        A frame that goes `back` along a reverse route sets no reverse route in turn, or two brokers would keep theirs
        alive for ever.
        """
        if not self._is_up(route):
            return False
        self._counts["detours"] += 1
        self._number = max(self._number + 1, round(self._clock() * 1_000_000))
        routed = replace(wrap(route, frame), number=0 if back else self._number)
        self._send_to_next(self._trust.prove_route(routed), self._send)
        return True

    def _came_around(self, routed: SourceRouted) -> None:
        """Note the reverse of the route that a frame took, if its source proves that it chose the route."""
        route, last = routed.route, self._last_number.get(routed.route[0], 0)
        if routed.number > last and self._is_up(route) and self._trust.route_is_proved(routed):
            self._last_number[route[0]] = routed.number
            self._reverse_routes[route[0]] = (route[::-1], self._clock() + REVERSE_S)

    def forget(self, broker: int) -> None:
        """Forget the routes of a broker."""
        self._reverse_routes.pop(broker, None)
        self._last_number.pop(broker, None)

    def _send_around(self, to: int, frame: ControlFrame, tries: int) -> None:
        """Send a frame along source routes as well: the reverse route if known, and after `tries` also another one."""
        back = self._back_to(to)
        if back:
            self.by(back, frame, back=True)
        if tries and (ways := [way for way in self._alternatives(to) if way != back]):
            self.by(ways[(tries - 1) % len(ways)], frame)

    def _back_to(self, to: int) -> tuple[int, ...]:
        back, until = self._reverse_routes.get(to, ((), 0.0))
        return back if until > self._clock() and self._is_up(back) else ()

    def _alternatives(self, to: int) -> list[tuple[int, ...]]:
        neighbour = self._routes().next(to)
        taken = 0 if neighbour is None else neighbour.id
        if self._routes_revision != self._map.revision:
            self._alternatives_of.clear()
            self._routes_revision = self._map.revision
        ways = self._alternatives_of.get((to, taken))
        if ways is None:
            ways = self._alternatives_of[to, taken] = ways_around(self._map, self._me, to, taken or None)
        return ways

    def _is_up(self, route: tuple[int, ...]) -> bool:
        links = pairwise(route)
        return 1 < len(route) <= ROUTE_MAX and all(self._map.cost_us(near, far) is not None for near, far in links)

    def receive_routed(self, routed: SourceRouted, neighbour: Neighbour, now: float) -> EndToEnd | Forward | None:
        """Relay a neighbour's source-routed frame to the next hop of its route. Return the inner frame if the route
        ends here and the frame may be source-routed, else None."""
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
        except FrameError:  # no relay reads the inner frame, so the neighbour is not to blame
            frame = None
        if frame is None:
            self._counts["unexpected"] += 1
        else:
            self._came_around(routed)
        return frame

    def _may_relay(self, neighbour: Neighbour, now: float) -> bool:
        """Return whether the rate limit lets a neighbour's frame be relayed. The source retransmits a refused one."""
        relays = neighbour.relays.take(now)
        self._counts["relays_refused"] += not relays
        return relays

    def _send_to_next(self, routed: SourceRouted, send: Callable[[int, ControlFrame], None]) -> None:
        neighbour = self._neighbours.get(routed.route[routed.at + 1])
        if neighbour is None:
            self._counts["no_way"] += 1
        else:
            send(neighbour.id, replace(routed, at=routed.at + 1))

"""Control messages from one broker to one or several others: hop by hop, or over a source route.

A message travels in an `EndToEnd` envelope. Brokers on the path relay the bytes of its body. Its MACs let the receiver
refuse changed and invented messages (`message_auth.py`). An envelope for several brokers is split where their next hops
differ, so each link carries its body once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from plait_core.errors import FrameError
from plait_core.rate_limit import TokenBucket
from plait_core.wire import ControlFrame, Forward
from plait_core.wire.frame_types.envelope_frames import (
    ROUTE_MAX,
    EndToEnd,
    Message,
    SourceRouted,
    envelop_message,
    narrowed,
)

from ..security.message_auth import MessageAuth
from ..topology.forwarding_table import ForwardingTable
from ..topology.link_state import LinkStateDatabase
from ..topology.neighbours import Neighbour
from ..topology.source_routes import carries_event, unwrap, ways_around, wrap
from .neighbour_sender import NeighbourSender

REVERSE_S: Final = 30.0
"""After a source-routed frame, its source is answered along the reverse route, too, for so long."""

SEARCHES_PER_S: Final = 20.0
SEARCHES_BURST: Final = 50.0
"""Rate of searches for source routes, each to one broker. A search takes about 10 ms among a thousand brokers. When
hundreds are silent at once, the others get theirs with later retransmissions."""

HOPS_MAX: Final = 64
"""Hops after which a message is dropped: while databases differ, its path may have a loop."""


class ControlUnicast:
    """Sends the messages of one broker, and relays those of others."""

    def __init__(
        self,
        me: int,
        map: LinkStateDatabase,
        routes: ForwardingTable,
        neighbours: dict[int, Neighbour],
        message_auth: MessageAuth,
        sender: NeighbourSender,
        counts: Counter[str],
    ) -> None:
        self._me = me
        self._map = map
        self._routes = routes
        self._neighbours = neighbours
        self._message_auth = message_auth
        self._sender = sender
        self._counts = counts
        self._reverse_routes: dict[int, tuple[tuple[int, ...], float]] = {}
        """By broker that sent a source-routed frame, the reverse route and the end of its use."""
        self._last_number: dict[int, int] = {}
        """By broker, the number of its last source-routed frame: a replayed frame sets no reverse route."""
        self._number = 0
        self._alternatives_of: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self._searches = TokenBucket(SEARCHES_PER_S, SEARCHES_BURST, -math.inf)
        self._routes_revision = -1
        """The revision of the link states that these routes, by destination and next hop, were computed from."""

    def send(self, message: Message, now: float, tries: Sequence[int] = (0,)) -> None:
        """Send a message of our own. `tries` counts, for each destination, the retransmissions without an ack."""
        self.send_envelope(self._message_auth.envelop_message(message), now, tries)

    def send_alike(self, message: Message, to: Sequence[int], now: float, tries: Sequence[int]) -> None:
        """Send several brokers a message of our own that is the same for all but for its destination."""
        envelope = replace(envelop_message(message), to=tuple(to))
        self.send_envelope(self._message_auth.prove(envelope), now, tries)

    def send_envelope(self, envelope: EndToEnd, now: float, tries: Sequence[int] = (0,)) -> None:
        """Send an envelope of our own that has its MACs."""
        self._spread(envelope, range(len(envelope.to)), now, relayed=False)
        for at, count in enumerate(tries):
            if count or envelope.to[at] in self._reverse_routes:
                self._send_around(envelope.to[at], narrowed(envelope, [at]), count, now)

    def pass_on(self, envelope: EndToEnd, neighbour: Neighbour, now: float) -> None:
        """Relay a neighbour's envelope to its destinations other than this broker."""
        others = [at for at, to in enumerate(envelope.to) if to != self._me]
        if others and self._may_relay(neighbour, now):
            self._spread(envelope, others, now, relayed=True)

    def routes_to(self, to: int, last: tuple[int, ...], now: float) -> list[tuple[int, ...]]:
        """Return the source routes for retransmissions, in the order to try them: the reverse of the destination's own
        source route, the last route that worked, then the rest."""
        found = [self._back_to(to, now), last if self._is_up(last) else (), *self._alternatives(to, now)]
        return [route for route in dict.fromkeys(found) if route]

    def send_along(
        self, route: tuple[int, ...], frame: ControlFrame | Forward, now: float, *, back: bool = False
    ) -> bool:
        """Send a frame along a source route if all its links are up. Return whether they are.

        A frame that goes `back` along a reverse route sets no reverse route in turn, or two brokers would keep theirs
        alive for ever.
        """
        if not self._is_up(route):
            return False
        self._counts["detours"] += 1
        self._number = max(self._number + 1, round(now * 1_000_000))
        routed = replace(wrap(route, frame), number=0 if back else self._number)
        self._send_to_next(self._message_auth.prove_route(routed), now, relayed=False)
        return True

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
                self._send_to_next(routed, now, relayed=True)
            return None
        try:
            frame = unwrap(routed)
        except FrameError:  # no relay reads the inner frame, so the neighbour is not to blame
            frame = None
        if frame is None:
            self._counts["unexpected"] += 1
        else:
            self._learn_reverse_route(routed, now)
        return frame

    def forget(self, broker: int) -> None:
        """Forget the routes of a broker."""
        self._reverse_routes.pop(broker, None)
        self._last_number.pop(broker, None)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _spread(self, envelope: EndToEnd, among: Sequence[int], now: float, *, relayed: bool) -> None:
        """Send one frame to each next hop."""
        if envelope.hops >= HOPS_MAX:
            self._counts["control_lost"] += 1
            return
        by: dict[int, list[int]] = {}
        for at in among:
            neighbour = self._routes.next_hop(envelope.to[at])
            if neighbour is None:
                self._counts["control_lost"] += 1
            else:
                by.setdefault(neighbour, []).append(at)
        for neighbour, group in by.items():
            self._send_to(neighbour, narrowed(envelope, group), now, relayed=relayed)

    def _send_around(self, to: int, frame: ControlFrame, tries: int, now: float) -> None:
        """Send a frame along source routes as well: the reverse route if known, and after `tries` also another one."""
        back = self._back_to(to, now)
        if back:
            self.send_along(back, frame, now, back=True)
        if tries and (routes := [route for route in self._alternatives(to, now) if route != back]):
            self.send_along(routes[(tries - 1) % len(routes)], frame, now)

    def _send_to_next(self, routed: SourceRouted, now: float, *, relayed: bool) -> None:
        neighbour = self._neighbours.get(routed.route[routed.at + 1])
        if neighbour is None:
            self._counts["no_way"] += 1
        elif carries_event(routed) and not neighbour.takes_beside(len(routed.frame), now):
            self._counts["lane_full"] += 1
        else:
            self._send_to(neighbour.id, replace(routed, at=routed.at + 1), now, relayed=relayed)

    def _send_to(self, neighbour: int, frame: ControlFrame, now: float, *, relayed: bool) -> None:
        if relayed:
            self._sender.relay(neighbour, frame, now)
        else:
            self._sender.send(neighbour, frame)

    def _learn_reverse_route(self, routed: SourceRouted, now: float) -> None:
        """Note the reverse of the route that a frame took, if its source proves that it chose the route."""
        route, last = routed.route, self._last_number.get(routed.route[0], 0)
        if routed.number > last and self._is_up(route) and self._message_auth.route_is_proved(routed):
            self._last_number[route[0]] = routed.number
            self._reverse_routes[route[0]] = (route[::-1], now + REVERSE_S)

    def _back_to(self, to: int, now: float) -> tuple[int, ...]:
        back, until = self._reverse_routes.get(to, ((), 0.0))
        return back if until > now and self._is_up(back) else ()

    def _alternatives(self, to: int, now: float) -> list[tuple[int, ...]]:
        """Return the ways around the brokers on the path to a destination. It is empty beyond the rate of searches."""
        taken = self._routes.next_hop(to)
        if self._routes_revision != self._map.paths_revision:
            self._alternatives_of.clear()
            self._routes_revision = self._map.paths_revision
        routes = self._alternatives_of.get((to, taken or 0))
        if routes is None:
            if not self._searches.take(now):
                return []
            routes = self._alternatives_of[to, taken or 0] = ways_around(self._map, self._me, to, taken)
        return routes

    def _is_up(self, route: tuple[int, ...]) -> bool:
        links = pairwise(route)
        return 1 < len(route) <= ROUTE_MAX and all(self._map.cost_us(near, far) is not None for near, far in links)

    def _may_relay(self, neighbour: Neighbour, now: float) -> bool:
        """Return whether the rate limit lets a neighbour's frame be relayed. The source retransmits a refused one."""
        relays = neighbour.relays.take(now)
        self._counts["relays_refused"] += not relays
        return relays

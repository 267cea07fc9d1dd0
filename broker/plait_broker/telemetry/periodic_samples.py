"""Records made once a second, independent of events: links, lanes, queues, membership and routes.

Links, lanes and queues are sampled; membership and routes are recorded when they change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait_core.telemetry import FULL, PROBED, RETURNED, RecordKind
from plait_telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from ..broker_view import BrokerView
    from ..overlay.topology.neighbours import Neighbour


class Sampler:
    """One broker's sampler."""

    def __init__(self, broker: BrokerView, telemetry: Telemetry) -> None:
        self._broker = broker
        self._telemetry = telemetry
        self._sent: dict[int, int] = {}
        self._written: dict[int, int] = {}
        """By neighbour, the bytes that its lane was given until the last sample."""
        self._members: dict[int, str] = {}
        self._routes: dict[int, tuple[int, int]] = {}
        self._revision = -1
        self._lost = 0
        telemetry.name("broker", broker.id, name=broker.settings.name)

    def sample(self, now: float, elapsed_s: float, lost: int) -> None:
        """Record the current state. `lost`: records made so far that were never written."""
        self._links(now)
        interest = self._broker.interest
        waiting = interest.waiting
        self._telemetry.state(
            RecordKind.QUEUE,
            len(interest),
            now,
            count=waiting.items,
            size=waiting.bytes,
            expected=waiting.slow,
            delay_us=lost - self._lost,
        )
        self._lost = lost
        overlay_map = self._broker.overlay.map
        if overlay_map.revision != self._revision:
            self._revision = overlay_map.revision
            self._membership(now)
        self._routing(now)
        self._telemetry.adapt(elapsed_s)

    def _links(self, now: float) -> None:
        for neighbour in self._broker.overlay.neighbours.values():
            sent = neighbour.sent - self._sent.get(neighbour.id, 0)
            self._sent[neighbour.id] = neighbour.sent
            self._telemetry.state(
                RecordKind.LINK,
                neighbour.id,
                now,
                delay_us=round(neighbour.delay_us),
                bound_us=round(neighbour.jitter_us),
                size=neighbour.lane.queue.bytes,
                count=max(0, sent),
                expected=neighbour.unanswered(now),
                flags=PROBED if neighbour.delay_us else 0,
            )
            self._lane(neighbour, now)

    def _lane(self, neighbour: Neighbour, now: float) -> None:
        lane, before = neighbour.lane, self._written.get(neighbour.id, 0)
        figures, oldest_at = lane.figures, lane.queue.oldest_at()
        peak = figures.peak(1, now)
        self._written[neighbour.id] = figures.bytes
        self._telemetry.state(
            RecordKind.LANE,
            neighbour.id,
            now,
            delay_us=0 if oldest_at is None else round((now - oldest_at) * 1_000_000),
            bound_us=round(figures.capacity.bytes_per_s),
            size=peak.bytes,
            count=figures.bytes - before if figures.bytes >= before else figures.bytes,  # the link was lost meanwhile
            expected=peak.events,
            flags=FULL if figures.is_full(now) else 0,
        )

    def _membership(self, now: float) -> None:
        members = {link_state.origin: link_state.name for link_state in self._broker.overlay.map.link_states}
        for broker, name in members.items():
            if broker not in self._members:
                self._telemetry.name("broker", broker, name=name)
                self._telemetry.state(RecordKind.MEMBERSHIP, broker, now, flags=RETURNED)
        for broker in self._members:
            if broker not in members:
                self._telemetry.state(RecordKind.MEMBERSHIP, broker, now)
        self._members = members

    def _routing(self, now: float) -> None:
        overlay = self._broker.overlay
        routes: dict[int, tuple[int, int]] = {}
        for broker in self._members:
            if broker == overlay.me:
                continue
            next_hop = overlay.routes.next(broker)
            routes[broker] = (next_hop.id if next_hop is not None else 0, overlay.map.cost_us(overlay.me, broker) or 0)
            if self._routes.get(broker, (0, 0))[0] != routes[broker][0]:
                self._telemetry.state(RecordKind.ROUTING, broker, now, by=routes[broker][0], delay_us=routes[broker][1])
        self._routes = routes

"""The links of one broker: they come up and go down, their delays are measured, and its link state tells others."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from plait_core.ids import new_id
from plait_core.limits import NEIGHBOURS_MAX
from plait_core.rate_limit import TokenBucket
from plait_core.wire import Ping
from plait_core.wire.frame_types.overlay_frames import LinkState

from ..outputs import CloseLink, LogRemark, SendFrame
from ..state import OverlayState
from .neighbours import PROGRESS_TIMES, Neighbour

FLOODS_PER_S: Final = 0.2
FLOODS_BURST: Final = 6.0
"""Rate of link states that one broker floods because delays or capacities have changed. A few show a change in full.
Beyond them the delays are noise, as on an overloaded machine, and every broker verifies every link state, which adds to
the load. OSPF floods a link state every five seconds at most, too."""

JOIN_S: Final = 0.2
"""Links that come up within this time of our last link state flood together, except the first. A broker that joins with
six links would flood six link states otherwise, and every broker stores and relays each. A lost link floods at once."""

STALL_S: Final = 0.1
"""A timer that runs this late shows that the process has stalled."""

STALLS_MAX: Final = 2.0
"""The time that stalls of this process add to the detection bound at most, in detection bounds."""


class LinkMonitor:
    """Watches the links of one broker."""

    def __init__(self, state: OverlayState) -> None:
        self._state = state
        self._heartbeat_at = state.now
        self._dead_at = state.now
        """The earliest time at which a link can be dead."""
        self.due_at = state.now
        """When to call `tick`."""
        self._stalls: deque[tuple[float, float]] = deque()
        """When this process has stalled since the detection bound ago, and for how long."""
        self._floods = TokenBucket(FLOODS_PER_S, FLOODS_BURST, state.now)
        self._version = -1
        """Version of our last link state."""
        self._join_at = state.now
        """When links that have come up may flood."""
        self._joining = False
        """Whether links wait for that time."""

    def up(self, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> bool:
        """Add a link to a broker. Return False if there is one already, or the broker is this one."""
        state = self._state
        if broker == state.me or broker in state.neighbours:
            return False
        neighbour = state.neighbours[broker] = Neighbour(broker, name, link, now)
        if delay_us:
            neighbour.delay_us = delay_us
            neighbour.note_flooded(now)
        state.topology_changed(now)
        self._ping(neighbour, now)
        if delay_us:
            self.originate()
        state.flooding.link_up(broker)
        return True

    def down(self, broker: int, now: float, reason: str) -> None:
        """Remove a link, and retransmit the events that may have been in flight on it."""
        state = self._state
        if state.neighbours.pop(broker, None) is None:
            return
        state.links_lost.pop(broker, None)
        state.links_lost[broker] = reason
        if len(state.links_lost) > NEIGHBOURS_MAX:
            del state.links_lost[next(iter(state.links_lost))]
        state.flooding.link_down(broker)
        state.topology_changed(now)
        self.originate()
        state.retransmit_soon(now, lost=broker)

    def originate(self) -> None:
        """Flood our link state: the links whose delay is measured."""
        state, settings = self._state, self._state.settings
        measured = sorted(neighbour.id for neighbour in state.neighbours.values() if neighbour.flooded_us)
        self._version += 1
        link_state = LinkState(
            *(state.me, self._version, settings.name, tuple(measured)),
            tuple(state.neighbours[broker].flooded_us for broker in measured),
            incarnation=state.incarnation.log,
            born=state.incarnation.born,
            address=state.address,
            capacities=self._capacities(measured),
            segments=settings.segments,
        )
        if measured:
            self._join_at = state.now + JOIN_S
        state.flooding.originate(link_state)

    def _capacities(self, brokers: list[int]) -> tuple[int, ...]:
        """Return the capacity of the link to each broker: the configured one, else what was measured, 0 for unknown.
        Empty if none is known."""
        configured, neighbours = self._state.settings.link_capacity, self._state.neighbours
        capacities = tuple(configured or neighbours[broker].flooded_capacity for broker in brokers)
        return capacities if any(capacities) else ()

    def outbid(self, version: int) -> None:
        """Note that a link state of ours with a higher version floods: it came from an earlier run."""
        self._version = max(self._version, version)

    def measured(self, now: float) -> None:
        """Flood measured delays and capacities that have changed, and compute next hops anew."""
        state = self._state
        state.topology_changed(now)
        neighbours = state.neighbours.values()
        changed = [neighbour for neighbour in neighbours if neighbour.should_flood(now)]
        resized = [neighbour for neighbour in neighbours if neighbour.should_flood_capacity(now)]
        if state.settings.link_capacity:
            resized = []
        joining = any(not neighbour.flooded_us for neighbour in changed)
        if joining and now < self._join_at:
            self._joining = True
            self.due_at = min(self.due_at, self._join_at)
            return
        self._joining = False
        if joining or ((changed or resized) and self._floods.take(now)):
            for neighbour in changed:
                neighbour.note_flooded(now)
            for neighbour in resized:
                neighbour.note_capacity_flooded(now)
            self.originate()

    def tick(self, now: float) -> bool:
        """Close dead links and send heartbeats. Return whether it was time for a heartbeat."""
        if now >= self.due_at:
            self._close_dead(now)
        if now < self._heartbeat_at:
            if self._joining and now >= self._join_at:
                self.measured(now)
                self._set_deadline()
            return False
        state = self._state
        self._heartbeat_at = now + state.settings.heartbeat_s
        for neighbour in list(state.neighbours.values()):
            self._ping(neighbour, now)
        self._close_mute(now)
        self.measured(now)
        self._set_deadline()
        self._compare(now)
        return True

    def _set_deadline(self) -> None:
        joins_at = self._join_at if self._joining else math.inf
        self.due_at = min(self._heartbeat_at, self._dead_at, joins_at)

    def _detect_s(self, now: float) -> float:
        """Return the detection bound, with the time for which this process has stalled in it.

        While it stalls, answers wait unread. An overloaded machine would lose link after link otherwise, and every
        loss and return adds to its load.
        """
        detect_s = self._state.settings.detect_s
        late_s = now - self.due_at
        if late_s > STALL_S:
            self._stalls.append((now, late_s))
        while self._stalls and now - self._stalls[0][0] > detect_s:
            self._stalls.popleft()
        return detect_s + min(sum(late_s for _, late_s in self._stalls), STALLS_MAX * detect_s)

    def _ping(self, neighbour: Neighbour, now: float) -> None:
        nonce = new_id(self._state.randomness)
        neighbour.ping(nonce, now)
        self._state.outputs.append(SendFrame(neighbour.link, Ping(nonce)))

    def _close_dead(self, now: float) -> None:
        """Close dead links, and compute when the next one can be dead."""
        state, detect_s = self._state, self._detect_s(now)
        for neighbour in list(state.neighbours.values()):
            if now >= neighbour.dies_at(detect_s):
                state.counts["links_dead"] += 1
                state.outputs.append(CloseLink(neighbour.link, f"{neighbour.name} is silent"))
                self.down(neighbour.id, now, f"{neighbour.name} has been silent for {detect_s:.3g} s")
        deaths = [neighbour.dies_at(detect_s) for neighbour in state.neighbours.values()]
        self._dead_at = min(deaths, default=math.inf)
        self._set_deadline()

    def _close_mute(self, now: float) -> None:
        """Close the links of neighbours that answer pings and acknowledge no events: nothing passes over them."""
        state, stalls_s = self._state, sum(late_s for _, late_s in self._stalls)
        patience_s = PROGRESS_TIMES * state.settings.detect_s + stalls_s
        for neighbour in list(state.neighbours.values()):
            if neighbour.lane.silent_s(now) > patience_s:
                state.counts["links_mute"] += 1
                reason = f"{neighbour.name} has acknowledged no event for {patience_s:.3g} s"
                state.outputs.append(CloseLink(neighbour.link, reason))
                state.outputs.append(LogRemark(f"{reason}, although it answers pings: the link to it is closed"))
                self.down(neighbour.id, now, reason)

    def _compare(self, now: float) -> None:
        """Compare the delays that neighbours flood with ours."""
        state = self._state
        for neighbour in state.neighbours.values():
            if neighbour.compare(state.map.claim_us(neighbour.id, state.me), now):
                state.counts["disputed"] += 1
                text = (
                    f"{neighbour.name} floods a delay of {neighbour.claimed_us / 1000:g} ms for the link to it; "
                    f"measured are {neighbour.flooded_us / 1000:g} ms, and paths use the greater delay"
                )
                state.outputs.append(LogRemark(text))

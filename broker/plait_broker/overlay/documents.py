"""The step from a flooded document to the tables: link states, advertisements and durable interest."""

from __future__ import annotations

import math
from typing import Final

from plait_core.rate_limit import TokenBucket
from plait_core.wire.frame_types.overlay_frames import Advertisement, DurableInterest, LinkState

from .outputs import LogRemark
from .state import OverlayState
from .topology.link_monitor import LinkMonitor
from .topology.membership import Membership

CHANGES_PER_S: Final = 20.0
CHANGES_BURST: Final = 16.0
"""Rate of changes of the map that may wait. Beyond it link states are gathered: they change the map together, and are
relayed together. After each change paths are computed anew, and interest goes to new brokers. While a thousand brokers
start, thousands of link states arrive within a second, and only the newest of each broker counts. A lost link does not
wait."""

CALM_S: Final = 0.1
STORM_S: Final = 1.0
"""While link states are gathered, and for so long after, new brokers get no interest: others on the path may not know
them yet, and later one update serves many. They wait `STORM_S` at most."""


class DocumentHandler:
    """Takes the documents that `Flooding` has learned."""

    def __init__(self, state: OverlayState, links: LinkMonitor, membership: Membership) -> None:
        self._state = state
        self._links = links
        self._membership = membership
        self._gathered: list[LinkState] = []
        """Link states that are not in the map yet."""
        self._changes = TokenBucket(CHANGES_PER_S, CHANGES_BURST, state.now)
        self.due_at = math.inf
        """When to call `learn_all`, at the latest."""
        self.calm_at = -math.inf
        """The end of a storm of link states."""
        self._storm_ends_at = -math.inf
        """Its end at the latest."""

    def learn_all(self, now: float) -> None:
        """Take all learned documents. One may cause another: a dead link changes our own link state."""
        learned = self._state.flooding.learned
        while learned or now >= self.due_at:
            if not learned:
                self.put_gathered(now)
                continue
            document = learned.popleft()
            if isinstance(document, LinkState):
                self._gather(document, now)
            elif isinstance(document, Advertisement):
                self._learn_advertisement(document)
            elif document.origin != self._state.me:
                self._learn_durable_interest(document)
        while self._state.flooding.exceeded:
            self._report_excess(self._state.flooding.exceeded.popleft())

    def _report_excess(self, origin: int) -> None:
        state = self._state
        if origin == state.me:
            text = (
                "this broker floods more advertisements and durable filters than others store: they ignore further ones"
            )
        else:
            name = state.map.name(origin) or f"{origin:016x}"
            text = f"{name} floods more documents than one broker may: further ones are refused"
        state.outputs.append(LogRemark(text))

    def review_absent(self) -> None:
        """Compute which home brokers cannot send their interest now."""
        state = self._state
        fingerprint = state.advertisements.fingerprint(state.me)
        state.remote_durable_interest.review(state.remote_interest.homes, fingerprint)

    def _gather(self, link_state: LinkState, now: float) -> None:
        """Put a link state into the map, now or together with others."""
        state = self._state
        self._gathered.append(link_state)
        if link_state.origin == state.me or state.map.loses(link_state) or self._changes.take(now):
            self.put_gathered(now)
        else:
            self.due_at = min(self.due_at, now + 1 / CHANGES_PER_S)
            state.flooding.holds = True
            if now >= self.calm_at:
                self._storm_ends_at = now + STORM_S
            self.calm_at = min(now + CALM_S, self._storm_ends_at)

    def put_gathered(self, now: float) -> None:
        """Put the gathered link states into the map."""
        gathered, self._gathered = self._gathered, []
        self.due_at = math.inf
        self._state.flooding.release()
        newest = [one for one in gathered if self._state.flooding.link_state(one.origin) is one]
        for link_state in newest:
            self._learn_link_state(link_state, now)
        self._membership.links_changed(now)
        for log in dict.fromkeys(link_state.incarnation for link_state in newest if link_state.incarnation):
            self._membership.look_for_successors(log, now)

    def _learn_link_state(self, link_state: LinkState, now: float) -> None:
        state = self._state
        if link_state.origin == state.me:
            self._links.outbid(link_state.version)
        before = state.map.known.get(link_state.origin)
        if state.map.put(link_state):
            state.retransmit_soon(now)
        state.strategy.topology_changed(now)
        if before is None or before.neighbours != link_state.neighbours:
            state.interest_sync.retransmit_soon(now)
        state.interest_sync.meet(link_state.origin)
        if link_state.origin != state.me:
            state.local_durable_interest.begin()
            state.durable_interest_store.learn_link_state(link_state.origin)

    def _learn_advertisement(self, advertisement: Advertisement) -> None:
        state = self._state
        key = (advertisement.origin, advertisement.number)
        filter, readable = state.advertisements.learn(advertisement)
        if not readable:
            state.counts["bad_filters"] += 1
        if advertisement.origin == state.me:
            return
        sync = state.interest_sync
        sync.meet(advertisement.origin)
        if filter is None:
            sync.withdraw(*key)
        else:
            sync.offer(*key, filter)
        sync.offered(advertisement.origin, state.advertisements.fingerprint(advertisement.origin))

    def _learn_durable_interest(self, document: DurableInterest) -> None:
        self._state.counts["bad_filters"] += not self._state.durable_interest_store.learn(document)
        self.review_absent()

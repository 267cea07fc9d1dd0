"""The step from a flooded document to the tables: link states, advertisements and durable interest."""

from __future__ import annotations

from plait_core.wire.frame_types.overlay_frames import Advertisement, DurableInterest, LinkState

from .outputs import LogRemark
from .state import OverlayState
from .topology.link_monitor import LinkMonitor
from .topology.membership import Membership


class DocumentHandler:
    """Takes the documents that `Flooding` has learned."""

    def __init__(self, state: OverlayState, links: LinkMonitor, membership: Membership) -> None:
        self._state = state
        self._links = links
        self._membership = membership

    def learn_all(self, now: float) -> None:
        """Take all learned documents. One may cause another: a dead link changes our own link state."""
        learned = self._state.flooding.learned
        while learned:
            document = learned.popleft()
            if isinstance(document, LinkState):
                self._learn_link_state(document, now)
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
        self._membership.link_state_changed(link_state.incarnation, now)

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

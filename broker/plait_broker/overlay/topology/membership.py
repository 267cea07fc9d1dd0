"""Brokers that cannot be reached or have restarted: how long their state is kept, and which broker takes it over."""

from __future__ import annotations

import math

from ..outputs import CloseLink, LogRemark
from ..state import OverlayState
from .link_monitor import LinkMonitor


class Membership:
    """The brokers of one overlay that are away."""

    def __init__(self, state: OverlayState, links: LinkMonitor) -> None:
        self._state = state
        self._links = links
        self._given_up: frozenset[str] = frozenset()
        self._since: dict[int, float] = {}
        """By broker out of reach, since when."""
        self._links_revision = (-1, 0)
        """The revision of the links, and the number of brokers, when the brokers out of reach were noted last: a change
        of delays keeps everybody in reach."""
        self._thinned: set[int] = set()
        """Brokers for which only the events of durable subscriptions are still kept."""

    def give_up(self, names: frozenset[str]) -> None:
        """Set the names of brokers that the operator has given up: they are forgotten while they are away."""
        self._given_up = names

    def links_changed(self, now: float) -> None:
        """Note which brokers can be reached now."""
        state = self._state
        links = (state.map.links_revision, len(state.map))
        if links != self._links_revision:
            self._links_revision = links
            self._note_reached(now)

    def _note_reached(self, now: float) -> None:
        state = self._state
        reached = state.reached
        state.interest_sync.reach_changed()
        for known in state.map.link_states:
            broker = known.origin
            if broker not in reached:
                self._since.setdefault(broker, now)
            elif self._since.pop(broker, None) is not None:
                self._thinned.discard(broker)
                state.retransmit_soon(now, broker)
                state.interest_sync.back(broker)

    def expire(self, now: float) -> None:
        """Forget brokers that are away for too long."""
        state, settings = self._state, self._state.settings
        for broker, since in list(self._since.items()):
            if self._given_up and state.map.name(broker) in self._given_up:
                self._remove(broker, now, dead=True)
                continue
            if now - since < settings.gone_s:
                continue
            if now - since >= settings.durable_gone_s or not self._is_durable(broker):
                self._remove(broker, now)
            elif broker not in self._thinned:
                self._thin(broker, now)

    def _is_durable(self, broker: int) -> bool:
        """Return whether a broker's state is kept for longer: it has durable subscriptions, or it has a log and we have
        durable subscriptions."""
        state = self._state
        if broker in state.remote_durable_interest:
            return True
        link_state = state.flooding.link_state(broker)
        return bool(state.local_durable_interest) and link_state is not None and bool(link_state.incarnation)

    def _thin(self, broker: int, now: float) -> None:
        state = self._state
        self._thinned.add(broker)
        state.remote_interest.gone(broker)
        state.event_streams.thin(broker, lambda frame: state.remote_durable_interest.matches(broker, frame), now)

    def look_for_successors(self, log: int, now: float) -> None:
        """Find brokers that have restarted under another id: of one log only the broker born last is alive.

        It gets the events that its predecessors had not acked.
        """
        state = self._state
        same = (known for known in state.map.link_states if known.incarnation == log)
        lives = sorted(same, key=lambda known: known.born)
        for known in lives[:-1]:
            if known.origin == state.me:
                self._report_claim(lives[-1].name)
                continue
            self._hand_over(known.origin, lives[-1].origin, now)
            self._remove(known.origin, now, dead=True)
            neighbour = state.neighbours.get(known.origin)
            if neighbour is not None:
                state.outputs.append(CloseLink(neighbour.link, f"{neighbour.name} has restarted"))
                self._links.down(known.origin, now, f"{neighbour.name} has restarted")

    def _report_claim(self, name: str) -> None:
        state = self._state
        if not state.counts["incarnation_claimed"]:
            text = (
                f"{name} has started with the log of this broker, as if from a copy of its data: "
                "events for this broker go there; stop one of the two"
            )
            state.outputs.append(LogRemark(text))
        state.counts["incarnation_claimed"] += 1

    def _hand_over(self, before: int, successor: int, now: float) -> None:
        """Move a restarted broker's interest and unacked events to its successor."""
        state = self._state
        if successor == state.me:
            return
        interest = state.remote_interest.homes.get(successor)
        since = interest.since if interest is not None else math.inf
        state.event_streams.succeed(before, successor, since, now)
        state.remote_interest.succeed(before, successor)
        if since == math.inf:
            state.remote_durable_interest.succeed(before, successor)

    def _remove(self, broker: int, now: float, *, dead: bool = False) -> None:
        """Forget a broker that was out of reach for too long, or is dead."""
        state = self._state
        self._since.pop(broker, None)
        self._thinned.discard(broker)
        state.durable_interest_store.forget(broker)
        state.flooding.forget(broker, dead=dead)
        state.map.remove(broker)
        state.routes.forget(broker)
        state.unicast.forget(broker)
        state.advertisements.forget(broker)
        state.message_auth.forget(broker)
        state.interest_sync.gone(broker)
        state.remote_interest.gone(broker)
        state.event_streams.gone(broker, now)

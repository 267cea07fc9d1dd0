"""The step *match*: filters first, then the tags of sealed events, then the rights of the subscribers."""

from __future__ import annotations

from typing import TypeAlias

from plait_core.wire import EventFrame

from ..clients.delivery import Deliveries
from ..clients.sessions import DurableSubscription, Subscription
from .observer import EventObserver
from .sealed_events import SealedEvents
from .sealed_matching import TagVerdict
from .subscription_index import SubscriptionIndex

Match: TypeAlias = tuple[list[Subscription], list[DurableSubscription], TagVerdict | None]
"""The subscriptions of this broker that get an event, the durable ones, and the results of its tags; None for an
event that is not sealed."""


class EventMatcher:
    """Matches events against the subscriptions of one broker's clients."""

    def __init__(
        self, observer: EventObserver, index: SubscriptionIndex, sealed: SealedEvents, deliveries: Deliveries
    ) -> None:
        self.sealed = sealed
        self._match = index.match
        self._observer = observer
        self._marked = observer.marked
        self._deliveries = deliveries

    def match(self, frame: EventFrame, tagged: object, now: float) -> Match:
        """Return the subscriptions that get an event. `tagged`: whether its tags may have been tested."""
        match = self._match
        subscriptions, durables = self._observer.timed_match(match, frame) if self._marked else match(frame)
        verdict = self.sealed.verdict(frame) if tagged else None
        if verdict is not None:
            subscriptions, durables = self.sealed.fitting(subscriptions, durables, verdict)
        for subscription in subscriptions:
            if not subscription.session.subscribe_open:
                subscriptions = self._deliveries.permitted(subscriptions, frame, now)
                break
        return subscriptions, durables, verdict

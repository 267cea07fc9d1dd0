"""Events that brokers publish themselves: they skip admission, streams to the log and confirmations."""

from __future__ import annotations

from plait_core.values import Attributes
from plait_core.wire import Confirm, EventFrame

from ..adapter.remote_confirmations import RemoteConfirmations
from ..clients.delivery import Deliveries
from ..counters import Counters
from ..drop_reasons import DropReason
from .subscription_index import SubscriptionIndex


class BrokerEvents:
    """Sends this broker's own events to other brokers, and delivers those of all brokers."""

    def __init__(
        self,
        counters: Counters,
        index: SubscriptionIndex,
        deliveries: Deliveries,
        remote_confirmations: RemoteConfirmations,
    ) -> None:
        self._counters = counters
        self._index = index
        self._deliveries = deliveries
        self._remote = remote_confirmations

    def publish(
        self, frame: EventFrame, attributes: Attributes, destinations: list[int], delay_us: int, now: float
    ) -> None:
        """Send an event of this broker to its destinations, and deliver it here."""
        if destinations:
            self._remote.publish(frame, destinations, delay_us, now, Confirm.NONE)
        self.deliver(frame, attributes, delay_us, now)

    def deliver(self, frame: EventFrame, attributes: Attributes, delay_us: int, now: float) -> None:
        """Deliver a broker's event to the subscriptions that match it and may read it."""
        found = self._index.match_system(attributes)
        allowed = [each for each in found if each.session.principal.system.permit(attributes)]
        self._counters.dropped[DropReason.FORBIDDEN] += len(found) - len(allowed)
        if allowed:
            self._deliveries.deliver_system(allowed, frame, delay_us, now)

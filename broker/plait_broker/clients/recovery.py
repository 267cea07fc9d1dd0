"""Recovery from the log at the start: durable subscriptions, the duplicate window, and documents of other brokers."""

from __future__ import annotations

from plait_core.filters import parse

from ..joining import Joining
from ..outputs import Recovered
from ..pipeline.admission import Admission
from ..pipeline.subscription_index import SubscriptionIndex
from .durable_subscriptions import DurableSubscriptions, entry_of
from .sessions import DurableSubscription


def recover(
    recovered: Recovered,
    index: SubscriptionIndex,
    durables: DurableSubscriptions,
    admission: Admission,
    joining: Joining,
    now: float,
) -> None:
    """Restore the state of an earlier run. Call it before the first connection."""
    for cursor in recovered.cursors:
        durable = DurableSubscription(
            index.new_number(),
            cursor.owner,
            cursor.name,
            parse(cursor.filter),
            cursor.acknowledged,
            set(cursor.beyond),
            kept=True,
        )
        durables.add(durable)
        index.add(durable)
    for record in recovered.recent:
        admission.recover(entry_of(record).frame.id)
    joining.recall([memory.frame for memory in recovered.memories], now)

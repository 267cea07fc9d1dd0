"""What a broker takes up where its log left it: durable subscriptions, the memory of events seen, and what durable
subscriptions of other brokers want."""

from __future__ import annotations

from plait_core.filters import parse

from ..joining import Joining
from ..outputs import Recovered
from ..pipeline.pipeline import EventPipeline
from ..pipeline.subscription_index import SubscriptionIndex
from .durable_subscriptions import DurableSubscription, DurableSubscriptions, entry_of


def recover(
    recovered: Recovered,
    interest: SubscriptionIndex,
    durables: DurableSubscriptions,
    publishing: EventPipeline,
    joining: Joining,
    now: float,
) -> None:
    """Before anyone is connected."""
    for cursor in recovered.cursors:
        durable = DurableSubscription(
            interest.new_number(),
            cursor.owner,
            cursor.name,
            parse(cursor.filter),
            cursor.acknowledged,
            set(cursor.beyond),
            kept=True,
        )
        durables.add(durable)
        interest.add(durable)
    for record in recovered.recent:
        publishing.recover(entry_of(record).frame.id)
    joining.recall([memory.frame for memory in recovered.memories], now)

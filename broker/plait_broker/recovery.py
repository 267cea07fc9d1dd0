"""What a broker takes up where its log left it: durable subscriptions, the memory of events seen, and what durable
subscriptions of other brokers want."""

from __future__ import annotations

from plait_core.filters import parse

from .durables import Durable, Durables, entry_of
from .interest import Interest
from .joining import Joining
from .outputs import Recovered
from .publishing import Publishing


def recover(
    recovered: Recovered,
    interest: Interest,
    durables: Durables,
    publishing: Publishing,
    joining: Joining,
    now: float,
) -> None:
    """Before anyone is connected."""
    for cursor in recovered.cursors:
        durable = Durable(
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

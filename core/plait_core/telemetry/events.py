"""A record as the attributes of an event: its fields under their own names, with the prefix `$`."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from ..ids import id_text
from ..values import Attributes
from .schema import DURABLE, FELL, FULL, LATE, PROBED, REPLAYED, RETURNED, TO_BROKER, RecordKind, reason_text

KIND: Final = "$kind"

_FLAGS: Final = MappingProxyType(
    {
        RecordKind.DELIVERY: (("$late", LATE), ("$durable", DURABLE), ("$replayed", REPLAYED)),
        RecordKind.DROP: (("$to_broker", TO_BROKER),),
        RecordKind.EXPIRY: (("$to_broker", TO_BROKER),),
        RecordKind.LINK: (("$probed", PROBED),),
        RecordKind.MEMBERSHIP: (("$returned", RETURNED),),
        RecordKind.UNSEEN: (("$fell", FELL),),
        RecordKind.LANE: (("$full", FULL),),
    }
)
"""The flags that are defined for a kind."""

_COUNTED: Final = frozenset(
    (
        *(RecordKind.PUBLISH, RecordKind.DELIVERY, RecordKind.DROP, RecordKind.EXPIRY, RecordKind.QUEUE),
        *(RecordKind.CLIENT, RecordKind.UNSEEN),
    )
)
"""Kinds whose subject is a number: a cell, a subscription or a count. The subject of other kinds is a broker's id."""


def subject_is_id(kind: int, flags: int) -> bool:
    """Return whether the subject of a record is a broker's id, not a number."""
    return kind not in _COUNTED or bool(flags & TO_BROKER)


def record_attributes(record: Sequence[int], broker: str) -> Attributes:
    """Return the attributes of a record that `records.RECORD` unpacked.

    `broker` is the name of the recording broker.
    """
    _, published_us, publisher, sequence, subject, delay_us, bound_us, size, count, expected, weight, *small = record
    number, reason, hops, flags = small
    kind = RecordKind(number)
    attributes: Attributes = {KIND: kind.name.lower(), "$broker": broker}
    if publisher:
        attributes["$publisher"] = id_text(publisher)
    if sequence:
        attributes["$sequence"], attributes["$published_us"] = sequence, published_us
    if subject:
        attributes["$subject"] = id_text(subject) if subject_is_id(kind, flags) else subject
    if reason or kind is RecordKind.EXPIRY:
        attributes["$reason"] = reason_text(reason)
    attributes["$delay_us"], attributes["$bound_us"], attributes["$size"] = delay_us, bound_us, size
    attributes["$count"], attributes["$expected"], attributes["$weight"], attributes["$hops"] = (
        count,
        expected,
        weight,
        hops,
    )
    for name, flag in _FLAGS.get(kind, ()):
        attributes[name] = bool(flags & flag)
    return attributes

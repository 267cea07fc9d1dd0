"""The reasons for which an event, or one delivery of it, is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class DropReason(StrEnum):
    """The label of counters, notices and metrics of drops."""

    # a whole event, at admission
    DUPLICATE = "duplicate"  # this publisher's sequence number was seen before
    STALE = "stale"  # its sequence number lies below the window in which duplicates are detected
    EXPIRED = "expired"  # its lifetime was over
    NOT_ALLOWED = "not_allowed"  # its publisher has no right to publish it
    INVALID = "invalid"  # its attributes cannot be read
    DURABILITY = "durability"  # it had to be stored and could not be
    DRAINING = "draining"  # the broker is stopping
    BAD_TAGS = "bad_tags"  # it is marked as sealed and has no tags
    UNMATCHED = "unmatched"  # no subscription matched: nothing was lost
    # of one delivery
    LATE = "late"  # the subscription's delay bound had passed
    OUTBOX_ITEMS = "outbox_items"  # the subscription's queue was full by count
    OUTBOX_BYTES = "outbox_bytes"  # the subscription's queue was full by size
    FORBIDDEN = "forbidden"  # the subscriber has no right to receive it
    GONE = "gone"  # the subscriber's session ended with events queued
    UNREACHABLE = "unreachable"  # its destination was unreachable for too long
    OVERLAY_FULL = "overlay_full"  # too many events waited for its destination
    RETENTION = "retention"  # the log had deleted it, or it was damaged, before a durable subscription read it
    DISCARDED = "discarded"  # its durable subscription was removed, or moved past it, on request


LATE: Final = frozenset({DropReason.LATE})
"""A delivery that was dropped because it was late, as its subscription demands. Late events are no losses."""

LOST: Final = frozenset(
    {
        DropReason.DURABILITY, DropReason.GONE, DropReason.INVALID, DropReason.OUTBOX_BYTES, DropReason.OUTBOX_ITEMS,
        DropReason.OVERLAY_FULL, DropReason.RETENTION, DropReason.UNREACHABLE,
    }
)  # fmt: skip
"""A subscription misses the event, and nobody has asked for that. The other drops follow from a lifetime, a right or a
repetition, or no subscription matched."""


def count_lost(dropped: Mapping[DropReason, int] | Mapping[str, float]) -> float:
    """Return the losses among drops by reason."""
    return sum(count for reason, count in dropped.items() if reason in LOST)


def count_late(dropped: Mapping[DropReason, int] | Mapping[str, float], flagged: float) -> float:
    """Return the late events: those among drops by reason, and those that were delivered with a flag."""
    return flagged + sum(count for reason, count in dropped.items() if reason in LATE)

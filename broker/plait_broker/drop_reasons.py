"""Why an event, or one delivery of it, ended where it did. Every drop in the system has one of these reasons."""

from __future__ import annotations

from enum import StrEnum


class DropReason(StrEnum):
    """The enumeration that counters, notices and metrics are labelled by."""

    # of a whole event, at admission
    DUPLICATE = "duplicate"  # this publisher's sequence number was seen before
    STALE = "stale"  # its sequence number lies below the window in which duplicates are told apart
    EXPIRED = "expired"  # its lifetime was over
    NOT_ALLOWED = "not_allowed"  # its publisher may not say this
    INVALID = "invalid"  # its attributes cannot be read
    DURABILITY = "durability"  # it had to be stored, and could not be
    DRAINING = "draining"  # the broker is stopping
    BAD_TAGS = "bad_tags"  # it says that it is sealed, and has no tags to be routed by
    UNMATCHED = "unmatched"  # no subscription matched: nothing was lost, but this is where it ended
    # of one delivery
    LATE = "late"  # the subscription's delay bound had passed
    OUTBOX_ITEMS = "outbox_items"  # the subscription's queue was full by count
    OUTBOX_BYTES = "outbox_bytes"  # the subscription's queue was full by size
    FORBIDDEN = "forbidden"  # the subscriber may not hear this
    GONE = "gone"  # the subscriber's session ended with events queued
    UNREACHABLE = "unreachable"  # the broker that it was for could not be reached for too long
    OVERLAY_FULL = "overlay_full"  # too much waited for the broker that it was for
    RETENTION = "retention"  # a durable subscription came back after the log had let it go, or it was damaged

"""The registry of telemetry schemas: for each version, the fields of a record and their meaning for each kind.

A record is 64 bytes, little-endian, in every version. So a reader that understands the header can count, split and skip
the records. New fields take a new version; readers skip segments of unknown versions and report them.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..values import Json

if TYPE_CHECKING:
    import numpy as np

RECORD_BYTES: Final = 64
"""Bytes of a record: a cache line. 16 of them fill a kilobyte, and a file's size gives their number."""

SCHEMA_VERSION: Final = 1
"""The version that this release writes."""


class RecordKind(IntEnum):
    """The kinds of records. `subject` is the thing that the record is about, see the comments."""

    PUBLISH = 1  # an event was admitted here. expected: subscriptions that it matched here; count: brokers it goes to;
    #              subject: its cell of the event space (a 1, then bits of its dz-expression), 0: no space is known
    ARRIVAL = 2  # an event of another broker's publisher came. subject: that broker; expected: subscriptions matched
    FORWARD = 3  # a copy went to a neighbour. subject: the neighbour; count: the brokers it is for; hops: passed so far
    DELIVERY = 4  # subject: the subscription; bound_us: its delay bound; expected: as in the event's record here
    DROP = 5  # subject: the subscription or broker it was for, 0: the whole event; reason: why
    EXPIRY = 6  # an expired event, as DROP; bound_us: the lifetime
    LINK = 7  # subject: the neighbour; delay_us, bound_us: delay and its jitter; size: bytes of events that wait for
    #           it now; count: events handed to it, expected: pings unanswered, since the last sample
    MATCH = 8  # one read was matched. count: its events, and copies of events from other brokers; delay_us: the time
    #            for all of them
    QUEUE = 9  # count, size: items and bytes that wait for subscribers; expected: slow ones; subject: subscriptions;
    #           delay_us: records of telemetry that were lost since the last
    MEMBERSHIP = 10  # subject: a broker that came, or went (flag RETURNED or none)
    ROUTING = 11  # subject: a broker; publisher: the neighbour that it is reached by now, 0: none; delay_us: distance
    CLIENT = 12  # a client's report. subject: the subscription; count: handed out since the last; size: waiting now
    UNSEEN = 13  # a client's report of deliveries that the application has not seen. subject: the subscription; count:
    #              the change of their number (flag FELL: it fell); publisher, sequence: the last of them; reason: why
    LANE = 14  # the direction of a link to a neighbour, the subject. size, expected: most bytes and events that waited,
    #            count: bytes handed to it, since the last sample; delay_us: how long the oldest event has waited;
    #            bound_us: the bytes/s that it carries while events wait, 0: unknown; flag FULL: they wait for long


LATE: Final = 1
"""Set if the delivery exceeded the subscription's bound."""
DURABLE: Final = 2
REPLAYED: Final = 4
"""Set if the event was read from the log, not delivered live."""
RETURNED: Final = 8
"""Of a membership: set if the broker is present now."""
PROBED: Final = 16
"""Of a link: set if the delay is measured, not still unknown."""
TO_BROKER: Final = 32
"""Of a drop: set if its subject is a broker, not a subscription."""

FELL: Final = 64
"""Of unseen events: set if their number fell. Only that of waiting ones does."""


FULL: Final = 128
"""Of a lane: set if events have waited in it for a second or longer, so it is given more than it carries."""


class Field(NamedTuple):
    """One column of a record."""

    name: str
    code: str
    """The type in numpy's notation, without byte order: u8 is eight unsigned bytes."""
    says: str


_FIELDS_1: Final = (
    Field("ts_us", "i8", "when it was recorded, microseconds since 1970 by the broker's calendar"),
    Field("published_us", "i8", "when the event was published, by the publisher's calendar"),
    Field("publisher", "u8", "with the sequence number, names the event"),
    Field("sequence", "u8", "the publisher's own count"),
    Field("subject", "u8", "what the record is about: a subscription, a neighbour, a broker"),
    Field("delay_us", "u4", "since publication, as measured hop by hop; of a link its delay, of a match its time"),
    Field("bound_us", "u4", "the subscription's bound or the event's lifetime, 0: none; of a link its jitter"),
    Field("size", "u4", "bytes of the event; of a queue or link, what waits"),
    Field("count", "u4", "by kind"),
    Field("expected", "u2", "subscriptions here that the event matched"),
    Field("weight", "u2", "how many records this one stands for: above 1 where sampled"),
    Field("kind", "u1", "see kinds"),
    Field("reason", "u1", "of a drop or of unseen events, see reasons"),
    Field("hops", "u1", "brokers that the event has passed, this one included"),
    Field("flags", "u1", "see flags"),
)

SCHEMAS: Final = MappingProxyType({1: _FIELDS_1})

_REASONS: Final = (
    "",
    *("duplicate", "stale", "expired", "not_allowed", "invalid", "durability", "draining", "unmatched"),
    *("late", "outbox_items", "outbox_bytes", "forbidden", "gone", "unreachable", "overlay_full", "retention"),
    "bad_tags",
    *("waiting", "queue_full", "closed", "connection_lost", "not_convertible", "not_authentic", "another_realm"),
    *("stale_epoch", "missing_key", "replayed", "discarded"),
)
"""Reasons by code. Only ever appended to, so that written records keep their meaning."""
_REASON_CODES: Final = {reason: code for code, reason in enumerate(_REASONS)}

OTHER_REASON: Final = 255
"""The code of a reason that this version does not know."""


def reason_code(reason: str) -> int:
    """Return the code of a reason."""
    return _REASON_CODES.get(reason, OTHER_REASON)


def reason_text(code: int) -> str:
    """Return the text of a reason's code."""
    return _REASONS[code] if code < len(_REASONS) else "other"


def record_dtype(version: int = SCHEMA_VERSION) -> np.dtype[Any]:
    """Return the numpy type of records. Writers do not need numpy."""
    import numpy as np

    dtype = np.dtype([(field.name, "<" + field.code) for field in SCHEMAS[version]])
    assert dtype.itemsize == RECORD_BYTES
    return dtype


def schema_document(version: int = SCHEMA_VERSION) -> Json:
    """Return the version as JSON. It is stored beside the segments, for readers other than Plait's."""
    return {
        "version": version,
        "record_bytes": RECORD_BYTES,
        "byte_order": "little",
        "fields": [field._asdict() for field in SCHEMAS[version]],
        "kinds": {kind.name.lower(): int(kind) for kind in RecordKind},
        "flags": {
            "late": LATE,
            "durable": DURABLE,
            "replayed": REPLAYED,
            "returned": RETURNED,
            "probed": PROBED,
            "to_broker": TO_BROKER,
            "fell": FELL,
            "full": FULL,
        },
        "reasons": {reason: code for reason, code in _REASON_CODES.items() if reason},
    }

"""Telemetry: the fixed records that brokers and peers write of every event, link and decision. No I/O.

`schema.py` is the registry of versions. `records.py` writes single records, `events.py` converts them to attributes.
`segments.py` defines how files of records begin and end. `buckets.py` counts delays, `cells.py` locates events in the
event space. `plait_telemetry` writes records, analytics reads them.
"""

from .buckets import BUCKETS, bucket_bounds_us, bucket_of
from .cells import CELL_BITS, cell_of
from .events import KIND, record_attributes, subject_is_id
from .records import RECORD, pack_into
from .schema import (
    DURABLE,
    FELL,
    FULL,
    LATE,
    PROBED,
    RECORD_BYTES,
    REPLAYED,
    RETURNED,
    SCHEMA_VERSION,
    SCHEMAS,
    TO_BROKER,
    Field,
    RecordKind,
    reason_code,
    reason_text,
    record_dtype,
    schema_document,
)
from .segments import (
    SEAL_BYTES,
    SEGMENT_HEADER_BYTES,
    Seal,
    SegmentError,
    SegmentHeader,
    parse_seal,
    parse_segment_name,
    segment_name,
)

__all__ = [
    "BUCKETS",
    "CELL_BITS",
    "DURABLE",
    "FELL",
    "FULL",
    "KIND",
    "LATE",
    "PROBED",
    "RECORD",
    "RECORD_BYTES",
    "REPLAYED",
    "RETURNED",
    "SCHEMAS",
    "SCHEMA_VERSION",
    "SEAL_BYTES",
    "SEGMENT_HEADER_BYTES",
    "TO_BROKER",
    "Field",
    "RecordKind",
    "Seal",
    "SegmentError",
    "SegmentHeader",
    "bucket_bounds_us",
    "bucket_of",
    "cell_of",
    "pack_into",
    "parse_seal",
    "parse_segment_name",
    "reason_code",
    "reason_text",
    "record_attributes",
    "record_dtype",
    "schema_document",
    "segment_name",
    "subject_is_id",
]

"""Write one record into a buffer. This is the hot half of emission, so it is one call of a compiled `struct`.

A test compares the layout with the registry's.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

RECORD: Final = Struct("<qqQQQIIIIHHBBBB")

pack_into: Final = RECORD.pack_into
"""(buffer, offset, ts_us, published_us, publisher, sequence, subject, delay_us, bound_us, size, count, expected,
weight, kind, reason, hops, flags). The caller keeps every value within its field.
"""

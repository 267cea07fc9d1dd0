"""Turn a table of bits by 90 degrees: from a number for each row to bytes for each column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def columns_of(rows: Sequence[int], count: int) -> list[bytes]:
    """Return the first `count` columns of a table. Bit i of a row is column i; bit j of a column is row j. Zeros at the
    end of a column are left out."""
    width = (count + 7) // 8
    mask = (1 << count) - 1
    packed = b"".join([(row & mask).to_bytes(width, "little") for row in rows])
    table = np.frombuffer(packed, dtype=np.uint8).reshape(len(rows), width)
    bits = np.unpackbits(table, axis=1, bitorder="little")[:, :count]
    columns = np.packbits(bits, axis=0, bitorder="little").T
    height, data = columns.shape[1], columns.tobytes()
    return [data[at * height : (at + 1) * height].rstrip(b"\0") for at in range(count)]

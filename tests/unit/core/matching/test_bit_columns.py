"""A table of bits, turned by 90 degrees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait_core.matching.bit_columns import columns_of


@given(st.lists(st.integers(0, 2**70 - 1), min_size=1, max_size=40), st.integers(1, 70))
def test_columns_have_the_bits_of_the_rows(rows: list[int], count: int) -> None:
    columns = columns_of(rows, count)
    assert len(columns) == count
    for at, column in enumerate(columns):
        assert int.from_bytes(column, "little") == sum((row >> at & 1) << number for number, row in enumerate(rows))
        assert not column.endswith(b"\0")

"""Many powers of one base: a comb (Lim and Lee, 1994), for points and for elements of GT. And Waters' hash.

An exponent is eight rows of 32 bits; a column of it, one byte, selects an entry of a table. With `tables` tables for as
many blocks of columns, a power takes 32 multiplications and 32 / tables squarings instead of some 380 of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

P = TypeVar("P")

_COLUMNS: Final = 32
_ROWS: Final = 8
_SPREAD: Final = [sum((byte >> k & 1) << 8 * k for k in range(8)) for byte in range(256)]
"""The bits of a byte, each moved to the lowest bit of a byte of its own."""


def columns(exponent: int) -> bytes:
    """Return the 32 columns of an exponent, lowest first: bit r of column k is its bit 32 r + k."""
    rows = exponent.to_bytes(_COLUMNS, "little")
    found = []
    for place in range(4):
        spread = 0
        for row in range(_ROWS):
            spread |= _SPREAD[rows[4 * row + place]] << row
        found.append(spread.to_bytes(8, "little"))
    return b"".join(found)


class Comb(Generic[P]):
    """The tables of one base."""

    __slots__ = ("_multiply", "_tables")

    def __init__(self, base: P, multiply: Callable[[P, P], P], tables: int = 2) -> None:
        assert _COLUMNS % tables == 0, "blocks of columns are of one width"
        self._multiply = multiply
        teeth = [base]
        for _ in range(_ROWS - 1):
            teeth.append(self._squared(teeth[-1], _COLUMNS))
        self._tables = [self._table(teeth)]
        for _ in range(tables - 1):
            teeth = [self._squared(tooth, _COLUMNS // tables) for tooth in teeth]
            self._tables.append(self._table(teeth))

    def power(self, digits: bytes) -> P:
        """Return the base to the power of the exponent with these `columns`. The exponent is not zero."""
        width = _COLUMNS // len(self._tables)
        multiply, found = self._multiply, None
        for column in range(width - 1, -1, -1):
            if found is not None:
                found = multiply(found, found)
            for block, table in enumerate(self._tables):
                entry = table[digits[block * width + column]]
                if entry is not None:
                    found = entry if found is None else multiply(found, entry)
        assert found is not None, "the exponent is not zero"
        return found

    def _squared(self, base: P, times: int) -> P:
        for _ in range(times):
            base = self._multiply(base, base)
        return base

    def _table(self, teeth: list[P]) -> list[P | None]:
        table: list[P | None] = [None]
        for tooth in teeth:
            table += [tooth if entry is None else self._multiply(entry, tooth) for entry in list(table)]
        return table


class ByteTables(Generic[P]):
    """Waters' hash over one vector, a byte of the digest at a time: 32 multiplications instead of some 128.

    The tables, 255 products for each byte, are filled when entries are first needed; some 2.5 MB in G2.
    """

    __slots__ = ("_first", "_multiply", "_rest", "_tables")

    def __init__(self, multiply: Callable[[P, P], P], vector: Sequence[P]) -> None:
        assert len(vector) % 8 == 1, "a constant element, then one for each bit"
        self._multiply = multiply
        self._first, self._rest = vector[0], vector[1:]
        self._tables: list[dict[int, P]] = [{} for _ in range(len(self._rest) // 8)]

    def product(self, found: bytes) -> P:
        """Return the constant element times those of the digest's set bits. The digest's last byte is the lowest."""
        assert len(found) == len(self._tables)
        point = self._first
        for place, byte in enumerate(reversed(found)):
            if byte:
                point = self._multiply(point, self._entry(place, byte))
        return point

    def _entry(self, place: int, byte: int) -> P:
        table = self._tables[place]
        entry = table.get(byte)
        if entry is None:
            low = byte & -byte
            entry = self._rest[8 * place + low.bit_length() - 1]
            if byte != low:
                entry = self._multiply(self._entry(place, byte ^ low), entry)
            table[byte] = entry
        return entry

"""The encapsulated key on the wire (thesis 5.5.4.1): group elements in a fixed order, with sizes given by a shape.

    capsule = CT2, masked seed, row...        row = CT_i, CT_ij for each place, the tags of all places

The tags of a row are sorted by value, so that a matching tag reveals no place. The accessors return bytes; code that
computes with a part decodes it, with all checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from .backend import G1_BYTES, PointInvalid

SEED_BYTES: Final = 32
TAG_BYTES: Final = 16
"""Bytes of H4: a false match has a probability of 2**-128, and does not open the event."""

Shape: TypeAlias = tuple[int, ...]
"""Places of each row."""

_ROWS_AT: Final = G1_BYTES + SEED_BYTES


def capsule_bytes(shape: Shape) -> int:
    """Return the size of a capsule of this shape."""
    return _ROWS_AT + sum(map(_row_bytes, shape))


@dataclass(frozen=True, slots=True)
class Capsule:
    """An encapsulated key."""

    shape: Shape
    encoded: bytes

    def __post_init__(self) -> None:
        if len(self.encoded) != capsule_bytes(self.shape) or min(self.shape, default=0) < 1:
            raise PointInvalid("a capsule of another size")

    @property
    def ct2(self) -> bytes:
        """h**b"""
        return self.encoded[:G1_BYTES]

    @property
    def masked(self) -> bytes:
        """The seed, masked by the key that the pairing carries."""
        return self.encoded[G1_BYTES:_ROWS_AT]

    def ct(self, row: int) -> bytes:
        """g**b_i"""
        at = self._row_at(row)
        return self.encoded[at : at + G1_BYTES]

    def part(self, row: int, place: int) -> bytes:
        """F(c_ij)**b_i"""
        assert 0 <= place < self.shape[row]
        at = self._row_at(row) + G1_BYTES * (1 + place)
        return self.encoded[at : at + G1_BYTES]

    def tags(self, row: int) -> set[bytes]:
        """Return the tags of a row's credentials."""
        start = self._row_at(row) + G1_BYTES * (1 + self.shape[row])
        ends = range(start, start + TAG_BYTES * self.shape[row], TAG_BYTES)
        return {self.encoded[at : at + TAG_BYTES] for at in ends}

    def _row_at(self, row: int) -> int:
        return _ROWS_AT + sum(map(_row_bytes, self.shape[:row]))


def _row_bytes(places: int) -> int:
    return G1_BYTES * (1 + places) + TAG_BYTES * places

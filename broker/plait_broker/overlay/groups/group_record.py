"""A member's record: a digest over the events of a group that it got. The member and the root each compute it.

A record covers all positions since the group was opened, in blocks. The digest of a block covers that of the block
before, and the member's positions as a bit set. An ack carries a MAC of it. So a broker on the way that gives a member
other events than the root has chosen is found out, be it the same number of them. A record does not depend on the
questions that a member got: one of them may be lost.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

RECORD_BYTES: Final = 16

EMPTY: Final = bytes(RECORD_BYTES)
"""The record before the first block."""

BLOCK: Final = 1024
"""Positions of a block: some more than between two questions of a busy root."""

_SPAN: Final = Struct(">QQ")


def closed(record: bytes, first: int, last: int, positions: bytes) -> bytes:
    """Return the record after positions from `first` up to `last`: a bit set, without the zeros at its end."""
    hasher = blake2b(record, digest_size=RECORD_BYTES, person=b"plait record")
    hasher.update(_SPAN.pack(first, last) + positions)
    return hasher.digest()


class MemberRecord:
    """The record at a member."""

    def __init__(self, epoch: int) -> None:
        self._blocks = EMPTY
        """The record of all blocks that are complete."""
        self._first = epoch
        """The first position of the present block."""
        self._positions = 0
        """Those from there on, as a bit set."""

    def add(self, position: int) -> None:
        """Add an event. Positions rise."""
        self._complete(position)
        self._positions |= 1 << (position - self._first)

    def up_to(self, last: int) -> bytes:
        """Return the record up to a position. All events up to there were added, and no later ones."""
        self._complete(last + 1)
        return self._closed(last)

    def _complete(self, position: int) -> None:
        """Begin the block of a position."""
        while position >= self._first + BLOCK:
            self._blocks = self._closed(self._first + BLOCK - 1)
            self._first, self._positions = self._first + BLOCK, 0

    def _closed(self, last: int) -> bytes:
        positions = self._positions.to_bytes(BLOCK // 8, "little").rstrip(b"\0")
        return closed(self._blocks, self._first, last, positions)


class RootRecords:
    """The records of all members, at the root."""

    def __init__(self, epoch: int, members: int) -> None:
        """`members`: how many brokers the tree has."""
        self._blocks = [EMPTY] * members
        self._first = epoch
        self._sets: list[int] = []
        """The destinations of each event of the present block."""

    def add(self, members: int) -> None:
        """Add the next event, for the members of a bit set."""
        self._sets.append(members)
        if len(self._sets) == BLOCK:
            self._blocks = self.all()
            self._first, self._sets = self._first + BLOCK, []

    def all(self) -> list[bytes]:
        """Return the record of each member up to the last event, by index."""
        from plait_core.matching.bit_columns import columns_of  # it loads numpy, which few brokers need

        first, last = self._first, self._first + len(self._sets) - 1
        columns = columns_of(self._sets, len(self._blocks)) if self._sets else [b""] * len(self._blocks)
        return [closed(record, first, last, got) for record, got in zip(self._blocks, columns, strict=True)]

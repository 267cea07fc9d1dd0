"""Proofs of events between two brokers: that the publisher's broker says this very event, at this place in its stream.

A proof is a keyed digest that both ends can make, and nobody in between.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from ..native import kernel

SHORT_BYTES: Final = 1024
"""Blocks up to here are part of what is proved; of longer ones a digest is: there is a proof for each destination."""

DIGEST_BYTES: Final = 32
_PROOF: Final = Struct(">Q")
_PLACE: Final = Struct(">QQB")


class EventProver:
    """Proves events under the key of one pair of brokers."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        """A key has 1 to 64 bytes."""
        if not key:
            raise ValueError("a key has 1 to 64 bytes")
        self._keyed = blake2b(key=key, digest_size=_PROOF.size, person=b"plait event")  # half of the work, done once

    def prove(self, root: int, position: int, flags: int, block: bytes) -> int:
        """The proof of an event block with this place in the stream of `root`."""
        hasher = self._keyed.copy()
        short = block if len(block) <= SHORT_BYTES else blake2b(block, digest_size=DIGEST_BYTES).digest()
        hasher.update(_PLACE.pack(root, position, flags) + short)
        return _PROOF.unpack(hasher.digest())[0]  # type: ignore[no-any-return]


if not TYPE_CHECKING and kernel is not None:
    EventProver = kernel.EventProver

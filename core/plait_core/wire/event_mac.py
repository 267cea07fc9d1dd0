"""MACs of events between two brokers: the root vouches for the event and for its position in the stream.

A MAC is a keyed digest that both ends can compute, and no broker on the path can.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from ..native import kernel

SHORT_BYTES: Final = 1024
"""Longest block that is hashed under the key directly.

Longer blocks are hashed once without the key, because there is a MAC for each destination.
"""

DIGEST_BYTES: Final = 32
_PROOF: Final = Struct(">Q")
_PLACE: Final = Struct(">QQB")


class EventProver:
    """Compute the MACs of events under the key of one pair of brokers."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        """A key has 1 to 64 bytes."""
        if not key:
            raise ValueError("a key has 1 to 64 bytes")
        # the key schedule is half of the work, and is done once here
        self._keyed = blake2b(key=key, digest_size=_PROOF.size, person=b"plait event")

    def prove(self, root: int, position: int, flags: int, block: bytes) -> int:
        """Return the MAC of an event block at this position in the stream of `root`."""
        hasher = self._keyed.copy()
        short = block if len(block) <= SHORT_BYTES else blake2b(block, digest_size=DIGEST_BYTES).digest()
        hasher.update(_PLACE.pack(root, position, flags) + short)
        return _PROOF.unpack(hasher.digest())[0]  # type: ignore[no-any-return]


if not TYPE_CHECKING and kernel is not None:
    EventProver = kernel.EventProver

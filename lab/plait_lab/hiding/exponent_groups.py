"""Groups without cryptography: an element is its discrete logarithm, and a pairing is a product.

The scheme computes the same in them as in BLS12-381. The order is a small prime, so that matrices over it fit machine
words. Only the laboratory may use these groups: everybody reads every secret in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Generic, TypeVar, cast

from plait_crypto.hazmat import Groups, PointInvalid
from plait_crypto.hazmat.backend import G1, G1_BYTES, G2, G2_BYTES, GT, Group, TargetGroup

P = TypeVar("P")

PRIME: Final = 2**31 - 1
_GT_BYTES: Final = 8


class _Exponents(Generic[P]):
    def __init__(self, size: int) -> None:
        self.size = size
        self.generator = cast(P, 1)

    def multiply(self, a: P, b: P) -> P:
        return cast(P, (_log(a) + _log(b)) % PRIME)

    def inverse(self, a: P) -> P:
        return cast(P, -_log(a) % PRIME)

    def power(self, a: P, exponent: int) -> P:
        return cast(P, _log(a) * exponent % PRIME)

    def product(self, bases: Sequence[P], exponents: Sequence[int]) -> P:
        return cast(P, sum(_log(base) * each for base, each in zip(bases, exponents, strict=True)) % PRIME)

    def equal(self, a: P, b: P) -> bool:
        return _log(a) == _log(b)

    def encode(self, a: P) -> bytes:
        return _log(a).to_bytes(self.size, "big")

    def decode(self, encoded: bytes) -> P:
        found = int.from_bytes(encoded, "big")
        if len(encoded) != self.size or not 0 < found < PRIME:
            raise PointInvalid("no element")
        return cast(P, found)


class _Target:
    def __init__(self) -> None:
        self.encoded: list[int] = []

    def multiply(self, a: GT, b: GT) -> GT:
        return cast(GT, (_log(a) + _log(b)) % PRIME)

    def encode(self, a: GT) -> bytes:
        self.encoded.append(_log(a))
        return _log(a).to_bytes(_GT_BYTES, "big")


class ExponentGroups(Groups):
    """Elements by their discrete logarithms. `salt` selects the random oracle that hashes to G2."""

    name: str = "exponents"
    order: int = PRIME

    def __init__(self, salt: bytes = b"") -> None:
        self.g1: Group[G1] = _Exponents(G1_BYTES)
        self.g2: Group[G2] = _Exponents(G2_BYTES)
        self._target = _Target()
        self.gt: TargetGroup = self._target
        self._salt = salt

    @property
    def hashed(self) -> list[int]:
        """The logarithms of all elements of GT that were encoded. The scheme encodes them only to hash them."""
        return self._target.encoded

    def pair(self, pairs: Sequence[tuple[G1, G2]]) -> GT:
        return cast(GT, sum(_log(a) * _log(b) for a, b in pairs) % PRIME)

    def hash_to_g2(self, message: bytes, tag: bytes) -> G2:
        found = hashlib.sha512(b"%d:" % len(self._salt) + self._salt + b"%d:" % len(tag) + tag + message).digest()
        return cast(G2, int.from_bytes(found, "big") % (PRIME - 1) + 1)


def _log(element: object) -> int:
    return cast(int, element)

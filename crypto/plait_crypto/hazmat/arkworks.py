"""The fast backend: arkworks' BLS12-381 through its Python binding, which releases the GIL in pairings.

The binding accepts some non-canonical encodings of infinity, so decoding checks that a point encodes to the same bytes
again. The binding's GT is the whole field, where `*` is the group operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, mul
from typing import Any, Generic, TypeVar, cast

from py_arkworks_bls12381 import GT as _GT
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from .backend import G1, G1_BYTES, G2, G2_BYTES, GT, ORDER, Group, PointInvalid, TargetGroup

P = TypeVar("P")


class _Curve(Generic[P]):
    def __init__(self, point: Any, size: int) -> None:
        self._point = point
        self._identity = point.identity()
        self.size = size
        self.generator = cast(P, point())
        self.multiply: Callable[[P, P], P] = add
        """The operator itself: a method around it would take a tenth of the time of a seal."""

    def inverse(self, a: P) -> P:
        return cast(P, -a)  # type: ignore[operator]

    def power(self, a: P, exponent: int) -> P:
        return cast(P, a * _scalar(exponent))  # type: ignore[operator]

    def product(self, bases: Sequence[P], exponents: Sequence[int]) -> P:
        return cast(P, self._point.multiexp_unchecked(list(bases), [_scalar(each) for each in exponents]))

    def equal(self, a: P, b: P) -> bool:
        return bool(a == b)

    def encode(self, a: P) -> bytes:
        return bytes(a.to_compressed_bytes())  # type: ignore[attr-defined]

    def decode(self, encoded: bytes) -> P:
        if len(encoded) != self.size:
            raise PointInvalid("a point of another length")
        try:
            point = self._point.from_compressed_bytes(encoded)
        except ValueError:
            raise PointInvalid("no point of the group") from None
        if point == self._identity or point.to_compressed_bytes() != encoded:
            raise PointInvalid("the identity, or a point that has another encoding")
        return cast(P, point)


class _Target:
    def __init__(self) -> None:
        self.multiply: Callable[[GT, GT], GT] = mul

    def encode(self, a: GT) -> bytes:
        return bytes.fromhex(str(a))


class ArkworksGroups:
    """BLS12-381 by arkworks."""

    name: str = "arkworks"
    order: int = ORDER

    def __init__(self) -> None:
        self.g1: Group[G1] = _Curve(G1Point, G1_BYTES)
        self.g2: Group[G2] = _Curve(G2Point, G2_BYTES)
        self.gt: TargetGroup = _Target()

    def pair(self, pairs: Sequence[tuple[G1, G2]]) -> GT:
        lefts, rights = _sides(pairs)
        return cast(GT, _GT.multi_pairing(lefts, rights))

    def hash_to_g2(self, message: bytes, tag: bytes) -> G2:
        return cast(G2, G2Point.hash_to_curve(message, tag))


def _scalar(exponent: int) -> Scalar:
    return Scalar.from_be_bytes(exponent.to_bytes(32, "big"))


def _sides(pairs: Sequence[tuple[G1, G2]]) -> tuple[list[G1Point], list[G2Point]]:
    lefts = [cast(G1Point, left) for left, _ in pairs]
    return lefts, [cast(G2Point, right) for _, right in pairs]

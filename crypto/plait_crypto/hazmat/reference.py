"""The readable backend: py_ecc's BLS12-381 in plain Python. Tests compare the fast one with it.

A pairing takes a third of a second, so only tests and benchmarks use it. It is not constant in time either. Pairings
are unique up to a power: arkworks' is this library's to the power of -3, and the backends must agree on keys.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar, cast

_depth = sys.getrecursionlimit()
from py_ecc import optimized_bls12_381  # noqa: E402
from py_ecc.bls.g2_primitives import subgroup_check  # noqa: E402
from py_ecc.bls.hash_to_curve import hash_to_G2  # noqa: E402
from py_ecc.bls.point_compression import compress_G1, compress_G2, decompress_G1, decompress_G2  # noqa: E402

# py_ecc raises the limit so far that a deeply nested text would end the process instead of raising
sys.setrecursionlimit(_depth)

from .backend import G1, G1_BYTES, G2, G2_BYTES, GT, ORDER, Group, PointInvalid, TargetGroup  # noqa: E402

P = TypeVar("P")

curve: Any = optimized_bls12_381
"""Untyped, because the library re-exports without declaring it."""

_HALF = 48


class _Curve(Generic[P]):
    def __init__(
        self, size: int, generator: Any, identity: Any, pack: Callable[[Any], bytes], unpack: Callable[[bytes], Any]
    ) -> None:
        self.size = size
        self.generator = cast(P, generator)
        self._identity = identity
        self._pack = pack
        self._unpack = unpack

    def multiply(self, a: P, b: P) -> P:
        return cast(P, curve.add(a, b))

    def inverse(self, a: P) -> P:
        return cast(P, curve.neg(a))

    def power(self, a: P, exponent: int) -> P:
        return cast(P, curve.multiply(a, exponent))

    def product(self, bases: Sequence[P], exponents: Sequence[int]) -> P:
        powers = [self.power(base, exponent) for base, exponent in zip(bases, exponents, strict=True)]
        return reduce(self.multiply, powers, cast(P, self._identity))

    def equal(self, a: P, b: P) -> bool:
        return bool(curve.eq(a, b))

    def encode(self, a: P) -> bytes:
        return self._pack(a)

    def decode(self, encoded: bytes) -> P:
        if len(encoded) != self.size:
            raise PointInvalid("a point of another length")
        try:
            point = self._unpack(encoded)
        except ValueError:
            raise PointInvalid("no point of the curve") from None
        if curve.is_inf(point) or not subgroup_check(point) or self._pack(point) != encoded:
            raise PointInvalid("the identity, a point outside the group, or one that has another encoding")
        return cast(P, point)


class _Target:
    def multiply(self, a: GT, b: GT) -> GT:
        return cast(GT, cast(Any, a) * cast(Any, b))

    def encode(self, a: GT) -> bytes:
        return b"".join(each.to_bytes(_HALF, "little") for each in _tower(cast(Any, a).coeffs))


class ReferenceGroups:
    """BLS12-381 by py_ecc."""

    name: str = "reference"
    order: int = ORDER

    def __init__(self) -> None:
        self.g1: Group[G1] = _Curve(G1_BYTES, curve.G1, curve.Z1, _pack_g1, _unpack_g1)
        self.g2: Group[G2] = _Curve(G2_BYTES, curve.G2, curve.Z2, _pack_g2, _unpack_g2)
        self.gt: TargetGroup = _Target()

    def pair(self, pairs: Sequence[tuple[G1, G2]]) -> GT:
        loops = [curve.pairing(q, curve.neg(p), final_exponentiate=False) for p, q in pairs]
        found = curve.final_exponentiate(reduce(lambda a, b: a * b, loops, curve.FQ12.one()))
        return cast(GT, found * found * found)

    def hash_to_g2(self, message: bytes, tag: bytes) -> G2:
        return cast(G2, hash_to_G2(message, tag, cast(Any, hashlib.sha256)))


def _pack_g1(point: Any) -> bytes:
    return int(compress_G1(point)).to_bytes(G1_BYTES, "big")


def _unpack_g1(encoded: bytes) -> Any:
    return decompress_G1(cast(Any, int.from_bytes(encoded, "big")))


def _pack_g2(point: Any) -> bytes:
    return b"".join(int(half).to_bytes(_HALF, "big") for half in compress_G2(point))


def _unpack_g2(encoded: bytes) -> Any:
    halves = int.from_bytes(encoded[:_HALF], "big"), int.from_bytes(encoded[_HALF:], "big")
    return decompress_G2(cast(Any, halves))


def _tower(flat: Sequence[Any]) -> list[int]:
    """Convert powers of w, where w**6 = 1 + u, to the tower Fp2(u), Fp6(v), Fp12(w), coefficient by coefficient."""
    number = [int(each) for each in flat]
    order: list[int] = []
    for w in (0, 1):
        for v in (0, 1, 2):
            power = 2 * v + w
            real, imaginary = number[power] + number[power + 6], number[power + 6]
            order += [real % curve.field_modulus, imaginary]
    return order

"""The interface of a pairing library: three groups of prime order, written multiplicatively, and the pairing.

BLS12-381, e: G1 x G2 -> GT. It has two implementations: `arkworks` (native, the default) and `reference` (readable). A
decoded point is canonical, on its curve, in the subgroup of prime order and not the identity; other bytes are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NewType, Protocol, TypeVar

ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""The prime order of the three groups of BLS12-381."""

G1_BYTES: Final = 48
G2_BYTES: Final = 96

G1 = NewType("G1", object)
G2 = NewType("G2", object)
GT = NewType("GT", object)
P = TypeVar("P")


class PointInvalid(ValueError):
    """Bytes that are not a valid point. No honest sender produces them."""


class Group(Protocol[P]):
    """G1 or G2. `power` and `product` take exponents from 0 up to, not including, the order."""

    size: int
    generator: P

    def multiply(self, a: P, b: P) -> P:
        """Return the product of two elements."""
        ...

    def inverse(self, a: P) -> P:
        """Return the inverse of `a`."""
        ...

    def power(self, a: P, exponent: int) -> P:
        """Return `a ** exponent`."""
        ...

    def product(self, bases: Sequence[P], exponents: Sequence[int]) -> P:
        """Return the product of `base ** exponent`, computed at once."""
        ...

    def equal(self, a: P, b: P) -> bool:
        """Return whether two points are equal."""
        ...

    def encode(self, a: P) -> bytes:
        """Return the compressed form, `size` bytes."""
        ...

    def decode(self, encoded: bytes) -> P:
        """Decode a point with all checks; raise PointInvalid if one fails."""
        ...


class TargetGroup(Protocol):
    """GT, where elements are only multiplied and hashed."""

    def multiply(self, a: GT, b: GT) -> GT:
        """Return the product of two elements."""
        ...

    def encode(self, a: GT) -> bytes:
        """Return the twelve coefficients, little-endian, 48 bytes each, in the order of the tower's basis."""
        ...


class Groups(Protocol):
    """One pairing library."""

    name: str
    order: int
    """The prime order of all three groups. Exponents are integers modulo it."""

    g1: Group[G1]
    g2: Group[G2]
    gt: TargetGroup

    def pair(self, pairs: Sequence[tuple[G1, G2]]) -> GT:
        """Return the product of the pairings, with one final exponentiation."""
        ...

    def hash_to_g2(self, message: bytes, tag: bytes) -> G2:
        """Hash to G2 by RFC 9380, BLS12381G2_XMD:SHA-256_SSWU_RO_, under a domain separation tag."""
        ...

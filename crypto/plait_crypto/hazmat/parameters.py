"""Set-up (thesis 5.5.1 in type-3 groups): the public parameters, and the key server's master secret.

    g, G generators of G1, G2;  g1 = g**alpha,  h = g**phi,  g2 random in G2
    F(c) = u' * prod u_k over the bits of H1(c) in G1;  F2(c) likewise in G2, with the same exponents
    M2(m) likewise over the bits of H2(m), in G2, with a vector of its own

The random exponents are discarded. Secret are phi and g2**alpha.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from plait_core import Randomness

from .backend import G1, G1_BYTES, G2, G2_BYTES, ORDER, Group, Groups, PointInvalid
from .combs import Comb, columns
from .hashing import DIGEST_BYTES, bit_places, digest

P = TypeVar("P")

VERSION: Final = 1
VECTOR: Final = 8 * DIGEST_BYTES + 1
"""Elements of a Waters vector: the constant one, then one for each bit of a digest."""

PARAMETERS_BYTES: Final = 1 + 2 * G1_BYTES + G2_BYTES + VECTOR * (G1_BYTES + 2 * G2_BYTES)
MASTER_BYTES: Final = 1 + 32 + G2_BYTES


@dataclass(frozen=True, eq=False)
class Parameters:
    """The public parameters."""

    groups: Groups
    g1: G1
    h: G1
    g2: G2
    u: Sequence[G1]
    u2: Sequence[G2]
    m2: Sequence[G2]

    def in_g1(self, identity: bytes) -> G1:
        """Return F(c)."""
        return _waters(self.groups.g1, self.u, digest(b"H1", identity))

    def in_g2(self, identity: bytes) -> G2:
        """Return F2(c), which has the same discrete logarithm."""
        return _waters(self.groups.g2, self.u2, digest(b"H1", identity))

    def message(self, message: bytes) -> G2:
        """Return M2(m)."""
        return _waters(self.groups.g2, self.m2, message_digest(message))

    @cached_property
    def digest(self) -> bytes:
        """The digest that identifies these parameters."""
        return digest(b"parameters", self.encode())

    def encode(self) -> bytes:
        """Return the encoded parameters."""
        one, two = self.groups.g1.encode, self.groups.g2.encode
        parts = [bytes((VERSION,)), one(self.g1), one(self.h), two(self.g2)]
        return b"".join([*parts, *map(one, self.u), *map(two, self.u2), *map(two, self.m2)])

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> Parameters:
        """Parse the output of `encode`; raise PointInvalid if it is invalid.

        This does not authenticate the parameters.
        """
        if len(encoded) != PARAMETERS_BYTES or encoded[0] != VERSION:
            raise PointInvalid("no public parameters of this version")
        ones = _points(groups.g1, encoded, 1, 2)
        at = 1 + 2 * G1_BYTES
        (g2,) = _points(groups.g2, encoded, at, 1)
        at += G2_BYTES
        u = tuple(_points(groups.g1, encoded, at, VECTOR))
        at += VECTOR * G1_BYTES
        u2 = tuple(_points(groups.g2, encoded, at, VECTOR))
        m2 = tuple(_points(groups.g2, encoded, at + VECTOR * G2_BYTES, VECTOR))
        g1, h = ones
        return cls(groups, g1, h, g2, u, u2, m2)


@dataclass(frozen=True, eq=False, repr=False)
class MasterSecret:
    """The key server's secret, with which everything can be opened and signed."""

    phi: int
    g2_alpha: G2

    def encode(self, groups: Groups) -> bytes:
        """Return the encoded secret, to be stored encrypted."""
        return bytes((VERSION,)) + self.phi.to_bytes(32, "big") + groups.g2.encode(self.g2_alpha)

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> MasterSecret:
        """Parse the output of `encode`; raise PointInvalid if it is invalid."""
        if len(encoded) != MASTER_BYTES or encoded[0] != VERSION:
            raise PointInvalid("no master secret of this version")
        phi = int.from_bytes(encoded[1:33], "big")
        if not 0 < phi < ORDER:
            raise PointInvalid("a master secret with an impossible exponent")
        return cls(phi, groups.g2.decode(encoded[33:]))


def set_up(groups: Groups, randomness: Randomness) -> tuple[Parameters, MasterSecret]:
    """Return new parameters and their secret."""
    alpha, phi, gamma = (draw(randomness) for _ in range(3))
    one = Comb(groups.g1.generator, groups.g1.multiply)
    two = Comb(groups.g2.generator, groups.g2.multiply)
    shared = [columns(draw(randomness)) for _ in range(VECTOR)]
    own = [columns(draw(randomness)) for _ in range(VECTOR)]
    g2 = two.power(columns(gamma))
    parameters = Parameters(
        groups,
        g1=one.power(columns(alpha)),
        h=one.power(columns(phi)),
        g2=g2,
        u=tuple(map(one.power, shared)),
        u2=tuple(map(two.power, shared)),
        m2=tuple(map(two.power, own)),
    )
    return parameters, MasterSecret(phi, groups.g2.power(g2, alpha))


def message_digest(message: bytes) -> bytes:
    """Return H2(m), whose bits M2(m) multiplies."""
    return digest(b"H2", message)


def draw(randomness: Randomness) -> int:
    """Return a random exponent that is not zero."""
    return randomness.getrandbits(512) % (ORDER - 1) + 1


def _waters(group: Group[P], vector: Sequence[P], found: bytes) -> P:
    point = vector[0]
    for place in bit_places(found):
        point = group.multiply(point, vector[place + 1])
    return point


def _points(group: Group[P], encoded: bytes, start: int, count: int) -> Iterator[P]:
    ends = range(start, start + count * group.size, group.size)
    return (group.decode(encoded[at : at + group.size]) for at in ends)

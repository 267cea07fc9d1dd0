"""Set-up (thesis 5.5.1 in type-3 groups): the public parameters, and the key server's master secret.

    public    g, G generators of G1, G2;  g1 = g**alpha,  h = g**phi,  g2 random in G2
              F(c) = u' * prod u_j over the bits of H1(c) in G1, where u' = g**x' and u_j = g**x_j
              M2(m) likewise over the bits of H2(m), in G2; the exponents of its vector are discarded
    publishers   k = g**psi, for tags
    secret    phi, psi, g2**alpha, and the seed of x' and all x_j, so that f(c) = x' + sum x_j is known: F(c) = g**f(c)

Keys contain G**f(c), but no vector for it is public, unlike in the thesis. With one, everybody could test by two
pairings whether a part of a capsule is for a credential. Tags have an exponent of their own, psi: under phi, CT2 of an
event with one attribute would test tags. Only publishers get k: e(g, S3) == e(k, H3(c)) tells which credential a token
is for, so whoever has k and a deposit can try credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from plait_core import Randomness

from .backend import G1, G1_BYTES, G2, G2_BYTES, Group, Groups, PointInvalid
from .combs import Comb, columns
from .hashing import DIGEST_BYTES, bit_places, digest, exponent

P = TypeVar("P")

VERSION: Final = 2
VECTOR: Final = 8 * DIGEST_BYTES + 1
"""Elements of a Waters vector: the constant one, then one for each bit of a digest."""

PARAMETERS_BYTES: Final = 1 + 2 * G1_BYTES + G2_BYTES + VECTOR * (G1_BYTES + G2_BYTES)
SEED_BYTES: Final = 32
_EXPONENT_BYTES: Final = 32
MASTER_BYTES: Final = 1 + 2 * _EXPONENT_BYTES + G2_BYTES + SEED_BYTES


@dataclass(frozen=True, eq=False)
class Parameters:
    """The public parameters."""

    groups: Groups
    g1: G1
    h: G1
    g2: G2
    u: Sequence[G1]
    m2: Sequence[G2]

    def in_g1(self, identity: bytes) -> G1:
        """Return F(c)."""
        return _waters(self.groups.g1, self.u, identity_digest(identity))

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
        return b"".join([*parts, *map(one, self.u), *map(two, self.m2)])

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> Parameters:
        """Parse the output of `encode`; raise PointInvalid if it is invalid.

        This does not authenticate the parameters.
        """
        if len(encoded) != PARAMETERS_BYTES or encoded[0] != VERSION:
            raise PointInvalid("no public parameters of this version")
        g1, h = _points(groups.g1, encoded, 1, 2)
        at = 1 + 2 * G1_BYTES
        (g2,) = _points(groups.g2, encoded, at, 1)
        at += G2_BYTES
        u = tuple(_points(groups.g1, encoded, at, VECTOR))
        m2 = tuple(_points(groups.g2, encoded, at + VECTOR * G1_BYTES, VECTOR))
        return cls(groups, g1, h, g2, u, m2)


@dataclass(frozen=True, eq=False, repr=False)
class MasterSecret:
    """The key server's secret, with which everything can be opened and signed."""

    groups: Groups
    phi: int
    psi: int
    g2_alpha: G2
    seed: bytes
    """Of the exponents of F's vector, and of the seeds of fillers."""

    @cached_property
    def exponents(self) -> list[int]:
        """The exponents of F's vector: x', then x_j for each bit of a digest."""
        return [exponent(self.groups.order, b"x", self.seed, place.to_bytes(2, "big")) for place in range(VECTOR)]

    @cached_property
    def tag_key(self) -> G1:
        """k = g**psi, with which publishers make tags."""
        return self.groups.g1.power(self.groups.g1.generator, self.psi)

    def logarithm(self, identity: bytes) -> int:
        """Return f(c), the discrete logarithm of F(c)."""
        places = bit_places(identity_digest(identity))
        return (self.exponents[0] + sum(self.exponents[place + 1] for place in places)) % self.groups.order

    def encode(self) -> bytes:
        """Return the encoded secret, to be stored encrypted."""
        numbers = b"".join(each.to_bytes(_EXPONENT_BYTES, "big") for each in (self.phi, self.psi))
        return bytes((VERSION,)) + numbers + self.groups.g2.encode(self.g2_alpha) + self.seed

    @classmethod
    def decode(cls, groups: Groups, encoded: bytes) -> MasterSecret:
        """Parse the output of `encode`; raise PointInvalid if it is invalid."""
        if len(encoded) != MASTER_BYTES or encoded[0] != VERSION:
            raise PointInvalid("no master secret of this version")
        point_at = 1 + 2 * _EXPONENT_BYTES
        phi, psi = (int.from_bytes(encoded[at : at + _EXPONENT_BYTES], "big") for at in (1, 1 + _EXPONENT_BYTES))
        if not (0 < phi < groups.order and 0 < psi < groups.order):
            raise PointInvalid("a master secret with an impossible exponent")
        g2_alpha = groups.g2.decode(encoded[point_at : point_at + G2_BYTES])
        return cls(groups, phi, psi, g2_alpha, encoded[point_at + G2_BYTES :])


def set_up(groups: Groups, randomness: Randomness) -> tuple[Parameters, MasterSecret]:
    """Return new parameters and their secret."""
    alpha, phi, psi, gamma = (draw(groups.order, randomness) for _ in range(4))
    one = Comb(groups.g1.generator, groups.g1.multiply)
    two = Comb(groups.g2.generator, groups.g2.multiply)
    g2 = two.power(columns(gamma))
    seed = randomness.getrandbits(8 * SEED_BYTES).to_bytes(SEED_BYTES, "big")
    master = MasterSecret(groups, phi, psi, groups.g2.power(g2, alpha), seed)
    parameters = Parameters(
        groups,
        g1=one.power(columns(alpha)),
        h=one.power(columns(phi)),
        g2=g2,
        u=tuple(map(one.power, map(columns, master.exponents))),
        m2=tuple(two.power(columns(draw(groups.order, randomness))) for _ in range(VECTOR)),
    )
    return parameters, master


def identity_digest(identity: bytes) -> bytes:
    """Return H1(c), whose bits F(c) multiplies."""
    return digest(b"H1", identity)


def message_digest(message: bytes) -> bytes:
    """Return H2(m), whose bits M2(m) multiplies."""
    return digest(b"H2", message)


def draw(order: int, randomness: Randomness) -> int:
    """Return a random exponent of groups of this order that is not zero."""
    return randomness.getrandbits(512) % (order - 1) + 1


def _waters(group: Group[P], vector: Sequence[P], found: bytes) -> P:
    point = vector[0]
    for place in bit_places(found):
        point = group.multiply(point, vector[place + 1])
    return point


def _points(group: Group[P], encoded: bytes, start: int, count: int) -> Iterator[P]:
    ends = range(start, start + count * group.size, group.size)
    return (group.decode(encoded[at : at + group.size]) for at in ends)

"""Private keys (thesis 5.5.2, 5.5.3): the key server computes them from its master secret and credentials' identities.

    F2(c) = G**f(c), which the key server alone can compute
    publisher    P1 = g2**alpha * F2(c)**y,  P2 = G**y                                   y fresh
    subscriber   S1 = g2**s * F2(c)**y,  S2 = G**y,  S3 = H3(c)**psi,  S4 = g2**((s + alpha) / phi)

One random s for all credentials of a set binds them: credentials of different sets never open anything together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plait_core import Randomness

from .backend import G1, G2
from .combs import Comb, columns
from .hashing import TO_G2, derive, digest
from .parameters import MasterSecret, Parameters, draw

FILLER_SEED_BYTES: Final = 32


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PublisherPair:
    """A publisher's private key for one credential."""

    p1: G2
    p2: G2


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberPart:
    """A subscriber's private key for one credential. `s3` alone routes and opens nothing."""

    s1: G2
    s2: G2
    s3: G2


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SubscriberSet:
    """Keys of one conjunction: parts bound together by `s4`."""

    s4: G2
    parts: tuple[SubscriberPart, ...]


class Issuer:
    """Computes keys from the master secret of these parameters."""

    def __init__(self, parameters: Parameters, master: MasterSecret) -> None:
        self._parameters = parameters
        self._master = master
        self._groups = parameters.groups
        self._generator = Comb(self._groups.g2.generator, self._groups.g2.multiply, tables=8)

    @property
    def tag_key(self) -> G1:
        """The key with which all publishers make tags."""
        return self._master.tag_key

    def publisher_pair(self, identity: bytes, randomness: Randomness) -> PublisherPair:
        """Issue the publisher key for one credential."""
        return PublisherPair(*self._blinded(self._master.g2_alpha, identity, randomness))

    def subscriber_set(self, identities: Sequence[bytes], randomness: Randomness) -> SubscriberSet:
        """Issue the keys of one conjunction, in the order of its credentials' identities."""
        binding, s4 = self.binding(randomness)
        return SubscriberSet(s4, tuple(self.subscriber_part(binding, identity, randomness) for identity in identities))

    def binding(self, randomness: Randomness) -> tuple[G2, G2]:
        """Return g2**s and S4 of a new set. The first is secret: it must not leave the key server."""
        group, order = self._groups.g2, self._groups.order
        binding = group.power(self._parameters.g2, draw(order, randomness))
        return binding, group.power(group.multiply(binding, self._master.g2_alpha), pow(self._master.phi, -1, order))

    def subscriber_part(self, binding: G2, identity: bytes, randomness: Randomness) -> SubscriberPart:
        """Issue the key for one credential of a set."""
        return SubscriberPart(*self._blinded(binding, identity, randomness), self.token(identity))

    def token(self, identity: bytes) -> G2:
        """Return S3 of one credential. It routes and opens nothing."""
        return self._groups.g2.power(self._groups.hash_to_g2(identity, TO_G2), self._master.psi)

    def filler_seed(self, identities: Iterable[bytes]) -> bytes:
        """Return the seed of the fillers that hide the tokens of these credentials: always the same for the same."""
        return derive(self._master.seed, b"fillers", digest(b"row", *sorted(identities)), FILLER_SEED_BYTES)

    def _blinded(self, secret: G2, identity: bytes, randomness: Randomness) -> tuple[G2, G2]:
        """Return secret * F2(c)**y and G**y. F2(c)**y is one power of the generator, for f(c) is known."""
        order = self._groups.order
        y = draw(order, randomness)
        power = self._generator.power
        f_y = self._master.logarithm(identity) * y % order
        return self._groups.g2.multiply(secret, power(columns(f_y))), power(columns(y))

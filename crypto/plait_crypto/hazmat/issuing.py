"""Private keys (thesis 5.5.2, 5.5.3): the key server computes them from its master secret and credentials' identities.

    publisher    P1 = g2**alpha * F2(c)**y,  P2 = G**y                                   y fresh
    subscriber   S1 = g2**s * F2(c)**y,  S2 = G**y,  S3 = H3(c)**phi,  S4 = g2**((s + alpha) / phi)

One random s for all credentials of a set binds them: credentials of different sets never open anything together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait_core import Randomness

from .backend import G2, ORDER
from .hashing import TO_G2
from .parameters import MasterSecret, Parameters, draw


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


def issue_publisher_pair(
    parameters: Parameters, master: MasterSecret, identity: bytes, randomness: Randomness
) -> PublisherPair:
    """Issue the publisher key for one credential."""
    group, y = parameters.groups.g2, draw(randomness)
    p1 = group.multiply(master.g2_alpha, group.power(parameters.in_g2(identity), y))
    return PublisherPair(p1, group.power(group.generator, y))


def issue_subscriber_set(
    parameters: Parameters, master: MasterSecret, identities: Sequence[bytes], randomness: Randomness
) -> SubscriberSet:
    """Issue the keys of one conjunction, in the order of its credentials' identities."""
    group, s = parameters.groups.g2, draw(randomness)
    binding = group.power(parameters.g2, s)
    s4 = group.power(group.multiply(binding, master.g2_alpha), pow(master.phi, -1, ORDER))
    parts = []
    for identity in identities:
        y = draw(randomness)
        s1 = group.multiply(binding, group.power(parameters.in_g2(identity), y))
        s3 = group.power(parameters.groups.hash_to_g2(identity, TO_G2), master.phi)
        parts.append(SubscriberPart(s1, group.power(group.generator, y), s3))
    return SubscriberSet(s4, tuple(parts))

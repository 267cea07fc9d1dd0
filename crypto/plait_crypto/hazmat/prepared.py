"""Per-credential values that many events share: F(c), H3(c), e(k, H3(c)), and combs of them.

Bounded: the least recently used are evicted. A credential's combs are built at its second use, because building them
costs as much as a few powers without.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from .backend import G1, GT
from .combs import Comb
from .hashing import TO_G2
from .parameters import Parameters

CREDENTIALS_KEPT: Final = 192
"""Credentials with their combs: some 0.8 MB each, most of it for elements of GT."""

POINTS_KEPT: Final = 8192
"""Credentials whose point F(c) alone is cached: some 300 bytes each."""


class PreparedCredential:
    """One credential's bases."""

    __slots__ = ("_identity", "_parameters", "_part_comb", "_tag_comb", "_tag_key", "f", "used")

    def __init__(self, parameters: Parameters, tag_key: G1 | None, identity: bytes, f: G1) -> None:
        self._parameters = parameters
        self._tag_key = tag_key
        self._identity = identity
        self._part_comb: Comb[G1] | None = None
        self._tag_comb: Comb[GT] | None = None
        self.f = f
        self.used = 0

    def part(self, exponent: int, digits: bytes) -> G1:
        """Return F(c)**b."""
        group = self._parameters.groups.g1
        if self._part_comb is None:
            if self.used < 2:
                return group.power(self.f, exponent)
            self._part_comb = Comb(self.f, group.multiply, tables=4)
        return self._part_comb.power(digits)

    def under_tag(self, k_power: G1, digits: bytes) -> GT:
        """Return e(k, H3(c))**b, where `k_power` is k**b."""
        groups = self._parameters.groups
        if self._tag_comb is None:
            h3 = groups.hash_to_g2(self._identity, TO_G2)
            if self.used < 2:
                return groups.pair([(k_power, h3)])
            assert self._tag_key is not None, "only publishers make tags"
            self._tag_comb = Comb(groups.pair([(self._tag_key, h3)]), groups.gt.multiply, tables=4)
        return self._tag_comb.power(digits)


class PreparedCredentials:
    """The most recently used credentials."""

    def __init__(self, parameters: Parameters, tag_key: G1 | None, kept: int = CREDENTIALS_KEPT) -> None:
        assert kept > 0
        self._parameters = parameters
        self._tag_key = tag_key
        self._kept = kept
        self._prepared: OrderedDict[bytes, PreparedCredential] = OrderedDict()
        self._points: OrderedDict[bytes, G1] = OrderedDict()

    def __len__(self) -> int:
        return len(self._prepared)

    def use(self, identity: bytes) -> PreparedCredential:
        """Return the credential, and count the use."""
        found = self._prepared.get(identity)
        if found is None:
            found = PreparedCredential(self._parameters, self._tag_key, identity, self.point(identity))
            self._prepared[identity] = found
            if len(self._prepared) > self._kept:
                self._prepared.popitem(last=False)
        else:
            self._prepared.move_to_end(identity)
        found.used += 1
        return found

    def point(self, identity: bytes) -> G1:
        """Return F(c)."""
        point = self._points.get(identity)
        if point is None:
            point = self._points[identity] = self._parameters.in_g1(identity)
            if len(self._points) > POINTS_KEPT:
                self._points.popitem(last=False)
        return point

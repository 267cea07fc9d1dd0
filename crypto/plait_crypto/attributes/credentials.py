"""Credentials (thesis 5.4): bit strings that name sets of values of one attribute, and the identities of their keys.

Each attribute has a tree of its own. A value lies on a path from the root to a leaf; the nodes of the path are its
credentials, one at each place. A filter's allowed values are covered by a few nodes: the credentials that a reader
needs. A reader opens an event if it holds, for each attribute, one credential on the event's path.

    place 0 is the whole attribute; a missing attribute has a leaf of its own; all paths of one tree have one length:
    they are padded with labels for which no key is ever issued, so that a length reveals nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple, Protocol

from plait_core.filters import Constraint

from ..errors import SealInvalid
from ..hazmat.hashing import digest

ABSENT_LABEL: Final = b"absent"


class Credential(NamedTuple):
    """One node of a tree: its place on a path, and its label."""

    place: int
    label: bytes


WHOLE: Final = Credential(0, b"")
"""All values of an attribute, and its absence."""

ABSENT: Final = Credential(1, ABSENT_LABEL)
"""The absence of the attribute."""


class Tree(Protocol):
    """The tree of one attribute, as a schema uses it."""

    type_name: ClassVar[str]

    @property
    def places(self) -> int:
        """Credentials on each path."""
        ...

    def path(self, value: object) -> tuple[bytes, ...]:
        """Return the labels of a value (None: absent), one for each place.

        Raise SealInvalid for a value outside the domain.
        """
        ...

    def leaf(self, value: object) -> object:
        """Return a value that is equal for values with the same path, and different for others."""
        ...

    def cover(self, constraint: Constraint, widen: bool) -> tuple[Credential, ...]:
        """Return the fewest credentials that a constraint requires; () if no value satisfies it.

        Raise SealInvalid if they would open more than the constraint allows, unless `widen` permits that.
        """
        ...

    def wider(self, credential: Credential, levels: int) -> Credential:
        """Return the credential this many levels above, or the whole attribute."""
        ...

    def fields(self) -> Mapping[str, object]:
        """Return the constructor's arguments, as JSON writes them."""
        ...


def filler(place: int) -> bytes:
    """Return the label at a place that a path does not reach. No key is ever issued for it."""
    return b"none" + place.to_bytes(2, "big")


def absent_path(places: int) -> tuple[bytes, ...]:
    """Return the path of a missing attribute."""
    return (WHOLE.label, ABSENT.label, *map(filler, range(2, places)))


def too_wide(what: str, hint: str) -> SealInvalid:
    """Return the error for credentials that would open more than requested."""
    return SealInvalid(f"{what} is not exactly a set of credentials", hint=f"{hint}; or widen=True to open more")


def subscriber_identity(realm: bytes, epoch: int, attribute: str, credential: Credential) -> bytes:
    """Return the public key of a credential for opening. Anyone can compute it (thesis 5.5.3)."""
    return _identity(b"SUB", realm, epoch, attribute, credential)


def publisher_identity(
    realm: bytes, epoch: int, publisher: int, grant: int, attribute: str, credential: Credential
) -> bytes:
    """Return the public key of one publisher's credential for signing (thesis 5.5.2).

    It contains the publisher, so that a signature identifies it. It contains the grant, so that credentials of two
    grants cannot be combined to sign what neither permits.
    """
    owner = publisher.to_bytes(8, "big") + grant.to_bytes(4, "big")
    return _identity(b"PUB", realm, epoch, attribute, credential, owner)


def _identity(
    role: bytes, realm: bytes, epoch: int, attribute: str, credential: Credential, owner: bytes = b""
) -> bytes:
    place = credential.place.to_bytes(2, "big")
    return digest(
        b"credential " + role, realm, epoch.to_bytes(8, "big"), owner, attribute.encode(), place, credential.label
    )

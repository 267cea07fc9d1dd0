"""Credentials (thesis 5.4): bit strings that name what one may know of one attribute, and the identities of their keys.

Each attribute has a tree of its own. A value lies on a path from the root to a leaf: its credentials, one at each
place. What a filter allows is covered by a few nodes: the credentials to hold. Whoever holds one that lies on an
event's path, for each attribute, opens the event.

    place 0 is the whole attribute; a missing attribute has a leaf of its own; paths of one tree are all of one length,
    filled up with labels that no key is ever issued for, so that a length tells nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple, Protocol

from plait_core.filters import Constraint

from ..errors import SealInvalid
from ..hazmat.hashing import digest

ABSENT_LABEL: Final = b"absent"


class Credential(NamedTuple):
    """One node of a tree: where on a path it lies, and its name."""

    place: int
    label: bytes


WHOLE: Final = Credential(0, b"")
"""All values of an attribute, and its absence."""

ABSENT: Final = Credential(1, ABSENT_LABEL)
"""That an event does not have the attribute."""


class Tree(Protocol):
    """What a schema needs of one attribute's tree."""

    type_name: ClassVar[str]

    @property
    def places(self) -> int:
        """Credentials on each path."""
        ...

    def path(self, value: object) -> tuple[bytes, ...]:
        """The labels of a value (None: absent), one for each place; SealInvalid for a value outside the domain."""
        ...

    def leaf(self, value: object) -> object:
        """What values with the same path, and no others, have in common."""
        ...

    def cover(self, constraint: Constraint, widen: bool) -> tuple[Credential, ...]:
        """The fewest credentials that a constraint needs; () if no value satisfies it.

        SealInvalid if they would open more than it says, unless that was asked for by `widen`.
        """
        ...

    def fields(self) -> Mapping[str, object]:
        """The arguments that make it, as JSON writes them."""
        ...


def filler(place: int) -> bytes:
    """The label at a place that a path does not reach. Nobody is issued a key for it."""
    return b"none" + place.to_bytes(2, "big")


def absent_path(places: int) -> tuple[bytes, ...]:
    """The path of a missing attribute."""
    return (WHOLE.label, ABSENT.label, *map(filler, range(2, places)))


def too_wide(what: str, hint: str) -> SealInvalid:
    """The refusal to issue credentials that open more than was asked for."""
    return SealInvalid(f"{what} is not exactly a set of credentials", hint=f"{hint}; or widen=True to open more")


def subscriber_identity(realm: bytes, epoch: int, attribute: str, credential: Credential) -> bytes:
    """The public key of a credential for opening: anybody computes it (thesis 5.5.3)."""
    return _identity(b"SUB", realm, epoch, attribute, credential)


def publisher_identity(
    realm: bytes, epoch: int, publisher: int, grant: int, attribute: str, credential: Credential
) -> bytes:
    """The public key of one publisher's credential for signing (thesis 5.5.2).

    It names the publisher, so that a signature does; and the grant, so that credentials of two grants sign nothing
    together that neither permits.
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

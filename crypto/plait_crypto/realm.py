"""A realm: the parameters of one authority and one schema. Keys and envelopes of one realm are useless in another.

All members compute the same identities of credentials, without a request to the authority.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .attributes.credentials import Credential, publisher_identity, subscriber_identity
from .attributes.schema import Schema
from .envelope import REALM_BYTES
from .hazmat import Parameters
from .hazmat.hashing import digest


@dataclass(frozen=True, eq=False)
class Realm:
    """Public parameters and a schema. Members get them from the authority over a trusted channel."""

    parameters: Parameters
    schema: Schema

    @cached_property
    def digest(self) -> bytes:
        """The digest that identifies the realm."""
        return digest(b"realm", self.parameters.digest, self.schema.digest)

    @property
    def short_name(self) -> bytes:
        """Its name in envelopes."""
        return self.digest[:REALM_BYTES]

    def sealed_for(self, epoch: int, paths: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
        """Return the identities of all credentials that an event with these paths matches."""
        return [
            [self.opens(epoch, row, Credential(place, label)) for place, label in enumerate(labels)]
            for row, labels in enumerate(paths)
        ]

    def opens(self, epoch: int, row: int, credential: Credential) -> bytes:
        """Return the identity of a subscriber's credential."""
        return subscriber_identity(self.digest, epoch, self.schema.rows[row], credential)

    def signs(self, epoch: int, publisher: int, grant: int, row: int, credential: Credential) -> bytes:
        """Return the identity of a publisher's credential."""
        return publisher_identity(self.digest, epoch, publisher, grant, self.schema.rows[row], credential)

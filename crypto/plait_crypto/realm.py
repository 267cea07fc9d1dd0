"""A realm: the parameters of one authority and one schema. Keys and envelopes of one realm are useless in another.

All members compute the same identities of credentials, without a request to the authority.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .attributes.credentials import Credential, publisher_identity, subscriber_identity
from .attributes.schema import Schema
from .envelope import REALM_BYTES
from .hazmat import Parameters
from .hazmat.hashing import digest


@dataclass(eq=False)
class Realm:
    """Public parameters and a schema. Members get them from the authority over a trusted channel.

    Only the early ends of epochs change during its life. They are no part of its digest.
    """

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

    def end_epochs(self, at_us: Iterable[int]) -> bool:
        """Add times at which the authority ended epochs early. Return whether one is new.

        A time is never removed: a replica that does not know it yet would otherwise undo it.
        """
        epochs = self.schema.epochs
        ends = tuple(sorted({*epochs.early_ends_us, *at_us}))
        if ends == epochs.early_ends_us:
            return False
        self.schema = replace(self.schema, epochs=replace(epochs, early_ends_us=ends))
        return True

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

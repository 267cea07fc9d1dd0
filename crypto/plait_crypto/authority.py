"""The authority: issue keys from the master secret (thesis 5.5.2, 5.5.3), one epoch at a time (5.5.7). No I/O.

The caller decides first whether a holder may have a filter (the key server denies by default). The authority itself
checks time and revocation. Keys are issued for this epoch and, near its end, the next. A revoked holder gets no key for
an epoch after its revocation. An issued key works until its epoch is over.
"""

from __future__ import annotations

from typing import Final

from plait_core import Filter, Randomness

from .attributes.credentials import Credential
from .attributes.schema import Box
from .errors import KeyRefused, SealInvalid
from .hazmat import (
    Issuer,
    MasterSecret,
    PublisherPair,
    SubscriberPart,
)
from .keys import PublisherKeys, Rows, SubscriberBox, SubscriberKeys, Tokens
from .limits import HOLDERS_MAX
from .realm import Realm

_PUBLISHER_MAX: Final = 2**64 - 1


class Authority:
    """Issue the keys of one realm. Replicas need the same master secret, and the same revocations."""

    def __init__(self, realm: Realm, master: MasterSecret) -> None:
        self.realm = realm
        self._issuer = Issuer(realm.parameters, master)
        self._revoked: dict[str, int] = {}

    def revoke(self, holder: str, now_us: int) -> int:
        """Revoke a holder, and return the last epoch for which it may have keys."""
        if len(self._revoked) >= HOLDERS_MAX and holder not in self._revoked:
            raise KeyRefused("too many revoked holders", hint=f"{HOLDERS_MAX} (HOLDERS_MAX); begin a new realm")
        epoch = self.realm.schema.epochs.issued_at(now_us)[-1]
        return self._revoked.setdefault(holder, epoch)

    def revoked(self) -> dict[str, int]:
        """Return revoked holders, with the last epoch for which they may have keys."""
        return dict(self._revoked)

    def publisher_keys(
        self,
        holder: str,
        publisher: int,
        filter: Filter,
        *,
        epoch: int,
        now_us: int,
        randomness: Randomness,
        slots: tuple[int, int] | None = None,
        widen: bool = False,
    ) -> PublisherKeys:
        """Issue keys to seal events that match a filter, under a publisher id that belongs to the holder alone."""
        if not 0 < publisher <= _PUBLISHER_MAX:
            raise SealInvalid(f"no publisher id: {publisher!r:.80}", hint="64 bits, not 0")
        self._check(holder, epoch, now_us)
        boxes = self.realm.schema.boxes(filter, slots, widen=widen)
        issued = tuple(self._publisher_box(publisher, grant, epoch, box, randomness) for grant, box in enumerate(boxes))
        return PublisherKeys(self.realm.digest, epoch, publisher, issued)

    def subscriber_keys(
        self,
        holder: str,
        filter: Filter,
        *,
        epoch: int,
        now_us: int,
        randomness: Randomness,
        slots: tuple[int, int] | None = None,
        widen: bool = False,
        coarse: int = 0,
    ) -> SubscriberKeys:
        """Issue keys to open events that match a filter.

        With `coarse`, also tokens of credentials that are this many levels wider. They open nothing.
        """
        self._check(holder, epoch, now_us)
        boxes = self.realm.schema.boxes(filter, slots, widen=widen)
        return SubscriberKeys(
            self.realm.digest, epoch, tuple(self._subscriber_box(epoch, box, randomness, coarse) for box in boxes)
        )

    def _check(self, holder: str, epoch: int, now_us: int) -> None:
        if epoch not in self.realm.schema.epochs.issued_at(now_us):
            raise KeyRefused(f"no keys for epoch {epoch} now", hint="this epoch, or the next near the end of this one")
        if epoch > self._revoked.get(holder, epoch):
            raise KeyRefused(f"{holder[:80]} is revoked")

    def _publisher_box(
        self, publisher: int, grant: int, epoch: int, box: Box, randomness: Randomness
    ) -> Rows[PublisherPair]:
        def pair(row: int, credential: Credential) -> PublisherPair:
            identity = self.realm.signs(epoch, publisher, grant, row, credential)
            return self._issuer.publisher_pair(identity, randomness)

        return tuple(
            tuple((credential, pair(row, credential)) for credential in credentials)
            for row, credentials in enumerate(box)
        )

    def _subscriber_box(self, epoch: int, box: Box, randomness: Randomness, coarse: int) -> SubscriberBox:
        identities = [
            self.realm.opens(epoch, row, credential)
            for row, credentials in enumerate(box)
            for credential in credentials
        ]
        issued = self._issuer.subscriber_set(identities, randomness)
        parts = iter(issued.parts)
        rows: Rows[SubscriberPart] = tuple(
            tuple((credential, next(parts)) for credential in credentials) for credentials in box
        )
        return SubscriberBox(issued.s4, rows, self._coarse_tokens(epoch, box, coarse) if coarse else ())

    def _coarse_tokens(self, epoch: int, box: Box, levels: int) -> Tokens:
        wider = self.realm.schema.wider(box, levels)
        return tuple(
            tuple(self._issuer.token(self.realm.opens(epoch, row, credential)) for credential in credentials)
            for row, credentials in enumerate(wider)
        )

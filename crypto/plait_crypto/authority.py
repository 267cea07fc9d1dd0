"""The authority: issue keys from the master secret (thesis 5.5.2, 5.5.3), one epoch at a time (5.5.7). No I/O.

The caller decides first whether a holder may have a filter (the key server denies by default). The authority itself
checks time and revocation. Keys are issued for this epoch and, near its end, the next. A revoked holder gets no key for
an epoch after its revocation. An issued key works until its epoch is over.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, TypeVar

from plait_core import Filter, Randomness

from .attributes.credentials import Credential
from .attributes.schema import Box
from .errors import KeyRefused, SealInvalid
from .fillers import TokenRow
from .hazmat import (
    Issuer,
    MasterSecret,
    PublisherPair,
    SubscriberPart,
)
from .keys import PublisherKeys, Row, Rows, SubscriberBox, SubscriberKeys
from .limits import HOLDERS_MAX
from .realm import Realm

_PUBLISHER_MAX: Final = 2**64 - 1

K = TypeVar("K")
Steps: TypeAlias = Generator[None, None, K]
"""An issue in steps of one credential, about a millisecond each. Its value is the result."""


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
        self.check(holder, epoch, now_us)
        boxes = self.realm.schema.boxes(filter, slots, widen=widen)
        return finished(self.publisher_steps(publisher, boxes, epoch, randomness))

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
        self.check(holder, epoch, now_us)
        boxes = self.realm.schema.boxes(filter, slots, widen=widen)
        return finished(self.subscriber_steps(boxes, epoch, randomness, coarse))

    def check(self, holder: str, epoch: int, now_us: int) -> None:
        """Raise KeyRefused if a holder may have no keys of an epoch."""
        if epoch not in self.realm.schema.epochs.issued_at(now_us):
            raise KeyRefused(f"no keys for epoch {epoch} now", hint="this epoch, or the next near the end of this one")
        if epoch > self._revoked.get(holder, epoch):
            raise KeyRefused(f"{holder[:80]} is revoked")

    def publisher_steps(
        self, publisher: int, boxes: Sequence[Box], epoch: int, randomness: Randomness
    ) -> Steps[PublisherKeys]:
        """Issue a publisher's keys, without a check of the holder."""
        if not 0 < publisher <= _PUBLISHER_MAX:
            raise SealInvalid(f"no publisher id: {publisher!r:.80}", hint="64 bits, not 0")
        issued: list[Rows[PublisherPair]] = []
        for grant, box in enumerate(boxes):
            rows: list[Row[PublisherPair]] = []
            for row, credentials in enumerate(box):
                pairs = []
                for credential in credentials:
                    identity = self.realm.signs(epoch, publisher, grant, row, credential)
                    pairs.append((credential, self._issuer.publisher_pair(identity, randomness)))
                    yield
                rows.append(tuple(pairs))
            issued.append(tuple(rows))
        return PublisherKeys(self.realm.digest, epoch, publisher, tuple(issued), self._issuer.tag_key)

    def subscriber_steps(
        self, boxes: Sequence[Box], epoch: int, randomness: Randomness, coarse: int = 0
    ) -> Steps[SubscriberKeys]:
        """Issue a subscriber's keys, without a check of the holder."""
        issued: list[SubscriberBox] = []
        for box in boxes:
            binding, s4 = self._issuer.binding(randomness)
            rows: list[Row[SubscriberPart]] = []
            for row, credentials in enumerate(box):
                parts = []
                for credential in credentials:
                    identity = self.realm.opens(epoch, row, credential)
                    parts.append((credential, self._issuer.subscriber_part(binding, identity, randomness)))
                    yield
                rows.append(tuple(parts))
            seeds = tuple(self._seed(epoch, row, credentials) for row, credentials in enumerate(box))
            tokens = (yield from self._coarse_steps(box, epoch, coarse)) if coarse else ()
            issued.append(SubscriberBox(s4, tuple(rows), seeds, tokens))
        return SubscriberKeys(self.realm.digest, epoch, tuple(issued))

    def _coarse_steps(self, box: Box, epoch: int, levels: int) -> Steps[tuple[TokenRow, ...]]:
        """Compute the tokens of wider credentials."""
        rows: list[TokenRow] = []
        for row, credentials in enumerate(self.realm.schema.wider(box, levels)):
            tokens = []
            for credential in credentials:
                tokens.append(self._issuer.token(self.realm.opens(epoch, row, credential)))
                yield
            rows.append(TokenRow(tuple(tokens), self._seed(epoch, row, credentials)))
        return tuple(rows)

    def _seed(self, epoch: int, row: int, credentials: Sequence[Credential]) -> bytes:
        return self._issuer.filler_seed(self.realm.opens(epoch, row, each) for each in credentials)


def finished(steps: Steps[K]) -> K:
    """Take all steps of an issue, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            value: K = stop.value
            return value

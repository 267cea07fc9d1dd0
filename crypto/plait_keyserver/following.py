"""Rings that follow a rotation: one ring for each realm, the old one and the new one, behind the interface of one ring.

A publisher seals in the realm of the present time. If it has no keys of that one yet, it goes on with the one before. A
subscriber opens events of all realms that are served, so it loses none on their way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from plait_core import Attributes
from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_crypto import DepositKind, Draft, Opened, PublisherKeys, Realm, RingClosed, SubscriberKeys, Unopenable
from plait_crypto.errors import UnopenableReason

from .client import Term, present
from .rings import Clock, PublisherRing, RingSession, SubscriberRing
from .seen_record import Records

R = TypeVar("R", PublisherRing, SubscriberRing)

log: Final = logging.getLogger(__name__)


class _Following(Generic[R]):
    """The rings of one grant, the oldest realm first. The terms of realms come from the membership."""

    def __init__(self, now_us: Clock) -> None:
        self._now_us = now_us
        self._rings: list[tuple[Term, R]] = []
        self._closed = False

    @property
    def realm(self) -> Realm:
        """The realm of the present time."""
        return self._present().realm

    @property
    def realms(self) -> tuple[Realm, ...]:
        """The realms that it has keys of."""
        return tuple(ring.realm for _, ring in self._rings)

    def follow(self, terms: tuple[Term, ...]) -> bool:
        """Use these terms, and close rings of realms that ended. Return whether a ring was closed.

        The last ring stays open, even if its realm ended: keys of the next one may be late.
        """
        by_realm = {term.realm: term for term in terms}
        before, newest = self._rings, self._rings[-1:]
        self._rings = [(by_realm[ring.realm], ring) for _, ring in before if ring.realm in by_realm] or newest
        kept = self.realms
        for _, ring in before:
            if ring.realm not in kept:
                ring.close()
        return len(self._rings) < len(before)

    def close(self) -> None:
        """Close all rings. They then neither seal nor open."""
        self._closed = True
        for _, ring in self._rings:
            ring.close()

    def _present(self) -> R:
        term = present([term for term, _ in self._rings], self._now_us())
        return next(ring for each, ring in self._rings if each is term)

    def _ring(self, term: Term, begin: Callable[[], R]) -> R:
        """Return the ring of a realm; begin it if there is none."""
        if self._closed:
            raise RingClosed
        for each, ring in self._rings:
            if each.realm is term.realm:
                return ring
        ring = begin()
        self._rings.append((term, ring))
        self._rings.sort(key=lambda pair: pair[0].decided_us)
        return ring


class FollowingPublisherRing(_Following[PublisherRing]):
    """Seal for one process of a publisher. One grant: its keys cover one filter."""

    async def add(self, term: Term, keys: PublisherKeys, begin: Callable[[], PublisherRing]) -> None:
        """Add keys of a realm for their epoch."""
        await self._ring(term, begin).add(keys)

    async def session(self, draft: Draft) -> RingSession:
        """Return the session to seal an event in, in the realm of the present time. Begin it if none is in use.

        Raise KeyMissing if the keys do not cover the event.
        """
        while True:
            ring = self._present()
            try:
                return await ring.session(draft)
            except RingClosed:  # its realm ended meanwhile?
                if self._closed or ring is self._present():
                    raise

    async def seal(self, draft: Draft) -> tuple[Attributes, bytes]:
        """Return clear attributes and the payload; raise KeyMissing if the keys do not cover the event."""
        while True:
            session = await self.session(draft)
            if session.realm is self.realm and (found := session.seal(draft)) is not None:
                return found


class FollowingSubscriberRing(_Following[SubscriberRing]):
    """Open events for one subscription. An event that was opened before is a replay."""

    def __init__(self, now_us: Clock, folder: Path | None = None) -> None:
        """`folder` is where the records of durable subscriptions are kept."""
        super().__init__(now_us)
        self._records = Records(folder)
        self.watchers: list[Callable[[], None]] = []
        """Called, in the loop, when the ring has new keys or another realm."""
        self._alone: Realm | None = None
        """The realm whose tokens were given alone, because those of all realms are too large together."""

    @property
    def since_us(self) -> int:
        """Events that were published earlier are refused as `replayed`; 0 with a record of seen events."""
        return self._present().since_us

    def keep_record(self, name: str) -> None:
        """Keep the record of a durable subscription: what it acknowledged in earlier processes is a replay."""
        seen = self._records.keep(name, self.realm.schema.epochs, self._now_us())
        for _, ring in self._rings:
            ring.remember(seen)

    def forget_event(self, session: bytes, number: int) -> None:
        """Let an event be opened again: its subscription ended before it was acknowledged."""
        for _, ring in self._rings:
            ring.forget_event(session, number)

    def settle(self, publisher: int, session: bytes, number: int, until_us: int) -> None:
        """Record that an event is acknowledged: a number of a session, which ends at this time."""
        self._records.add(publisher, session, number, until_us, self._now_us())

    def close(self) -> None:
        """Close all rings and the record."""
        super().close()
        self._records.close()

    def deposit(self, kind: DepositKind = "exact") -> bytes:
        """Return the tokens for brokers, of all realms. They open nothing.

        If those of all realms are too large together, only the present realm's are given. Brokers then send the events
        of the others untested, so none is lost. There are few of them: events are sealed in the present realm.
        """
        present = self._present()
        tokens = {ring.realm: ring.deposit(kind) for ring in (present, *self._others(present))}
        size = sum(map(len, tokens.values()))
        if size <= DEPOSIT_BYTES_MAX:
            self._alone = None
            return b"".join(tokens.values())
        if self._alone is not present.realm:
            self._alone = present.realm
            log.warning(
                "tokens of %d bytes for %d realms, and brokers take %d: they get those of the present realm, and send "
                'events of the others untested until the rotation is over; deposit="coarse" has fewer tokens',
                *(size, len(tokens), DEPOSIT_BYTES_MAX),
            )
        return tokens[present.realm]

    def epochs(self) -> set[int]:
        """Return the epochs of its keys."""
        return {epoch for _, ring in self._rings for epoch in ring.epochs()}

    async def add(self, term: Term, keys: SubscriberKeys, begin: Callable[[], SubscriberRing]) -> None:
        """Add keys of a realm for their epoch."""
        ring = self._ring(term, begin)
        if self._records.kept and ring.since_us:
            ring.remember(self._records.entries)
        await ring.add(keys)
        self._notify()

    def follow(self, terms: tuple[Term, ...]) -> bool:
        """Use these terms, and close rings of realms that ended. Return whether a ring was closed."""
        closed = super().follow(terms)
        if closed or self._alone not in (None, self.realm):  # brokers need the tokens of the realm that has begun
            self._notify()
        return closed

    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened:
        """Open an event, or raise Unopenable."""
        why: UnopenableReason = "another_realm"
        first = self._present()
        for ring in (first, *self._others(first)):
            try:
                return await ring.open(clear, payload, bound)
            except Unopenable as error:
                if error.why != "another_realm":
                    raise
            except RingClosed:
                if self._closed:
                    raise
                why = "stale_epoch"  # its realm ended while the event waited
        raise Unopenable(why)

    def _others(self, present: SubscriberRing) -> list[SubscriberRing]:
        return [ring for _, ring in reversed(self._rings) if ring is not present]

    def _notify(self) -> None:
        for notify in list(self.watchers):
            notify()

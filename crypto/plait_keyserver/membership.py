"""Membership in a realm: grants of keys that renew themselves.

Keys of the next epoch are requested in the first half of the time in which they are issued, by each member at a random
moment. Requests are repeated until the keys are issued or refused.

Some times per overlap a member asks the key server for epochs that end early and for a rotation of the master secret.
Both take effect one overlap after the operator's decision, so members have the keys by then. Brokers take no part.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from plait_core import Filter, Randomness, parse
from plait_crypto import Realm, SealError
from plait_crypto.keyserver import Refusal

from .client import KeyClient, RealmNow, Term, present
from .following import FollowingPublisherRing, FollowingSubscriberRing
from .rings import Clock, PublisherRing, SubscriberRing, wall_clock_us

RETRY_FIRST_S: Final = 0.5
RETRY_LAST_S: Final = 30.0
"""Bounds of the delay between attempts to renew. It is randomised, so that a restarted key server is not flooded."""

POLLS_PER_OVERLAP: Final = 6
"""Questions for changes of the realm during one overlap: some may fail, and time is left to get keys."""

POLL_S_MIN: Final = 0.5
POLL_S_MAX: Final = 300.0
"""Bounds of the time between two questions. Each costs the server a TLS handshake."""

CANCEL_AGAIN_S: Final = 1.0
"""Time after which tasks that still run are cancelled again."""

REFUSED_FOR_NOW: Final = frozenset({"epoch", "realm"})
"""Refusals that end by themselves: the server's clock is behind, the epoch is over, or a replica has an old vault."""

log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class _Grant:
    """Keys for one filter: their ring, and the request for those of an epoch."""

    name: str
    ring: FollowingPublisherRing | FollowingSubscriberRing
    fetch: Callable[[Term, int], Awaitable[None]]


class Membership:
    """One process's membership in a realm. Created by `join`; closing it closes its rings."""

    def __init__(
        self, client: KeyClient, now: RealmNow, now_us: Clock, randomness: Randomness, folder: Path | None
    ) -> None:
        self._folder = folder
        self.refused: dict[str, Refusal] = {}
        """Grants that were not renewed, by their filter. Events sealed in later epochs do not open."""
        self._client = client
        self._terms = now.terms
        self._now_us = now_us
        self._randomness = randomness
        self._grants: list[_Grant] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._start(self._watch(), "plait realm")

    @classmethod
    async def join(
        cls,
        client: KeyClient,
        *,
        now_us: Clock = wall_clock_us,
        randomness: Randomness | None = None,
        folder: Path | None = None,
    ) -> Membership:
        """Get the realm from a key server that the client trusts. The client has an identity.

        `folder` is where durable subscriptions keep their records of seen events.
        """
        now = await client.realm()
        drawn = randomness if randomness is not None else random.SystemRandom()
        return cls(client, now, now_us, drawn, folder)

    @property
    def realm(self) -> Realm:
        """The realm that events are sealed in now."""
        return self._present().realm

    async def publisher(self, filter: str | Filter) -> FollowingPublisherRing:
        """Return keys to seal events that match a filter; raise Refusal if the policy denies them."""
        parsed, instance = _as_filter(filter), self._randomness.getrandbits(31) + 1
        ring = FollowingPublisherRing(self._now_us)

        async def fetch(term: Term, epoch: int) -> None:
            keys = await self._client.publisher_keys(term.realm, parsed, epoch, instance)
            realm, publisher = term.realm, keys.publisher
            begin = partial(PublisherRing, realm, publisher, now_us=self._now_us, randomness=self._randomness)
            await ring.add(term, keys, begin)

        await self._begin(_Grant(parsed.text, ring, fetch))
        return ring

    async def subscriber(self, filter: str | Filter) -> FollowingSubscriberRing:
        """Return keys to open events that match a filter; raise Refusal if the policy denies them.

        One ring per subscription.
        """
        parsed, ring = _as_filter(filter), FollowingSubscriberRing(self._now_us, self._folder)

        async def fetch(term: Term, epoch: int) -> None:
            keys = await self._client.subscriber_keys(term.realm, parsed, epoch)
            begin = partial(SubscriberRing, term.realm, now_us=self._now_us, randomness=self._randomness)
            await ring.add(term, keys, begin)

        await self._begin(_Grant(parsed.text, ring, fetch))
        return ring

    async def close(self) -> None:
        """Stop renewing, and close the rings."""
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            ended, _ = await asyncio.wait(running, timeout=CANCEL_AGAIN_S)  # a task may have missed its cancellation
            await asyncio.gather(*ended, return_exceptions=True)
        for grant in self._grants:
            grant.ring.close()

    async def __aenter__(self) -> Membership:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- realms -------------------------------------------------------------------------------------------------------

    def _present(self) -> Term:
        return present(self._terms, self._now_us())

    async def _watch(self) -> None:
        """Ask for changes of the realm, until the membership is closed."""
        while True:
            await asyncio.sleep(self._poll_s() * (0.5 + 0.5 * self._randomness.random()))
            try:
                self._apply(await self._client.realm([term.realm for term in self._terms]))
            except SealError as error:
                log.info("changes of the realm are not known: %s", error)
                if isinstance(error, Refusal) and error.code == "denied":
                    self._denied(error)

    def _poll_s(self) -> float:
        epochs = self._present().realm.schema.epochs
        usual_s = (epochs.overlap_us or epochs.length_us) / POLLS_PER_OVERLAP / 1_000_000
        return min(POLL_S_MAX, max(POLL_S_MIN, usual_s))

    def _apply(self, now: RealmNow) -> None:
        """Follow the key server to its realms. The reply of a replica with an older vault is ignored."""
        if now.terms[-1].decided_us < self._terms[-1].decided_us:
            return
        known = {term.realm for term in self._terms}
        self._terms = tuple(term for term in now.terms if not term.ended(self._now_us())) or now.terms[-1:]
        for grant in self._grants:
            if any(term.realm in known for term in self._terms):
                grant.ring.follow(self._terms)
            for term in self._terms:
                if term.realm not in known:
                    log.info("the master secret was rotated; keys for %s are requested", grant.name)
                    self._start(self._keep(grant, term.realm), "plait keys of a new realm")
        self._changed.set()  # epochs may end early: renewals look again
        self._changed = asyncio.Event()

    def _denied(self, refusal: Refusal) -> None:
        """Note that the holder is revoked, so that nothing will be renewed. Its keys open events for a while."""
        for grant in self._grants:
            if grant.name not in self.refused:
                self.refused[grant.name] = refusal
                log.error("keys for %s will not be renewed: %s", grant.name, refusal)

    def _term(self, realm: Realm) -> Term | None:
        return next((term for term in self._terms if term.realm is realm), None)

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def _begin(self, grant: _Grant) -> None:
        """Get keys of the present realm, and keep those of all realms renewed."""
        term = self._present()
        epoch = self._epoch(term.realm)
        await grant.fetch(term, epoch)
        self._grants.append(grant)
        grant.ring.follow(self._terms)  # they may have changed meanwhile
        self._start(self._renew(grant, term.realm, epoch), "plait renewal of keys")
        for other in self._terms:
            if other.realm is not term.realm:
                self._start(self._keep(grant, other.realm), "plait keys of a new realm")

    async def _keep(self, grant: _Grant, realm: Realm) -> None:
        """Get keys of another realm, and keep them renewed."""
        await self._renew(grant, realm, self._epoch(realm) - 1)

    async def _renew(self, grant: _Grant, realm: Realm, epoch: int) -> None:
        """Renew a grant until it is refused, or its realm ends.

        If epochs do not overlap, the next keys arrive after its begin.
        """
        while self._term(realm) is not None:
            changed = self._changed
            until_issued_s = self._until_issued_s(realm, epoch + 1)
            try:
                async with asyncio.timeout(until_issued_s):  # `wait_for` may swallow a cancellation
                    await changed.wait()
                continue  # the realm has changed: the next epoch may begin earlier
            except TimeoutError:
                pass
            epoch = max(epoch + 1, self._epoch(realm))  # a sleep of the machine may skip epochs
            try:
                await self._fetch(grant, realm, epoch)
            except Refusal as refusal:
                self.refused[grant.name] = refusal
                log.error("keys for %s are not renewed: %s", grant.name, refusal)
                return
            self.refused.pop(grant.name, None)

    async def _fetch(self, grant: _Grant, realm: Realm, epoch: int) -> None:
        """Request keys until they are issued, until their epoch is over, or until their realm has ended."""
        wait_s = RETRY_FIRST_S
        while (term := self._term(realm)) is not None:
            retry_s = 0.0
            try:
                await grant.fetch(term, epoch)
                return
            except SealError as error:
                if isinstance(error, Refusal):
                    if not error.retryable and error.code not in REFUSED_FOR_NOW:
                        raise
                    retry_s = error.retry_s
                if self._epoch(realm) > epoch:
                    return
                log.warning("keys for %s: %s; retrying", grant.name, error)
            await asyncio.sleep(max(retry_s, wait_s * (0.5 + self._randomness.random())))
            wait_s = min(RETRY_LAST_S, 2 * wait_s)

    def _epoch(self, realm: Realm) -> int:
        return realm.schema.epochs.epoch_at(self._now_us())

    def _until_issued_s(self, realm: Realm, epoch: int) -> float:
        """Return the seconds until a random moment in the first half of the overlap, when keys are issued."""
        epochs = realm.schema.epochs
        at_us = epochs.begin_us(epoch) - epochs.overlap_us * (1 - 0.5 * self._randomness.random())
        return max(0.0, (at_us - self._now_us()) / 1_000_000)

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _as_filter(given: str | Filter) -> Filter:
    return given if isinstance(given, Filter) else parse(given)

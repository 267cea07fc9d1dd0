"""Membership in a realm: grants of keys that renew themselves.

Keys of the next epoch are requested in the first half of the time in which they are issued, by each member at a random
moment. Requests are repeated until the keys are issued or refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from plait_core import Filter, Randomness, parse
from plait_crypto import Realm, SealError
from plait_crypto.keyserver import Refusal

from .client import KeyClient
from .rings import Clock, PublisherRing, SubscriberRing, wall_clock_us

RETRY_FIRST_S: Final = 0.5
RETRY_LAST_S: Final = 30.0
"""Bounds of the delay between attempts to renew. It is randomised, so that a restarted key server is not flooded."""

log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class _Grant:
    """Keys for one filter, and the request for those of another epoch."""

    name: str
    fetch: Callable[[int], Awaitable[None]]
    epoch: int


class Membership:
    """One process's membership in a realm. Created by `join`; closing it closes its rings."""

    def __init__(
        self, client: KeyClient, realm: Realm, now_us: Clock, randomness: Randomness, folder: Path | None
    ) -> None:
        self.realm = realm
        self._folder = folder
        self.refused: dict[str, Refusal] = {}
        """Grants that were not renewed, by their filter. Events sealed in later epochs do not open."""
        self._client = client
        self._now_us = now_us
        self._randomness = randomness
        self._rings: list[PublisherRing | SubscriberRing] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def join(
        cls,
        client: KeyClient,
        *,
        now_us: Clock = wall_clock_us,
        randomness: Randomness | None = None,
        folder: Path | None = None,
    ) -> Membership:
        """Get the realm from a key server that the client trusts.

        `folder` is where durable subscriptions keep their records of seen events.
        """
        now = await client.realm()
        drawn = randomness if randomness is not None else random.SystemRandom()
        return cls(client, now.realm, now_us, drawn, folder)

    async def publisher(self, filter: str | Filter) -> PublisherRing:
        """Return keys to seal events that match a filter; raise Refusal if the policy denies them."""
        parsed, instance, realm = _as_filter(filter), self._randomness.getrandbits(31) + 1, self.realm
        keys = await self._client.publisher_keys(realm, parsed, self._epoch(), instance)
        ring = PublisherRing(realm, keys.publisher, now_us=self._now_us, randomness=self._randomness)
        self._rings.append(ring)
        await ring.add(keys)

        async def fetch(epoch: int) -> None:
            await ring.add(await self._client.publisher_keys(realm, parsed, epoch, instance))

        self._keep_renewed(_Grant(parsed.text, fetch, keys.epoch))
        return ring

    async def subscriber(self, filter: str | Filter) -> SubscriberRing:
        """Return keys to open events that match a filter; raise Refusal if the policy denies them.

        One ring per subscription.
        """
        parsed, realm = _as_filter(filter), self.realm
        keys = await self._client.subscriber_keys(realm, parsed, self._epoch())
        ring = SubscriberRing(realm, now_us=self._now_us, randomness=self._randomness, folder=self._folder)
        self._rings.append(ring)
        await ring.add(keys)

        async def fetch(epoch: int) -> None:
            await ring.add(await self._client.subscriber_keys(realm, parsed, epoch))

        self._keep_renewed(_Grant(parsed.text, fetch, keys.epoch))
        return ring

    async def close(self) -> None:
        """Stop renewing, and close the rings."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for ring in self._rings:
            ring.close()

    async def __aenter__(self) -> Membership:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _epoch(self) -> int:
        return self.realm.schema.epochs.epoch_at(self._now_us())

    def _keep_renewed(self, grant: _Grant) -> None:
        self._tasks.append(asyncio.create_task(self._renew(grant), name="plait renewal of keys"))

    async def _renew(self, grant: _Grant) -> None:
        """Renew a grant until it is refused. If epochs do not overlap, the next keys arrive after its begin."""
        while True:
            await asyncio.sleep(self._until_issued_s(grant.epoch + 1))
            epoch = max(grant.epoch + 1, self._epoch())  # a sleep of the machine may skip epochs
            try:
                await self._fetch(grant, epoch)
            except Refusal as refusal:
                self.refused[grant.name] = refusal
                log.error("keys for %s are not renewed: %s", grant.name, refusal)
                return
            grant.epoch = epoch

    async def _fetch(self, grant: _Grant, epoch: int) -> None:
        wait_s = RETRY_FIRST_S
        while True:
            try:
                await grant.fetch(epoch)
                return
            except SealError as error:
                # code `epoch`: the server's clock is behind, or the epoch is over and the next round requests the
                # present one
                if isinstance(error, Refusal) and not error.retryable and error.code != "epoch":
                    raise
                if self._epoch() > epoch:
                    return
                log.warning("keys for %s: %s; retrying", grant.name, error)
            await asyncio.sleep(wait_s * (0.5 + self._randomness.random()))
            wait_s = min(RETRY_LAST_S, 2 * wait_s)

    def _until_issued_s(self, epoch: int) -> float:
        """Return the seconds until a random moment in the first half of the overlap, when keys are issued."""
        epochs = self.realm.schema.epochs
        begins_us = epochs.start_us + epoch * epochs.length_us
        at_us = begins_us - epochs.overlap_us * (1 - 0.5 * self._randomness.random())
        return max(0.0, (at_us - self._now_us()) / 1_000_000)


def _as_filter(given: str | Filter) -> Filter:
    return given if isinstance(given, Filter) else parse(given)

"""Membership in a realm: grants of keys that renew themselves. Keys of the next epoch are asked for in the first half
of the time in which they are issued, each member at a moment of its own, and again until they are there or refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from plait_core import Filter, Randomness, parse
from plait_crypto import Realm, SealError
from plait_crypto.keyserver import Refusal

from .client import KeyClient
from .rings import Clock, PublisherRing, SubscriberRing, wall_clock_us

RETRY_FIRST_S: Final = 0.5
RETRY_LAST_S: Final = 30.0
"""Between attempts to renew: a key server that comes back is not met by everybody at once."""

log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class _Grant:
    """Keys for one filter, and how to get those of another epoch."""

    name: str
    fetch: Callable[[int], Awaitable[None]]
    epoch: int


class Membership:
    """One process's part in a realm. Made by `join`; closing it ends its rings."""

    def __init__(self, client: KeyClient, realm: Realm, now_us: Clock, randomness: Randomness) -> None:
        self.realm = realm
        self.refused: dict[str, Refusal] = {}
        """Grants that were not renewed, by their filter: what is sealed in a later epoch does not open."""
        self._client = client
        self._now_us = now_us
        self._randomness = randomness
        self._rings: list[PublisherRing | SubscriberRing] = []
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def join(
        cls, client: KeyClient, *, now_us: Clock = wall_clock_us, randomness: Randomness | None = None
    ) -> Membership:
        """Learn the realm from a key server that the client trusts."""
        now = await client.realm()
        return cls(client, now.realm, now_us, randomness if randomness is not None else random.SystemRandom())

    async def publisher(self, filter: str | Filter) -> PublisherRing:
        """Keys to seal what a filter matches; Refusal if the policy does not say so."""
        asked, instance, realm = _as_filter(filter), self._randomness.getrandbits(31) + 1, self.realm
        keys = await self._client.publisher_keys(realm, asked, self._epoch(), instance)
        ring = PublisherRing(realm, keys.publisher, now_us=self._now_us, randomness=self._randomness)
        self._rings.append(ring)
        await ring.add(keys)

        async def fetch(epoch: int) -> None:
            await ring.add(await self._client.publisher_keys(realm, asked, epoch, instance))

        self._keep(_Grant(asked.text, fetch, keys.epoch))
        return ring

    async def subscriber(self, filter: str | Filter) -> SubscriberRing:
        """Keys to open what a filter matches; Refusal if the policy does not say so. One ring for each subscription."""
        asked, realm = _as_filter(filter), self.realm
        keys = await self._client.subscriber_keys(realm, asked, self._epoch())
        ring = SubscriberRing(realm, now_us=self._now_us, randomness=self._randomness)
        self._rings.append(ring)
        await ring.add(keys)

        async def fetch(epoch: int) -> None:
            await ring.add(await self._client.subscriber_keys(realm, asked, epoch))

        self._keep(_Grant(asked.text, fetch, keys.epoch))
        return ring

    async def close(self) -> None:
        """Renew nothing more."""
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

    def _keep(self, grant: _Grant) -> None:
        self._tasks.append(asyncio.create_task(self._renew(grant), name="plait renewal of keys"))

    async def _renew(self, grant: _Grant) -> None:
        """Until it is refused. Where epochs do not overlap, keys of the next are there when it has begun."""
        while True:
            await asyncio.sleep(self._until_issued_s(grant.epoch + 1))
            wanted = max(grant.epoch + 1, self._epoch())  # after a long sleep: of the machine, say
            try:
                await self._fetch(grant, wanted)
            except Refusal as refusal:
                self.refused[grant.name] = refusal
                log.error("keys for %s are not renewed: %s", grant.name, refusal)
                return
            grant.epoch = wanted

    async def _fetch(self, grant: _Grant, epoch: int) -> None:
        wait_s = RETRY_FIRST_S
        while True:
            try:
                await grant.fetch(epoch)
                return
            except SealError as error:
                # `epoch`: the server's clock is behind; or it is over, and the next round asks for the present one
                if isinstance(error, Refusal) and not error.retryable and error.code != "epoch":
                    raise
                if self._epoch() > epoch:
                    return
                log.warning("keys for %s: %s; asking again", grant.name, error)
            await asyncio.sleep(wait_s * (0.5 + self._randomness.random()))
            wait_s = min(RETRY_LAST_S, 2 * wait_s)

    def _until_issued_s(self, epoch: int) -> float:
        """Until a moment at which keys of an epoch are issued: somewhere in the first half of the overlap."""
        epochs = self.realm.schema.epochs
        begins_us = epochs.start_us + epoch * epochs.length_us
        at_us = begins_us - epochs.overlap_us * (1 - 0.5 * self._randomness.random())
        return max(0.0, (at_us - self._now_us()) / 1_000_000)


def _as_filter(given: str | Filter) -> Filter:
    return given if isinstance(given, Filter) else parse(given)

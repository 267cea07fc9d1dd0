"""Rings: keys in use by one process of a holder. Pairings run in the ring's own thread, never on the event loop.

Work without a pairing runs on the loop if the thread is idle, because handing an event over and back takes longer.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from plait_core import Attributes, Randomness
from plait_crypto import (
    Draft,
    Keyring,
    Opened,
    PayloadReader,
    PayloadSealer,
    PublisherKeys,
    Realm,
    Sealer,
    SessionSealer,
    SubscriberKeys,
)

WAITING_MAX: Final = 256
"""Events that wait for a ring's thread; further callers wait for room. At 20 ms an event they are five seconds."""

SWITCH_S: Final = 0.0005
"""While a thread computes, the loop gets the interpreter within this interval.

Python's own 5 ms would apply to each call in a turn that releases the GIL: a turn with ten such calls took 60 ms.
"""

Clock = Callable[[], int]
R = TypeVar("R")
K = TypeVar("K", PublisherKeys, SubscriberKeys)


def wall_clock_us() -> int:
    """Return microseconds since 1970."""
    return time.time_ns() // 1000


class _Ring(Generic[K]):
    def __init__(self, realm: Realm, now_us: Clock, randomness: Randomness | None, name: str) -> None:
        self.realm = realm
        self._now_us = now_us
        self._randomness = randomness if randomness is not None else random.SystemRandom()
        self._thread = ThreadPoolExecutor(1, name)
        self._room = asyncio.Semaphore(WAITING_MAX)
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._busy = 0

    def close(self) -> None:
        """Close the ring's thread. Running work completes."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def add(self, keys: K) -> None:
        """Add keys, for their epoch."""
        await self._run(lambda: self._add(keys))

    def _add(self, keys: K) -> None:
        raise NotImplementedError

    async def _run(self, work: Callable[[], R]) -> R:
        """Run `work` in the thread, in the order of the calls."""
        async with self._room:
            self._busy += 1
            running = asyncio.get_running_loop().run_in_executor(self._thread, work)
            running.add_done_callback(self._done)  # not when the caller gives up: the work still runs
            return await running

    def _done(self, running: asyncio.Future[R]) -> None:
        self._busy -= 1


class PublisherRing(_Ring[PublisherKeys]):
    """Seal for one process of a publisher. One grant: its keys cover one filter."""

    def __init__(
        self, realm: Realm, publisher: int, *, now_us: Clock = wall_clock_us, randomness: Randomness | None = None
    ) -> None:
        super().__init__(realm, now_us, randomness, "plait-sealing")
        self._sealer = Sealer(realm, publisher)
        self._payloads = PayloadSealer(SessionSealer(self._sealer))

    async def seal(self, draft: Draft) -> tuple[Attributes, bytes]:
        """Return clear attributes and the payload; raise KeyMissing if the keys do not cover the event."""
        if not self._busy and self._payloads.cheap(draft, self._now_us()):
            return self._seal(draft)
        return await self._run(lambda: self._seal(draft))

    def _seal(self, draft: Draft) -> tuple[Attributes, bytes]:
        return self._payloads.seal(draft, now_us=self._now_us(), randomness=self._randomness)

    def _add(self, keys: PublisherKeys) -> None:
        self._sealer.add(keys)


class SubscriberRing(_Ring[SubscriberKeys]):
    """Open events for one subscription. An event that was opened before is a replay."""

    def __init__(self, realm: Realm, *, now_us: Clock = wall_clock_us, randomness: Randomness | None = None) -> None:
        super().__init__(realm, now_us, randomness, "plait-unsealing")
        self._keyring = Keyring(realm)
        self._payloads = PayloadReader(self._keyring)
        self.deposit = b""
        """Routing keys for brokers, which then send little but events that these keys open.

        Routing keys open nothing.
        """
        self.watchers: list[Callable[[], None]] = []
        """Called, in the loop, when the ring has new keys."""

    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened:
        """Open an event, or raise Unopenable."""
        if not self._busy and self._payloads.cheap(payload):
            return self._open(clear, payload, bound)
        return await self._run(lambda: self._open(clear, payload, bound))

    def _open(self, clear: Attributes, payload: bytes, bound: bytes) -> Opened:
        return self._payloads.open(clear, payload, now_us=self._now_us(), randomness=self._randomness, bound=bound)

    async def add(self, keys: SubscriberKeys) -> None:
        """Add keys, for their epoch."""
        await super().add(keys)
        for notify in list(self.watchers):
            notify()

    def _add(self, keys: SubscriberKeys) -> None:
        self._keyring.forget(self._now_us())
        self._keyring.add(keys)
        self._payloads.renewed()
        self.deposit = self._keyring.deposit()

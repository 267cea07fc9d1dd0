"""Rings: keys in use by one process of a holder. Pairings run in the ring's own thread, never on the event loop.

Work without a pairing runs on the loop if the thread is idle, because handing an event over and back takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from plait_core import Attributes, Randomness
from plait_crypto import (
    DEPOSIT_KINDS,
    DepositKind,
    Draft,
    Keyring,
    Opened,
    PayloadReader,
    PayloadSealer,
    PublisherKeys,
    Realm,
    RingClosed,
    Sealer,
    SealingSession,
    SealInvalid,
    SessionSealer,
    SubscriberKeys,
)

from .seen_record import Records

WAITING_MAX: Final = 256
"""Events that wait for a ring's thread; further callers wait for room. At 20 ms an event they are five seconds."""

SWITCH_S: Final = 0.0005
"""While a thread computes, the loop gets the interpreter within this interval.

Python's own 5 ms would apply to each call in a turn that releases the GIL: a turn with ten such calls took 60 ms.
"""

FORGET_LATER_S: Final = 0.1
"""After the end of an overlap, so that a timer that fires early does not miss it."""

LOOK_S: Final = 3600.0
"""The longest time between two looks at the clock, which may be set meanwhile."""

AGE_MAX_US: Final = 30_000_000
"""How long before a ring was made an event may have been published.

A ring without a record of seen events refuses older ones: an earlier process of the reader may have opened them. Clocks
may differ by as much.
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
        self._name = name
        self._closed = False
        self._forgetting: asyncio.TimerHandle | None = None
        self._cleaning: asyncio.Task[None] | None = None
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._begin_process()

    def _begin_process(self) -> None:
        """Begin the thread. A fork copies no threads, and nothing that waited for one goes on."""
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(1, self._name)
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._busy = 0

    def close(self) -> None:
        """Close the ring's thread. Running work completes; what waits, and all later calls, raise RingClosed."""
        self._closed = True
        if self._forgetting is not None:
            self._forgetting.cancel()
        if self._cleaning is not None:
            self._cleaning.cancel()
        if self._process == os.getpid():
            self._thread.shutdown(wait=False)

    async def add(self, keys: K) -> None:
        """Add keys, for their epoch. They are dropped when its events are no longer accepted."""
        await self._run(lambda: self._add(keys))
        self._forget_later()

    def _add(self, keys: K) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the keys of epochs that are over."""
        raise NotImplementedError

    def _check_open(self) -> None:
        """Raise RingClosed after `close`. Begin anew in a process that was forked off."""
        if self._closed:
            raise RingClosed
        if self._process != os.getpid():
            self._begin_process()
            with contextlib.suppress(RuntimeError):  # outside of a loop
                self._forget_later()

    def _forget_later(self) -> None:
        """Drop keys at the end of each overlap, whether or not new ones come."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        if self._closed:
            return
        epochs, now_us = self.realm.schema.epochs, self._now_us()
        epoch = epochs.epoch_at(now_us)
        ends_us = (epochs.begin_us(each) + epochs.overlap_us for each in (epoch, epoch + 1))
        next_us = next(end_us for end_us in ends_us if end_us > now_us)
        delay_s = min((next_us - now_us) / 1_000_000 + FORGET_LATER_S, LOOK_S)
        self._forgetting = asyncio.get_running_loop().call_later(delay_s, self._forget_now)

    def _forget_now(self) -> None:
        forgetting = self._run(self._forget)  # in the thread, which may be using the keys
        self._cleaning = asyncio.get_running_loop().create_task(forgetting, name="plait keys of old epochs")
        self._forget_later()

    async def _run(self, work: Callable[[], R]) -> R:
        """Run `work` in the thread, in the order of the calls."""
        self._check_open()
        async with self._room:
            self._check_open()  # it may be closed while this call waits for room
            self._busy += 1
            running = asyncio.get_running_loop().run_in_executor(self._thread, self._unless_closed, work)
            running.add_done_callback(self._done)  # not when the caller gives up: the work still runs
            return await running

    def _unless_closed(self, work: Callable[[], R]) -> R:
        if self._closed:
            raise RingClosed
        return work()

    def _done(self, running: asyncio.Future[R]) -> None:
        self._busy -= 1


class PublisherRing(_Ring[PublisherKeys]):
    """Seal for one process of a publisher. One grant: its keys cover one filter."""

    def __init__(
        self, realm: Realm, publisher: int, *, now_us: Clock = wall_clock_us, randomness: Randomness | None = None
    ) -> None:
        self._sealer = Sealer(realm, publisher)
        self._payloads = PayloadSealer(SessionSealer(self._sealer))
        super().__init__(realm, now_us, randomness, "plait-sealing")

    async def session(self, draft: Draft) -> RingSession:
        """Return the session to seal an event in. Begin it if none is in use, behind what waits for the thread.

        Raise KeyMissing if the keys do not cover the event.
        """
        self._check_open()
        process = self._process  # that of the session: the process may fork while it begins
        found = None if self._busy else self._payloads.sessions.find(draft, self._now_us())
        return RingSession(self, await self._run(lambda: self._begin(draft)) if found is None else found, process)

    async def seal(self, draft: Draft) -> tuple[Attributes, bytes]:
        """Return clear attributes and the payload; raise KeyMissing if the keys do not cover the event."""
        while (found := (await self.session(draft)).seal(draft)) is None:
            pass
        return found

    def seal_in(self, session: SealingSession, process: int, draft: Draft) -> tuple[Attributes, bytes] | None:
        """Seal an event at once. Return None if the session has ended, or belongs to another process."""
        self._check_open()
        if process != self._process:
            return None
        with self._numbering:
            return self._payloads.seal_in(session, draft, self._now_us())

    def _begin_process(self) -> None:
        super()._begin_process()
        self._numbering = Lock()  # clients with event loops of their own may share a ring
        self._payloads.sessions.forget()

    def _begin(self, draft: Draft) -> SealingSession:
        return self._payloads.sessions.begin(draft, now_us=self._now_us(), randomness=self._randomness)

    def _add(self, keys: PublisherKeys) -> None:
        self._sealer.add(keys)

    def _forget(self) -> None:
        self._sealer.forget(self._now_us())


class RingSession:
    """A sealing session of a publisher's ring. It is that of one process, because its numbers are nonces."""

    def __init__(self, ring: PublisherRing, session: SealingSession, process: int) -> None:
        self._ring = ring
        self._session = session
        self._process = process

    @property
    def realm(self) -> Realm:
        """The realm that its events are sealed in."""
        return self._ring.realm

    def seal(self, draft: Draft) -> tuple[Attributes, bytes] | None:
        """Seal the event that the session was requested for. Return None if the session has ended meanwhile.

        Send the event, or call `end`: readers report a number that is missing between two others.
        """
        return self._ring.seal_in(self._session, self._process, draft)

    def end(self) -> None:
        """End the session: an event of it is not sent. The next one begins another session."""
        self._session.end()


class SubscriberRing(_Ring[SubscriberKeys]):
    """Open events for one subscription. An event that was opened before is a replay."""

    def __init__(
        self,
        realm: Realm,
        *,
        now_us: Clock = wall_clock_us,
        randomness: Randomness | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where the records of durable subscriptions are kept."""
        super().__init__(realm, now_us, randomness, "plait-unsealing")
        self._records = Records(folder)
        self._keyring = Keyring(realm, since_us=now_us() - AGE_MAX_US)
        self._payloads = PayloadReader(self._keyring)
        self._deposits: dict[DepositKind, bytes | SealInvalid] = {}
        self.watchers: list[Callable[[], None]] = []
        """Called, in the loop, when the ring has new keys."""

    @property
    def since_us(self) -> int:
        """Events that were published earlier are refused as `replayed`: 30 s before the ring was made, or 0 with a
        record of seen events."""
        return self._keyring.since_us

    def keep_record(self, name: str) -> None:
        """Keep the record of a durable subscription: what it acknowledged in earlier processes is a replay."""
        self.remember(self._records.keep(name, self.realm.schema.epochs, self._now_us()))

    def remember(self, seen: Iterable[tuple[int, bytes, int, int]]) -> None:
        """Refuse what earlier processes have acknowledged: publisher, session, number, end of the session."""
        self._keyring.remember(seen)

    def forget_event(self, session: bytes, number: int) -> None:
        """Let an event be opened again: its subscription ended before it was acknowledged."""
        self._keyring.forget_event(session, number)

    def settle(self, publisher: int, session: bytes, number: int, until_us: int) -> None:
        """Record that an event is acknowledged: a number of a session, which ends at this time."""
        self._records.add(publisher, session, number, until_us, self._now_us())

    def close(self) -> None:
        """Close the ring's thread and its record."""
        super().close()
        self._records.close()

    def deposit(self, kind: DepositKind = "exact") -> bytes:
        """Return the tokens by which brokers test which events match; raise SealInvalid if these keys have none.

        "exact" tokens match what the keys open; "coarse" ones match more, and tell brokers less; "nothing" has none,
        so brokers send all events of the realm. Tokens open nothing.
        """
        found = b"" if kind == "nothing" else self._deposits.get(kind, b"")
        if isinstance(found, SealInvalid):
            raise found
        return found

    async def open(self, clear: Attributes, payload: bytes, bound: bytes = b"") -> Opened:
        """Open an event, or raise Unopenable."""
        self._check_open()
        if not self._busy and self._payloads.cheap(payload):
            return self._open(clear, payload, bound)
        return await self._run(lambda: self._open(clear, payload, bound))

    @property
    def realms(self) -> tuple[Realm, ...]:
        """The realms whose events it opens."""
        return (self.realm,)

    def epochs(self) -> set[int]:
        """Return the epochs of its keys."""
        return self._keyring.epochs()

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
        self._deposits = {kind: self._deposit(kind) for kind in DEPOSIT_KINDS}

    def _deposit(self, kind: DepositKind) -> bytes | SealInvalid:
        try:
            return self._keyring.deposit(kind)
        except SealInvalid as error:
            return error

    def _forget(self) -> None:
        self._keyring.forget(self._now_us())

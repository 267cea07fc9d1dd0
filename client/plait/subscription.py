"""A subscription of an application: an asynchronous iterator over a queue that the session fills."""

# ruff: noqa: ASYNC109 - the methods take timeouts as arguments, so that callers need not know `asyncio.timeout`
from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from plait_core import PlaitError
from plait_core.wire.frame_types.session_frames import CONFIRM, DURABLE

from .driver import Driver, logger
from .errors import ArgumentInvalid, Closed, Error, Timeout
from .event import Event
from .options.durations import Duration, seconds
from .options.limits import YIELD_EVERY
from .options.rings import Seal
from .options.settings import FilterLike
from .options.validation import timeout_s, usable_filter
from .protocol.notices import Gap, Notice
from .protocol.subscription_state import Arrival, Phase, SubscriptionState, SubscriptionStats
from .sealing import Reader, UnsealedEvent

T = TypeVar("T")

HOLES_LOOK_S: Final = 0.1
"""Least time between two looks for events of sessions that are missing."""

_EXPECTS_ACK: Final = CONFIRM | DURABLE
"""Flags of a delivery that the broker expects an ack for."""


class SubscriptionOwner(Protocol):
    """The part of a client that its subscriptions use."""

    def broker_name(self, broker: int) -> str | None: ...
    async def reply_to(self, request: Event, reply: object, payload: bytes, seal: Seal | None) -> None: ...
    async def reply_failure(self, event: Event, error: Exception) -> None: ...
    def forget_subscription(self, subscription: Subscription[Any]) -> None: ...


class Subscription(Generic[T]):
    """An asynchronous iterator over the events that match a filter.

    `async for event in subscription` ends when the subscription is drained or closed. It raises when the subscription
    ends for another reason; it never stops silently.

    With `ack="auto"` an event is acknowledged when the same task takes the next event, or when the subscription is
    closed. An exception that leaves the `async with` block leaves the event unacknowledged, and replies to a request
    with the error. Several tasks may read from one subscription.
    """

    def __init__(
        self,
        client: SubscriptionOwner,
        driver: Driver,
        state: SubscriptionState,
        read: Callable[[Event], T] | None,
        *,
        manual: bool,
        unseal: Reader | None = None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._state = state
        self._queue = state.queue
        self._signals = driver.session.signals
        self._read = read
        self._manual = manual
        self._unseal = unseal
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._held: WeakKeyDictionary[asyncio.Task[Any], Event] = WeakKeyDictionary()
        self._ever_held = False
        """Whether `_held` was ever used: testing a flag is cheaper than testing a weak dictionary."""
        self._workers: list[asyncio.Task[None]] = []
        self._turn = YIELD_EVERY
        self._last: Event | None = None
        driver.readers[state.id] = self._wake
        self._hole_timer: asyncio.TimerHandle | None = None
        self._unwatch = None if unseal is None else unseal.watch(self._keys_changed)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        if self._ever_held and self._held:
            self._ack_held()
        if self._unseal is not None:
            return await self._next_unsealed(self._unseal)
        while True:
            if not self._queue:
                if self._state.phase is Phase.ENDED:
                    raise self._state.error or StopAsyncIteration
                await self._wait_for_change()
                continue
            self._turn -= 1
            if not self._turn:
                self._turn = YIELD_EVERY
                await asyncio.sleep(0)  # lets other tasks run even if the queue is never empty
                continue
            event = Event(self._state.take(), self)
            if event._arrival[1] & _EXPECTS_ACK:
                self._hold(event)
            if self._signals.dirty:
                self._driver.pump()
            self._last = event
            if self._read is None:
                return event  # type: ignore[return-value]  # T is Event then
            try:
                return self._read(event)
            except (ValueError, TypeError, KeyError) as error:
                self.report_unusable(event, error)

    async def next(self, timeout: Duration | None = None) -> T:
        """Return the next event. Raise Timeout when none arrives in time, Closed when the subscription has ended."""
        limit_s = timeout_s(timeout)
        try:
            async with asyncio.timeout(limit_s):
                return await self.__anext__()
        except StopAsyncIteration:
            raise Closed("the subscription is closed") from None
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise Timeout(f"no event within {limit_s:g} s") from None

    async def notices(self) -> AsyncIterator[Notice]:
        """Yield the subscription's notices: Gap, Late, SlowConsumer, Rerouted. End when the subscription ends."""
        notices = self._state.notices
        while True:
            while notices:
                yield notices.popleft()
            if self._state.phase is Phase.ENDED:
                return
            await self._wait_for_change()

    def on(self, fn: Callable[[T], Awaitable[object] | object], concurrency: int = 1) -> Subscription[T]:
        """Call `fn`, a function or coroutine function, with each event.

        `concurrency` is the number of calls at a time; with 1, events stay in order. An exception of `fn` is logged
        and counted in `stats.errors`. It leaves the event unacknowledged, and the subscription goes on. If the event
        is a request, its sender gets the exception's type and text as `plait.RequestFailed`.
        """
        if concurrency < 1:
            raise ArgumentInvalid(f"concurrency={concurrency!r}", hint="at least 1")
        for _ in range(concurrency):
            self._workers.append(self._driver.loop.create_task(self._work(fn), name="plait subscription callback"))
        return self

    @property
    def event(self) -> Event | None:
        """The event that was taken last. With `as_`: the event that the last object was converted from."""
        return self._last

    # --- status -------------------------------------------------------------------------------------------------------

    @property
    def stats(self) -> SubscriptionStats:
        """Counters so far: received, delivered, dropped, late, gaps, pending and more."""
        return self._state.stats()

    @property
    def filter(self) -> str:
        """The canonical text of the filter."""
        return self._state.terms.filter.text

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended. Queued events may still be read."""
        return self._state.phase is Phase.ENDED

    # --- control ------------------------------------------------------------------------------------------------------

    async def update(self, filter: FilterLike) -> None:
        """Replace the filter in one step: every event matches the old filter or the new one."""
        self._driver.check()
        if not self._state.open:
            raise Closed("the subscription is closed")
        parsed = usable_filter(filter)
        terms = self._state.terms.with_filter(self._unseal.change(parsed) if self._unseal else parsed)
        session = self._driver.session
        await self._driver.completed(session.desired.change(self._state, terms, self._driver.now()))

    def ack_up_to(self, event: Event) -> None:
        """Acknowledge this event and all earlier ones."""
        if self._unseal is not None:
            self._unseal.settle_up_to(event)
        self._state.acknowledge_up_to(event._arrival[2])
        self._driver.pump()

    async def drain(self, timeout: Duration = 30.0) -> None:
        """End in order: take no new events, deliver the queued ones, then end.

        The method waits for callbacks. An iterator gets the queued events and then ends. A durable subscription waits
        for its readers; unacknowledged events stay in the broker's log.
        """
        state, driver, limit_s = self._state, self._driver, seconds(timeout, "timeout", zero=True)
        if not state.open or driver.session.ended:
            return
        self._ack_held()  # else draining would wait for its own caller's ack
        try:
            async with asyncio.timeout(limit_s):
                if state.terms.durable:
                    await self._drain_durable()
                else:
                    await self._drain_queued()
                if self._workers and asyncio.current_task() not in self._workers:
                    await asyncio.wait(self._workers)
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise Timeout(f"the subscription was not drained within {limit_s:g} s") from None

    async def close(self, *, forget: bool = False) -> None:
        """End now and discard queued events. `forget`: also give up the place of a durable subscription."""
        for event in list(self._held.values()):
            if self._unseal is not None:
                self._unseal.settle(event)
            self._state.acknowledge(event._arrival[2])
        await self._close(forget=forget)

    def __repr__(self) -> str:
        stats, terms = self.stats, self._state.terms
        durable = f", durable {terms.durable!r}" if terms.durable else ""
        state = self._state.phase.name.lower()
        return (
            f"<Subscription {self.filter!r:.100}: {state}{durable}, {stats.pending} pending, {stats.dropped} dropped>"
        )

    async def __aenter__(self) -> Subscription[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        if isinstance(error, Exception) and self._last is not None:
            await self.reply_failure(self._last, error)
        await self._close(forget=False)

    # --- for events ---------------------------------------------------------------------------------------------------

    def broker_name(self, broker: int) -> str | None:
        """Return the name of a broker, or None if the name is not known."""
        return self._client.broker_name(broker)

    def acknowledge(self, event: Event) -> None:
        """Acknowledge one event."""
        if self._unseal is not None:
            self._unseal.settle(event)
        self._state.acknowledge(event._arrival[2])
        if self._signals.dirty:
            self._driver.pump()
        if self._state.phase is Phase.DRAINING:
            self._wake()

    def decline(self, event: Event) -> None:
        """Queue an event for another delivery."""
        if self._state.phase is Phase.ENDED:
            return
        for task, held in list(self._held.items()):
            if held is event:
                del self._held[task]
        if self._unseal is not None:
            self._unseal.decline(event)
        self._state.requeue(event._arrival)
        self._driver.pump()

    async def reply_to(self, request: Event, reply: object, payload: bytes, seal: Seal | None) -> None:
        """Publish the reply to a request."""
        await self._client.reply_to(request, reply, payload, seal)
        request._replied = True

    async def reply_failure(self, event: Event, error: Exception) -> None:
        """Reply to a request with the error that its handling raised, unless it has a reply."""
        if not event.replied:
            with contextlib.suppress(Error):  # the client is closed, or the broker refuses: the requester times out
                await self._client.reply_failure(event, error)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait_for_change(self) -> None:
        """Wait until the session has queued something or ended the subscription."""
        waiter = self._driver.loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def _keys_changed(self) -> None:
        """Schedule `_update_routing`. The ring may run in another event loop."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._driver.loop.call_soon_threadsafe(self._update_routing)

    def _update_routing(self) -> None:
        """Send new routing tokens to the broker, and the filter with their realms: the ring's keys have changed."""
        if self._unseal is not None and self._state.open and not self._driver.session.ended:
            unseal = self._unseal
            try:
                deposit = unseal.deposit
            except PlaitError as error:
                logger.warning("no tokens for brokers, which send more events than match: %s", error)
                deposit = b""
            self._driver.session.desired.update_routing(self._state, deposit, unseal.routed)
            self._driver.pump()

    def _hold(self, event: Event) -> None:
        task = asyncio.current_task()
        if not self._manual and task is not None:
            self._held[task] = event
            self._ever_held = True

    def _ack_held(self) -> None:
        """Acknowledge the event that this task took last."""
        task = asyncio.current_task()
        event = self._held.pop(task, None) if task is not None else None
        if event is not None:
            self.acknowledge(event)

    def report_unusable(self, event: Event, error: Exception) -> None:
        """Log, count and acknowledge an event that does not convert to `as_`."""
        logger.warning("%s does not convert to the type of as_: %s", event.id, error)
        self._state.record_unusable(event._arrival[0])
        self.acknowledge(event)

    async def _next_unsealed(self, reader: Reader) -> T:
        """Return the next sealed event that opens, matches and converts."""
        while True:
            found = await self.take_opened(reader)
            if found is None:
                raise StopAsyncIteration
            if found._arrival[1] & _EXPECTS_ACK:
                self._hold(found)
            self._last = found
            try:
                return self.convert(found)
            except (ValueError, TypeError, KeyError) as error:
                self.report_unusable(found, error)

    async def take_opened(self, reader: Reader) -> UnsealedEvent | None:
        """Return the next sealed event that opens and matches, or None when the subscription has ended.

        Events that do not open are counted, noticed and acknowledged. The caller acknowledges the returned event.
        """
        while True:
            while not reader.waiting:
                taken = await self.take_batch(1)
                if not taken:
                    return None
                reader.begin(Event(taken[0], self))
            event, found = await reader.finish()
            if reader.holes.next_at is not None:
                self._watch_holes(reader)
            if not isinstance(found, str):
                if reader.durable and not found._arrival[1] & _EXPECTS_ACK:
                    reader.settle(found)  # a broker that says that it expects no ack cannot switch the record off
                return found
            if found:
                self._state.record_unusable(event._arrival[0], found)
            else:
                self._state.discard_unmatched()
            self.acknowledge(event)

    def _watch_holes(self, reader: Reader) -> None:
        """Report events of sessions that have been missing for too long, and look again when the next may be."""
        now = self._driver.loop.time()
        missing = 0 if self._queue else reader.holes.overdue(now)  # what is missing may be in the queue
        if missing and self._state.open:
            self._state.record_gap(Gap("missing", missing), counted=False)
            self._wake()
        at = reader.holes.next_at
        if self._hole_timer is not None:
            self._hole_timer.cancel()
        self._hole_timer = None
        if at is not None and self._state.open:
            self._hole_timer = self._driver.loop.call_at(max(at, now + HOLES_LOOK_S), self._watch_holes, reader)

    @property
    def unsealing(self) -> Reader | None:
        """The reader that opens sealed events. None for a subscription to ordinary events."""
        return self._unseal

    async def take_batch(self, most: int) -> list[Arrival]:
        """Take up to `most` deliveries, waiting for the first. Return none when the subscription has ended.

        The caller acknowledges them.
        """
        while not self._queue:
            if self._state.phase is Phase.ENDED:
                if self._state.error is not None:
                    raise self._state.error
                return []
            await self._wait_for_change()
        taken = [self._state.take() for _ in range(min(most, len(self._queue)))]
        if self._signals.dirty:
            self._driver.pump()
        return taken

    @property
    def manual_ack(self) -> bool:
        """Whether the application acknowledges events itself (`ack="manual"`)."""
        return self._manual

    def convert(self, event: Event) -> T:
        """Convert an event to the application's type. Raise ValueError, TypeError or KeyError if that fails."""
        return event if self._read is None else self._read(event)  # type: ignore[return-value]  # T is Event then

    async def _work(self, fn: Callable[[T], Awaitable[object] | object]) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                value = await self.__anext__()
                event = self._last
            except StopAsyncIteration:
                return
            except Error as error:
                logger.error("a callback gets no more events: %s", error)
                return
            try:
                result = fn(value)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                logger.exception("a subscription's callback failed")
                self._state.errors += 1
                self._held.pop(task, None)
                if event is not None:
                    await self.reply_failure(event, error)

    async def _drain_queued(self) -> None:
        """Unsubscribe. The broker first sends the events that it has queued."""
        state, driver = self._state, self._driver
        request = driver.session.desired.unsubscribe(state, driver.now(), drain=True)
        await driver.completed(request)

    async def _drain_durable(self) -> None:
        state, driver = self._state, self._driver
        driver.session.desired.stop_deliveries(state)
        if self._workers or self._waiters or self._held:  # it has a reader
            while (self._queue or state.unacknowledged) and state.phase is Phase.DRAINING:
                await self._wait_for_change()
        await self._stored()
        request = driver.session.desired.unsubscribe(state, driver.now())
        await driver.completed(request)

    async def _stored(self) -> None:
        """Wait until the broker has stored all acks."""
        driver = self._driver
        await driver.completed(driver.session.desired.acknowledge(self._state, driver.now()))

    async def _close(self, *, forget: bool) -> None:
        state, driver = self._state, self._driver
        try:
            if state.phase is not Phase.ENDED and not driver.session.ended:
                if state.terms.durable and state.phase is Phase.OPEN and driver.session.is_open:
                    await self._stored()
                state.discard_queue()  # first: the last report to the broker counts them
                request = driver.session.desired.unsubscribe(state, driver.now(), forget=forget)
                if driver.session.is_open or forget:
                    await driver.completed(request)
        except Error:
            if forget:  # else it has ended here, and ends at the broker with the session
                raise
        finally:
            self.detach()
            if workers := self.cancel_workers():
                await asyncio.wait(workers)

    def cancel_workers(self) -> list[asyncio.Future[Any]]:
        """Cancel the callback tasks and the opening of events. Return what the caller has to wait for."""
        workers: list[asyncio.Future[Any]] = [each for each in self._workers if each is not asyncio.current_task()]
        for worker in workers:
            worker.cancel()
        return [*workers, *(self._unseal.cancel() if self._unseal is not None else ())]

    def detach(self) -> None:
        """Remove the subscription from the session and the client."""
        state = self._state
        if state.phase is not Phase.ENDED:
            self._driver.session.desired.end(state, None)
        state.discard_queue()
        if self._unseal is not None:
            self._unseal.cancel()
        if self._hole_timer is not None:
            self._hole_timer.cancel()
        if self._unwatch is not None:
            self._unwatch()
        self._held.clear()
        self._wake()
        self._driver.readers.pop(state.id, None)
        self._client.forget_subscription(self)

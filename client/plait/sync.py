"""The SDK without asyncio: `plait.sync.connect(...)`. Each client has one thread that runs its event loop.

    with plait.sync.connect() as client:
        with client.subscribe("symbol == 'IBM'") as quotes:
            for event in quotes:
                print(event["symbol"], event.delay)

Every method blocks until it is done, and may be called from any thread. Events are fetched in batches, so iterating is
fast. A publish costs a switch of threads, some tens of microseconds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, overload

from plait_core import Randomness
from plait_core.wire.frame_types.session_frames import CONFIRM, DURABLE

from . import client as asynchronous
from .advertisement import Advertisement as AsyncAdvertisement
from .driver import Dial
from .errors import Closed, Error, NotAvailable, Timeout
from .event import Event as AsyncEvent
from .options.durations import Duration
from .options.keyword_options import ConnectOptions, EventOptions, PublishOptions, SubscribeOptions, documented
from .options.rings import Seal, Unsealing
from .options.settings import FilterLike
from .options.validation import timeout_s
from .protocol.notices import Notice
from .protocol.session import SessionStats
from .protocol.subscription_state import Arrival, SubscriptionStats
from .receipt import Receipt
from .sealing import UnsealedEvent as AsyncUnsealedEvent
from .subscription import Subscription as AsyncSubscription

T = TypeVar("T")
R = TypeVar("R")
BATCH = 512
"""Deliveries fetched in one batch."""


class Thread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="plait", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and wait for its result. Ctrl-C while waiting cancels it."""
        if threading.current_thread() is self._thread or self.loop.is_closed():
            work.close()
            raise Closed("the client is closed" if self.loop.is_closed() else "called from the client's own thread")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except (KeyboardInterrupt, concurrent.futures.CancelledError):
            future.cancel()
            raise

    def call_soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Schedule a function call in the thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(work, *arguments)

    def stop(self) -> None:
        """Stop the event loop and end the thread."""
        if self.loop.is_closed():
            return
        self.call(self.loop.shutdown_asyncgens())
        self.call(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


def _new_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Event(AsyncEvent):
    """`plait.Event`, whose `reply` blocks."""

    __slots__ = ()

    def reply(self, answer: object, payload: bytes = b"", *, seal: Seal | None = None) -> None:  # type: ignore[override]
        """Reply to a request. Raise EventInvalid when this event is not a request.

        - `seal`: seals the reply. The reply to a sealed request needs it.
        """
        source: Any = self._source
        source.send_reply(self, answer, payload, seal)


class UnsealedEvent(AsyncUnsealedEvent):
    """A sealed event after opening, whose `reply` blocks."""

    __slots__ = ()
    reply = Event.reply  # type: ignore[assignment]


class Subscription(Generic[T]):
    """`plait.Subscription` as a plain iterator. Use one subscription for each reading thread."""

    def __init__(self, thread: Thread, inner: AsyncSubscription[T]) -> None:
        self._thread = thread
        self._inner = inner
        self._ready: deque[Arrival] = deque()
        self._held: AsyncEvent | None = None
        self._last: AsyncEvent | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return self.next()
        except Closed:
            raise StopIteration from None

    def next(self, timeout: Duration | None = None) -> T:
        """Return the next event. Raise Timeout when none arrives in time, Closed when the subscription has ended."""
        limit_s = timeout_s(timeout)
        self._ack_held()
        while True:
            event = self._event(limit_s)
            self._last = event
            if event._arrival[1] & (CONFIRM | DURABLE) and not self._inner.manual_ack:
                self._held = event
            try:
                read: Any = self._inner.convert(event)
                return read  # type: ignore[no-any-return]
            except (ValueError, TypeError, KeyError) as error:
                self._held = None
                self._thread.call_soon(self._inner.report_unusable, event, error)

    def notices(self) -> Iterator[Notice]:
        """Yield the subscription's notices: Gap, Late, SlowConsumer, Rerouted. End when the subscription ends."""
        notices = self._inner.notices()

        async def next_notice() -> Notice | None:
            return await anext(notices, None)

        while (notice := self._thread.call(next_notice())) is not None:
            yield notice

    def on(self, fn: Callable[[T], object], concurrency: int = 1) -> Subscription[T]:
        """Call `fn` with each event, in worker threads.

        `concurrency` is the number of calls at a time; with 1, events stay in order. An exception of `fn` is logged
        and counted in `stats.errors`. It leaves the event unacknowledged, and the subscription goes on. If the event
        is a request, its sender gets the exception's type and text as `plait.RequestFailed`.
        """

        async def call_in_thread(value: T) -> None:
            if not isinstance(value, AsyncEvent):
                await asyncio.to_thread(fn, value)
                return
            given: Any = self._wrap(value)
            try:
                await asyncio.to_thread(fn, given)
            finally:
                value._replied = given.replied

        async def begin() -> None:
            self._inner.on(call_in_thread, concurrency)

        self._thread.call(begin())
        return self

    @property
    def event(self) -> AsyncEvent | None:
        """The event that was taken last. With `as_`: the event that the last object was converted from."""
        return self._last

    @property
    def stats(self) -> SubscriptionStats:
        """Counters so far: received, delivered, dropped, late, gaps, pending and more."""
        return self._inner.stats

    @property
    def filter(self) -> str:
        """The canonical text of the filter."""
        return self._inner.filter

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended. Queued events may still be read."""
        return self._inner.closed

    def update(self, filter: FilterLike) -> None:
        """Replace the filter in one step: every event matches the old filter or the new one."""
        self._thread.call(self._inner.update(filter))

    def ack_up_to(self, event: AsyncEvent) -> None:
        """Acknowledge this event and all earlier ones."""
        self._thread.call_soon(self._inner.ack_up_to, event)

    def drain(self, timeout: Duration = 30.0) -> None:
        """End in order: take no new events. Queued events may still be read, then iteration ends."""
        self._thread.call(self._inner.drain(timeout))

    def close(self, *, forget: bool = False) -> None:
        """End now and discard queued events. `forget`: also give up the place of a durable subscription."""
        self._ack_held()
        self._close(forget=forget)

    def __repr__(self) -> str:
        return repr(self._inner).replace("<", "<sync.", 1)

    def __enter__(self) -> Subscription[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        if isinstance(error, Exception) and self._last is not None and not self._thread.loop.is_closed():
            self._thread.call(self._inner.reply_failure(self._last, error))
        self._close(forget=False)

    # --- for events ---------------------------------------------------------------------------------------------------

    def broker_name(self, broker: int) -> str | None:
        """Return the name of a broker, or None if the name is not known."""
        return self._inner.broker_name(broker)

    def acknowledge(self, event: AsyncEvent) -> None:
        """Acknowledge one event."""
        self._thread.call_soon(self._inner.acknowledge, event)

    def decline(self, event: AsyncEvent) -> None:
        """Queue an event for another delivery."""
        if self._held is event:
            self._held = None
        self._thread.call_soon(self._inner.decline, event)

    async def reply_to(self, request: AsyncEvent, reply: object, payload: bytes, seal: Seal | None) -> None:
        """Publish the reply to a request."""
        await self._inner.reply_to(request, reply, payload, seal)

    def send_reply(self, request: AsyncEvent, reply: object, payload: bytes, seal: Seal | None) -> None:
        """Publish the reply to a request, and block until it is sent."""
        self._thread.call(self._inner.reply_to(request, reply, payload, seal))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _event(self, timeout: float | None) -> AsyncEvent:
        reader = self._inner.unsealing
        if reader is not None:
            return self._wrap(self._thread.call(_within(timeout, self._inner.take_opened(reader))))
        if not self._ready:
            self._ready.extend(self._thread.call(_within(timeout, self._inner.take_batch(BATCH))))
        return Event(self._ready.popleft(), self)

    def _wrap(self, event: AsyncEvent) -> AsyncEvent:
        """Wrap an event so that its methods block."""
        if isinstance(event, AsyncUnsealedEvent):
            return UnsealedEvent(event._arrival, self, event.opened)
        return Event(event._arrival, self)

    def _ack_held(self) -> None:
        """Acknowledge the event that was taken last."""
        held, self._held = self._held, None
        if held is not None:
            self.acknowledge(held)

    def _close(self, *, forget: bool) -> None:
        self._ready.clear()
        if not self._thread.loop.is_closed():
            self._thread.call(self._inner.close(forget=forget))


async def _within(timeout: float | None, taking: Coroutine[Any, Any, R | None]) -> R:  # noqa: ASYNC109 - handed on
    """Return what `taking` returns. Raise Timeout when it takes too long, Closed when the subscription has ended."""
    try:
        async with asyncio.timeout(timeout):
            taken = await taking
    except TimeoutError as error:
        if isinstance(error, Error):
            raise
        raise Timeout(f"no event within {timeout:g} s") from None
    if taken is None or taken == []:
        raise Closed("the subscription is closed")
    return taken


class Advertisement:
    """`plait.Advertisement`, whose methods block."""

    def __init__(self, thread: Thread, inner: AsyncAdvertisement) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def filter(self) -> str:
        """The canonical text of the filter."""
        return self._inner.filter

    @property
    def matching(self) -> bool:
        """Whether any subscription intersects the advertisement now. If not, there is no need to publish."""
        return self._inner.matching

    @documented(EventOptions, PublishOptions)
    def publish(self, event: object, payload: bytes = b"", **options: Unpack[PublishOptions]) -> Receipt:
        """Publish an event as `client.publish` does. Raise EventInvalid when it does not match the advertised filter
        or schema."""
        return self._thread.call(self._inner.publish(event, payload, **options))

    def close(self) -> None:
        """Withdraw the advertisement."""
        if not self._thread.loop.is_closed():
            self._thread.call(self._inner.close())

    def __repr__(self) -> str:
        return repr(self._inner).replace("<", "<sync.", 1)

    def __enter__(self) -> Advertisement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Client:
    """`plait.Client`, whose methods block. Made by `connect`."""

    def __init__(self, thread: Thread, inner: asynchronous.Client) -> None:
        self._thread = thread
        self._inner = inner

    @documented(EventOptions, PublishOptions)
    def publish(self, event: object, payload: bytes = b"", **options: Unpack[PublishOptions]) -> Receipt:
        """Publish a mapping, a dataclass or a pydantic model: see `plait.Client.publish`."""
        return self._thread.call(self._inner.publish(event, payload, **options))

    @documented(EventOptions)
    def try_publish(
        self, event: object, payload: bytes = b"", *, seal: None = None, **options: Unpack[EventOptions]
    ) -> bool:
        """Publish without waiting for room. Return False, and publish nothing, when the outbox is full."""

        async def try_publish() -> bool:
            return self._inner.try_publish(event, payload, seal=seal, **options)

        return self._thread.call(try_publish())

    def advertise(
        self, filter: FilterLike, *, rate: float | None = None, schema: Mapping[str, type] | None = None
    ) -> Advertisement:
        """Advertise a filter that describes the events to be published: see `plait.Client.advertise`."""

        async def open() -> AsyncAdvertisement:
            return await self._inner.advertise(filter, rate=rate, schema=schema)

        return Advertisement(self._thread, self._thread.call(open()))

    @overload
    def subscribe(
        self, filter: FilterLike, *, as_: None = None, **options: Unpack[SubscribeOptions]
    ) -> Subscription[Event]: ...

    @overload
    def subscribe(
        self, filter: FilterLike, *, as_: type[T], **options: Unpack[SubscribeOptions]
    ) -> Subscription[T]: ...

    @documented(SubscribeOptions)
    def subscribe(
        self, filter: FilterLike, *, as_: type[Any] | None = None, **options: Unpack[SubscribeOptions]
    ) -> Subscription[Any]:
        """Subscribe to events that match a filter: see `plait.Client.subscribe`.

        Return when the subscription is installed.

        - `as_`: a dataclass, a pydantic model or dict that each event is converted to. Default: `plait.sync.Event`.
        """
        shape = None if as_ is None or issubclass(as_, AsyncEvent) else as_

        async def open() -> AsyncSubscription[Any]:
            if shape is None:
                return await self._inner.subscribe(filter, **options)
            return await self._inner.subscribe(filter, as_=shape, **options)

        return Subscription(self._thread, self._thread.call(open()))

    def subscribe_pattern(self, pattern: object, **options: object) -> Subscription[Event]:
        """Subscribe to a composite event. Not in this version."""
        raise NotAvailable("composite subscriptions", hint="they come with a later version")

    def predict(self, filter: FilterLike, *, within: Duration | None = None) -> None:
        """Predict on-time delivery before subscribing. Not in this version."""
        self._inner.predict(filter, within=within)

    def request(
        self,
        event: object,
        payload: bytes = b"",
        *,
        timeout: Duration = 2.0,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
        seal: Seal | None = None,
        unseal: Unsealing | None = None,
    ) -> AsyncEvent:
        """Publish a request and return the first reply. Raise Timeout when no reply arrives in time, and RequestFailed
        when the responder raised an exception.

        - `seal`, `unseal`: seal the request, and open its reply. A sealed request needs both.
        """
        return self._thread.call(
            self._inner.request(
                event, payload, timeout=timeout, headers=headers, priority=priority, seal=seal, unseal=unseal
            )
        )

    def rtt(self, timeout: Duration | None = None) -> float:
        """Ping the home broker and return the smoothed round-trip time in seconds."""
        return self._thread.call(self._inner.rtt(timeout))

    def remove_durable(self, name: str, *, force: bool = False) -> None:
        """Remove a durable subscription of this client's principal at its broker, with the events that wait for it."""
        self._thread.call(self._inner.remove_durable(name, force=force))

    def seek_durable(self, name: str, start: str | int | datetime, *, force: bool = False) -> None:
        """Move the place of a durable subscription of this client's principal."""
        self._thread.call(self._inner.seek_durable(name, start, force=force))

    def flush(self, timeout: Duration | None = None) -> None:
        """Wait until the broker has processed everything published so far, confirmations included."""
        self._thread.call(self._inner.flush(timeout))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's event loop, and wait for its result.

        Use it for objects that exist for asyncio only, like the `plait_keyserver.Membership` that provides the key
        rings for `seal` and `unseal`.
        """
        return self._thread.call(work)

    @property
    def name(self) -> str:
        """The name by which the broker knows this client."""
        return self._inner.name

    @property
    def publisher(self) -> int:
        """The publisher id of this client's events. It stays the same over reconnects."""
        return self._inner.publisher

    @property
    def connected(self) -> bool:
        """Whether the client is connected to a broker now."""
        return self._inner.connected

    @property
    def closed(self) -> bool:
        """Whether the client was closed, or has given up reconnecting."""
        return self._inner.closed

    @property
    def broker(self) -> str:
        """The name of the home broker."""
        return self._inner.broker

    @property
    def broker_http(self) -> str:
        """The URL of the home broker's HTTP side."""
        return self._inner.broker_http

    @property
    def stats(self) -> SessionStats:
        """Counters so far: published, confirmed, refused, expired, waiting and more."""
        return self._inner.stats

    def broker_name(self, broker: int) -> str | None:
        """Return the name of a broker, or None if the name is not known."""
        return self._inner.broker_name(broker)

    def drain(self, timeout: Duration = 30.0) -> None:
        """Close in order: take no new events, deliver the queued ones, flush what was published, then close."""
        try:
            self._thread.call(self._inner.drain(timeout))
        finally:
            self._thread.stop()

    def close(self) -> None:
        """Close now. Send what was published if there is a connection."""
        if not self._thread.loop.is_closed():
            try:
                self._thread.call(self._inner.close())
            finally:
                self._thread.stop()

    def __repr__(self) -> str:
        return repr(self._inner).replace("<", "<sync.", 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@documented(ConnectOptions)
def connect(
    url: str | Sequence[str] | None = None,
    *,
    dial: Dial | None = None,
    randomness: Randomness | None = None,
    **options: Unpack[ConnectOptions],
) -> Client:
    """Connect to a broker: `with plait.sync.connect() as client`.

    - `url`: one URL or HOST:PORT, or several that are tried in turn. Default: see `plait.connect`.
    - `dial`, `randomness`: replaced by tests.
    """
    opening = asynchronous.connect(url, dial=dial, randomness=randomness, **options)

    async def open() -> asynchronous.Client:
        return await opening

    thread = Thread()
    try:
        return Client(thread, thread.call(open()))
    except BaseException:
        thread.stop()
        raise


__all__ = ["Advertisement", "Client", "Event", "Subscription", "connect"]

"""The client: everything an application does with Plait starts from `connect`."""

# ruff: noqa: ASYNC109 - timeouts are arguments of this interface: whoever calls it need not know asyncio's
from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar, overload

from plait_core import Event as CoreEvent
from plait_core import EventId, Randomness, id_text, new_id
from plait_core.filters import as_filter

from . import hints, request_reply, sealing
from .advertisement import Advertisement
from .driver import Dial, Driver, logger, tcp_dial
from .errors import ConnectionLost, FrameError, NotAvailable, Timeout
from .event import Event
from .opening import Opening
from .options.addresses import DEFAULT_URL, parse_addresses
from .options.conversion import event_parts, plain_attributes, reader_of
from .options.settings import (
    DEFAULT_BUFFER,
    AckMode,
    Buffer,
    ConfirmLevel,
    FilterLike,
    LatePolicy,
    Outbox,
    Reconnect,
    SessionSettings,
)
from .options.validation import (
    Seconds,
    check_connecting,
    check_extras,
    check_schema,
    checked_buffer,
    checked_payload,
    confirmation,
    late_policy,
    lifetime_us,
    microseconds,
    outbox_of,
    reconnecting,
    starting_point,
)
from .protocol.session import NO_HEADERS, Session, SessionStats
from .protocol.subscription_state import Terms
from .sealing import Seal, Unsealing
from .subscription import Subscription, ack_mode

T = TypeVar("T")


class Receipt(NamedTuple):
    """What became of a publish."""

    publisher: int
    seq: int
    matched: int | None = None
    """How many subscriptions it went to, with confirm="subscribers"; with confirm="broker" those at this broker."""

    @property
    def id(self) -> EventId:
        """The event's id."""
        return EventId(self.publisher, self.seq)


_receipt: Final = partial(tuple.__new__, Receipt)
"""One from its three fields, in half the time of the class's own call: one is made for every event."""


class Client:
    """One connection to a broker, kept up for you. Made by `connect`; use it from one event loop."""

    def __init__(self, session: Session, dial: Dial, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._session = session
        self._driver = Driver(session, dial, loop)
        self._timeout_s = timeout_s
        self._subscriptions: dict[Subscription[Any], None] = {}
        self._inbox = request_reply.ReplyInbox(self)

    # --- publishing ---------------------------------------------------------------------------------------------------

    async def publish(
        self,
        event: object,
        payload: bytes = b"",
        *,
        ttl: Seconds | None = None,
        deadline: Seconds | datetime | None = None,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        confirm: ConfirmLevel = "none",
        seal: Seal | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Publish a mapping, a dataclass or a pydantic model.

        `ttl`: how long it is worth delivering. `deadline`: the same, as a moment or a duration: the earlier of the two
        counts. `confirm`: wait for nothing, until the broker has taken charge of it, or until every subscriber that it
        matched has acknowledged it. An event whose confirmation is outstanding is sent again, once, after a reconnect;
        `timeout` ends the waiting, not the sending. One without is sent once: what a breaking connection takes with it
        is counted in `stats.publishes_lost`, or in `stats.publishes_uncertain` where the broker itself was lost.

        Waits only for that, and while the outbox is full, which it is when the broker reads slower than you publish.
        A subscriber who is slower than you does not slow you down: what its queue at the broker cannot hold is dropped
        by its own policy, and it is told. Ask for `confirm="subscribers"` to go no faster than they do.
        """
        if seal is not None:
            event, payload = await sealing.sealed(seal, event, payload, self._session.publisher)
        if self._session.outbox.full:
            await self._driver.room()
        seq = self._say(event, payload, ttl, deadline, priority, headers, confirm, None)
        if confirm == "none":
            return _receipt((self._session.publisher, seq, None))
        try:
            async with asyncio.timeout(timeout):
                matched = await self._driver.confirmation(seq)
        except TimeoutError as error:
            if isinstance(error, Timeout):
                raise
            said = f"not confirmed within {timeout:g} s"
            raise Timeout(said, hint="it is still being sent, and may arrive") from None
        return Receipt(self._session.publisher, seq, matched)

    def try_publish(
        self,
        event: object,
        payload: bytes = b"",
        *,
        ttl: Seconds | None = None,
        deadline: Seconds | datetime | None = None,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        seal: None = None,
    ) -> bool:
        """Publish without ever waiting: False, and nothing done, when the outbox is full."""
        if self._session.outbox.full:
            self._driver.check()
            return False
        self._say(event, payload, ttl, deadline, priority, headers, "none", seal)
        return True

    def advertise(
        self, filter: FilterLike, *, rate: float | None = None, schema: Mapping[str, type] | None = None
    ) -> Opening[Advertisement]:
        """Say what will be published, and at what rate (events a second). Returns once the broker knows.

        `schema`: attributes that each event published through the advertisement has, with their types.
        """
        checked = as_filter(filter)
        checked.normal  # noqa: B018 - raises FilterTooComplex here rather than at the broker
        check_schema(schema)

        async def open() -> Advertisement:
            driver = self._driver
            offer, request = self._session.wishes.advertise(checked.text, rate or 0.0, driver.now())
            await driver.answer(request)
            return Advertisement(self, driver, offer, checked, schema)

        return Opening(open)

    # --- subscribing --------------------------------------------------------------------------------------------------

    @overload
    def subscribe(
        self,
        filter: FilterLike,
        *,
        as_: None = None,
        within: Seconds | None = None,
        late: LatePolicy = "drop",
        buffer: Buffer = DEFAULT_BUFFER,
        durable: str | None = None,
        start: str | int | datetime = "new",
        ack: AckMode = "auto",
        unseal: Unsealing | None = None,
    ) -> Opening[Subscription[Event]]: ...

    @overload
    def subscribe(
        self,
        filter: FilterLike,
        *,
        as_: type[T],
        within: Seconds | None = None,
        late: LatePolicy = "drop",
        buffer: Buffer = DEFAULT_BUFFER,
        durable: str | None = None,
        start: str | int | datetime = "new",
        ack: AckMode = "auto",
        unseal: Unsealing | None = None,
    ) -> Opening[Subscription[T]]: ...

    def subscribe(
        self,
        filter: FilterLike,
        *,
        as_: type[Any] | None = None,
        within: Seconds | None = None,
        late: LatePolicy = "drop",
        buffer: Buffer = DEFAULT_BUFFER,
        durable: str | None = None,
        start: str | int | datetime = "new",
        ack: AckMode = "auto",
        unseal: Unsealing | None = None,
    ) -> Opening[Subscription[Any]]:
        """Hear events that match. Returns once the subscription is installed: the next matching publish arrives.

        `within`: the delay bound, in seconds; `late`: drop what misses it, or flag it. `durable`: a name under which
        the broker keeps your place; a new one begins at `start`: "new", "all", a datetime, or a position of the log.
        `ack`: see Subscription. `as_`: a dataclass or pydantic model that each event becomes.
        """
        checked = as_filter(filter)
        reader = None if unseal is None else sealing.Reader(checked, unseal)
        checked = checked if reader is None else reader.routed
        checked.normal  # noqa: B018 - raises FilterTooComplex here rather than at the broker
        begin, begin_at = starting_point(start)
        terms = Terms(
            checked.text,
            microseconds(within, "within"),
            late_policy(late),
            checked_buffer(buffer),
            durable or "",
            begin,
            begin_at,
            b"" if reader is None else reader.deposit,
        )
        read = None if as_ is None or as_ is Event else reader_of(as_)
        manual = ack_mode(ack)

        async def open() -> Subscription[Any]:
            driver = self._driver
            interest, request = self._session.wishes.subscribe(terms, driver.now())
            subscription = Subscription(self, driver, interest, read, manual=manual, unseal=reader)
            self._subscriptions[subscription] = None
            try:
                await driver.answer(request)
            except BaseException:
                subscription.detach()
                raise
            return subscription

        return Opening(open)

    def subscribe_pattern(self, pattern: object, **options: object) -> Opening[Subscription[Event]]:
        """Subscribe to a composite event. Not in this version."""
        raise NotAvailable("composite subscriptions", hint="they come with a later version")

    def predict(self, filter: FilterLike, *, within: Seconds | None = None) -> None:
        """Predict on-time delivery before subscribing. Not in this version."""
        raise NotAvailable("delivery prediction", hint="it comes with a later version")

    # --- asking -------------------------------------------------------------------------------------------------------

    async def request(
        self,
        event: object,
        payload: bytes = b"",
        *,
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
    ) -> Event:
        """Publish a request and return the first reply to it; Timeout when none comes."""
        return await self._inbox.request(event, payload, timeout, headers, priority)

    async def rtt(self, timeout: float | None = None) -> float:
        """The measured round trip to the home broker, in seconds: a ping now, smoothed with those before."""
        self._driver.check()
        async with self._in_time(timeout, "no answer to a ping"):
            return await self._driver.reach(self._session.ping(self._driver.now()))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has processed everything published so far, confirmations included."""
        self._driver.check()
        async with self._in_time(timeout, "not everything was processed"):
            waiting = list(self._driver.confirmations.values())
            await self._driver.reach(self._session.barrier())
            if waiting:
                await asyncio.wait(waiting)

    # --- knowing ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that the broker knows this client by."""
        return self._session.settings.name

    @property
    def publisher(self) -> int:
        """The id that its events carry; the same over all reconnects."""
        return self._session.publisher

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._session.is_open

    @property
    def closed(self) -> bool:
        """Whether it was closed, or gave up."""
        return self._session.ended

    @property
    def broker(self) -> str:
        """The name of the home broker; empty before the first welcome."""
        welcome = self._session.line.welcome
        return "" if welcome is None else welcome.broker_name

    @property
    def broker_http(self) -> str:
        """Where the home broker says its HTTP side is; a URL without a host means the broker's own."""
        welcome = self._session.line.welcome
        return "" if welcome is None else welcome.http

    @property
    def stats(self) -> SessionStats:
        """published, confirmed, refused, expired, waiting and more, up to now."""
        return self._session.stats()

    def broker_name(self, broker: int) -> str | None:
        """The name of a broker by its id, where it is known."""
        welcome = self._session.line.welcome
        if welcome is not None and welcome.broker == broker:
            return welcome.broker_name
        return self._session.brokers.get(broker)

    # --- ending -------------------------------------------------------------------------------------------------------

    async def drain(self, timeout: float = 30.0) -> None:
        """Take nothing new, deliver what is queued, flush what was published, then close."""
        try:
            async with asyncio.timeout(timeout):
                for subscription in list(self._subscriptions):
                    await subscription.drain(timeout)
                    self._subscriptions.pop(subscription, None)
                if not self._session.ended:
                    await self.flush(timeout)
        except TimeoutError as error:
            if isinstance(error, Timeout):
                raise
            raise Timeout(f"not drained within {timeout:g} s") from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Close now. What was published goes out first if there is a connection; nothing queued is handed out."""
        unsent = self._session.outbox.items if not self._session.is_open else 0
        try:
            await self._driver.close()
        finally:
            self._inbox.end()
            workers = [worker for subscription in self._subscriptions for worker in subscription.let_go()]
            for subscription in list(self._subscriptions):
                subscription.detach()
            if workers:
                await asyncio.wait(workers)
        if unsent:
            logger.warning("closed without a connection: %d publishes were never sent or confirmed", unsent)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect for the first time."""
        self._driver.start()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._driver.opened
        except TimeoutError as timeout:
            if isinstance(timeout, Timeout):
                await self._driver.close()
                raise
            last, address = self._session.line.error, self._session.line.address
            await self._driver.close()
            raise ConnectionLost(
                f"not connected to {address} within {self._timeout_s:g} s"
                + (f": {last.message}" if last is not None else ""),
                hint=hints.NO_BROKER
                if isinstance(last, FrameError)
                else hints.hint(address, last.message if last is not None else ""),
            ) from last
        except ConnectionLost as lost:
            await self._driver.close()
            lost.hint = hints.hint(self._session.line.address, lost.message)
            raise
        except FrameError as error:
            await self._driver.close()
            error.hint = hints.NO_BROKER
            raise
        except BaseException:
            await self._driver.close()
            raise

    async def answer(self, request: Event, reply: object, payload: bytes) -> None:
        """Publish the reply to a request."""
        await request_reply.answer(self, request, reply, payload)

    def forget_subscription(self, subscription: Subscription[Any]) -> None:
        """It has ended."""
        self._subscriptions.pop(subscription, None)

    def _say(
        self,
        event: object,
        payload: bytes,
        ttl: Seconds | None,
        deadline: Seconds | datetime | None,
        priority: int,
        headers: Mapping[str, str] | None,
        confirm: ConfirmLevel,
        seal: object,
    ) -> int:
        """Check a publish and put it on its way."""
        session, driver = self._session, self._driver
        sent_once = ttl is None and deadline is None and confirm == "none"
        if sent_once and not priority and headers is None and seal is None and not session.ended:
            seq = session.publish_plain(event, payload, time.time_ns() // 1000)
            if seq:
                if not driver.flushing:
                    driver.flush_soon()
                return seq
        if type(event) is dict:
            attributes = plain_attributes(event)
        else:
            parts, payload = event_parts(event, payload)
            attributes = plain_attributes(parts)
        if payload:
            payload = checked_payload(payload)
        if priority or headers or seal is not None:
            check_extras(priority, seal)
            checked_headers = CoreEvent.checked({}, headers=headers).headers if headers else NO_HEADERS
        else:
            checked_headers = NO_HEADERS
        if session.ended:
            driver.check()
        published_us = time.time_ns() // 1000
        if sent_once:
            seq = session.publish(attributes, payload, published_us, priority, checked_headers)
        else:
            seq = session.publish_retained(
                attributes,
                payload,
                published_us,
                priority,
                checked_headers,
                lifetime_us=lifetime_us(ttl, deadline),
                confirm=confirmation(confirm),
                now=driver.now(),
            )
        if not driver.flushing:
            driver.flush_soon()
        return seq

    def _in_time(self, timeout: float | None, what: str) -> _InTime:
        return _InTime(self._timeout_s if timeout is None else timeout, what)


class _InTime:
    """A block that takes no longer than it may; else Timeout."""

    def __init__(self, timeout_s: float, what: str) -> None:
        self._timeout_s = timeout_s
        self._what = what
        self._timeout = asyncio.timeout(timeout_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Timeout(f"{self._what} within {self._timeout_s:g} s") from None


def _default_name(randomness: Randomness) -> str:
    return f"python-{id_text(new_id(randomness))[:8]}"


def connect(
    url: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    auth: str | Callable[[], str] | None = None,
    tls: ssl.SSLContext | bool | None = None,
    reconnect: Reconnect | bool | None = None,
    heartbeat: float = 2.0,
    timeout: float = 5.0,
    outbox: Outbox | None = None,
    dial: Dial | None = None,
    randomness: Randomness | None = None,
) -> Opening[Client]:
    """Connect to a broker: `async with plait.connect() as client`, or `client = await plait.connect()`.

    `url`: one or several, tried in turn; by default PLAIT_URL, else plait://127.0.0.1:4680. `auth`: a token, or a
    function that gives one, which is called at each attempt. `tls`: a context, or True; plaits:// implies it.
    `reconnect`: a Reconnect; False for never; by default for ever. `timeout`: for the first connection, and for the
    answer to each request. `outbox`: how much unsent and unconfirmed is held. `dial` and `randomness` are for tests.
    """
    check_connecting(url, name, auth, tls, heartbeat=heartbeat, timeout=timeout)
    addresses = parse_addresses(url if url is not None else os.environ.get("PLAIT_URL") or DEFAULT_URL)
    random_source = randomness if randomness is not None else random.SystemRandom()
    settings = SessionSettings(
        name if name is not None else _default_name(random_source),
        reconnecting(reconnect),
        heartbeat,
        timeout,
        outbox_of(outbox),
    )

    def token() -> str | None:
        return auth() if callable(auth) else auth

    async def open() -> Client:
        session = Session(addresses, settings, random_source, token)
        client = Client(session, dial if dial is not None else tcp_dial(tls), timeout)
        await client.start()
        return client

    return Opening(open)

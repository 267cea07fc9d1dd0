"""The asyncio client: an application connects with `connect` and publishes and subscribes through the `Client`."""

# ruff: noqa: ASYNC109 - the methods take timeouts as arguments, so that callers need not know `asyncio.timeout`
from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar, Unpack, overload

from plait_core import Event as CoreEvent
from plait_core import Randomness, id_text, new_id

from . import request_reply, sealing
from .advertisement import Advertisement
from .driver import Dial, Driver, logger, tcp_dial
from .errors import ArgumentInvalid, AuthFailed, ConnectionLost, FrameError, NotAvailable, Timeout
from .event import Event
from .opening import Opening
from .options.conversion import event_parts, plain_attributes, reader_of
from .options.durations import Duration, seconds
from .options.keyword_options import (
    CONNECT_OPTIONS,
    EVENT_OPTIONS,
    PUBLISH_OPTIONS,
    SUBSCRIBE_OPTIONS,
    ConnectOptions,
    EventOptions,
    PublishOptions,
    SubscribeOptions,
    check_names,
    documented,
)
from .options.rings import Seal, Unsealing
from .options.settings import DEFAULT_BUFFER, ConfirmLevel, FilterLike, SessionSettings
from .options.target import Target, select_target
from .options.trust import SYSTEM
from .options.validation import (
    check_connecting,
    check_priority,
    check_schema,
    checked_buffer,
    checked_payload,
    confirmation,
    durable_name,
    is_manual,
    late_policy,
    lifetime_us,
    microseconds,
    name_of_durable,
    outbox_of,
    reconnecting,
    starting_point,
    timeout_s,
    usable_filter,
)
from .protocol import hints
from .protocol.session import NO_HEADERS, Session, SessionStats
from .protocol.subscription_state import Terms
from .receipt import Receipt, fast_receipt
from .subscription import Subscription

T = TypeVar("T")


class Client:
    """A client of one home broker. It reconnects by itself. Made by `connect`; use it from one event loop."""

    def __init__(self, session: Session, dial: Dial, timeout_s: float, target: Target) -> None:
        loop = asyncio.get_running_loop()
        self._target = target
        self._session = session
        self._driver = Driver(session, dial, loop)
        self._timeout_s = timeout_s
        self._subscriptions: dict[Subscription[Any], None] = {}
        self._inbox = request_reply.ReplyInbox(self)

    # --- publishing ---------------------------------------------------------------------------------------------------

    @documented(EventOptions, PublishOptions)
    async def publish(self, event: object, payload: bytes = b"", **options: Unpack[PublishOptions]) -> Receipt:
        """Publish a mapping, a dataclass or a pydantic model.

        With `confirm`, the client retransmits the event after a reconnect until it is confirmed. Without it, the event
        is sent once. `stats.publishes_lost` counts such events that were lost with a connection. They count as
        `stats.publishes_uncertain` when the broker itself was lost and may not have received them.

        `publish` waits for the confirmation, and while the outbox is full: the broker then reads more slowly than you
        publish. A slow subscriber does not slow you down. The broker drops events that exceed its queue, by its own
        policy, and notifies it. Use `confirm="subscribers"` to publish no faster than the subscribers read.
        """
        confirm: ConfirmLevel = "none"
        seal, timeout = None, None
        if options:
            check_names("publish", options, PUBLISH_OPTIONS)
            confirm = options.get("confirm", "none")
            seal, timeout = options.get("seal"), timeout_s(options.get("timeout"))
        if seal is not None:
            seq = await self._publish_sealed(seal, event, payload, options, confirm)
        else:
            if self._session.publishes.full:
                await self._driver.wait_for_room()
            seq = self._enqueue(event, payload, options, confirm)
        if confirm == "none":
            return fast_receipt((self._session.publisher, seq, None))
        try:
            async with asyncio.timeout(timeout):
                matched = await self._driver.confirmation(seq)
        except TimeoutError as error:
            if isinstance(error, Timeout):
                raise
            raise Timeout(
                f"not confirmed within {timeout:g} s", hint="it is still being sent, and may arrive"
            ) from None
        return Receipt(self._session.publisher, seq, matched)

    @documented(EventOptions)
    def try_publish(
        self, event: object, payload: bytes = b"", *, seal: None = None, **options: Unpack[EventOptions]
    ) -> bool:
        """Publish without waiting. Return False, and publish nothing, when the outbox is full."""
        if options or seal is not None:
            check_names("try_publish", options, EVENT_OPTIONS)
            if seal is not None:
                raise NotAvailable("seal= without waiting", hint="sealing takes time: await publish(..., seal=...)")
        if self._session.publishes.full:
            self._driver.check()
            return False
        self._enqueue(event, payload, options)
        return True

    def advertise(
        self, filter: FilterLike, *, rate: float | None = None, schema: Mapping[str, type] | None = None
    ) -> Opening[Advertisement]:
        """Advertise a filter that describes the events to be published. Return when the broker has accepted it.

        - `rate`: the expected rate, in events per second.
        - `schema`: attributes that each event published through the advertisement has, with their types.
        """
        checked = usable_filter(filter)
        check_schema(schema)

        async def open() -> Advertisement:
            driver = self._driver
            advertised, request = self._session.desired.advertise(checked.text, rate or 0.0, driver.now())
            await driver.completed(request)
            return Advertisement(self, driver, advertised, checked, schema)

        return Opening(open, f"advertise({checked.text!r:.80})")

    # --- subscribing --------------------------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, filter: FilterLike, *, as_: None = None, **options: Unpack[SubscribeOptions]
    ) -> Opening[Subscription[Event]]: ...

    @overload
    def subscribe(
        self, filter: FilterLike, *, as_: type[T], **options: Unpack[SubscribeOptions]
    ) -> Opening[Subscription[T]]: ...

    @documented(SubscribeOptions)
    def subscribe(
        self, filter: FilterLike, *, as_: type[Any] | None = None, **options: Unpack[SubscribeOptions]
    ) -> Opening[Subscription[Any]]:
        """Subscribe to events that match a filter.

        Return when the subscription is installed: the next matching publish arrives.

        - `as_`: a dataclass, a pydantic model or dict that each event is converted to. Default: `plait.Event`.
        """
        if options:
            check_names("subscribe", options, SUBSCRIBE_OPTIONS)
        checked, unseal = usable_filter(filter), options.get("unseal")
        durable = durable_name(options.get("durable"))
        reader = None if unseal is None else sealing.reader(checked, unseal, options, durable)
        checked = checked if reader is None else reader.routed
        checked.normal  # noqa: B018 - raises FilterTooComplex here rather than at the broker
        start, start_at = starting_point(options.get("start", "new"), durable)
        terms = Terms(
            checked,
            microseconds(options.get("within"), "within"),
            late_policy(options.get("late", "drop")),
            checked_buffer(options.get("buffer", DEFAULT_BUFFER)),
            durable,
            start,
            start_at,
            b"" if reader is None else reader.deposit,
        )
        read = None if as_ is None or as_ is Event else reader_of(as_)
        manual = is_manual(options.get("ack", "auto"))

        async def open() -> Subscription[Any]:
            driver = self._driver
            state, request = self._session.desired.subscribe(terms, driver.now())
            subscription = Subscription(self, driver, state, read, manual=manual, unseal=reader)
            self._subscriptions[subscription] = None
            try:
                await driver.completed(request)
            except BaseException:
                subscription.detach()
                raise
            return subscription

        return Opening(open, f"subscribe({checked.text!r:.80})")

    def subscribe_pattern(self, pattern: object, **options: object) -> Opening[Subscription[Event]]:
        """Subscribe to a composite event. Not in this version."""
        raise NotAvailable("composite subscriptions", hint="they come with a later version")

    def predict(self, filter: FilterLike, *, within: Duration | None = None) -> None:
        """Predict on-time delivery before subscribing. Not in this version."""
        raise NotAvailable("delivery prediction", hint="it comes with a later version")

    # --- requests and waiting -----------------------------------------------------------------------------------------

    async def request(
        self,
        event: object,
        payload: bytes = b"",
        *,
        timeout: Duration = 2.0,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
        seal: Seal | None = None,
        unseal: Unsealing | None = None,
    ) -> Event:
        """Publish a request and return the first reply. Raise Timeout when no reply arrives in time, and RequestFailed
        when the responder raised an exception.

        `RequestFailed` has the type and the text of the exception.

        - `seal`, `unseal`: seal the request, and open its reply. A sealed request needs both.
        """
        if (seal is None) != (unseal is None):
            raise ArgumentInvalid("seal= and unseal= of a request go together", hint="the reply is sealed as well")
        options: PublishOptions = {"headers": headers, "priority": priority}
        if seal is not None:
            options["seal"] = seal
        ring = None if unseal is None else sealing.usable_ring(unseal)
        return await self._inbox.request(event, payload, seconds(timeout, "timeout"), options, ring)

    # --- durable subscriptions ----------------------------------------------------------------------------------------

    async def remove_durable(self, name: str, *, force: bool = False) -> None:
        """Remove a durable subscription of this client's principal at its broker, with the events that wait for it.

        - `force`: remove it even if a connected client holds it. That client gets a notice.
        """
        request = self._session.desired.remove_durable(name_of_durable(name), self._driver.now(), force=force)
        await self._driver.completed(request)

    async def seek_durable(self, name: str, start: str | int | datetime, *, force: bool = False) -> None:
        """Move the place of a durable subscription of this client's principal. Events before it are discarded, those
        after it are delivered (again).

        - `start`: "new", "all", a datetime, or a log position.
        - `force`: move it even if a connected client holds it. That client reads on from the new place.
        """
        place, place_at = starting_point(start, name_of_durable(name))
        request = self._session.desired.seek_durable(name, place, place_at, self._driver.now(), force=force)
        await self._driver.completed(request)

    async def rtt(self, timeout: Duration | None = None) -> float:
        """Ping the home broker and return the smoothed round-trip time in seconds."""
        self._driver.check()
        async with self._deadline(timeout, "no answer to a ping"):
            return await self._driver.pong(self._session.ping(self._driver.now()))

    async def flush(self, timeout: Duration | None = None) -> None:
        """Wait until the broker has processed everything published so far, confirmations included."""
        self._driver.check()
        async with self._deadline(timeout, "not everything was processed"):
            waiting = list(self._driver.confirmations.values())
            await self._driver.pong(self._session.barrier())
            if waiting:
                await asyncio.wait(waiting)

    # --- status -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name by which the broker knows this client."""
        return self._session.settings.name

    @property
    def publisher(self) -> int:
        """The publisher id of this client's events. It stays the same over reconnects."""
        return self._session.publisher

    @property
    def connected(self) -> bool:
        """Whether the client is connected to a broker now."""
        return self._session.is_open

    @property
    def closed(self) -> bool:
        """Whether the client was closed, or has given up reconnecting."""
        return self._session.ended

    @property
    def broker(self) -> str:
        """The name of the home broker, or "" before the first welcome."""
        welcome = self._session.connection.welcome
        return "" if welcome is None else welcome.broker_name

    @property
    def broker_http(self) -> str:
        """The URL of the home broker's HTTP side. A URL without a host means the broker's own host."""
        welcome = self._session.connection.welcome
        return "" if welcome is None else welcome.http

    @property
    def stats(self) -> SessionStats:
        """Counters so far: published, confirmed, refused, expired, waiting and more."""
        return self._session.stats()

    def broker_name(self, broker: int) -> str | None:
        """Return the name of a broker, or None if the name is not known."""
        welcome = self._session.connection.welcome
        if welcome is not None and welcome.broker == broker:
            return welcome.broker_name
        return self._session.brokers.get(broker)

    # --- ending -------------------------------------------------------------------------------------------------------

    async def drain(self, timeout: Duration = 30.0) -> None:
        """Close in order: take no new events, deliver the queued ones, flush what was published, then close."""
        limit_s = seconds(timeout, "timeout", zero=True)
        try:
            async with asyncio.timeout(limit_s):
                for subscription in list(self._subscriptions):
                    await subscription.drain(timeout)
                    self._subscriptions.pop(subscription, None)
                if not self._session.ended:
                    await self.flush(timeout)
        except TimeoutError as error:
            if isinstance(error, Timeout):
                raise
            raise Timeout(f"not drained within {limit_s:g} s") from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Close now. Send what was published if there is a connection; discard queued events."""
        unsent = self._session.publishes.items if not self._session.is_open else 0
        for state in self._session.desired.subscriptions.values():
            state.discard_queue()  # first: the last report to the broker counts them
        try:
            await self._driver.close()
        finally:
            self._inbox.end()
            workers = [worker for subscription in self._subscriptions for worker in subscription.cancel_workers()]
            for subscription in list(self._subscriptions):
                subscription.detach()
            if workers:
                await asyncio.wait(workers)
        if unsent:
            logger.warning("closed without a connection: %d publishes were never sent or confirmed", unsent)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "connected to" if self.connected else "not connected to"
        broker = "" if self.closed else f" {self.broker or 'a broker'} at {self._session.connection.address}"
        count = len(self._subscriptions)
        return f"<{type(self).__name__} {self.name}: {state}{broker}, {count} subscription{'s' * (count != 1)}>"

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start to connect, and wait for the first connection."""
        self._driver.start()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._driver.opened
        except TimeoutError as timeout:
            if isinstance(timeout, Timeout):
                await self._driver.close()
                raise
            last, address = self._session.connection.error, self._session.connection.address
            await self._driver.close()
            raise ConnectionLost(
                f"not connected to {address}{self._target.origin} within {self._timeout_s:g} s"
                + (f": {last.message}" if last is not None else ""),
                hint=hints.NO_BROKER
                if isinstance(last, FrameError)
                else hints.hint(address, last.message if last is not None else ""),
            ) from last
        except ConnectionLost as lost:
            await self._driver.close()
            lost.message += self._target.origin
            lost.hint = hints.hint(self._session.connection.address, lost.message)
            raise
        except AuthFailed as refused:
            await self._driver.close()
            refused.message += self._target.token_origin(self._session.connection.address)
            raise
        except FrameError as error:
            await self._driver.close()
            error.hint = hints.NO_BROKER
            raise
        except BaseException:
            await self._driver.close()
            raise

    async def reply_to(self, request: Event, reply: object, payload: bytes, seal: Seal | None) -> None:
        """Publish the reply to a request."""
        await request_reply.publish_reply(self, request, reply, payload, seal)

    async def reply_failure(self, event: Event, error: Exception) -> None:
        """Reply to an event with the error that its handling raised, if the event is a request without a reply."""
        await request_reply.publish_failure(self, event, error)

    def forget_subscription(self, subscription: Subscription[Any]) -> None:
        """Remove a subscription that has ended."""
        self._subscriptions.pop(subscription, None)

    async def _publish_sealed(
        self, seal: Seal, event: object, payload: bytes, options: PublishOptions, confirm: ConfirmLevel
    ) -> int:
        """Seal an event with its headers, lifetime and priority, and queue it. Return its sequence number.

        Sealing draws a number of a session, and readers report a number that does not come. So all that may fail or
        wait comes before sealing, and what fails after it nevertheless ends the session.
        """
        driver, publishes, limits = self._driver, self._session.publishes, (options.get("ttl"), options.get("deadline"))
        headers, priority = options.get("headers") or {}, options.get("priority", 0)
        check_priority(priority)
        confirmation(confirm)
        CoreEvent.checked({}, headers=headers)
        lifetime_us(*limits)
        draft, reply = sealing.drafted(seal, event, payload, self._session.publisher)
        while True:
            driver.check()
            if publishes.full:
                await driver.wait_for_room()
            session = await seal.ring.session(draft)
            if publishes.full or self._session.ended or session.realm is not seal.ring.realm:
                continue  # it became so while the session began
            left_us = lifetime_us(*limits)
            sealed = sealing.sealed(session, draft, reply, sealing.Metadata(left_us, priority, headers))
            if sealed is not None:
                break
        shown = {name: text for name, text in headers.items() if name == request_reply.REQUEST and reply}
        around: EventOptions = {"priority": priority, "headers": shown or None}
        around["ttl"] = timedelta(microseconds=left_us) if left_us else None
        try:
            return self._enqueue(*sealed, around, confirm)
        except BaseException:
            session.end()
            raise

    def _enqueue(self, event: object, payload: bytes, options: EventOptions, confirm: ConfirmLevel = "none") -> int:
        """Check an event and put it into the publish queue. Return its sequence number."""
        session, driver = self._session, self._driver
        ttl, deadline, priority, headers = None, None, 0, None
        if options:
            ttl, deadline = options.get("ttl"), options.get("deadline")
            priority, headers = options.get("priority", 0), options.get("headers")
        sent_once = ttl is None and deadline is None and confirm == "none"
        if sent_once and not priority and headers is None and not session.ended:
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
        check_priority(priority)
        checked_headers = CoreEvent.checked({}, headers=headers).headers if headers else NO_HEADERS
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

    def _deadline(self, timeout: Duration | None, what: str) -> _Deadline:
        limit_s = timeout_s(timeout)
        return _Deadline(self._timeout_s if limit_s is None else limit_s, what)


class _Deadline:
    """A context manager that raises `plait.Timeout`, with a message, when its block takes too long."""

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


@documented(ConnectOptions)
def connect(
    url: str | Sequence[str] | None = None,
    *,
    dial: Dial | None = None,
    randomness: Randomness | None = None,
    **options: Unpack[ConnectOptions],
) -> Opening[Client]:
    """Connect to a broker: `async with plait.connect() as client`, or `client = await plait.connect()`.

    - `url`: one URL or HOST:PORT, or several that are tried in turn. Default: the address that `plait` commands use,
      too: PLAIT_URL, else the context that PLAIT_CONTEXT names, else the context in use, else plait://127.0.0.1:4680.
    - `dial`, `randomness`: replaced by tests.
    """
    check_names("connect", options, CONNECT_OPTIONS)
    check_connecting(url, options)
    random_source = randomness if randomness is not None else random.SystemRandom()
    name, auth, limit_s = options.get("name"), options.get("auth"), seconds(options.get("timeout", 5.0), "timeout")
    target = select_target(url, options.get("context"), authenticated=auth is not None)
    tls = options.get("tls")
    certificates = target.trust.context() if target.tls and target.trust != SYSTEM else None
    settings = SessionSettings(
        name if name is not None else _default_name(random_source),
        reconnecting(options.get("reconnect")),
        seconds(options.get("heartbeat", 2.0), "heartbeat"),
        limit_s,
        outbox_of(options.get("outbox")),
    )

    def token() -> str | None:
        return auth() if callable(auth) else target.token if auth is None else auth

    async def open() -> Client:
        session = Session(target.addresses, settings, random_source, token)
        client = Client(session, dial if dial is not None else tcp_dial(tls, certificates), limit_s, target)
        await client.start()
        return client

    return Opening(open, f"connect({target.url!r})")

"""Requests and replies: a client has one reply inbox, which holds a future for each open request.

A request carries two headers: `reply-to`, an unguessable token of the client, and `request`, one of the request. A
reply is an ordinary event that has the first as its `$reply` attribute. So a filter routes it, like any other event. A
responder that raises replies with the header `failed`. The headers of a sealed request are sealed. A sealed reply has
the client's token in its sealed header `answers`, so it is no request itself.
"""

# ruff: noqa: ASYNC109 - the methods take timeouts as arguments, so that callers need not know `asyncio.timeout`
from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Unpack

from plait_core import EventInvalid
from plait_core.values import REPLY

from .driver import logger
from .errors import ArgumentInvalid, BufferFull, Closed, RequestFailed, Timeout
from .event import Event
from .options.conversion import event_parts
from .options.keyword_options import PublishOptions, SubscribeOptions
from .options.rings import Seal, Unsealing
from .options.settings import Buffer, FilterLike
from .receipt import Publisher
from .sealing import open_reply
from .subscription import Subscription

REPLY_TO: Final = "reply-to"
REQUEST: Final = "request"
ANSWERS: Final = "answers"
"""Sealed header of a sealed reply: the token of the requester. Brokers route by its copy in the clear."""

FAILED: Final = "failed"
"""Header of a reply: the type and text of the exception that the responder raised."""

OPENING_MAX: Final = 8
"""Replies to one sealed request that are opened at a time. Brokers can send any number of forged ones."""

REQUESTS_MAX: Final = 10_000
"""Requests of one client that wait for a reply."""

FAILURE_CHARACTERS_MAX: Final = 1000
"""Length of the text of an exception in a reply: headers are for short texts, and a log has the traceback."""

_BUFFER: Final = Buffer(items=REQUESTS_MAX)


class Requester(Publisher, Protocol):
    """The part of a client that requests need: it publishes and subscribes."""

    def subscribe(self, filter: FilterLike, **options: Unpack[SubscribeOptions]) -> Awaitable[Subscription[Event]]: ...


class ReplyInbox:
    """The open requests of one client. The first request opens the inbox subscription."""

    def __init__(self, client: Requester) -> None:
        self._client = client
        self._token = secrets.token_urlsafe(24)
        self._waiting: dict[str, _Request] = {}
        self._subscription: Subscription[Event] | None = None
        self._opening = asyncio.Lock()

    async def request(
        self, event: object, payload: bytes, timeout: float, options: PublishOptions, unseal: Unsealing | None
    ) -> Event:
        """Publish a request and return the first reply. With `unseal`, only a sealed reply counts."""
        if len(self._waiting) >= REQUESTS_MAX:
            raise BufferFull(f"{REQUESTS_MAX} requests wait for a reply")
        name = secrets.token_hex(8)  # who has read one request cannot answer another
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting[name] = _Request(future, unseal)
        try:
            async with asyncio.timeout(timeout):
                await self._open()
                options["headers"] = {**(options.get("headers") or {}), REPLY_TO: self._token, REQUEST: name}
                options["ttl"] = timeout
                await self._client.publish(event, payload, **options)
                return await future
        except TimeoutError:
            raise Timeout(f"no reply within {timeout:g} s", hint="is anyone subscribed to the request?") from None
        finally:
            running = self._waiting.pop(name).opening
            for opening in running:
                opening.cancel()
            if running:
                await asyncio.wait(list(running))

    def end(self) -> None:
        """Fail all open requests: the client is closed."""
        for request in self._waiting.values():
            if not request.future.done():
                request.future.set_exception(Closed("the client was closed before a reply came"))
                request.future.exception()

    async def _open(self) -> None:
        async with self._opening:
            if self._subscription is None:
                inbox = await self._client.subscribe(f"{REPLY} == '{self._token}'", buffer=_BUFFER)
                self._subscription = inbox.on(self._replied)

    def _replied(self, reply: Event) -> None:
        number = reply.headers.get(REQUEST, "")
        request = self._waiting.get(number)
        if request is None or request.future.done():
            return
        if request.unseal is None:
            _settle(request, reply)
            return
        if len(request.opening) >= OPENING_MAX:
            return
        opening = asyncio.get_running_loop().create_task(self._open_reply(request, reply, number))
        request.opening.add(opening)
        opening.add_done_callback(request.opening.discard)

    async def _open_reply(self, request: _Request, reply: Event, number: str) -> None:
        """Open a reply. One that does not open, or was sealed for another request, is ignored."""
        from plait_crypto import SealError, Unopenable

        assert request.unseal is not None
        try:
            opened = await open_reply(request.unseal, reply)
        except Unopenable as error:
            logger.warning("a reply does not open: %s", error.why)
            return
        except SealError as error:  # the ring is closed, so no reply will open
            if not request.future.done():
                request.future.set_exception(error)
            return
        told = opened.headers
        if not request.future.done() and (told.get(REQUEST), told.get(ANSWERS)) == (number, self._token):
            _settle(request, opened)


@dataclass(frozen=True, slots=True)
class _Request:
    future: asyncio.Future[Event]
    unseal: Unsealing | None
    opening: set[asyncio.Task[None]] = field(default_factory=set)


def _settle(request: _Request, reply: Event) -> None:
    if (failure := reply.headers.get(FAILED)) is not None:
        request.future.set_exception(RequestFailed(failure, hint="the log of the responder has the traceback"))
    else:
        request.future.set_result(reply)


async def publish_reply(client: Publisher, request: Event, reply: object, payload: bytes, seal: Seal | None) -> None:
    """Publish the reply to a request, with the request's priority."""
    if REPLY_TO not in request.headers:
        raise EventInvalid(f"event {request.id} expects no reply", hint="it was published, not requested")
    if request.verified is not None and seal is None:
        raise ArgumentInvalid(
            "a reply in the clear to a sealed request", hint="seal it: event.reply(..., seal=plait.Seal(ring))"
        )
    parts, payload = event_parts(reply, payload)
    await _publish_to(client, request, parts, payload, {}, seal)


async def publish_failure(client: Publisher, event: Event, error: Exception) -> None:
    """Publish a reply with the error that the handling of an event raised. Do nothing if the event is not a request.

    A sealed request gets none, for there is no ring to seal it with: the requester times out.
    """
    if REPLY_TO in event.headers and event.verified is None:
        text = f"{type(error).__name__}: {error}".rstrip(": ").encode("utf-8", "replace").decode()
        await _publish_to(client, event, {}, b"", {FAILED: text[:FAILURE_CHARACTERS_MAX]}, None)


async def _publish_to(
    client: Publisher,
    request: Event,
    parts: Mapping[str, object],
    payload: bytes,
    headers: Mapping[str, str],
    seal: Seal | None,
) -> None:
    given = request.headers
    named = {REQUEST: given.get(REQUEST, ""), **headers}
    options: PublishOptions = {"headers": named, "priority": request.priority}
    if seal is not None:
        options |= {"seal": seal, "headers": {**named, ANSWERS: given[REPLY_TO]}}
    await client.publish({**parts, REPLY: given[REPLY_TO]}, payload, **options)

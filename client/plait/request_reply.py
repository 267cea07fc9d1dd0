"""Requests and replies: a client has one reply inbox, which holds a future for each open request.

A request carries two headers: `reply-to`, an unguessable token, and the number of the request. A reply is an ordinary
event that has the token as its `$reply` attribute. So a filter routes it, like any other event. A responder that raises
replies with the header `failed`.
"""

# ruff: noqa: ASYNC109 - the methods take timeouts as arguments, so that callers need not know `asyncio.timeout`
from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping
from typing import Final, Protocol, Unpack

from plait_core import EventInvalid
from plait_core.values import REPLY

from .errors import BufferFull, Closed, RequestFailed, Timeout
from .event import Event
from .options.conversion import event_parts
from .options.keyword_options import SubscribeOptions
from .options.settings import Buffer, FilterLike
from .receipt import Publisher
from .subscription import Subscription

REPLY_TO: Final = "reply-to"
REQUEST: Final = "request"
FAILED: Final = "failed"
"""Header of a reply: the type and text of the exception that the responder raised."""

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
        self._waiting: dict[str, asyncio.Future[Event]] = {}
        self._count = 0
        self._subscription: Subscription[Event] | None = None
        self._opening = asyncio.Lock()

    async def request(
        self, event: object, payload: bytes, timeout: float, headers: Mapping[str, str] | None, priority: int
    ) -> Event:
        """Publish a request and return the first reply."""
        if len(self._waiting) >= REQUESTS_MAX:
            raise BufferFull(f"{REQUESTS_MAX} requests wait for a reply")
        self._count += 1
        name = str(self._count)
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        try:
            async with asyncio.timeout(timeout):
                await self._open()
                stamped = {**(headers or {}), REPLY_TO: self._token, REQUEST: name}
                await self._client.publish(event, payload, ttl=timeout, headers=stamped, priority=priority)
                return await future
        except TimeoutError:
            raise Timeout(f"no reply within {timeout:g} s", hint="is anyone subscribed to the request?") from None
        finally:
            del self._waiting[name]

    def end(self) -> None:
        """Fail all open requests: the client is closed."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Closed("the client was closed before a reply came"))
                future.exception()

    async def _open(self) -> None:
        async with self._opening:
            if self._subscription is None:
                inbox = await self._client.subscribe(f"{REPLY} == '{self._token}'", buffer=_BUFFER)
                self._subscription = inbox.on(self._replied)

    def _replied(self, reply: Event) -> None:
        future = self._waiting.get(reply.headers.get(REQUEST, ""))
        if future is None or future.done():
            return
        if (failure := reply.headers.get(FAILED)) is not None:
            future.set_exception(RequestFailed(failure, hint="the log of the responder has the traceback"))
        else:
            future.set_result(reply)


async def publish_reply(client: Publisher, request: Event, reply: object, payload: bytes) -> None:
    """Publish the reply to a request, with the request's priority."""
    if REPLY_TO not in request.headers:
        raise EventInvalid(f"event {request.id} expects no reply", hint="it was published, not requested")
    parts, payload = event_parts(reply, payload)
    await _publish_to(client, request, parts, payload, {})


async def publish_failure(client: Publisher, event: Event, error: Exception) -> None:
    """Publish a reply with the error that the handling of an event raised. Do nothing if the event is not a request."""
    if REPLY_TO in event.headers:
        text = f"{type(error).__name__}: {error}".rstrip(": ").encode("utf-8", "replace").decode()
        await _publish_to(client, event, {}, b"", {FAILED: text[:FAILURE_CHARACTERS_MAX]})


async def _publish_to(
    client: Publisher, request: Event, parts: Mapping[str, object], payload: bytes, headers: Mapping[str, str]
) -> None:
    given = request.headers
    named = {REQUEST: given.get(REQUEST, ""), **headers}
    await client.publish({**parts, REPLY: given[REPLY_TO]}, payload, headers=named, priority=request.priority)

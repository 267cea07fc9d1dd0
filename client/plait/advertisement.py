"""An advertisement: a filter that describes the events to be published, and whether a subscription intersects it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Unpack

from plait_core import EventInvalid, PlaitError
from plait_core.filters import Filter

from .driver import Driver
from .options.conversion import event_parts, plain_attributes
from .options.keyword_options import PUBLISH_OPTIONS, EventOptions, PublishOptions, check_names, documented
from .protocol.desired_state import AdvertisedFilter
from .receipt import Publisher, Receipt


class Advertisement:
    """One advertisement, valid until it is closed. `publish` checks that an event matches what was advertised."""

    def __init__(
        self,
        client: Publisher,
        driver: Driver,
        advertised: AdvertisedFilter,
        filter: Filter,
        schema: Mapping[str, type] | None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._advertised = advertised
        self._filter = filter
        self._schema = schema
        self._error: PlaitError | None = None
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []
        driver.advertisement_callbacks[advertised.id] = self._changed

    @property
    def filter(self) -> str:
        """The canonical text of the advertised filter."""
        return self._filter.text

    @property
    def matching(self) -> bool:
        """Whether any subscription intersects the advertisement now. If not, there is no need to publish."""
        return self._advertised.matching and not self._closed

    async def matching_changes(self) -> AsyncIterator[bool]:
        """Yield `matching` now and after each change. End when the advertisement is closed."""
        previous: bool | None = None
        while not self._closed:
            if self.matching is not previous:
                previous = self.matching
                yield previous
                continue
            waiter = self._driver.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
        if self._error is not None:
            raise self._error

    @documented(EventOptions, PublishOptions)
    async def publish(self, event: object, payload: bytes = b"", **options: Unpack[PublishOptions]) -> Receipt:
        """Publish an event as `client.publish` does. Raise EventInvalid when it does not match the advertised filter
        or schema."""
        check_names("publish", options, PUBLISH_OPTIONS)
        parts, payload = event_parts(event, payload)
        attributes = plain_attributes(parts)
        if self._filter.evaluate(attributes) is False:
            raise EventInvalid(f"not what was advertised: {self._filter.text}")
        for name, kind in (self._schema or {}).items():
            value = attributes.get(name)
            fits = isinstance(value, kind) or (kind is float and type(value) is int)
            if not fits or (type(value) is bool and kind is not bool):
                raise EventInvalid(f"{name} is to be of type {kind.__name__}, and is {value!r}")
        return await self._client.publish(attributes, payload, **options)

    async def close(self) -> None:
        """Withdraw the advertisement."""
        if self._closed:
            return
        self._end(None)
        driver = self._driver
        if driver.session.ended:
            return
        request = driver.session.desired.unadvertise(self._advertised, driver.now())
        if driver.session.is_open:
            await driver.completed(request)
        else:
            driver.session.desired.cancel(request)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "matching" if self.matching else "no subscription needs it"
        return f"<Advertisement {self.filter!r:.100}: {state}>"

    async def __aenter__(self) -> Advertisement:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _changed(self, error: PlaitError | None) -> None:
        if error is not None:
            self._end(error)
        self._wake()

    def _end(self, error: PlaitError | None) -> None:
        self._closed, self._error = True, error
        self._driver.advertisement_callbacks.pop(self._advertised.id, None)
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

"""A realm of sealed events for tests of the SDK: key rings on a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from sealed_world import NOON_US, World, areas

import plait
from plait_core import parse
from plait_keyserver import PublisherRing, SubscriberRing

DAY_US = 24 * 3_600_000_000
LONDON, PARIS = {"area": 3, "location": "London"}, {"area": 99, "location": "Paris"}


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now_us = NOON_US

    def __call__(self) -> int:
        return self.now_us


class Realm:
    """A realm with key rings on one clock, a network in memory and a client."""

    def __init__(self) -> None:
        self.world, self.clock, self.chance = World.of(areas()), Clock(), Random(2)
        self.rings: list[Any] = []

    async def publisher(self, filter: str = "true", publisher: int = 7) -> PublisherRing:
        ring = PublisherRing(self.world.realm, publisher, now_us=self.clock, randomness=self.chance)
        self.rings.append(ring)
        await self.publish_in(ring, 0, filter, publisher)
        return ring

    async def publish_in(self, ring: PublisherRing, epoch: int, filter: str = "true", publisher: int = 7) -> None:
        now = {"epoch": epoch, "now_us": self._issuing(epoch), "randomness": self.chance}
        await ring.add(self.world.authority.publisher_keys("p", publisher, parse(filter), **now))  # type: ignore[arg-type]

    async def reader(self, filter: str = "true", epoch: int | None = 0) -> SubscriberRing:
        ring = SubscriberRing(self.world.realm, now_us=self.clock, randomness=self.chance)
        self.rings.append(ring)
        if epoch is not None:
            await self.read_in(ring, epoch, filter)
        return ring

    async def read_in(self, ring: SubscriberRing, epoch: int, filter: str = "true") -> None:
        now = {"epoch": epoch, "now_us": self._issuing(epoch), "randomness": self.chance}
        await ring.add(self.world.authority.subscriber_keys("r", parse(filter), **now))  # type: ignore[arg-type]

    def _issuing(self, epoch: int) -> int:
        return epoch * DAY_US + NOON_US


@pytest.fixture
async def realm() -> AsyncIterator[Realm]:
    made = Realm()
    yield made
    for ring in made.rings:
        ring.close()
        ring._thread.shutdown()


async def told(subscription: plait.Subscription[Any]) -> str:
    """Read the subscription until the next gap, and return the gap's reason."""
    reading = asyncio.ensure_future(subscription.next())
    try:
        async with asyncio.timeout(20):
            async for notice in subscription.notices():
                if isinstance(notice, plait.Gap):
                    return notice.reason
        raise AssertionError("it ended")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

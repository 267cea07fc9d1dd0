"""A subscriber without keys deposits as many points as a broker takes: what that costs the others, on a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from statistics import median
from typing import Any, Final

import pytest
from processes import broker_process
from sealed_realm import Realm, realm
from sealed_world import EPOCHS, World

import plait
from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf, RoutingTokens, Schema
from plait_crypto.hazmat.backend import G2_BYTES

__all__ = ["realm"]

FACTOR: Final = 4.0
"""How much longer the first event of a session may take, at most, when somebody has deposited all that a broker takes.
Tested to the end, the deposit would cost 20 times the honest test."""

FILTER: Final = "price between 1 and 65534"
"""30 credentials and two random points, as many points for the symbol: a test takes 33 pairings on the average."""

SESSIONS: Final = 15


class HostileRing:
    """A ring that deposits any points of the curve, as many as fit."""

    def __init__(self, ring: Any, realm: Realm) -> None:
        self._ring = ring
        groups = realm.world.groups
        row = (DEPOSIT_BYTES_MAX - 128) // G2_BYTES // 2
        points = [groups.hash_to_g2(b"%d" % number, b"test") for number in range(2 * row)]
        boxes = ((tuple(points[:row]), tuple(points[row:])),)
        encoded = RoutingTokens(realm.world.realm.digest, 0, boxes).encode(groups)
        self.found = len(encoded).to_bytes(4, "big") + encoded
        assert 0.99 * DEPOSIT_BYTES_MAX < len(self.found) <= DEPOSIT_BYTES_MAX

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ring, name)

    def deposit(self, kind: str = "exact") -> bytes:
        return self.found


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with broker_process("--listen", "127.0.0.1:0", "--http", "off") as broker:
        await broker.ready()
        yield broker.port


async def first_events(client: plait.Client, ring: Any, quotes: Any, first: int) -> list[float]:
    """Publish events that each begin a session. Return the seconds that each takes to the honest subscriber, without
    sealing and opening."""
    delays = []
    for number in range(first, first + SESSIONS):
        attributes = {"price": 1 + 1_237 * number, "symbol": "IBM"}
        await client.publish(attributes, b"%d" % number, seal=plait.Seal(ring))
        event = await quotes.next()
        delays.append(event.delay)
        assert event.payload == b"%d" % number
    return delays


async def test_the_largest_deposit_does_not_delay_the_events_of_others(realm: Realm, port: int) -> None:
    realm.world = World.of(Schema({"price": Numbers(IntRange(0, 65_535)), "symbol": OneOf.of("IBM", "SAP")}, EPOCHS))
    sealing, reading, nothing = await realm.publisher(), await realm.reader(FILTER), await realm.reader(epoch=None)
    url = f"plait://127.0.0.1:{port}"
    async with plait.connect(url) as publisher, plait.connect(url) as honest, plait.connect(url) as hostile:
        quotes = await honest.subscribe(FILTER, unseal=reading)
        await first_events(publisher, sealing, quotes, 0)  # keys are decoded once
        alone = await first_events(publisher, sealing, quotes, SESSIONS)
        async with hostile.subscribe("true", unseal=HostileRing(nothing, realm)):
            beside = await first_events(publisher, sealing, quotes, 2 * SESSIONS)
    print(f"alone {median(alone) * 1000:.0f} ms, beside {median(beside) * 1000:.0f} ms")
    assert median(beside) < FACTOR * median(alone)

"""Sealed events around a rotation of the master secret: publishers change the realm, and readers lose nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random

import pytest
from sealed_world import HOUR_US, NOON_US, areas, foundations

from plait import testing
from plait.sealing import SEALED, Seal
from plait_core import parse
from plait_crypto import Authority, Draft, Realm, RingClosed, Unopenable
from plait_keyserver import PublisherRing, SubscriberRing
from plait_keyserver.client import Term
from plait_keyserver.following import FollowingPublisherRing, FollowingSubscriberRing

LONDON = {"area": 3, "location": "London"}
BEGINS_US, ENDS_US = NOON_US + HOUR_US, NOON_US + 2 * HOUR_US


class Rotation:
    """Two realms, and the rings of one publisher and one reader on a manual clock."""

    def __init__(self) -> None:
        self.now_us, self.chance = NOON_US, Random(1)
        self.authorities = [Authority(Realm(foundations(n)[0], areas()), foundations(n)[1]) for n in (1, 2)]
        old, new = (authority.realm for authority in self.authorities)
        self.before = (Term(old),)
        self.around = (Term(old, 0, 0, ENDS_US), Term(new, NOON_US, BEGINS_US))
        self.after = self.around[1:]
        self.sealing = FollowingPublisherRing(lambda: self.now_us)
        self.opening = FollowingSubscriberRing(lambda: self.now_us)

    async def publish_in(self, term: Term) -> None:
        terms = {"epoch": 0, "now_us": self.now_us, "randomness": self.chance}
        keys = self._authority(term).publisher_keys("p", 7, parse("true"), **terms)  # type: ignore[arg-type]
        begin = partial(PublisherRing, term.realm, 7, now_us=lambda: self.now_us, randomness=self.chance)
        await self.sealing.add(term, keys, begin)

    async def read_in(self, term: Term) -> None:
        terms = {"epoch": 0, "now_us": self.now_us, "randomness": self.chance}
        keys = self._authority(term).subscriber_keys("r", parse("true"), **terms)  # type: ignore[arg-type]
        begin = partial(SubscriberRing, term.realm, now_us=lambda: self.now_us, randomness=self.chance)
        await self.opening.add(term, keys, begin)

    def _authority(self, term: Term) -> Authority:
        return next(each for each in self.authorities if each.realm is term.realm)


@pytest.fixture
async def rotation() -> AsyncIterator[Rotation]:
    made = Rotation()
    await made.publish_in(made.before[0])
    await made.read_in(made.before[0])
    yield made
    rings = [ring for following in (made.sealing, made.opening) for _, ring in following._rings]
    for following in (made.sealing, made.opening):
        following.close()
    for ring in rings:
        ring._thread.shutdown()


async def test_a_subscription_goes_on_through_a_rotation(rotation: Rotation) -> None:
    names = [each.realm.short_name.hex() for each in rotation.authorities]
    async with testing.Network() as net, await net.connect() as client:
        async with (
            client.subscribe("area < 16", unseal=rotation.opening) as inside,
            client.subscribe(f"has({SEALED})") as wire,
        ):

            async def delivered(payload: bytes) -> str:
                await client.publish(LONDON, payload, seal=Seal(rotation.sealing))
                assert (await inside.next()).payload == payload
                return str((await wire.next())[SEALED])

            assert await delivered(b"before") == names[0]
            for ring in (rotation.opening, rotation.sealing):
                ring.follow(rotation.around)  # type: ignore[attr-defined]
            await rotation.read_in(rotation.around[1])
            await rotation.publish_in(rotation.around[1])
            await client.flush()
            assert await delivered(b"both have keys of both") == names[0]
            rotation.now_us = BEGINS_US
            assert await delivered(b"in the new realm") == names[1]
            rotation.now_us = ENDS_US
            for ring in (rotation.opening, rotation.sealing):
                assert ring.follow(rotation.after)  # type: ignore[attr-defined]
            await client.flush()
            assert await delivered(b"after") == names[1]
            assert rotation.opening.realms == (rotation.authorities[1].realm,)
            assert inside.stats.dropped == 0


async def test_a_publisher_without_new_keys_goes_on_in_the_old_realm(rotation: Rotation) -> None:
    for ring in (rotation.opening, rotation.sealing):
        ring.follow(rotation.around)  # type: ignore[attr-defined]
    await rotation.read_in(rotation.around[1])
    rotation.now_us = BEGINS_US
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("area < 16", unseal=rotation.opening) as inside:
            await client.publish(LONDON, b"late", seal=Seal(rotation.sealing))
            assert (await inside.next()).payload == b"late"
    assert rotation.sealing.realm is rotation.authorities[0].realm


async def test_events_of_a_realm_without_keys_do_not_open(rotation: Rotation) -> None:
    other = Rotation()
    other.now_us = BEGINS_US
    await other.publish_in(other.around[1])
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe(f"has({SEALED})") as wire:
            await client.publish(LONDON, seal=Seal(other.sealing))
            seen = await wire.next()
    with pytest.raises(Unopenable) as refused:
        await rotation.opening.open({}, seen.payload)
    assert refused.value.why == "another_realm"
    other.sealing.close()


async def test_tokens_that_are_too_large_together_are_left_out_and_reported(
    rotation: Rotation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers test the events of the realm that is sealed in. The reader loses none of the others."""
    old = rotation.opening.deposit()
    monkeypatch.setattr("plait_keyserver.following.DEPOSIT_BYTES_MAX", len(old) + 1)
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("area < 16", unseal=rotation.opening) as inside:

            async def deposited() -> bytes:
                await client.flush()
                return inside._state.terms.routing

            async def arrives(payload: bytes) -> None:
                await client.publish(LONDON, payload, seal=Seal(rotation.sealing))
                assert (await inside.next(timeout=20)).payload == payload

            await arrives(b"before")
            for ring in (rotation.opening, rotation.sealing):
                ring.follow(rotation.around)  # type: ignore[attr-defined]
            await rotation.read_in(rotation.around[1])
            assert await deposited() == old
            assert [record.levelname for record in caplog.records] == ["WARNING"], "once, not at every change"
            assert "coarse" in caplog.text
            await arrives(b"in the old realm")
            await rotation.publish_in(rotation.around[1])
            rotation.now_us = BEGINS_US
            await arrives(b"in the new realm, untested")
            rotation.opening.follow(rotation.around)
            new = await deposited()
            assert new
            assert new != old
            await arrives(b"in the new realm")
            rotation.now_us = ENDS_US
            for ring in (rotation.opening, rotation.sealing):
                ring.follow(rotation.after)  # type: ignore[attr-defined]
            assert await deposited() == new
            await arrives(b"after")
            assert inside.stats.dropped == 0


async def test_the_last_ring_stays(rotation: Rotation) -> None:
    """Keys of the new realm were refused: the ring still answers, with the reason."""
    rotation.opening.follow(rotation.after)
    assert rotation.opening.realm is rotation.authorities[0].realm


# --- a ring that is closed while it works -----------------------------------------------------------------------------


@contextmanager
def held_up(ring: PublisherRing | SubscriberRing) -> Iterator[None]:
    """Let a ring's thread do nothing for a while."""
    going_on = threading.Event()
    ring._thread.submit(going_on.wait)
    ring._busy += 1
    yield
    ring._busy -= 1
    going_on.set()


async def given(count: int, ring: PublisherRing | SubscriberRing) -> None:
    """Wait until a ring that is held up has so much to do."""
    while ring._busy < 1 + count:  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0)


async def test_an_event_that_waits_for_an_ended_realm_is_stale(rotation: Rotation) -> None:
    """A rotation closes the ring that is about to open it. The subscription goes on."""
    await rotation.publish_in(rotation.around[1])
    await rotation.read_in(rotation.around[1])
    (_, old), _ = rotation.opening._rings
    for ring in (rotation.opening, rotation.sealing):
        ring.follow(rotation.around)  # type: ignore[attr-defined]
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("area < 16", unseal=rotation.opening) as inside:
            with held_up(old):
                await client.publish(LONDON, b"old", seal=Seal(rotation.sealing))
                reading = asyncio.ensure_future(inside.next(timeout=20))
                await given(1, old)
                rotation.now_us = ENDS_US
                for ring in (rotation.opening, rotation.sealing):
                    ring.follow(rotation.after)  # type: ignore[attr-defined]
            await client.flush()
            await client.publish(LONDON, b"new", seal=Seal(rotation.sealing))
            assert (await reading).payload == b"new"
            assert inside.stats.dropped == 1


async def test_an_event_that_waits_for_the_ring_of_an_ended_realm_is_sealed_in_the_next(rotation: Rotation) -> None:
    await rotation.publish_in(rotation.around[1])
    (_, old), _ = rotation.sealing._rings
    rotation.sealing.follow(rotation.around)
    with held_up(old):
        draft = Draft(LONDON, b"late")
        waiting = [asyncio.ensure_future(rotation.sealing.seal(draft)) for _ in range(2)]
        await given(2, old)
        rotation.now_us = ENDS_US
        rotation.sealing.follow(rotation.after)
    await rotation.read_in(rotation.around[1])
    for clear, payload in await asyncio.gather(*waiting):
        assert (await rotation.opening.open(clear, payload)).payload == b"late"


async def test_a_ring_that_the_application_closes_seals_and_opens_nothing_more(rotation: Rotation) -> None:
    (_, sealing), (_, opening) = *rotation.sealing._rings, *rotation.opening._rings
    clear, payload = await rotation.sealing.seal(Draft(LONDON))
    with held_up(sealing), held_up(opening):
        waiting = [
            asyncio.ensure_future(rotation.sealing.session(Draft(LONDON))),
            asyncio.ensure_future(rotation.opening.open(clear, payload)),
        ]
        await given(1, sealing)
        await given(1, opening)
        rotation.sealing.close()
        rotation.opening.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, RingClosed) for each in outcomes)

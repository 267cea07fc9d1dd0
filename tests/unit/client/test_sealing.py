"""Sealed events in the SDK: the filters that brokers route by, the opened events, and the notices for others."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed_realm import DAY_US, LONDON, PARIS, Realm, realm, told
from sealed_world import World, areas
from strategies import random_attributes, spelled_trees

import plait
from plait import Seal, testing
from plait.sealing import SEALED, routed
from plait_core import parse
from plait_crypto import PayloadReader, Unopenable

assert realm, "a fixture"

# --- routing ----------------------------------------------------------------------------------------------------------


@given(spelled_trees(), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_no_event_that_matches_is_routed_away(spelled: tuple[Any, str], seed: int, chance: Random) -> None:
    filter = parse(spelled[1])
    realm = World.of(areas()).realm
    revealed = frozenset(name for name in random_attributes(chance) if chance.random() < 0.5)
    outer = routed(filter, realm, reveal=revealed)
    for _ in range(8):
        attributes = random_attributes(chance)
        hidden = {name for name in attributes if chance.random() < 0.5}
        clear = {name: value for name, value in attributes.items() if name not in hidden}
        if filter.matches(attributes):
            assert outer.matches({**clear, SEALED: realm.short_name.hex()})
        assert not outer.matches(clear), "it matches sealed events only"


def test_revealed_attributes_are_routed_by() -> None:
    realm, shown = World.of(areas()).realm, frozenset({"area", "location"})
    outer = routed(parse("area < 16 and not (location == 'Paris' or area == 3)"), realm, reveal=shown)
    mark = {SEALED: realm.short_name.hex()}
    assert outer.matches(mark)
    assert outer.matches({**mark, "area": 5})
    assert not outer.matches({**mark, "area": 3})
    assert not outer.matches({**mark, "area": 16})
    assert not outer.matches({**mark, "location": "Paris"})
    many, shown = " and ".join(f"a{each} < 5" for each in range(40)), frozenset(f"a{each}" for each in range(40))
    assert routed(parse(many), realm, reveal=shown).text == f"{SEALED} == '{realm.short_name.hex()}'", (
        "too many alternatives"
    )


# --- from end to end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [None, {"area"}, set()])
async def test_a_sealed_event_arrives_whole_and_verified(realm: Realm, hidden: set[str] | None) -> None:
    publishing, reading = await realm.publisher("area < 64"), await realm.reader("area < 16")
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("area < 16", unseal=reading) as inside, client.subscribe("true") as outside:
            for number in range(3):
                await client.publish(LONDON, b"the secret %d" % number, seal=Seal(publishing, hidden))
            for number in range(3):
                event = await inside.next()
                assert dict(event) == LONDON
                assert event.payload == b"the secret %d" % number
                assert event.verified is not None
                assert event.verified.publisher == 7
                assert [name for name, _ in event.verified.credentials] == ["area", "location"]
                assert event["area"] == event.get("area") == 3
                seen = await outside.next()
                assert set(seen) == {*LONDON, SEALED} - (set(LONDON) if hidden is None else hidden)
                assert b"the secret" not in seen.payload
                assert seen.verified is None


async def test_events_outside_keys_or_filter_are_no_loss(realm: Realm) -> None:
    publishing, narrow, wide = await realm.publisher(), await realm.reader("area < 16"), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with (
            client.subscribe("true", unseal=narrow) as by_keys,
            client.subscribe("area < 16", unseal=wide) as by_filter,
        ):
            for attributes in (PARIS, LONDON, PARIS, LONDON):
                await client.publish(attributes, seal=Seal(publishing))
            for subscription in (by_keys, by_filter):
                assert [dict(await subscription.next()) for _ in range(2)] == [LONDON, LONDON]
                await client.flush()
                stats = subscription.stats
                assert (stats.dropped, stats.gaps, stats.delivered) == (0, 0, 2)


async def test_a_missing_key_is_reported_until_it_arrives(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader(epoch=None)
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await client.publish(LONDON, seal=Seal(publishing))
            assert await told(subscription) == "missing_key"
            await realm.read_in(reading, 0)
            await client.publish(LONDON, b"now", seal=Seal(publishing))
            assert (await subscription.next()).payload == b"now"


async def test_a_stale_epoch_is_reported(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await client.publish(LONDON, seal=Seal(publishing))
            await client.flush()
            realm.clock.now_us += 2 * DAY_US
            assert await told(subscription) == "stale_epoch"


async def test_a_replay_and_a_forgery_are_reported(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client, await net.connect() as thief:
        async with (
            client.subscribe("true", unseal=reading) as subscription,
            client.subscribe(f"has({SEALED})") as wire,
        ):
            await client.publish(LONDON, b"once", seal=Seal(publishing))
            first, seen = await subscription.next(), await wire.next()
            assert first.payload == b"once"
            await client.publish(dict(seen), seen.payload)
            assert await told(subscription) == "replayed"
            await thief.publish(dict(seen), seen.payload)  # in another client's name
            assert await told(subscription) == "not_authentic"
            await client.publish(dict(seen), seen.payload[:-1] + bytes([seen.payload[-1] ^ 1]))
            assert await told(subscription) == "not_authentic"
            await client.publish({**seen, "area": 4}, seen.payload)  # other attributes in the clear
            assert await told(subscription) == "not_authentic"
            await client.publish(dict(seen), b"nothing of the kind")
            await client.publish(LONDON, b"the last", seal=Seal(publishing))
            assert (await subscription.next()).payload == b"the last", "an event without tags is dropped by the broker"
            assert subscription.stats.dropped == 4


async def test_sealing_without_a_key_fails_at_once(realm: Realm) -> None:
    publishing = await realm.publisher("area < 16")
    async with testing.Network() as net, await net.connect() as client:
        with pytest.raises(plait.Error, match="no grant"):
            await client.publish(PARIS, seal=Seal(publishing))
        realm.clock.now_us += DAY_US
        with pytest.raises(plait.Error, match="no publisher keys"):
            await client.publish(LONDON, seal=Seal(publishing))
        await realm.publish_in(publishing, 1, "area < 16")
        assert await client.publish(LONDON, seal=Seal(publishing))
        with pytest.raises(plait.EventInvalid):
            await client.publish({**LONDON, SEALED: "x"}, seal=Seal(publishing))
        with pytest.raises(plait.NotAvailable):
            client.try_publish(LONDON, seal=Seal(publishing))  # type: ignore[arg-type]


async def test_a_reader_that_gives_up_loses_nothing(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            for number in range(5):
                await client.publish(LONDON, bytes([number]), seal=Seal(publishing))
            await client.flush()
            found = []
            while len(found) < 5:
                reader = asyncio.ensure_future(subscription.next())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                if not reader.cancelled():
                    found.append(reader.result().payload)
                else:
                    found.append((await subscription.next()).payload)
            assert found == [bytes([number]) for number in range(5)]


async def test_a_declined_event_comes_again_opened(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading, ack="manual") as subscription:
            await client.publish(LONDON, b"again", seal=Seal(publishing))
            first = await subscription.next()
            first.nak()
            again = await subscription.next()
            assert (again.id, again.payload) == (first.id, b"again")
            assert subscription.stats.gaps == 0


async def test_steady_traffic_costs_no_pairings(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader("area < 16")
    from plait_crypto import Draft

    parcels = [(await publishing.seal(Draft(each, b"p")))[1] for each in (LONDON, LONDON, PARIS, PARIS)]
    assert not reading._payloads.cheap(parcels[0])
    await reading.open({}, parcels[0])
    assert reading._payloads.cheap(parcels[1])
    with pytest.raises(Unopenable):
        await reading.open({}, parcels[2])
    assert reading._payloads.cheap(parcels[3]), "a failed opening is remembered"
    await realm.read_in(reading, 0, "area > 64")
    assert not reading._payloads.cheap(parcels[3]), "forgotten after a change of keys"
    await reading.open({}, parcels[3])


@given(st.binary(max_size=64))
def test_any_other_payload_is_unopenable(payload: bytes) -> None:
    world = World.of(areas())
    reader = PayloadReader(world.reader("true"))
    assert reader.cheap(payload)
    with pytest.raises(Unopenable):
        reader.open({}, payload, now_us=world.now_us, randomness=world.rng)

"""Numbers of sealing sessions: a publish that fails leaves none out, which readers would report as a withheld event."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sealed_realm import LONDON, PARIS, Realm, realm

import plait
from plait import Outbox, Seal, testing
from plait.sealing import SEALED
from plait_core.limits import PAYLOAD_BYTES_MAX
from plait_core.sealed_opening import opening_of

assert realm, "a fixture"

PAST = datetime.now(UTC) - timedelta(seconds=1)
FULL = {f"a{number}": "x" * 4000 for number in range(16)}
"""Attributes that leave no room for another one in an event."""

REFUSED: list[tuple[dict[str, Any], bytes, dict[str, Any]]] = [
    (LONDON, b"", {"confirm": "perhaps"}),
    (LONDON, b"", {"priority": 10}),
    (LONDON, b"", {"headers": {"a": 1}}),
    (LONDON, b"", {"headers": {"a": "x" * 20_000}}),
    (LONDON, b"", {"ttl": "soon"}),
    (LONDON, b"", {"timeout": -1}),
    (LONDON, b"", {"deadline": PAST}),
    (LONDON, b"", {"unknown": 1}),
    ({**LONDON, "size": object()}, b"", {}),
    ({**LONDON, "area": 128}, b"", {}),
    (LONDON, "text", {}),  # type: ignore[list-item]
    (LONDON, bytes(PAYLOAD_BYTES_MAX + 1), {}),
    (LONDON, bytes(PAYLOAD_BYTES_MAX), {}),
    ({**LONDON, **FULL, "rest": "x" * 1400}, b"", {}),
]


async def numbers(subscription: plait.Subscription[Any], count: int) -> list[tuple[bytes, int]]:
    """Read events, and return the session and number of each. Fail if a number is missing."""
    events: list[Any] = [await subscription.next(timeout=20) for _ in range(count)]
    assert subscription._unseal is not None
    assert subscription._unseal.holes.next_at is None, "a number is missing"
    return [(event.opened.session, event.opened.number) for event in events]


@pytest.mark.parametrize("refused", range(len(REFUSED)))
async def test_a_publish_that_is_refused_leaves_no_hole(realm: Realm, refused: int) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    attributes, payload, options = REFUSED[refused]
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await client.publish(LONDON, seal=Seal(publishing))
            with pytest.raises((plait.Error, TypeError)):
                await client.publish(attributes, payload, seal=Seal(publishing, {"area"}), **options)
            for _ in range(2):
                await client.publish(LONDON, seal=Seal(publishing))
            await numbers(subscription, 3)


async def test_a_publish_that_is_cancelled_while_its_session_begins_leaves_no_hole(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await client.publish(LONDON, seal=Seal(publishing))
            first, second, third = (
                asyncio.ensure_future(client.publish(event, seal=Seal(publishing))) for event in (PARIS, PARIS, LONDON)
            )
            await asyncio.sleep(0)  # the first begins a session, and the others wait for the thread
            second.cancel()
            third.cancel()
            await first
            await asyncio.gather(second, third, return_exceptions=True)
            assert second.cancelled()
            assert third.cancelled()
            for event in (LONDON, PARIS):
                await client.publish(event, seal=Seal(publishing))
            await numbers(subscription, 4)


async def test_a_publish_that_is_cancelled_while_the_outbox_is_full_leaves_no_hole(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect(outbox=Outbox(items=4)) as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await client.publish(LONDON, b"0", seal=Seal(publishing))
            assert (await subscription.next()).payload == b"0"
            net.cut()
            while client.connected:  # noqa: ASYNC110 - until it knows, so that nothing leaves its outbox
                await asyncio.sleep(0)
            while client.try_publish({"filling": True}):
                pass
            waiting = [
                asyncio.ensure_future(client.publish(LONDON, b"%d" % number, seal=Seal(publishing)))
                for number in range(1, 4)
            ]
            await asyncio.sleep(0)
            assert client.stats.waiting == 4
            waiting[1].cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert [each.cancelled() for each in waiting] == [False, True, False]
            found = await numbers(subscription, 2)
            assert [number for _, number in found] == [1, 2]


async def test_concurrent_publishes_of_a_new_session_stay_in_their_order(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect(outbox=Outbox(items=4)) as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            publish = [client.publish(LONDON, b"%d" % number, seal=Seal(publishing)) for number in range(20)]
            await asyncio.gather(*publish)
            assert [(await subscription.next()).payload for _ in range(20)] == [b"%d" % each for each in range(20)]
            assert client.stats.waiting <= 4 + 1


async def test_a_client_that_is_closed_while_it_seals_leaves_no_hole_for_the_next(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            leaving = await net.connect()
            await client.publish(LONDON, seal=Seal(publishing))
            publish = asyncio.ensure_future(leaving.publish(PARIS, seal=Seal(publishing)))
            await asyncio.sleep(0)
            await leaving.close()
            with pytest.raises(plait.Closed):
                await publish
            for event in (LONDON, PARIS):
                await client.publish(event, seal=Seal(publishing))
            assert [number for _, number in await numbers(subscription, 3)] == [0, 1, 0]


async def test_what_fails_after_sealing_ends_the_session(realm: Realm) -> None:
    """The number is a nonce, so it is not taken back. Other sessions go on."""
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            for event in (LONDON, PARIS):
                await client.publish(event, seal=Seal(publishing))
            with pytest.raises(plait.PayloadTooLarge):
                await client.publish(LONDON, bytes(PAYLOAD_BYTES_MAX), seal=Seal(publishing))
            for event in (LONDON, PARIS):
                await client.publish(event, seal=Seal(publishing))
            found = await numbers(subscription, 4)
            assert [number for _, number in found] == [0, 0, 0, 1]
            assert len({session for session, _ in found}) == 3


async def test_events_without_sessions_do_not_show_which_values_are_equal(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as inside, client.subscribe(f"has({SEALED})") as wire:
            alone, together = Seal(publishing, session=False), Seal(publishing)
            for seal in (together, alone, alone, together):
                await client.publish(LONDON, b"the same", seal=seal)
            openings = [opening_of((await wire.next()).payload) for _ in range(4)]
            assert openings[0] == openings[3]
            assert len(set(openings)) == 3
            assert [number for _, number in await numbers(inside, 4)] == [0, 0, 0, 1]


async def test_concurrent_events_without_sessions_stay_in_their_order(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    seal = Seal(publishing, session=False)
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as subscription:
            await asyncio.gather(*(client.publish(LONDON, b"%d" % number, seal=seal) for number in range(9)))
            assert [(await subscription.next()).payload for _ in range(9)] == [b"%d" % each for each in range(9)]

"""Headers, lifetime and other metadata are sealed with an event. A hostile broker cannot change them unseen."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from sealed_realm import DAY_US, LONDON, PARIS, Realm, realm, told

import plait
from plait import Seal, testing
from plait.errors import ArgumentInvalid
from plait.protocol.session_holes import HOLES_MAX, OPEN_S, SessionHoles
from plait.sealing import SEALED
from plait_core.space import IntRange
from plait_crypto import Draft, Metadata, Numbers, Schema, SealInvalid, Unopenable
from plait_crypto.sealed_payload import SealedPayload
from plait_keyserver import PublisherRing, SubscriberRing
from plait_keyserver.rings import AGE_MAX_US

assert realm, "a fixture"

SECOND_US = 1_000_000


async def parcels(realm: Realm, count: int, **metadata: Any) -> list[bytes]:
    ring = await realm.publisher()
    draft = Draft(LONDON, b"p", metadata=Metadata(**metadata))
    return [(await ring.seal(draft))[1] for _ in range(count)]


# --- metadata ---------------------------------------------------------------------------------------------------------


async def test_headers_lifetime_and_priority_are_sealed(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as inside, client.subscribe(f"has({SEALED})") as wire:
            headers = {"trace": "abc", "reply-to": "somebody"}
            await client.publish(LONDON, b"p", seal=Seal(publishing), headers=headers, priority=3, ttl="20s")
            event, seen = await inside.next(), await wire.next()
    assert event.headers == headers
    assert event.priority == 3
    assert event.lifetime_left is not None
    assert 0 < event.lifetime_left <= 20
    assert (event.published_at.timestamp() * SECOND_US) == pytest.approx(realm.clock.now_us)
    assert seen.headers == {}, "brokers need no header"
    assert b"trace" not in seen.payload


async def test_what_a_broker_changes_around_a_sealed_event_is_not_read(realm: Realm) -> None:
    """A broker adds a header that asks for a reply, raises the priority, and prolongs the life of the event."""
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as inside, client.subscribe(f"has({SEALED})") as wire:
            await client.publish(LONDON, b"first", seal=Seal(publishing))
            await inside.next()
            seen = await wire.next()
            _, payload = await publishing.seal(Draft(LONDON, b"p", bound=client.publisher.to_bytes(8, "big")))
            await client.publish(
                {SEALED: seen[SEALED]}, payload, headers={"reply-to": "spy", "request": "1"}, priority=9, ttl="1h"
            )
            event = await inside.next()
            assert (event.headers, event.priority, event.lifetime_left) == ({}, 0, None)
            with pytest.raises(plait.EventInvalid, match="expects no reply"):
                await event.reply({"secret": 1})


async def test_an_event_whose_sealed_lifetime_is_over_is_not_revived(realm: Realm) -> None:
    reading = await realm.reader()
    first, second = await parcels(realm, 2, lifetime_us=10 * SECOND_US)
    assert (await reading.open({}, first)).payload == b"p"
    realm.clock.now_us += 16 * SECOND_US
    with pytest.raises(Unopenable) as refused:
        await reading.open({}, second)
    assert refused.value.why == "expired"


async def test_sizes_are_padded(realm: Realm) -> None:
    ring = await realm.publisher()
    sizes = {len((await ring.seal(Draft(LONDON, b"x" * count)))[1]) for count in range(1000, 1040)}
    assert len(sizes) <= 3, "forty lengths, and few sizes"
    plain, padded = 100_000, len((await ring.seal(Draft(LONDON, b"x" * 100_000)))[1])
    assert padded < plain * 1.12 + 5000


# --- openings, replays, holes -----------------------------------------------------------------------------------------


async def test_an_event_with_the_opening_of_another_session_is_refused(realm: Realm) -> None:
    (one,), (other,) = await parcels(realm, 1), await parcels(realm, 1)
    mixed = SealedPayload(SealedPayload.decode(other).opening, SealedPayload.decode(one).envelope).encode()
    fresh, known = await realm.reader(), await realm.reader()
    assert (await known.open({}, one)).payload == b"p"
    (again,) = await parcels(realm, 1)
    for reader in (fresh, known):
        with pytest.raises(Unopenable) as refused:
            await reader.open({}, mixed)
        assert refused.value.why == "not_authentic"
    assert (await fresh.open({}, again)).payload == b"p"


async def test_a_restarted_reader_refuses_what_was_published_long_before(realm: Realm) -> None:
    (old,) = await parcels(realm, 1)
    realm.clock.now_us += AGE_MAX_US + SECOND_US
    (fresh,) = await parcels(realm, 1)
    restarted = await realm.reader()
    assert restarted.since_us == realm.clock.now_us - AGE_MAX_US
    with pytest.raises(Unopenable) as refused:
        await restarted.open({}, old)
    assert refused.value.why == "replayed"
    assert (await restarted.open({}, fresh)).payload == b"p"
    realm.clock.now_us += AGE_MAX_US
    assert await restarted.open({}, (await parcels(realm, 1))[0]), "what waits at the reader does not age"


async def test_a_durable_subscription_remembers_what_it_acknowledged(realm: Realm, tmp_path: Path) -> None:
    publishing = await realm.publisher()

    def ring() -> SubscriberRing:
        made = SubscriberRing(realm.world.realm, now_us=realm.clock, randomness=realm.chance, folder=tmp_path)
        realm.rings.append(made)
        return made

    async with testing.Network() as net, await net.connect() as client:
        first = ring()
        await realm.read_in(first, 0)
        async with client.subscribe(f"has({SEALED})") as wire:
            async with client.subscribe("true", unseal=first, durable="desk", ack="manual") as subscription:
                await client.publish(LONDON, b"handled", seal=Seal(publishing))
                await client.publish(LONDON, b"not handled", seal=Seal(publishing))
                (await subscription.next()).ack()
                assert (await subscription.next()).payload == b"not handled"
                seen = await wire.next()
            first.close()
            realm.clock.now_us += 20 * SECOND_US
            second = ring()
            await realm.read_in(second, 0)
            async with client.subscribe("true", unseal=second, durable="desk") as subscription:
                assert (await subscription.next()).payload == b"not handled", "it was not acknowledged"
                await client.publish(dict(seen), seen.payload)
                assert await told(subscription) == "replayed"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "seen").iterdir())


async def test_a_durable_subscription_without_a_folder_is_refused(realm: Realm) -> None:
    reading = await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        with pytest.raises(SealInvalid, match="folder"):
            client.subscribe("true", unseal=reading, durable="desk")


async def test_an_event_that_is_withheld_is_reported(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as inside, client.subscribe(f"has({SEALED})") as wire:
            await client.publish(LONDON, b"first", seal=Seal(publishing))
            mark = (await wire.next())[SEALED]
            await inside.next()
            bound = client.publisher.to_bytes(8, "big")
            payloads = [(await publishing.seal(Draft(LONDON, b"%d" % number, bound=bound)))[1] for number in range(4)]
            for number in (0, 3, 2):  # 1 never comes, 2 comes late
                await client.publish({SEALED: mark}, payloads[number])
                await inside.next()
            assert await told(inside) == "missing"
            assert inside.stats.dropped == 0, "nobody knows whether it was dropped"


async def test_where_brokers_select_by_clear_attributes_nothing_is_reported(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    seal = Seal(publishing, {"location"})
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("size > 2", unseal=reading, reveal=["size"]) as some:
            for size in (5, 1, 5):
                await client.publish({**LONDON, "size": size}, seal=Seal(publishing, {"location", "area"}))
            assert [(await some.next())["size"] for _ in range(2)] == [5, 5]
            assert some._unseal is not None
            assert some._unseal.holes.next_at is None
    assert seal


def test_holes_are_bounded_and_close() -> None:
    holes = SessionHoles()
    holes.saw(b"s", 7, 0.0)
    assert holes.next_at is None, "a reader may join late"
    holes.saw(b"s", 10, 0.0)
    assert holes.next_at == OPEN_S
    holes.saw(b"s", 8, 1.0)
    assert holes.overdue(OPEN_S - 0.1) == 0
    assert holes.overdue(OPEN_S) == 1
    assert (holes.overdue(OPEN_S), holes.next_at) == (0, None)
    holes.saw(b"s", 10 + 2 * HOLES_MAX, 9.0)
    assert holes.next_at == 0.0, "what exceeds the bound is missing at once"
    assert holes.overdue(9.0) == HOLES_MAX - 1
    assert holes.overdue(9.0 + OPEN_S) == HOLES_MAX


# --- forks, and keys of old epochs ------------------------------------------------------------------------------------


async def test_a_fork_begins_a_session_of_its_own(realm: Realm) -> None:
    """With one session, parent and child would encrypt two events under one nonce."""
    ring = await realm.publisher()
    drafts = Draft(LONDON, b"alone", session=False), Draft(PARIS, b"evicted")
    found = [(await ring.session(draft), draft) for draft in drafts]
    ring._payloads.sessions._sessions.clear()
    await ring.seal(Draft(LONDON, b"before"))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if not any(session.seal(draft) for session, draft in found):
                _, payload = asyncio.run(ring.seal(Draft(LONDON, b"in the child")))
                os.write(writing, SealedPayload.decode(payload).opening[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    theirs = os.read(reading, 1 << 16)
    os.close(reading)
    os.waitpid(child, 0)  # noqa: ASYNC222 - the child has ended: its end of the pipe is closed
    _, payload = await ring.seal(Draft(LONDON, b"in the parent"))
    assert theirs, "the child seals nothing in sessions of its parent"
    assert all(session.seal(draft) for session, draft in found)
    assert SealedPayload.decode(payload).opening[:4000] != theirs


async def test_keys_of_an_old_epoch_go_by_time(realm: Realm) -> None:
    """A member that is refused new keys does not keep the old ones for ever."""
    ring = await realm.reader()
    sealing = await realm.publisher()
    assert ring._keyring.epochs() == {0}
    realm.clock.now_us += 2 * DAY_US
    for each in (ring, sealing):
        each._forget_now()
        assert each._cleaning is not None
        await each._cleaning
    assert ring._keyring.epochs() == set()
    assert not sealing._sealer._keys
    assert isinstance(sealing, PublisherRing)


# --- what brokers get -------------------------------------------------------------------------------------------------


async def test_brokers_see_no_condition_on_a_hidden_attribute(realm: Realm) -> None:
    reading = await realm.reader("area < 16")
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("area < 16 and location == 'London'", unseal=reading) as subscription:
            assert subscription.filter == f"{SEALED} == '{realm.world.realm.short_name.hex()}'"
        async with client.subscribe("area < 16 and size > 2", unseal=reading, reveal=["size"]) as subscription:
            assert "area" not in subscription.filter
            assert "size > 2" in subscription.filter


def test_attributes_that_the_schema_declares_clear_are_routed_by() -> None:
    from sealed_world import EPOCHS, World

    from plait.sealing import routed
    from plait_core import parse

    schema = Schema({"area": Numbers(IntRange(0, 127))}, EPOCHS, clear=frozenset({"venue"}))
    assert Schema.from_json(schema.to_json()) == schema
    found = routed(parse("venue == 'X' and area < 16"), World.of(schema).realm).text
    assert "venue == 'X'" in found
    assert "null" not in found
    assert "area" not in found


async def test_wrong_options_are_refused(realm: Realm) -> None:
    reading = await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        for wrong in ({"deposit": "some"}, {"reveal": "size"}, {"reveal": [1]}):
            with pytest.raises(ArgumentInvalid):
                client.subscribe("true", unseal=reading, **wrong)  # type: ignore[arg-type]
        with pytest.raises(SealInvalid, match="coarse"):
            client.subscribe("true", unseal=reading, deposit="coarse")


# --- replies ----------------------------------------------------------------------------------------------------------


async def test_a_sealed_request_gets_a_sealed_reply(realm: Realm) -> None:
    asking, answering = await realm.publisher(), await realm.publisher(publisher=8)
    at_server, at_asker = await realm.reader(), await realm.reader()
    async with testing.Network() as net, await net.connect() as asker, await net.connect() as server:
        async with asker.subscribe(f"has({SEALED})") as wire:
            requests = await server.subscribe("true", unseal=at_server)

            async def answer(request: plait.Event) -> None:
                if "reply-to" in request.headers:
                    await request.reply({**LONDON, "result": 42}, b"the answer", seal=Seal(answering))

            requests.on(answer)
            reply = await asker.request(LONDON, b"?", seal=Seal(asking), unseal=at_asker, timeout="20s")
            assert (reply["result"], reply.payload) == (42, b"the answer")
            assert reply.verified is not None
            assert reply.verified.publisher == 8
            for _ in range(2):
                seen = await wire.next()
                assert "result" not in seen
                assert b"the answer" not in seen.payload


async def test_a_reply_in_the_clear_to_a_sealed_request_is_refused(realm: Realm) -> None:
    asking, reading = await realm.publisher(), await realm.reader()
    answering = await realm.reader()
    async with testing.Network() as net, await net.connect() as asker, await net.connect() as server:
        requests = await server.subscribe("true", unseal=reading)
        failed: list[BaseException] = []

        async def answer(request: plait.Event) -> None:
            try:
                await request.reply({"result": "secret"})
            except ArgumentInvalid as error:
                failed.append(error)
                await server.publish({"$reply": request.headers["reply-to"]}, headers={"request": "1"})  # a forger

        requests.on(answer)
        with pytest.raises(plait.Timeout):
            await asker.request(LONDON, seal=Seal(asking), unseal=answering, timeout="2s")
        assert "seal" in str(failed[0])
        with pytest.raises(ArgumentInvalid, match="go together"):
            await asker.request(LONDON, seal=Seal(asking))

"""Attacks of a hostile broker, and accidents, on durable subscriptions, replies and holes of sealed events."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from sealed_realm import DAY_US, LONDON, PARIS, Realm, realm, told
from sealed_world import HOUR_US, World, areas

import plait
from plait import Seal, testing
from plait.protocol.subscription_state import SubscriptionState
from plait.request_reply import OPENING_MAX, ReplyInbox, _Request
from plait.sealing import SEALED
from plait_core import parse
from plait_core.wire.frame_types.session_frames import DURABLE
from plait_crypto import Draft, Metadata, RingClosed, SealInvalid, SessionSealer, Unopenable
from plait_keyserver import SubscriberRing, seen_record
from plait_keyserver.client import Term
from plait_keyserver.following import FollowingSubscriberRing
from plait_keyserver.seen_record import SeenRecord

assert realm, "a fixture"

SESSION = b"s" * 16


async def ring_of(realm: Realm, folder: Path) -> SubscriberRing:
    made = SubscriberRing(realm.world.realm, now_us=realm.clock, randomness=realm.chance, folder=folder)
    realm.rings.append(made)
    await realm.read_in(made, 0)
    return made


def gaps(subscription: plait.Subscription[Any]) -> list[str]:
    return [notice.reason for notice in subscription._state.notices if isinstance(notice, plait.Gap)]


# --- durable subscriptions --------------------------------------------------------------------------------------------


async def test_what_was_not_acknowledged_opens_again_with_the_same_ring(realm: Realm, tmp_path: Path) -> None:
    publishing, ring = await realm.publisher(), await ring_of(realm, tmp_path)
    async with testing.Network() as net, await net.connect() as client:
        with pytest.raises(ZeroDivisionError):
            async with client.subscribe("true", unseal=ring, durable="desk") as subscription:
                await client.publish(LONDON, b"job", seal=Seal(publishing))
                await subscription.next()
                raise ZeroDivisionError
        async with client.subscribe("true", unseal=ring, durable="desk") as subscription:
            assert (await subscription.next(timeout=20)).payload == b"job"


async def test_a_nak_beyond_the_kept_ones_loses_nothing(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plait.sealing.DECLINED_MAX", 1)
    publishing, ring = await realm.publisher(), await ring_of(realm, tmp_path)
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=ring, durable="desk", ack="manual") as subscription:
            for number in range(3):
                await client.publish(LONDON, b"%d" % number, seal=Seal(publishing))
            for event in [await subscription.next() for _ in range(3)]:
                event.nak()
            again = {(await subscription.next(timeout=20)).payload for _ in range(3)}
            assert again == {b"0", b"1", b"2"}
            assert gaps(subscription) == []


async def test_a_broker_cannot_switch_the_record_off(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it expects no acknowledgement, and replays the event after a restart of the reader."""
    publishing, first = await realm.publisher(), await ring_of(realm, tmp_path)
    receive = SubscriptionState.receive

    def stripped(self: SubscriptionState, frame: Any, flags: int, position: int, half: float) -> Any:
        return receive(self, frame, flags & ~DURABLE, position, half)

    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=first, durable="desk") as subscription:
            monkeypatch.setattr(SubscriptionState, "receive", stripped)
            async with client.subscribe(f"has({SEALED})") as wire:
                await client.publish(LONDON, b"pay", seal=Seal(publishing))
                assert (await subscription.next()).payload == b"pay"
                seen = await wire.next()
            assert subscription._unseal is not None
            assert not subscription._unseal._unsettled
    first.close()
    second = await ring_of(realm, tmp_path)
    second.keep_record("desk")
    with pytest.raises(Unopenable) as refused:
        await second.open({}, seen.payload, seen.publisher.to_bytes(8, "big"))
    assert refused.value.why == "replayed"


async def test_the_record_is_of_all_realms_of_a_rotation(realm: Realm, tmp_path: Path) -> None:
    """After a restart the ring of the old realm may come second."""
    publishing, first = await realm.publisher(), await ring_of(realm, tmp_path)
    first.keep_record("desk")
    _, parcel = await publishing.seal(Draft(LONDON, b"pay"))
    opened = await first.open({}, parcel)
    first.settle(opened.publisher, opened.session, opened.number, opened.until_us)
    first.close()
    old, new = realm.world, World.of(areas(), seed=5)
    following = FollowingSubscriberRing(realm.clock, tmp_path)
    begun = Term(new.realm, 1, realm.clock.now_us - 1, None)
    ending = Term(old.realm, 0, 0, realm.clock.now_us + 10**10)
    for world, term in ((new, begun), (old, ending)):
        asked = {"epoch": 0, "now_us": realm.clock.now_us, "randomness": realm.chance}
        keys = world.authority.subscriber_keys("r", parse("true"), **asked)  # type: ignore[arg-type]
        ring = SubscriberRing(world.realm, now_us=realm.clock, randomness=realm.chance)
        realm.rings.append(ring)
        await following.add(term, keys, lambda ring=ring: ring)  # type: ignore[misc]
        following.keep_record("desk")
    with pytest.raises(Unopenable) as refused:
        await following.open({}, parcel)
    following.close()
    assert refused.value.why == "replayed"


async def test_an_event_of_an_ended_session_is_stale(realm: Realm) -> None:
    publishing, reading = await realm.publisher(), await realm.reader()
    _, parcel = await publishing.seal(Draft(LONDON, b"late"))
    realm.clock.now_us += HOUR_US + 62_000_000
    with pytest.raises(Unopenable) as refused:
        await reading.open({}, parcel)
    assert refused.value.why == "stale_epoch"
    assert DAY_US > HOUR_US


def record(folder: Path, now_us: int = 10**15) -> SeenRecord:
    return SeenRecord(folder, "desk", areas().epochs, now_us)


def test_a_record_drops_old_entries_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_record, "COMPACT_AFTER", 10)
    kept, now_us = record(tmp_path), 10**15
    for number in range(100):
        now_us += HOUR_US
        kept.add(7, SESSION, number, now_us, now_us)
    assert kept._path.stat().st_size <= 36 * 20
    kept.close()
    again = record(tmp_path, now_us)
    assert again.entries[-1] == (7, SESSION, 99, now_us)
    again.close()


def test_a_torn_entry_does_not_shift_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    kept, write = record(tmp_path), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    with pytest.raises(OSError, match="cannot grow"):
        kept.add(7, SESSION, 1, 10**15, 10**15)
    monkeypatch.undo()
    kept.add(7, SESSION, 2, 10**15, 10**15)
    kept.close()
    again = record(tmp_path)
    assert again.entries == [(7, SESSION, 2, 10**15)]
    again.close()


async def test_an_ack_that_cannot_be_recorded_can_be_repeated(realm: Realm, tmp_path: Path) -> None:
    publishing, ring = await realm.publisher(), await ring_of(realm, tmp_path)
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=ring, durable="desk", ack="manual") as subscription:
            await client.publish(LONDON, b"1", seal=Seal(publishing))
            event, settle = await subscription.next(), ring.settle

            def full(publisher: int, session: bytes, number: int, until_us: int) -> None:
                raise OSError("no space left")

            ring.settle = full  # type: ignore[method-assign]
            with pytest.raises(OSError, match="no space"):
                event.ack()
            ring.settle = settle  # type: ignore[method-assign]
            event.ack()
        ring.close()
        with pytest.raises(RingClosed, match="closed"):
            ring.settle(7, SESSION, 1, 0)
    again = record(tmp_path, realm.clock.now_us)
    assert len(again.entries) == 1
    again.close()


# --- replies ----------------------------------------------------------------------------------------------------------


async def test_a_sealed_reply_is_no_request(realm: Realm) -> None:
    """Otherwise a responder whose filter matches its own replies would answer for ever."""
    publishing, asking = await realm.publisher(), await realm.publisher(publisher=8)
    at_server, at_asker = await realm.reader(), await realm.reader()
    heard: list[plait.Event] = []
    async with testing.Network() as net, await net.connect() as server, await net.connect() as client:
        requests = await server.subscribe("area == 3", unseal=at_server)

        async def answer(event: plait.Event) -> None:
            heard.append(event)
            with contextlib.suppress(plait.EventInvalid):
                await event.reply(LONDON, b"answer", seal=Seal(publishing))

        requests.on(answer)
        reply = await client.request(LONDON, b"?", seal=Seal(asking), unseal=at_asker, timeout="20s")
        assert reply.payload == b"answer"
        await server.flush()
        while len(heard) < 2:  # noqa: ASYNC110 - the responder gets its own reply
            await asyncio.sleep(0.01)
        with pytest.raises(plait.EventInvalid, match="expects no reply"):
            await heard[1].reply(LONDON, seal=Seal(publishing))


async def test_forged_replies_do_not_pile_up() -> None:
    class Slow:
        async def open(self, *_: object) -> None:
            await asyncio.sleep(3600)

    class Reply:
        headers = {"request": "n"}  # noqa: RUF012 - as an event has them
        payload, publisher = b"forged", 1

        def items(self) -> tuple[()]:
            return ()

    inbox: Any = ReplyInbox(None)  # type: ignore[arg-type]
    request = inbox._waiting["n"] = _Request(asyncio.get_running_loop().create_future(), Slow())  # type: ignore[arg-type]
    for _ in range(1000):
        inbox._replied(Reply())
    assert len(request.opening) == OPENING_MAX
    for opening in list(request.opening):
        opening.cancel()
    await asyncio.gather(*request.opening, return_exceptions=True)


# --- holes, batches ---------------------------------------------------------------------------------------------------


async def test_what_waits_or_has_expired_is_not_missing(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait.protocol.session_holes.OPEN_S", 0.2)
    publishing, reading = await realm.publisher(), await realm.reader()
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=reading) as inside, client.subscribe(f"has({SEALED})") as wire:
            await client.publish(LONDON, b"first", seal=Seal(publishing))
            mark, bound = (await wire.next())[SEALED], client.publisher.to_bytes(8, "big")
            await inside.next()
            metadata = (Metadata(), Metadata(lifetime_us=1_000_000), Metadata())
            drafts = [Draft(LONDON, b"%d" % at, bound=bound, metadata=each) for at, each in enumerate(metadata)]
            parcels = [(await publishing.seal(draft))[1] for draft in drafts]
            realm.clock.now_us += 8_000_000
            for number in (2, 1, 0):
                await client.publish({SEALED: mark}, parcels[number])
            await client.flush()
            assert (await inside.next()).payload == b"2"
            await asyncio.sleep(0.6)  # the application works; the others wait in the client
            assert gaps(inside) == []
            assert (await inside.next()).payload == b"0"
            await asyncio.sleep(0.6)
            assert gaps(inside) == ["expired"]
    assert told


def test_a_batch_that_fails_leaves_nothing_for_the_next() -> None:
    world = World.of(areas())
    sessions = SessionSealer(world.publisher())
    now: dict[str, Any] = {"now_us": world.now_us, "randomness": world.rng}
    with pytest.raises(SealInvalid):
        sessions.seal([Draft(LONDON, b"0"), Draft(LONDON, b"1"), Draft({"area": 9999, "location": "London"})], **now)
    found = sessions.seal([Draft(PARIS, b"new"), Draft(LONDON, b"newer")], **now)
    ring, opened = world.reader("true"), []
    for member in found:
        ring.begin(member.opening, **now)
        opened.append(ring.open(member.clear, member.envelope, **now).payload)
    assert opened == [b"new", b"newer"]

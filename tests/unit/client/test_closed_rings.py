"""Key rings after `close`: they neither seal nor open, not even in a session that they know, and tell so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sealed_realm import LONDON, PARIS, Realm, realm

import plait
from plait import Seal, testing
from plait_crypto import Draft, RingClosed
from plait_keyserver import PublisherRing, SubscriberRing
from plait_keyserver.client import Term
from plait_keyserver.following import FollowingPublisherRing, FollowingSubscriberRing

assert realm, "a fixture"


class Rings:
    """The two rings of a publisher and a reader, as a membership makes them, and what they consist of."""

    def __init__(self, realm: Realm, publishing: PublisherRing, reading: SubscriberRing) -> None:
        self.term = Term(realm.world.realm)
        self.sealing, self.opening = FollowingPublisherRing(realm.clock), FollowingSubscriberRing(realm.clock)
        self.sealing._rings.append((self.term, publishing))
        self.opening._rings.append((self.term, reading))

    def close(self) -> None:
        self.sealing.close()
        self.opening.close()


@pytest.fixture
async def rings(realm: Realm) -> AsyncIterator[Rings]:
    made = Rings(realm, await realm.publisher(), await realm.reader())
    yield made
    made.close()


async def test_a_closed_ring_seals_and_opens_nothing_in_a_session_that_it_knows(rings: Rings) -> None:
    async with testing.Network() as net, await net.connect() as client:
        async with client.subscribe("true", unseal=rings.opening) as subscription:
            for _ in range(2):
                await client.publish(LONDON, b"before", seal=Seal(rings.sealing))
            assert (await subscription.next()).payload == b"before"
            rings.close()
            with pytest.raises(RingClosed) as refused:
                await client.publish(LONDON, b"after", seal=Seal(rings.sealing))
            assert refused.value.hint
            with pytest.raises(RingClosed):
                await subscription.next(timeout=20)


async def test_a_session_that_was_found_before_the_end_seals_nothing_after_it(rings: Rings) -> None:
    draft = Draft(LONDON)
    session = await rings.sealing.session(draft)
    assert session.seal(draft)
    rings.close()
    with pytest.raises(RingClosed):
        session.seal(draft)


async def test_what_waits_for_a_ring_is_told_that_it_was_closed(rings: Rings) -> None:
    sealed = [await rings.sealing.seal(Draft(event)) for event in (LONDON, PARIS)]
    sealing = [
        asyncio.ensure_future(rings.sealing.seal(Draft({"area": area, "location": "Paris"}))) for area in range(4)
    ]
    opening = [asyncio.ensure_future(rings.opening.open({}, payload)) for _, payload in sealed]
    await asyncio.sleep(0)
    rings.close()
    outcomes: list[Any] = await asyncio.gather(*sealing, *opening, return_exceptions=True)
    assert isinstance(outcomes[3], RingClosed)
    assert isinstance(outcomes[5], RingClosed)
    assert not any(isinstance(each, asyncio.CancelledError) for each in outcomes), "nobody was cancelled"


async def test_a_caller_that_is_cancelled_is_told_so(rings: Rings) -> None:
    sealing = asyncio.ensure_future(rings.sealing.seal(Draft(LONDON)))
    await asyncio.sleep(0)
    sealing.cancel()
    rings.close()
    with pytest.raises(asyncio.CancelledError):
        await sealing


async def test_a_closed_ring_takes_no_keys_and_keeps_no_record(rings: Rings) -> None:
    """A renewal that comes late must not begin a thread, nor open a file, that nobody closes."""
    rings.close()

    def begin() -> Any:
        raise AssertionError("no ring is begun")

    late: Any = None
    for ring in (rings.sealing, rings.opening):
        with pytest.raises(RingClosed):
            await ring.add(rings.term, late, begin)
    with pytest.raises(RingClosed):
        rings.opening.keep_record("desk")


async def test_a_request_whose_reply_cannot_be_opened_any_more_fails(rings: Rings, realm: Realm) -> None:
    answering, at_server = await realm.publisher(publisher=8), await realm.reader()
    async with testing.Network() as net, await net.connect() as asker, await net.connect() as server:
        requests = await server.subscribe("true", unseal=at_server)

        async def answer(request: plait.Event) -> None:
            if "reply-to" in request.headers:
                rings.opening.close()
                await request.reply(LONDON, b"the answer", seal=Seal(answering))

        requests.on(answer)
        with pytest.raises(RingClosed):
            await asker.request(LONDON, b"?", seal=Seal(rings.sealing), unseal=rings.opening, timeout="20s")

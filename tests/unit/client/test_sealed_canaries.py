"""Canaries: nothing that is sealed, and no condition on it, is in any byte between the clients and their broker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import traceback
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from sealed_realm import LONDON, Realm, realm
from sealed_world import EPOCHS, World
from written_bytes import found_in, written

import plait
from plait import Seal, testing
from plait.testing import BytesBroker, installed_broker
from plait_broker import Probe
from plait_broker.overlay.interest.peer_interest import FilterChange
from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.space import IntRange
from plait_core.wire.frame_types.overlay_frames import InterestUpdate
from plait_core.wire.frame_types.session_frames import Subscribe
from plait_crypto import Numbers, OneOf, Schema
from plait_crypto.routing import deposited
from plait_keyserver import SubscriberRing

assert realm, "a fixture"

PRICE, BOUND = 987_654_321_098, 991_234_567_890
SYMBOL, NOTE, HEADER, ANSWER = "canary-symbol", "canary-note", "canary-header", "canary-answer"
PAYLOAD = b"canary-payload"
EVENT = {"price": PRICE, "symbol": SYMBOL, "note": NOTE, "venue": "shown"}
CANARIES = [
    *(text.encode() for text in (SYMBOL, NOTE, HEADER, ANSWER, str(PRICE), str(BOUND))),
    *(msgpack.packb(number) for number in (PRICE, BOUND)),
    PAYLOAD,
]


class Recorded(BytesBroker):
    """A broker whose bytes, in both directions, are kept."""

    def __init__(self, inner: BytesBroker, heard: list[bytes]) -> None:
        self._inner, self._heard = inner, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def receive(self, connection: int, data: bytes, now: float) -> None:
        self._heard.append(data)
        self._inner.receive(connection, data, now)

    def take_output(self, now: float) -> list[tuple[int, bytes | None]]:
        output = self._inner.take_output(now)
        self._heard.extend(data for _, data in output if data is not None)
        return output

    def connected(self, connection: int, now: float) -> None:
        self._inner.connected(connection, now)

    def disconnected(self, connection: int, now: float) -> None:
        self._inner.disconnected(connection, now)

    def tick(self, now: float) -> None:
        self._inner.tick(now)

    @property
    def due_at(self) -> float:
        return self._inner.due_at


@pytest.fixture
def heard() -> list[bytes]:
    return []


def recording(heard: list[bytes]) -> testing.Network:
    make = installed_broker()
    return testing.Network(broker=lambda **given: Recorded(make(**given), heard))


def found(heard: list[bytes]) -> list[bytes]:
    everything = b"".join(heard)
    return [canary for canary in CANARIES if canary in everything]


async def test_nothing_sealed_is_in_a_frame(realm: Realm, heard: list[bytes]) -> None:
    schema = Schema(
        {"price": Numbers(IntRange(0, 2**40 - 1)), "symbol": OneOf.of(SYMBOL, "other")}, EPOCHS, frozenset({"venue"})
    )
    realm.world, realm.chance = World.of(schema), Random(5)
    wanted = f"symbol == '{SYMBOL}' and price < {BOUND}"
    publishing, answering = await realm.publisher(), await realm.publisher(publisher=8)
    reading, at_server, at_asker = await realm.reader(wanted), await realm.reader(), await realm.reader()
    async with recording(heard) as net, await net.connect() as client, await net.connect() as server:
        async with client.subscribe(f"{wanted} and note == '{NOTE}' and venue == 'shown'", unseal=reading) as events:
            await client.publish(EVENT, PAYLOAD, seal=Seal(publishing), headers={"trace": HEADER})
            event = await events.next()
            assert (event["price"], event.payload, event.headers["trace"]) == (PRICE, PAYLOAD, HEADER)
            await events.update(f"{wanted} and note != '{NOTE}'")
        requests = await server.subscribe(f"note == '{NOTE}'", unseal=at_server)

        async def answer(request: plait.Event) -> None:
            await request.reply({"price": 1, "symbol": SYMBOL, "result": ANSWER}, PAYLOAD, seal=Seal(answering))

        requests.on(answer)
        reply = await client.request(EVENT, PAYLOAD, seal=Seal(publishing), unseal=at_asker, timeout="20s")
        assert reply["result"] == ANSWER
        assert found(heard) == []
        assert b"shown" in b"".join(heard), "what the schema declares clear is routed by"


async def test_the_search_finds_what_is_not_sealed(heard: list[bytes]) -> None:
    async with recording(heard) as net, await net.connect() as client:
        async with client.subscribe(f"symbol == '{SYMBOL}' and price < {BOUND} and note != '{ANSWER}'") as events:
            await client.publish(EVENT, PAYLOAD, headers={"trace": HEADER})
            await events.next()
            await asyncio.sleep(0)
    elsewhere = {msgpack.packb(BOUND), str(PRICE).encode()}  # filters are texts, attributes are packed
    assert set(CANARIES) - set(found(heard)) == elsewhere


# --- routing tokens: in frames, and nowhere else ----------------------------------------------------------------------


def tokens_of(ring: SubscriberRing) -> list[bytes]:
    """Return the routing tokens that a ring deposits at brokers."""
    groups = ring.realm.parameters.groups
    rows = (row for keys in deposited(groups, ring.deposit()) for box in keys.boxes for row in box)
    return [groups.g2.encode(token) for row in rows for token in row]


async def test_tokens_are_in_frames_and_in_no_log_or_representation(
    realm: Realm, heard: list[bytes], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    publishing = await realm.publisher()
    reading = SubscriberRing(realm.world.realm, now_us=realm.clock, randomness=realm.chance, folder=tmp_path)
    realm.rings.append(reading)
    await realm.read_in(reading, 0, "area < 16")
    tokens = tokens_of(reading)
    async with recording(heard) as net, await net.connect() as client:
        async with client.subscribe("area < 16", unseal=reading, durable="desk") as events:
            await client.publish(LONDON, seal=Seal(publishing))
            assert (await events.next(timeout=20))["area"] == 3
            assert len(found_in(b"".join(heard), tokens)) == len(tokens), "brokers test tags with them"
            shown = [caplog.text, repr(events), repr(events.stats), repr(client), repr(reading), *represented()]
            assert any("Terms(" in each for each in shown)
            assert any("DurableSubscription(" in each for each in shown)
            for each in shown:
                assert not found_in(each.encode(), tokens), each[:300]


def represented() -> list[str]:
    """Return the representations of all objects of this process whose classes are ours: a traceback may show them."""
    found = []
    for each in gc.get_objects():
        if str(type(each).__module__).partition(".")[0] in ("plait", "plait_broker", "plait_core", "plait_keyserver"):
            with contextlib.suppress(Exception):
                found.append(repr(each))
    return found


def test_frames_and_outputs_with_tokens_do_not_show_them() -> None:
    token = Random(1).randbytes(96)
    shown = [
        Subscribe(1, 1, "true", routing=token),
        InterestUpdate((1,), 2, (3,), (4,), True, (5,), ("true",), (), routing=(token,)),
        FilterChange(1, True, (5,), ("true",), (), 4, routing=(token,)),
        Probe(1, b"opening", token, 8, rest=token),
    ]
    assert not found_in("".join(map(repr, shown)).encode(), [token])


async def test_an_error_about_tokens_does_not_show_them(realm: Realm) -> None:
    reading = await realm.reader()
    token = Random(1).randbytes(DEPOSIT_BYTES_MAX + 1)
    reading.deposit = lambda kind="exact": token  # type: ignore[method-assign]
    async with testing.Network() as net, await net.connect() as client:
        with pytest.raises(Exception, match="routing") as refused:
            await client.subscribe("true", unseal=reading)
        shown = "".join(traceback.format_exception(refused.value))
        assert not found_in((shown + repr(refused.value)).encode(), [token])


def test_the_search_finds_bytes_however_they_are_written() -> None:
    token = Random(1).randbytes(96)
    for text in (token, token.hex().encode(), repr(token).encode(), str(list(token)).encode(), written(token)[-1]):
        assert found_in(b"somewhere " + text + b" in a line", [token]) == [token]
    assert not found_in(Random(2).randbytes(4096), [token])

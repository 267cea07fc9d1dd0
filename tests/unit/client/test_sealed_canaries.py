"""Canaries: nothing that is sealed, and no condition on it, is in any byte between the clients and their broker."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgpack
import pytest
from sealed_realm import Realm, realm
from sealed_world import EPOCHS, World

import plait
from plait import Seal, testing
from plait.testing import BytesBroker, installed_broker
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf, Schema

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

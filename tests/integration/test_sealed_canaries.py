"""Nothing that is sealed, and no condition on it, is in a broker: its memory, logs, files, metrics, pages, argv.

Brokers have routing tokens in their memory, and show them nowhere: who has a token can test events for its credential.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.parse
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import msgpack
from key_servers import enrolled, key_server, realm_directory
from processes import BrokerProcess, broker_process, memory_holds, port_to_keep
from written_bytes import found_in, written

import plait
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf
from plait_crypto.routing import deposited
from plait_keyserver import Membership
from plait_keyserver.following import FollowingSubscriberRing

PRICE, BOUND = 987_654_321_098, 991_234_567_890
SYMBOL, NOTE, HEADER = "canary-symbol-in-brokers", "canary-note-in-brokers", "canary-header-in-brokers"
PAYLOAD = b"canary-payload-in-brokers"
CANARIES = [
    *(text.encode() for text in (SYMBOL, NOTE, HEADER, str(PRICE), str(BOUND))),
    *(msgpack.packb(number) for number in (PRICE, BOUND)),
    PAYLOAD,
]
TREES = {"price": Numbers(IntRange(0, 2**40 - 1)), "symbol": OneOf.of(SYMBOL, "other")}
WANTED = f"symbol == '{SYMBOL}' and price < {BOUND}"
POLICY = f"""
[holders.exchange]
publish = ["true"]
[holders.desk]
subscribe = ["{WANTED}"]
"""
EVENTS = 30


def tokens_of(ring: FollowingSubscriberRing) -> list[bytes]:
    """Return the routing tokens that a ring deposits at brokers."""
    groups = ring.realm.parameters.groups
    rows = (row for keys in deposited(groups, ring.deposit()) for box in keys.boxes for row in box)
    return [groups.g2.encode(token) for row in rows for token in row]


def shown(broker: BrokerProcess, event: str) -> bytes:
    """Return what a broker's HTTP side and its command line show: all pages, and what they tell about an event."""
    everywhere = urllib.parse.urlencode({"filter": "true", "event": event, "subscription": "1"})
    with urllib.request.urlopen(f"http://{broker.http}/api/v1") as answer:
        pages = ["/", *(path for path in json.load(answer)["paths"] if "{" not in path)]
    found = [Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()]
    for page in pages:
        try:
            with urllib.request.urlopen(f"http://{broker.http}{page}?{everywhere}", timeout=20) as answer:
                streamed = answer.headers["content-type"].startswith("text/event-stream")
                found.append(b"".join(answer.readline() for _ in range(4)) if streamed else answer.read())
        except urllib.error.HTTPError as error:
            found.append(error.read())
            assert error.code in (404, 405), page
    assert sum(map(bool, found)) >= len(pages)
    return b"".join(found)


async def test_brokers_hold_and_show_nothing_that_is_sealed(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        chance = random.SystemRandom()
        ports = [port_to_keep(chance) for _ in range(2)]
        brokers = []
        for own, other in (ports, ports[::-1]):
            arguments = ("--name", f"b{own}", "--listen", f"127.0.0.1:{own}", "--http", "127.0.0.1:0")
            kept = (
                "--data",
                str(tmp_path / f"kept-data-{own}"),
                "--telemetry",
                str(tmp_path / f"kept-telemetry-{own}"),
            )
            process = broker_process(*arguments, *kept, "--log-level", "debug", "--link", f"127.0.0.1:{other}")
            brokers.append(await running.enter_async_context(process))
        await asyncio.gather(*(broker.ready() for broker in brokers))
        directory = realm_directory(tmp_path / "realm", TREES, POLICY)
        port = await running.enter_async_context(key_server(directory))
        exchange, desk = [
            await running.enter_async_context(
                await Membership.join(await enrolled(directory, holder, port), folder=tmp_path / holder)
            )
            for holder in ("exchange", "desk")
        ]
        sealing, opening = await exchange.publisher("true"), await desk.subscriber(WANTED)
        tokens = tokens_of(opening)
        async with (
            plait.connect(f"plait://127.0.0.1:{ports[0]}") as publisher,
            plait.connect(f"plait://127.0.0.1:{ports[1]}") as reader,
            reader.subscribe(f"{WANTED} and note == '{NOTE}'", unseal=opening, durable="desk") as events,
        ):
            async with asyncio.timeout(60):
                for number in range(EVENTS):
                    event = {"price": PRICE, "symbol": SYMBOL, "note": NOTE, "n": number}
                    seal = plait.Seal(sealing)
                    options = {"headers": {"trace": HEADER}, "confirm": "broker"}
                    receipt = await publisher.publish(event, PAYLOAD, seal=seal, **options)  # type: ignore[arg-type]
                    assert (await events.next()).payload == PAYLOAD
            for broker in brokers:
                told = await asyncio.to_thread(shown, broker, str(receipt.id))
                assert not [canary for canary in CANARIES if canary in told]
                assert not found_in(told, tokens)
                assert str(receipt.id).encode() in told, "the pages have what they may show"
                raw = written(tokens[0])[0]
                assert await asyncio.to_thread(memory_holds, broker.process.pid, raw), "it tests tags with them"
                for canary in CANARIES:
                    assert not await asyncio.to_thread(memory_holds, broker.process.pid, canary), canary
        for broker in brokers:
            broker.process.terminate()
        for broker in brokers:
            _, out, err = await broker.ended()
            assert not [canary for canary in CANARIES if canary in (out + err).encode()]
            assert not found_in((out + err).encode(), tokens)
        recorded = [path for path in tmp_path.glob("kept-*/**/*") if path.is_file()]
        assert {path.relative_to(tmp_path).parts[0].rpartition("-")[0] for path in recorded} == {
            "kept-data",
            "kept-telemetry",
        }
        for path in recorded:
            assert not [canary for canary in CANARIES if canary in path.read_bytes()], path
            assert not found_in(path.read_bytes(), tokens), path

"""Nothing that is sealed, and no condition on it, is in a broker: its memory, logs, telemetry, metrics, pages, argv."""

from __future__ import annotations

import asyncio
import random
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import msgpack
from key_servers import enrolled, key_server, realm_directory
from processes import BrokerProcess, broker_process, memory_holds, port_to_keep

import plait
from plait_core.space import IntRange
from plait_crypto import Numbers, OneOf
from plait_keyserver import Membership

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


def shown(broker: BrokerProcess) -> bytes:
    """Return what a broker's HTTP side and its command line show."""
    pages = ("/metrics", "/api/v1/overview", "/api/v1/broker", "/api/v1/subscriptions", "/")
    found = [Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()]
    for page in pages:
        try:
            with urllib.request.urlopen(f"http://{broker.http}{page}") as answer:
                found.append(answer.read())
        except urllib.error.HTTPError as error:
            assert error.code == 404, page
    assert sum(map(bool, found)) >= 4
    return b"".join(found)


async def test_brokers_hold_and_show_nothing_that_is_sealed(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        chance = random.SystemRandom()
        ports = [port_to_keep(chance) for _ in range(2)]
        brokers = []
        for own, other in (ports, ports[::-1]):
            arguments = ("--name", f"b{own}", "--listen", f"127.0.0.1:{own}", "--http", "127.0.0.1:0")
            telemetry = ("--log-level", "debug", "--telemetry", str(tmp_path / f"telemetry-{own}"))
            process = broker_process(*arguments, *telemetry, "--link", f"127.0.0.1:{other}")
            brokers.append(await running.enter_async_context(process))
        await asyncio.gather(*(broker.ready() for broker in brokers))
        directory = realm_directory(tmp_path / "realm", TREES, POLICY)
        port = await running.enter_async_context(key_server(directory))
        exchange, desk = [
            await running.enter_async_context(await Membership.join(await enrolled(directory, holder, port)))
            for holder in ("exchange", "desk")
        ]
        sealing, opening = await exchange.publisher("true"), await desk.subscriber(WANTED)
        async with (
            plait.connect(f"plait://127.0.0.1:{ports[0]}") as publisher,
            plait.connect(f"plait://127.0.0.1:{ports[1]}") as reader,
            reader.subscribe(f"{WANTED} and note == '{NOTE}'", unseal=opening) as events,
        ):
            async with asyncio.timeout(60):
                for number in range(EVENTS):
                    event = {"price": PRICE, "symbol": SYMBOL, "note": NOTE, "n": number}
                    seal = plait.Seal(sealing)
                    await publisher.publish(event, PAYLOAD, seal=seal, headers={"trace": HEADER}, confirm="broker")
                    assert (await events.next()).payload == PAYLOAD
            for broker in brokers:
                told = await asyncio.to_thread(shown, broker)
                assert not [canary for canary in CANARIES if canary in told]
                for canary in CANARIES:
                    assert not await asyncio.to_thread(memory_holds, broker.process.pid, canary), canary
        for broker in brokers:
            broker.process.terminate()
        for broker in brokers:
            _, out, err = await broker.ended()
            assert not [canary for canary in CANARIES if canary in (out + err).encode()]
        recorded = [path for path in tmp_path.glob("telemetry-*/**/*") if path.is_file()]
        assert recorded
        for path in recorded:
            assert not [canary for canary in CANARIES if canary in path.read_bytes()], path

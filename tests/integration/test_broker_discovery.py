"""Discovery between broker processes: by a seed, by multicast, with a secret or TLS."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from processes import BrokerProcess, broker_process, port_to_keep

import plait
from plait_broker.overlay.discovery.announcements import DATAGRAM_BYTES_MAX, Announcements, Found
from plait_broker.server.config.configuration import Configuration, ConfigurationError, parse_configuration
from plait_broker.server.server import BrokerServer
from plait_net.multicast_socket import MulticastSocket

PATIENCE_S = 30.0
SECRET = "open-sesame-42"
GROUP = "239.255.46.80"


async def until(true: Callable[[], bool]) -> None:
    """Poll until a condition is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(true):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def topology(broker: BrokerProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{broker.http}/api/v1/topology") as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def reached(broker: BrokerProcess) -> set[str]:
    """Return the names of the brokers that a broker reaches."""
    return {other["name"] for other in topology(broker)["brokers"] if other["reachable"]}


class Several:
    """Several broker processes."""

    def __init__(self, running: AsyncExitStack, group_port: int) -> None:
        self._running = running
        self._environment = {"PLAIT_BROKER__OVERLAY__GROUP": f"{GROUP}:{group_port}"}
        self.ports = random.SystemRandom()  # tests run side by side, and ports are taken

    async def start(self, name: str, *options: str, secret: str = SECRET) -> BrokerProcess:
        environment = {**self._environment, "PLAIT_BROKER__OVERLAY__SECRET": secret}
        started = await self._running.enter_async_context(
            broker_process(
                "--name", name, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options, environment=environment
            )
        )  # fmt: skip
        await started.ready()
        return started


@asynccontextmanager
async def several() -> AsyncIterator[Several]:
    async with AsyncExitStack() as running:
        yield Several(running, port_to_keep(random.SystemRandom()))


async def stopped(broker: BrokerProcess) -> str:
    """Stop a broker and return its log."""
    broker.signal(signal.SIGTERM)
    _, _, said = await broker.ended()
    return said


async def test_three_by_a_seed_and_one_by_multicast_are_one_overlay_and_route() -> None:
    async with several() as brokers, AsyncExitStack() as clients:
        seed = await brokers.start("seed", "--discover")
        others = [await brokers.start(name, "--seed", seed.listen) for name in ("one", "two")]
        found = await brokers.start("found", "--discover")
        all_four = [seed, *others, found]
        names = {"seed", "one", "two", "found"}
        await until(lambda: all(reached(broker) == names for broker in all_four))
        addresses = {other["name"]: other["address"] for other in topology(found)["brokers"]}
        assert addresses == {broker.name: broker.listen for broker in all_four}

        hearing = await clients.enter_async_context(plait.connect(f"plait://{found.listen}"))
        saying = await clients.enter_async_context(plait.connect(f"plait://{others[0].listen}"))
        subscription = await hearing.subscribe("price < 120")
        await saying.publish({"price": 99}, confirm="broker")
        event = await subscription.next(PATIENCE_S)
        assert dict(event) == {"price": 99}
        assert event.path[0] == "one"
        assert event.path[-1] == "found"

        await seed.kill()
        await until(lambda: all(reached(broker) >= names - {"seed"} for broker in (*others, found)))
        await saying.publish({"price": 98}, confirm="broker")
        assert dict(await subscription.next(PATIENCE_S)) == {"price": 98}


async def test_plait_topo_shows_them() -> None:
    async with several() as brokers:
        seed = await brokers.start("seed")
        one = await brokers.start("one", "--seed", seed.listen)
        await until(lambda: reached(one) == reached(seed) == {"seed", "one"})
        shown = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "plait", "topo", "--http", seed.http, "--json", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await shown.communicate()
        items = [json.loads(line) for line in out.splitlines()]
        assert {item["name"] for item in items if "name" in item} == {"seed", "one"}


async def test_one_with_another_secret_is_refused_named_in_both_logs_and_harms_nobody() -> None:
    async with several() as brokers, AsyncExitStack() as clients:
        seed = await brokers.start("seed")
        one = await brokers.start("one", "--seed", seed.listen)
        await until(lambda: reached(one) == reached(seed) == {"seed", "one"})
        intruder = await brokers.start("intruder", "--seed", seed.listen, secret="something-else")

        def refused() -> bool:
            with urllib.request.urlopen(f"http://{seed.http}/api/v1/broker") as answer:
                return bool(json.load(answer)["counters"]["rejected"].get("auth", 0) >= 2)

        await until(refused)
        assert reached(intruder) == {"intruder"}
        assert reached(seed) == reached(one) == {"seed", "one"}
        hearing = await clients.enter_async_context(plait.connect(f"plait://{one.listen}"))
        saying = await clients.enter_async_context(plait.connect(f"plait://{seed.listen}"))
        subscription = await hearing.subscribe("true")
        await saying.publish({"n": 1}, confirm="broker")
        assert dict(await subscription.next(PATIENCE_S)) == {"n": 1}
        theirs, ours = await stopped(intruder), await stopped(seed)
        assert "broker intruder from 127.0.0.1" in ours
        assert "the proof of the overlay secret is wrong" in ours
        assert f"broker seed at {seed.listen}: it says: the proof of the overlay secret is wrong" in theirs
        assert SECRET not in ours + theirs


async def test_a_broker_that_is_its_own_seed_stops_dialling_itself() -> None:
    async with several() as brokers:
        port = port_to_keep(brokers.ports)
        alone = await brokers.start("alone", "--listen", f"127.0.0.1:{port}", "--seed", f"127.0.0.1:{port}")
        async with plait.connect(f"plait://{alone.listen}") as client:
            await client.publish({"n": 1}, confirm="broker")
        said = await stopped(alone)
        assert said.count("this is the same broker") <= 2, said


# --- multicast --------------------------------------------------------------------------------------------------------


class Segment:
    """Two announcers in this process, with real sockets."""

    def __init__(self, port: int, interface: str = "127.0.0.1") -> None:
        self.found: tuple[list[Found], list[Found]] = ([], [])
        self.changed = asyncio.Event()
        self.sockets = [self._socket(number, port, interface) for number in range(2)]

    def _socket(self, number: int, port: int, interface: str) -> MulticastSocket:
        rng = random.Random(number)
        announcements = Announcements("plait", SECRET, number + 1, f"b{number}", "", 4000 + number, rng, 0.0)

        def receive(datagram: bytes, host: str, now: float) -> None:
            found = announcements.receive(datagram, host, now)
            if found is not None:
                self.found[number].append(found)
                self.changed.set()

        return MulticastSocket(
            announcements,
            receive,
            group=(GROUP, port),
            interface=interface,
            bytes_max=DATAGRAM_BYTES_MAX,
            missing="brokers are not discovered",
        )


async def test_two_on_one_machine_receive_each_other_and_not_themselves() -> None:
    segment = Segment(port_to_keep(random.SystemRandom()))
    for each in segment.sockets:
        each.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not all(segment.found):
                segment.changed.clear()
                await segment.changed.wait()
    finally:
        for each in segment.sockets:
            each.close()
    assert {found.broker for found in segment.found[0]} == {2}
    assert {found.address for found in segment.found[1]} == {"127.0.0.1:4000"}


async def test_without_multicast_a_broker_warns_once_and_serves() -> None:
    async with several() as brokers:
        environment = {"PLAIT_BROKER__OVERLAY__INTERFACE": "192.0.2.1"}  # of no machine
        brokers._environment |= environment
        alone = await brokers.start("alone", "--discover")
        async with plait.connect(f"plait://{alone.listen}") as client:
            await client.publish({"n": 1}, confirm="broker")
        said = await stopped(alone)
        assert said.count("does not work") == 1
        assert "on 192.0.2.1 does not work: " in said


async def test_garbage_in_the_group_harms_nobody() -> None:
    segment = Segment(port := port_to_keep(random.SystemRandom()))
    rng = random.Random(3)
    segment.sockets[0].start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        noise.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for _ in range(300):
            noise.sendto(rng.randbytes(rng.randrange(1, 1400)), (GROUP, port))
    segment.sockets[1].start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not segment.found[0]:
                segment.changed.clear()
                await segment.changed.wait()
    finally:
        for each in segment.sockets:
            each.close()
    assert [found.broker for found in segment.found[0]] == [2]


# --- TLS --------------------------------------------------------------------------------------------------------------


def over_tls(name: str, home: Path, authority: Authority, port: int, seeds: str = "") -> Configuration:
    certificate, key = authority.sign(name, hosts=("nowhere.example",))
    document = f"""
        name = "{name}"
        listen = "127.0.0.1:0"
        http = "off"
        [overlay]
        {f'seeds = ["{seeds}"]' if seeds else ""}
        [overlay.tls]
        listen = "127.0.0.1:{port}"
        certificate = "{certificate}"
        key = "{key}"
        ca = "{authority.file}"
    """
    return parse_configuration(document.encode(), home / "plait.toml")


def linked(server: BrokerServer) -> set[str]:
    assert server.broker is not None
    return {neighbour.name for neighbour in server.broker.overlay.neighbours.values()}


async def turns_into(server: BrokerServer, names: set[str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while linked(server) != names:  # noqa: ASYNC110 - nothing to await
            await asyncio.sleep(0.02)


async def test_links_over_tls_are_for_whom_the_overlays_authority_vouches(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    port = port_to_keep(random.SystemRandom())
    async with AsyncExitStack() as running:
        north = await running.enter_async_context(BrokerServer(over_tls("north", tmp_path, ours, port)))
        where = f"127.0.0.1:{port}"
        south = await running.enter_async_context(BrokerServer(over_tls("south", tmp_path, ours, 0, where)))
        await turns_into(north, {"south"})
        assert linked(south) == {"north"}
        assert north.broker is not None
        assert north.broker.overlay.address == where
        intruder = await running.enter_async_context(BrokerServer(over_tls("intruder", tmp_path, others, 0, where)))
        plain = f'listen = "127.0.0.1:0"\nhttp = "off"\n[overlay]\nlinks = ["127.0.0.1:{north.port}"]'
        await running.enter_async_context(BrokerServer(parse_configuration(plain.encode())))
        rejected = north.broker.counters.rejected
        async with asyncio.timeout(PATIENCE_S):
            while not (rejected["tls"] and rejected["auth"]):  # noqa: ASYNC110 - nothing to await
                await asyncio.sleep(0.02)
        assert linked(intruder) == set()
        assert linked(north) == {"south"}


@pytest.mark.parametrize("missing", ["listen", "certificate", "key", "ca"])
def test_links_over_tls_need_all_of_it(tmp_path: Path, missing: str) -> None:
    authority = Authority(tmp_path / "ours")
    certificate, key = authority.sign("north")
    given = {"listen": "127.0.0.1:4690", "certificate": certificate, "key": key, "ca": authority.file}
    lines = "\n".join(f'{name} = "{value}"' for name, value in given.items() if name != missing)
    with pytest.raises(ConfigurationError, match=f"overlay.tls.{missing}"):
        parse_configuration(f"[overlay.tls]\n{lines}".encode(), tmp_path / "plait.toml")

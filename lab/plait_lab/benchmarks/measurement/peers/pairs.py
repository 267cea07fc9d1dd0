"""Two processes without a broker, one publishing and one subscribing: Plait's peers, Zenoh's, and pyzmq's sockets.

As a program it is one of the two: `python -m plait_lab.benchmarks.measurement.peers.pairs KEY publish | subscribe
ADDRESS COUNT RATE`. The publisher prints `at ADDRESS`. The subscriber prints `open`, and at the end its results as
JSON. Events have 128 bytes and begin with their scheduled time. Every contender passes bytes to a Python callback or
iterator; none may lose any.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from unittest.mock import patch

import numpy as np

from ....competitors.paced_publishing import IdleTimer, sleep_until
from ....failures import NothingMeasured, TrialFailed

EVENT_BYTES: Final = 128
HOST: Final = "127.0.0.1"
QUIET_S: Final = 15.0
"""Seconds without an event after which the rest is taken as lost."""
END_S: Final = 20.0
"""Timeout for a process to end after its last event."""
BATCH: Final = 64
"""Events between two turns of the event loop."""


@dataclass(frozen=True, slots=True)
class PairResult:
    """The subscriber's results."""

    count: int
    lost: int
    events_per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float
    """Processor time of the subscriber for an event, which other load hardly changes."""


class Tally:
    """The events received so far."""

    def __init__(self, count: int) -> None:
        self.delays_ns: list[int] = []
        self.full = False
        self.changed_at = time.monotonic()
        self._count = count
        self._first_ns = self._last_ns = 0
        self._cpu_s = 0.0

    def take(self, data: bytes) -> None:
        """Record an event."""
        now = time.monotonic_ns()
        if not self._first_ns:
            self._first_ns, self._cpu_s = now, time.process_time()
        self._last_ns = now
        self.delays_ns.append(now - int.from_bytes(data[:8], "little"))
        if len(self.delays_ns) >= self._count:
            self.full = True

    def result(self) -> PairResult:
        count = len(self.delays_ns)
        took_s = max(1, self._last_ns - self._first_ns) / 1e9
        p50, p99 = np.percentile(self.delays_ns, (50, 99)) / 1000 if count else (float("nan"),) * 2
        cpu_us = (time.process_time() - self._cpu_s) / max(1, count) * 1e6
        return PairResult(count, self._count - count, count / took_s, float(p50), float(p99), cpu_us)


def scheduled(count: int, rate: float) -> Iterator[tuple[int, bytes]]:
    """Yield the events with the times at which they are due; without a rate, that is now."""
    rest = random.Random(count).randbytes(EVENT_BYTES - 8)
    begin = time.monotonic_ns()
    for number in range(count):
        at = begin + int(number * 1e9 / rate) if rate else time.monotonic_ns()
        yield at, at.to_bytes(8, "little") + rest


def due(count: int, rate: float) -> Iterator[bytes]:
    """Yield the events when they are due; without a rate at once."""
    for at, data in scheduled(count, rate):
        if rate:
            sleep_until(at)
        yield data


class Pair(Protocol):
    """One contender."""

    title: str

    def publish(self, count: int, rate: float) -> None: ...
    def subscribe(self, address: str, tally: Tally) -> None: ...


class PlaitPeers:
    title = "plait.peer"

    def publish(self, count: int, rate: float) -> None:
        _run(self._publish(count, rate))

    async def _publish(self, count: int, rate: float) -> None:
        import plait

        async with plait.peer() as client, client.advertise("true"):
            print("at", client.address, flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            with IdleTimer() as timer:
                for number, (at, data) in enumerate(scheduled(count, rate)):
                    if rate:
                        await timer.idle_until(at)
                    await client.publish({"kind": 1}, data)
                    if not rate and number % BATCH == 0:
                        await asyncio.sleep(0)
            await client.flush(QUIET_S)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    def subscribe(self, address: str, tally: Tally) -> None:
        _run(self._subscribe(address, tally))

    async def _subscribe(self, address: str, tally: Tally) -> None:
        import plait

        buffer = plait.Buffer(items=1 << 20, bytes=1 << 30)
        async with plait.peer(address) as client, client.subscribe("true", buffer=buffer) as events:
            print("open", flush=True)
            watching = asyncio.create_task(asyncio.to_thread(_until_full, tally))
            watching.add_done_callback(lambda _: asyncio.ensure_future(events.close()))
            take = tally.take
            async for event in events:
                take(event.payload)
                if tally.full:
                    break
            await watching


class PlainPeers(PlaitPeers):
    """Plait's peers with links that do not encrypt. No configuration of users makes such links."""

    title = "plait.peer, plain links"

    def publish(self, count: int, rate: float) -> None:
        with self._plain_links():
            super().publish(count, rate)

    def subscribe(self, address: str, tally: Tally) -> None:
        with self._plain_links():
            super().subscribe(address, tally)

    @staticmethod
    @contextmanager
    def _plain_links() -> Iterator[None]:
        from plait_peer.server import PeerServer

        from ....simulation.peers.links import new_plain_cipher

        with patch("plait_peer.sdk_entry.PeerServer", partial(PeerServer, new_cipher=new_plain_cipher)):
            yield


class ZenohPeers:
    title = "Zenoh, peer to peer"

    def publish(self, count: int, rate: float) -> None:
        zenoh = importlib.import_module("zenoh")
        address = f"{HOST}:{_free_port()}"
        with self._session({"listen/endpoints": [f"tcp/{address}"]}) as session:
            publisher = session.declare_publisher("events", congestion_control=zenoh.CongestionControl.BLOCK)
            print("at", address, flush=True)
            sys.stdin.readline()
            for data in due(count, rate):
                publisher.put(data)
            sys.stdin.readline()

    def subscribe(self, address: str, tally: Tally) -> None:
        listening = {"connect/endpoints": [f"tcp/{address}"], "listen/endpoints": []}
        with self._session(listening) as session:
            session.declare_subscriber("events", lambda sample: tally.take(sample.payload.to_bytes()))
            time.sleep(0.5)  # the subscription is not acknowledged
            print("open", flush=True)
            _until_full(tally)

    @staticmethod
    def _session(settings: dict[str, list[str]]) -> Any:
        zenoh = importlib.import_module("zenoh")
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        for key, value in settings.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)


class ZeroMqSockets:
    title = "pyzmq PUB/SUB"

    def publish(self, count: int, rate: float) -> None:
        socket = self._socket("XPUB")
        port = socket.bind_to_random_port(f"tcp://{HOST}")
        print("at", f"{HOST}:{port}", flush=True)
        socket.recv()  # the subscription
        sys.stdin.readline()
        for data in due(count, rate):
            socket.send(data)
        sys.stdin.readline()
        socket.close(linger=0)

    def subscribe(self, address: str, tally: Tally) -> None:
        socket = self._socket("SUB")
        socket.connect(f"tcp://{address}")
        socket.subscribe(b"")
        time.sleep(0.2)  # the subscription is not acknowledged
        print("open", flush=True)
        socket.rcvtimeo = int(QUIET_S * 1000)
        while not tally.full:
            tally.take(socket.recv())

    @staticmethod
    def _socket(kind: str) -> Any:
        zmq = importlib.import_module("zmq")
        made = zmq.Context.instance().socket(getattr(zmq, kind))
        made.set_hwm(0)
        return made


PAIRS: Final[dict[str, Callable[[], Pair]]] = {
    "plait": PlaitPeers,
    "plain": PlainPeers,
    "zenoh": ZenohPeers,
    "zeromq": ZeroMqSockets,
}


def _run(work: Any) -> None:
    importlib.import_module("uvloop").run(work)


def _until_full(tally: Tally) -> None:
    before, since = -1, time.monotonic()
    while not tally.full:
        time.sleep(0.05)
        if len(tally.delays_ns) != before:
            before, since = len(tally.delays_ns), time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            return


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
        return port


def measured_pair(key: str, count: int, rate: float = 0.0) -> PairResult:
    """Run one pair. Raise TrialFailed if an event is lost."""
    with _child(key, "publish", str(count), str(rate)) as publishing:
        address = _line(publishing).split()[1]
        with _child(key, "subscribe", address, str(count), str(rate)) as subscribing:
            assert _line(subscribing) == "open"
            _go(publishing)
            result = PairResult(**json.loads(_line(subscribing)))
        _go(publishing)
    if not result.count:
        raise NothingMeasured(f"nothing was measured: 0 of {count:,} events arrived")
    if result.lost:
        raise TrialFailed(f"{result.lost:,} of {count:,} events were lost")
    return result


@contextmanager
def _child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", __spec__.name, *arguments]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        try:
            yield child
            child.wait(END_S)
        except subprocess.TimeoutExpired as error:
            raise TrialFailed(f"{' '.join(arguments[:2])} did not end within {END_S:g} s") from error
        finally:
            child.kill()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    if not line:
        raise NothingMeasured(f"{' '.join(map(str, child.args[3:]))} ended before its time")  # type: ignore[index]
    return line


def _go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def main(arguments: list[str]) -> None:
    """Run the publisher or the subscriber."""
    key, role, *rest = arguments
    pair = PAIRS[key]()
    if role == "publish":
        pair.publish(int(rest[0]), float(rest[1]))
        return
    tally = Tally(int(rest[1]))
    pair.subscribe(rest[0], tally)
    result = tally.result()
    print(json.dumps({name: getattr(result, name) for name in PairResult.__slots__}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

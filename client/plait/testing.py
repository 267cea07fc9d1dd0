"""For your tests: a broker in the process, in memory, on virtual time. It runs the same protocol objects as in
production.

    async def test_quotes() -> None:
        async with plait.testing.Network() as network:
            client = await network.connect()
            async with client.subscribe("price < 120") as quotes:
                await client.publish({"price": 99})
                await asyncio.sleep(3600)               # takes no time at all
                assert (await quotes.next())["price"] == 99

    plait.testing.run(test_quotes())

`run` gives a coroutine an event loop whose clock jumps to the next timer. Without `run`, as under pytest-asyncio, the
network works in real time. `network.cut()` breaks all connections. `network.restart()` replaces the broker by a new
one without state. The broker comes from the distribution `plait-broker`, by its entry point `broker` in the group
`plait.testing`.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias, TypeVar, Unpack

from .client import Client, connect
from .errors import NotAvailable
from .options.addresses import Address
from .options.keyword_options import ConnectOptions, documented

T = TypeVar("T")

GROUP: Final = "plait.testing"
_WALL_US: Final = 1_700_000_000_000_000
_STUCK_S: Final = 1.0
"""Real seconds without a timer or I/O after which `run` reports a test as stuck."""


class BytesBroker(Protocol):
    """A broker that consumes bytes and time only, as the entry point makes it. Its log is in memory."""

    def connected(self, connection: int, now: float) -> None: ...
    def receive(self, connection: int, data: bytes, now: float) -> None: ...
    def disconnected(self, connection: int, now: float) -> None: ...
    def tick(self, now: float) -> None: ...
    @property
    def due_at(self) -> float:
        """When `tick` is to be called. It is valid after `take_output`."""
        ...

    def take_output(self, now: float) -> list[tuple[int, bytes | None]]:
        """Return bytes to write, by connection and in order. None closes a connection."""
        ...


MakeBroker: TypeAlias = Callable[..., BytesBroker]
"""Called with `name`, `randomness`, `now` and `wall_us`."""


def installed_broker() -> MakeBroker:
    """Return the broker of the installed distributions. Raise NotAvailable when there is none."""
    for entry in entry_points(group=GROUP, name="broker"):
        make: MakeBroker = entry.load()
        return make
    raise NotAvailable("no in-process broker is installed", hint="pip install plait-broker")


class Pipe(asyncio.Transport):
    """One end of a connection in memory. Bytes written here arrive at the other end after the network's delay."""

    def __init__(self, network: Network, deliver: Callable[[bytes], None], end: Callable[[], None]) -> None:
        super().__init__()
        self._network = network
        self._deliver = deliver
        self._end = end
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closed:
            self._network.later(self._deliver, bytes(data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._network.later(self._end)

    abort = close

    def is_closing(self) -> bool:
        return self._closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: a connection in memory needs no flow control."""

    def resume_reading(self) -> None:
        pass


class Network:
    """One broker and its clients. `delay_s` delays all bytes; `seed` determines all randomness."""

    def __init__(self, *, delay_s: float = 0.001, seed: int = 0, broker: MakeBroker | None = None) -> None:
        self._make = broker if broker is not None else installed_broker()
        self._delay_s = delay_s
        self._random = random.Random(seed)  # noqa: S311 - tests are reproducible
        self._clients: list[Client] = []
        self._protocols: dict[int, asyncio.Protocol] = {}
        self._last_connection = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: BytesBroker | None = None

    async def __aenter__(self) -> Network:
        self._loop = asyncio.get_running_loop()
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.close()
        self.cut()
        if self._timer is not None:
            self._timer.cancel()

    @documented(ConnectOptions)
    async def connect(self, **options: Unpack[ConnectOptions]) -> Client:
        """Return a client of the broker. The network closes it."""
        client = await connect("plait://testing", dial=self._dial, randomness=self._random, **options)
        self._clients.append(client)
        return client

    @property
    def broker(self) -> BytesBroker:
        """The running broker."""
        assert self._broker is not None, "the network is used inside its `async with` block"
        return self._broker

    def cut(self) -> None:
        """Break all connections. Bytes in flight are lost."""
        for connection in list(self._protocols):
            self._lose(connection)
            self.broker.disconnected(connection, self._now())
        self._pump()

    def restart(self) -> None:
        """Replace the broker by a new one without state."""
        self.cut()
        self._start()

    def later(self, work: Callable[..., None], *arguments: object) -> None:
        """Call a function after the network's delay."""
        self._running().call_later(self._delay_s, work, *arguments)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the network is used inside its `async with` block"
        return self._loop

    def _now(self) -> float:
        return self._running().time()

    def _start(self) -> None:
        now = self._now()
        wall_us = _WALL_US + round(now * 1_000_000)
        self._broker = self._make(name="testing", randomness=self._random, now=now, wall_us=wall_us)
        self._pump()

    async def _dial(self, address: Address, make: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        await asyncio.sleep(self._delay_s)
        self._last_connection += 1
        connection, protocol = self._last_connection, make()
        pipe = Pipe(
            self, lambda data: self._receive_at_broker(connection, data), lambda: self._closed_by_client(connection)
        )
        self._protocols[connection] = protocol
        self.broker.connected(connection, self._now())
        protocol.connection_made(pipe)
        return pipe

    def _receive_at_broker(self, connection: int, data: bytes) -> None:
        if connection in self._protocols:
            self.broker.receive(connection, data, self._now())
            self._pump()

    def _closed_by_client(self, connection: int) -> None:
        if connection in self._protocols:
            self._lose(connection)
            self.broker.disconnected(connection, self._now())
            self._pump()

    def _lose(self, connection: int) -> None:
        self._protocols.pop(connection).connection_lost(None)

    def _pump(self) -> None:
        for connection, data in self.broker.take_output(self._now()):
            if data is not None:
                self.later(self._deliver, connection, data)
            else:
                self.later(self._closed_by_broker, connection)
        self._arm()

    def _deliver(self, connection: int, data: bytes) -> None:
        protocol = self._protocols.get(connection)
        if protocol is not None:
            protocol.data_received(data)

    def _closed_by_broker(self, connection: int) -> None:
        self._closed_by_client(connection)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._running().call_at(self.broker.due_at, self._tick)

    def _tick(self) -> None:
        self.broker.tick(self._now())
        self._pump()


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the virtual clock where an event loop would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self.now += timeout
            return ready
        ready = super().select(_STUCK_S)
        if not ready:
            raise RuntimeError("no timer is set and nothing is ready: the test is stuck")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time: its clock advances only while nothing is ready to run."""

    def __init__(self) -> None:
        self._virtual_selector = _JumpingSelector()
        super().__init__(self._virtual_selector)

    def time(self) -> float:
        return self._virtual_selector.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time. Sleeping takes no time, and each run is the same."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


__all__ = ["BytesBroker", "MakeBroker", "Network", "Pipe", "VirtualLoop", "installed_broker", "run"]

"""For your tests: a broker in the process, in memory, on virtual time. The same protocol objects as in production.

    async def test_quotes() -> None:
        async with plait.testing.Network() as network:
            client = await network.connect()
            async with client.subscribe("price < 120") as quotes:
                await client.publish({"price": 99})
                await asyncio.sleep(3600)               # takes no time at all
                assert (await quotes.next())["price"] == 99

    plait.testing.run(test_quotes())

`run` gives a coroutine an event loop whose clock jumps to whatever happens next. Without it (under pytest-asyncio, say)
the network works as well, in real time. `network.cut()` breaks all connections, `network.restart()` replaces the broker
by a new one that knows nothing. The broker comes from the distribution `plait-broker`, by its entry point `broker` in
the group `plait.testing`.
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
"""Real seconds without anything to do after which a test is taken to be stuck."""


class BytesBroker(Protocol):
    """What the entry point makes: a broker that needs nothing but bytes and time. Its log is in memory."""

    def connected(self, link: int, now: float) -> None: ...
    def receive(self, link: int, data: bytes, now: float) -> None: ...
    def disconnected(self, link: int, now: float) -> None: ...
    def tick(self, now: float) -> None: ...
    def next_deadline(self) -> float | None: ...
    def take_output(self, now: float) -> list[tuple[int, bytes | None]]:
        """Bytes for links, in order; None closes one."""
        ...


MakeBroker: TypeAlias = Callable[..., BytesBroker]
"""Called with `name`, `randomness`, `now` and `wall_us`."""


def installed_broker() -> MakeBroker:
    """The broker of the installed distributions; NotAvailable when there is none."""
    for entry in entry_points(group=GROUP, name="broker"):
        make: MakeBroker = entry.load()
        return make
    raise NotAvailable("no in-process broker is installed", hint="pip install plait-broker")


class Pipe(asyncio.Transport):
    """One end of a connection in memory. What is written arrives at the other end after the network's delay."""

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
        """Memory does not fill up: what arrives meanwhile is delivered all the same."""

    def resume_reading(self) -> None:
        pass


class Network:
    """One broker, and clients connected to it. `delay_s` is the way of every byte; `seed` decides all randomness."""

    def __init__(self, *, delay_s: float = 0.001, seed: int = 0, broker: MakeBroker | None = None) -> None:
        self._make = broker if broker is not None else installed_broker()
        self._delay_s = delay_s
        self._random = random.Random(seed)  # noqa: S311 - a test is to be the same every time
        self._clients: list[Client] = []
        self._protocols: dict[int, asyncio.Protocol] = {}
        self._links = 0
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
        """A client of the broker, with the options of `plait.connect`. The network closes it."""
        client = await connect("plait://testing", dial=self._dial, randomness=self._random, **options)
        self._clients.append(client)
        return client

    @property
    def broker(self) -> BytesBroker:
        """The broker that runs now."""
        assert self._broker is not None, "the network runs inside its block"
        return self._broker

    def cut(self) -> None:
        """Break all connections; what is on its way is lost."""
        for link in list(self._protocols):
            self._lose(link)
            self.broker.disconnected(link, self._now())
        self._pump()

    def restart(self) -> None:
        """Replace the broker by one that knows nothing of what was."""
        self.cut()
        self._start()

    def later(self, work: Callable[..., None], *arguments: object) -> None:
        """Have something happen at the other end."""
        self._running().call_later(self._delay_s, work, *arguments)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the network runs inside its block"
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
        self._links += 1
        link, protocol = self._links, make()
        pipe = Pipe(self, lambda data: self._arrived(link, data), lambda: self._hung_up(link))
        self._protocols[link] = protocol
        self.broker.connected(link, self._now())
        protocol.connection_made(pipe)
        return pipe

    def _arrived(self, link: int, data: bytes) -> None:
        if link in self._protocols:
            self.broker.receive(link, data, self._now())
            self._pump()

    def _hung_up(self, link: int) -> None:
        if link in self._protocols:
            self._lose(link)
            self.broker.disconnected(link, self._now())
            self._pump()

    def _lose(self, link: int) -> None:
        self._protocols.pop(link).connection_lost(None)

    def _pump(self) -> None:
        for link, data in self.broker.take_output(self._now()):
            if data is not None:
                self.later(self._deliver, link, data)
            else:
                self.later(self._broker_closed, link)
        self._arm()

    def _deliver(self, link: int, data: bytes) -> None:
        protocol = self._protocols.get(link)
        if protocol is not None:
            protocol.data_received(data)

    def _broker_closed(self, link: int) -> None:
        self._hung_up(link)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.broker.next_deadline()
        if deadline is not None:
            self._timer = self._running().call_at(deadline, self._tick)

    def _tick(self) -> None:
        self.broker.tick(self._now())
        self._pump()


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: where an event loop would wait, time moves on."""

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
            raise RuntimeError("everything waits, and nothing is due: the test is stuck")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while something happens, and jumps while nothing does."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time: sleeping costs nothing, and every run is the same."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


__all__ = ["BytesBroker", "MakeBroker", "Network", "Pipe", "VirtualLoop", "installed_broker", "run"]

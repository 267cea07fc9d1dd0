"""Connections as TCP makes them: bytes in order, late, in pieces, held back by a full buffer or a reader that does not
read; cut for a while in one or both directions; reset; or dead without anyone being told.

A connection is two streams. What is lost is lost with its connection, as the end of a stream: TCP loses nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from .history import History, Kind, frames_in, weights_in
from .timeline import Timeline

LINGER_S: Final = 2.0
"""How long a closed connection may take to write its last bytes."""


@dataclass(frozen=True, slots=True)
class Path:
    """What lies between two hosts."""

    delay_s: float = 0.001
    jitter_s: float = 0.0
    bytes_per_s: float = 1e9
    buffer_bytes: int = 1 << 20
    """What sockets hold in one direction before a writer is told to wait."""
    pieces: float = 0.0
    """How often what was written arrives in two reads."""


class Sizes:
    """Weighs what is written, in bytes."""

    def written(self, connection: Connection, data: bytes, *, up: bool) -> int:
        """Return the weight of a write."""
        return len(data)

    def cut(self, data: bytes, rng: Random) -> tuple[int, int]:
        """Return where to divide a write, and the weight of its first part."""
        at = rng.randrange(1, len(data))
        return at, at


class SizesByFrame(Sizes):
    """Weighs all control frames alike: names of fields and texts have no influence. Divides writes between frames, and
    adds them to the history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def written(self, connection: Connection, data: bytes, *, up: bool) -> int:
        weights = weights_in(data)
        self._history.add(Kind.WRITE, connection.network.timeline.now, connection.number, up, *weights)
        return sum(weights[1::2])

    def cut(self, data: bytes, rng: Random) -> tuple[int, int]:
        frames = list(frames_in(data))
        first = frames[: int(rng.random() * len(frames))]
        return sum(size for _, size, _ in first), sum(weight for _, _, weight in first)


class Party(Protocol):
    """What a node shows the network."""

    @property
    def name(self) -> str: ...

    @property
    def reachable(self) -> bool:
        """Whether its host answers at all: it has power."""
        ...

    @property
    def listening(self) -> bool:
        """Whether its process takes new connections; the kernel does so for one that is paused."""
        ...

    @property
    def reading(self) -> bool:
        """Whether its process runs, and takes bytes."""
        ...

    def received(self, connection: Connection, data: bytes) -> None: ...
    def writable(self, connection: Connection, writable: bool) -> None: ...
    def lost(self, connection: Connection) -> None: ...


class Stream:
    """One direction of a connection."""

    __slots__ = (
        "_arrived",
        "_connection",
        "_free_at",
        "_full",
        "_last_at",
        "_on_the_way",
        "cut",
        "held_bytes",
        "receiver",
        "sender",
    )

    def __init__(self, connection: Connection, sender: Party, receiver: Party) -> None:
        self._connection = connection
        self.sender = sender
        self.receiver = receiver
        self.cut = False
        self.held_bytes = 0
        self._on_the_way = 0
        self._arrived: deque[tuple[bytes, int]] = deque()
        """Reads to come, each with its weight."""
        self._free_at = 0.0
        self._last_at = 0.0
        self._full = False

    def write(self, data: bytes) -> None:
        """Bytes go out; they arrive after those before them."""
        connection, path = self._connection, self._connection.path
        timeline = connection.network.timeline
        weight = connection.network.sizes.written(connection, data, up=self.sender is connection.client)
        self.held_bytes += weight
        self._free_at = max(timeline.now, self._free_at) + weight / path.bytes_per_s
        jitter_s = connection.network.rng.random() * path.jitter_s if path.jitter_s else 0.0
        self._last_at = max(self._last_at, self._free_at + path.delay_s + jitter_s)
        self._on_the_way += 1
        timeline.at(self._last_at, lambda: self._arrive(data, weight))
        if self.held_bytes > path.buffer_bytes and not self._full:
            self._full = True
            self.sender.writable(connection, False)

    def flush(self) -> None:
        """Hand over what has arrived, as far as the reader reads."""
        connection = self._connection
        while self._arrived and connection.open and not self.cut and connection.reads(self.receiver):
            data, weight = self._arrived.popleft()
            if len(data) > 1 and connection.network.rng.random() < connection.path.pieces:
                at, first = connection.network.sizes.cut(data, connection.network.rng)
                if at:
                    self._arrived.appendleft((data[at:], weight - first))
                    data, weight = data[:at], first
            self.held_bytes -= weight
            self.receiver.received(connection, data)
            if self._full and self.held_bytes <= connection.path.buffer_bytes // 2:
                self._full = False
                self.sender.writable(connection, True)
        if not self.held_bytes:
            connection.drained(self)

    def _arrive(self, data: bytes, weight: int) -> None:
        self._on_the_way -= 1
        if self._connection.open:
            self._arrived.append((data, weight))
            self.flush()


class Connection:
    """Two streams between the one who opened it and the one who accepted it."""

    def __init__(self, network: Network, number: int, client: Party, server: Party, path: Path) -> None:
        self.network = network
        self.number = number
        self.path = path
        self.client = client
        self.server = server
        self.open = True
        self.broken = False
        """Dead, though not everyone knows: no byte passes any more."""
        self.not_reading: list[Party] = []
        self._up = Stream(self, client, server)
        self._down = Stream(self, server, client)
        self._closing: Stream | None = None

    def stream_of(self, sender: Party) -> Stream:
        return self._up if sender is self.client else self._down

    def peer_of(self, party: Party) -> Party:
        return self.server if party is self.client else self.client

    def write(self, sender: Party, data: bytes) -> None:
        """Send bytes to the other end."""
        if self.open and self._closing is None and not self.broken:
            self.stream_of(sender).write(data)

    def reads(self, party: Party) -> bool:
        return party.reading and not self.broken and party not in self.not_reading

    def set_reading(self, party: Party, on: bool) -> None:
        """An end stops reading, or goes on."""
        if on and party in self.not_reading:
            self.not_reading.remove(party)
            self.stream_of(self.peer_of(party)).flush()
        elif not on and party not in self.not_reading:
            self.not_reading.append(party)

    def flush(self) -> None:
        """Something that held bytes back has changed."""
        self._up.flush()
        self._down.flush()

    def cut(self, up: bool, down: bool) -> None:
        """Hold back what goes up or down until that is changed again."""
        self._up.cut, self._down.cut = up, down
        self.flush()

    @property
    def busy(self) -> bool:
        """Whether bytes are under way."""
        return bool(self._up.held_bytes or self._down.held_bytes)

    def close(self, party: Party, *, abort: bool = False) -> None:
        """An end closes: at once, or when what it sent has arrived, or has had its time."""
        if not self.open or self._closing is not None:
            return
        stream = self.stream_of(party)
        if abort or self.broken or not stream.held_bytes:
            self._finish(tell_at_once=party)
            return
        self._closing = stream
        self.network.timeline.after(LINGER_S, lambda: self._finish(tell_at_once=party))

    def drained(self, stream: Stream) -> None:
        """A stream is empty."""
        if stream is self._closing:
            self._finish(tell_at_once=stream.sender)

    def reset(self) -> None:
        """What is under way is lost; both ends hear of it."""
        self._finish(tell_at_once=None)

    def abandon(self, dead: Party, *, tell: bool) -> None:
        """One end is gone. Its kernel says so to the other, or nobody does."""
        if tell:
            self._finish(tell_at_once=None, never=dead)
        else:
            self.broken = True

    def _finish(self, tell_at_once: Party | None, never: Party | None = None) -> None:
        if not self.open:
            return
        self.open = False
        self.network.forget(self)
        for party in (self.client, self.server):
            if party is tell_at_once:
                party.lost(self)
            elif party is not never:
                self.network.tell_lost(self, party)


class Network:
    """All connections, and what becomes of new ones."""

    def __init__(self, timeline: Timeline, rng: Random, sizes: Sizes | None = None) -> None:
        self.timeline = timeline
        self.rng = rng
        self.sizes = sizes or Sizes()
        self.connections: dict[int, Connection] = {}
        self._opened = 0
        self._cuts: dict[str, tuple[bool, bool]] = {}

    def open(self, client: Party, server: Party, path: Path, answer: Callable[[Connection | None], None]) -> None:
        """Open a connection: `answer` gets it after a round trip, or None when it is refused, or nothing ever."""

        def decide() -> None:
            if any(self._cuts.get(client.name, ())) or not server.reachable:
                return
            if not server.listening:
                self.timeline.after(path.delay_s, lambda: answer(None))
                return
            self._opened += 1
            connection = Connection(self, self._opened, client, server, path)
            self.connections[connection.number] = connection
            self.timeline.after(path.delay_s, lambda: answer(connection))

        self.timeline.after(path.delay_s, decide)

    def cut(self, client: Party, *, up: bool = True, down: bool = True) -> None:
        """Let nothing pass from a client, to it, or both, until it is healed; new connections need both ways."""
        self._cuts[client.name] = (up, down)
        for connection in self.of(client):
            connection.cut(up, down)

    def heal(self, client: Party) -> None:
        """What was held back passes."""
        self.cut(client, up=False, down=False)

    def of(self, party: Party) -> list[Connection]:
        """The connections of a node, oldest first."""
        return [c for c in self.connections.values() if c.client is party or c.server is party]

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection.number, None)

    def tell_lost(self, connection: Connection, party: Party) -> None:
        """An end hears that its connection is gone, when that has travelled there and it runs."""

        def tell() -> None:
            if party.reading:
                party.lost(connection)
            elif party.reachable:
                self.timeline.after(0.05, tell)

        self.timeline.after(connection.path.delay_s, tell)

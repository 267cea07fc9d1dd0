"""Connections as TCP provides them: ordered bytes, delayed, in pieces, and limited by buffers and readers.

A connection may be cut for a while in one or both directions, be reset, or be dead without either end knowing. It
consists of two streams. Bytes are lost only with their connection, at the end of a stream, as with TCP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from ..history import History, Kind, frames_in, weights_in
from ..timeline import Timeline

LINGER_S: Final = 2.0
"""Seconds that a closed connection may take to write its last bytes."""


@dataclass(frozen=True, slots=True)
class Path:
    """The network path between two hosts."""

    delay_s: float = 0.001
    jitter_s: float = 0.0
    bytes_per_s: float = 1e9
    buffer_bytes: int = 1 << 20
    """Bytes that sockets hold in one direction before the writer must wait."""
    pieces: float = 0.0
    """Probability that a write arrives in two reads."""


class Sizes:
    """Weighs writes in bytes."""

    def written(self, connection: Connection, data: bytes, *, up: bool) -> int:
        """Return the weight of a write."""
        return len(data)

    def cut(self, data: bytes, rng: Random) -> tuple[int, int]:
        """Return the position at which to divide a write, and the weight of its first part."""
        at = rng.randrange(1, len(data))
        return at, at


class SizesByFrame(Sizes):
    """Weighs all control frames alike, so that names of fields and texts have no influence.

    It divides writes between frames and adds them to the history.
    """

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
    """The interface of a node to the network."""

    @property
    def name(self) -> str: ...

    @property
    def reachable(self) -> bool:
        """Whether its host responds at all: it has power."""
        ...

    @property
    def listening(self) -> bool:
        """Whether it accepts new connections. The kernel does so for a paused process, too."""
        ...

    @property
    def reading(self) -> bool:
        """Whether its process runs and reads."""
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
        """Reads that are ready, each with its weight."""
        self._free_at = 0.0
        self._last_at = 0.0
        self._full = False

    def write(self, data: bytes) -> None:
        """Write bytes; they arrive after those written before."""
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
        """Deliver bytes that have arrived, as far as the receiver reads."""
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
    """Two streams between the node that opened the connection and the one that accepted it."""

    def __init__(self, network: Network, number: int, client: Party, server: Party, path: Path) -> None:
        self.network = network
        self.number = number
        self.path = path
        self.client = client
        self.server = server
        self.open = True
        self.broken = False
        """Whether it is dead without both ends knowing: no byte passes."""
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
        """Stop or resume reading at one end."""
        if on and party in self.not_reading:
            self.not_reading.remove(party)
            self.stream_of(self.peer_of(party)).flush()
        elif not on and party not in self.not_reading:
            self.not_reading.append(party)

    def flush(self) -> None:
        """Deliver bytes after a change that may have unblocked them."""
        self._up.flush()
        self._down.flush()

    def cut(self, up: bool, down: bool) -> None:
        """Hold bytes back in either direction until the next call."""
        self._up.cut, self._down.cut = up, down
        self.flush()

    @property
    def busy(self) -> bool:
        """Whether bytes are in flight."""
        return bool(self._up.held_bytes or self._down.held_bytes)

    def close(self, party: Party, *, abort: bool = False) -> None:
        """Close one end: at once, or when its bytes have arrived or `LINGER_S` is over."""
        if not self.open or self._closing is not None:
            return
        stream = self.stream_of(party)
        if abort or self.broken or not stream.held_bytes:
            self._finish(notify_at_once=party)
            return
        self._closing = stream
        self.network.timeline.after(LINGER_S, lambda: self._finish(notify_at_once=party))

    def drained(self, stream: Stream) -> None:
        """Finish a close that waited for this stream to become empty."""
        if stream is self._closing:
            self._finish(notify_at_once=stream.sender)

    def reset(self) -> None:
        """Reset the connection: bytes in flight are lost, and both ends learn of it."""
        self._finish(notify_at_once=None)

    def abandon(self, dead: Party, *, notify: bool) -> None:
        """Remove one end. Its kernel closes the connection (`notify`), or the other end learns nothing."""
        if notify:
            self._finish(notify_at_once=None, never=dead)
        else:
            self.broken = True

    def _finish(self, notify_at_once: Party | None, never: Party | None = None) -> None:
        if not self.open:
            return
        self.open = False
        self.network.forget(self)
        for party in (self.client, self.server):
            if party is notify_at_once:
                party.lost(self)
            elif party is not never:
                self.network.notify_lost(self, party)


class Network:
    """All connections, and the opening of new ones."""

    def __init__(self, timeline: Timeline, rng: Random, sizes: Sizes | None = None) -> None:
        self.timeline = timeline
        self.rng = rng
        self.sizes = sizes or Sizes()
        self.connections: dict[int, Connection] = {}
        self._opened = 0
        self._cuts: dict[str, tuple[bool, bool]] = {}

    def open(self, client: Party, server: Party, path: Path, answer: Callable[[Connection | None], None]) -> None:
        """Open a connection. `answer` gets it after a round trip, or None if refused; it may never be called."""

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
        """Block a client's traffic in either direction until `heal`. New connections need both directions."""
        self._cuts[client.name] = (up, down)
        for connection in self.of(client):
            connection.cut(up, down)

    def heal(self, client: Party) -> None:
        """Let a client's traffic pass again."""
        self.cut(client, up=False, down=False)

    def of(self, party: Party) -> list[Connection]:
        """Return the connections of a node, oldest first."""
        return [c for c in self.connections.values() if c.client is party or c.server is party]

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection.number, None)

    def notify_lost(self, connection: Connection, party: Party) -> None:
        """Report a lost connection to one end, after the path's delay and once its process runs."""

        def notify() -> None:
            if party.reading:
                party.lost(connection)
            elif party.reachable:
                self.timeline.after(0.05, notify)

        self.timeline.after(connection.path.delay_s, notify)

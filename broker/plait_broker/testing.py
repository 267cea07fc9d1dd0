"""The broker that `plait.testing` runs in a user's tests: the production protocol on bytes and a time, with its log in
a list.

The SDK finds it by the entry point `broker` in the group `plait.testing`, so it need not import this distribution.
"""

from __future__ import annotations

from plait_core.ids import Randomness, new_id

from .broker import Broker
from .clients.access import Caller, OpenGate
from .outputs import Close, Fetch, LogRecord, Persist, Probe, Recovered, Send
from .pipeline.tag_test_worker import TagTestWorker
from .settings import BrokerSettings


class InMemoryBroker:
    """A broker without a server: every client may connect, and events are stored at once."""

    def __init__(self, *, name: str, randomness: Randomness, now: float, wall_us: int) -> None:
        self.protocol = Broker(
            BrokerSettings(name=name),
            randomness,
            OpenGate(),
            now=now,
            wall_us=wall_us,
            recovered=Recovered(log=new_id(randomness)),
        )
        self.due_at = now
        """When `tick` is to be called. It is valid after `take_output`."""
        self._log: list[LogRecord] = []
        self._tag_tester: TagTestWorker | None = None

    def connected(self, connection: int, now: float) -> None:
        self.protocol.connected(connection, Caller("memory"), now)

    def receive(self, connection: int, data: bytes, now: float) -> None:
        self.protocol.receive(connection, data, now)

    def disconnected(self, connection: int, now: float) -> None:
        self.protocol.disconnected(connection, now)

    def tick(self, now: float) -> None:
        self.protocol.tick(now)

    def take_output(self, now: float) -> list[tuple[int, bytes | None]]:
        """Return bytes for connections in order, None to close one. Outputs for the log and tag tests are answered at
        once."""
        written: list[tuple[int, bytes | None]] = []
        answered = True
        while answered:  # an answer may cause further outputs
            answered = False
            for output in self.protocol.take_output():
                answered = answered or isinstance(output, Persist | Fetch | Probe)
                match output:
                    case Send(connection, chunks):
                        written.append((connection, b"".join(chunks)))
                    case Close(connection):
                        written.append((connection, None))
                    case Persist(ticket, records):
                        self._log.extend(records)
                        self.protocol.persisted(ticket, None, now)
                    case Fetch():
                        self.protocol.fetched(output.ticket, self._read(output), False, None, now)
                    case Probe():
                        self._tag_tester = self._tag_tester or TagTestWorker()
                        self.protocol.probed(output.ticket, self._tag_tester.answer(output), now)
        self.due_at = self.protocol.next_deadline()
        return written

    def _read(self, fetch: Fetch) -> list[LogRecord]:
        matching = (r for r in self._log if r.position >= fetch.position and r.logged_us >= fetch.since_us)
        return [record for record, _ in zip(matching, range(fetch.count), strict=False)]

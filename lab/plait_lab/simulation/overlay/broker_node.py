"""The place where one simulated broker runs: its lives, its log, its connections and its timer.

It drives a production `Broker` as `plait_broker.server.driver` does, through the broker's public face only. The rest of
the simulation reads a broker's state through `OverlayNode.overlay`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.outputs import (
    NOTHING_RECOVERED,
    Close,
    Dial,
    Fetch,
    LogRecord,
    Output,
    Persist,
    Probe,
    Recovered,
    Remark,
    Send,
)  # fmt: skip
from plait_broker.overlay import Overlay
from plait_broker.overlay.outputs import Output as OverlayOutput
from plait_broker.overlay.security.identity import Identity, incarnation_key_of, incarnation_of
from plait_broker.pipeline.tag_test_worker import TagTestWorker
from plait_core.ids import Randomness
from plait_core.matching import Index, new_index

from ..history import History, Kind
from ..one_broker.disks import Disk, DiskTerms
from ..timeline import CALENDAR_US
from .network import Endpoint, LinkConnection, OverlayNetwork
from .processing import InputQueue, ProcessingTime

TAG_TEST_S: Final = 0.005
"""Usual duration of a tag test."""

NO_LOG: Final = "this broker keeps no log"

MakeIdentity = Callable[[Randomness, bytes], Identity | None]


def no_identity(randomness: Randomness, log_secret: bytes) -> None:
    """Make no keys: the broker signs nothing and checks nothing."""


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """What all lives of a broker have in common."""

    settings: BrokerSettings
    address: str = ""
    """Where it listens."""
    logs: bool = False
    """Whether it has a log, by which its next life is recognised."""
    identity: MakeIdentity = no_identity
    index: Callable[[], Index] = new_index
    seed: str = ""


class OverlayNode(Endpoint):
    """A broker over all its lives."""

    def __init__(
        self, number: int, network: OverlayNetwork, terms: NodeTerms, history: History, changed: Callable[[], None]
    ) -> None:
        """`changed` is called when the broker starts, stops or pauses, or its number of links changes."""
        self.number = number
        self.name = terms.settings.name
        self.address = terms.address
        self.terms = terms
        self.dials: list[str] = []
        """Addresses of the brokers that it is configured to dial."""
        self.broker: Broker | None = None
        self.lives = 0
        self.changed_at = 0.0
        """When it last started, stopped, paused or resumed."""
        self.links = 0
        """Number of brokers linked to it."""
        self.connections: dict[int, LinkConnection] = {}
        self.remarks: list[str] = []
        """All remarks to its operator."""
        self.dialled: list[str] = []
        """All addresses that it has dialled."""
        self.closed: dict[int, str] = {}
        """By connection, the reason with which it has closed it."""
        self.tag_tests = 0
        """Tag tests of all lives."""
        self.tag_test_s: float | None = TAG_TEST_S
        """Duration of a tag test; None: it never ends."""
        self.disk: Disk | None = None
        self.on_received: list[Callable[[OverlayNode, LinkConnection, bytes], None]] = []
        """Called with the bytes that the running broker reads, before it reads them."""
        self.on_started: list[Callable[[OverlayNode], None]] = []
        """Called when the broker starts, before it does anything."""
        self.on_output: list[Callable[[OverlayNode, OverlayOutput], None]] = []
        """Called with each output of the overlay, before the broker carries it out. Add to it before the broker
        starts."""
        self._network = network
        self._timeline = network.timeline
        self._history = history
        self._changed = changed
        self._input = InputQueue(self._timeline, Random(f"{terms.seed}/{number}/processing"), self._tick_if_due)
        self._due = math.inf
        self._secret = b""
        self._tag_tests = TagTestWorker()
        network.listen(self, self.address)
        if terms.logs:
            self._create_log()

    @property
    def listens(self) -> bool:
        """Whether its kernel accepts connections: a paused process still has one."""
        return self.broker is not None

    @property
    def paused(self) -> bool:
        """Whether its process is stopped for a while."""
        return self._input.paused

    def set_processing(self, time: ProcessingTime | None) -> None:
        """Set the time that it takes for what it receives. Call it before it starts."""
        assert self.broker is None, "it runs"
        self._input.time = time

    @property
    def runs(self) -> bool:
        """Whether it runs and is not paused."""
        return self.broker is not None and not self.paused

    @property
    def overlay(self) -> Overlay:
        """The state of the running broker's overlay, for oracles."""
        assert self.broker is not None, "it does not run"
        return self.broker.overlay

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker unless it runs."""
        if self.broker is not None:
            return
        self.lives += 1
        self._due = math.inf
        now, terms = self._timeline.now, self.terms
        self.changed_at = now
        self._history.add(Kind.STARTED, now, self.number)
        linking = replace(terms.settings.linking, links=(*terms.settings.linking.links, *self.dials))
        self.broker = Broker(
            replace(terms.settings, linking=linking),
            Random(f"{terms.seed}/{self.number}/{self.lives}"),
            OpenGate(),
            now=now,
            wall_us=CALENDAR_US + round(now * 1_000_000),
            recovered=self._recover(),
            index=terms.index,
            identity=terms.identity,
        )
        for see in self.on_started:
            see(self)
        if self.on_output:
            self._observe(self.broker.overlay)
        self._changed()
        self.act()

    def kill(self) -> None:
        """Kill the process, if it runs. Its kernel closes the connections, and other ends notice."""
        if self.broker is None:
            return
        self.changed_at = self._timeline.now
        self._history.add(Kind.STOPPED, self.changed_at, self.number)
        self.broker = None
        self.links = 0
        self._input.clear()
        connections, self.connections = self.connections, {}
        for connection in connections.values():
            self._network.close(connection, connection.side(self), killed=True)
        if self.disk is not None:
            self.disk.crash()
        self._changed()

    def pause(self) -> None:
        """Stop the process for a while, if it runs: it neither reads nor writes."""
        if self.runs:
            self.changed_at = self._timeline.now
            self._history.add(Kind.PAUSED, self.changed_at, self.number)
            self._input.paused = True
            self._changed()

    def resume(self) -> None:
        """End a pause."""
        if not self.paused:
            return
        self.changed_at = self._timeline.now
        self._history.add(Kind.RESUMED, self.changed_at, self.number)
        self._input.paused = False
        self._changed()
        self._input.go_on()
        if not self._input.busy:
            self._tick()

    # --- input --------------------------------------------------------------------------------------------------------

    def accepted(self, connection: LinkConnection) -> None:
        """Take a connection that another broker or a client has opened."""
        self.connected(connection, Caller("127.0.0.1:9"))

    def received(self, connection: LinkConnection, data: bytes) -> None:
        """Take bytes."""
        if self.broker is not None:
            for part in self._input.split(connection.ids[connection.side(self)], data):
                self._read(connection, part)

    def _read(self, connection: LinkConnection, data: bytes) -> None:
        if self._input.waits:
            self._network.note_unread(connection, connection.side(self), len(data))
            self._input.add(partial(self._read_held, connection, data))
        else:
            self._input.process(data, partial(self._receive, connection, data))

    def _read_held(self, connection: LinkConnection, data: bytes) -> None:
        self._network.note_unread(connection, connection.side(self), -len(data))
        self._read(connection, data)

    def _receive(self, connection: LinkConnection, data: bytes) -> None:
        id = connection.ids[connection.ends[1] is self]
        if self.broker is not None and id in self.connections:
            for see in self.on_received:
                see(self, connection, data)
            self.broker.receive(id, data, self._timeline.now)
            self.act()

    def writable(self, connection: LinkConnection, writable: bool) -> None:
        """Note that a connection's send buffer is full, or has room again."""
        side = connection.side(self)
        if self._input.waits:  # until then it may change
            self._input.add_other(lambda: self.writable(connection, connection.accepts(side)))
        elif self.broker is not None:
            self.broker.set_writable(connection.ids[side], writable, self._timeline.now)
            if writable:
                self.act()

    def ended(self, connection: LinkConnection) -> None:
        """Note the end of a connection."""
        if self._input.waits:
            self._input.add(partial(self.ended, connection))
            return
        id = connection.ids[connection.side(self)]
        self._input.forget(id)
        if self.connections.pop(id, None) is not None and self.broker is not None:
            self.broker.disconnected(id, self._timeline.now)
            if connection.link.number >= 0:  # another connection may have taken its place
                self._changed()
            self.act()

    def connected(self, connection: LinkConnection, caller: Caller) -> None:
        """Take a connection that it has accepted, or dialled if the caller says so."""
        self.connections[connection.ids[connection.side(self)]] = connection
        self._connected(connection, caller)

    def _connected(self, connection: LinkConnection, caller: Caller) -> None:
        if self._input.waits:
            self._input.add(partial(self._connected, connection, caller))
            return
        assert self.broker is not None, "only a running broker accepts or dials"
        self.broker.connected(connection.ids[connection.side(self)], caller, self._timeline.now)
        self.act()

    def _dialled(self, life: int, address: str, connection: LinkConnection | None) -> None:
        if self.lives != life or self.broker is None:
            if connection is not None:
                self._network.close(connection, 0, killed=True)
        elif connection is not None:
            self.connected(connection, Caller(address, dialled=address))
        else:
            self._unreachable(address)

    def _unreachable(self, address: str) -> None:
        if self._input.waits:
            self._input.add(partial(self._unreachable, address))
        elif self.broker is not None:
            self.broker.broker_connections.unreachable(address, self._timeline.now)
            self.act()

    # --- output -------------------------------------------------------------------------------------------------------

    def _observe(self, overlay: Overlay) -> None:
        """Report the overlay's outputs to those that observe them."""
        take = overlay.take_outputs

        def take_outputs(now: float) -> list[OverlayOutput]:
            outputs = take(now)
            for output in outputs:
                for see in self.on_output:
                    see(self, output)
            return outputs

        overlay.__dict__["take_outputs"] = take_outputs

    def act(self) -> None:
        """Carry out the outputs of the running broker, and set its timer."""
        broker = self.broker
        assert broker is not None, "it runs"
        for output in broker.take_output():
            if type(output) is Send:
                connection = self.connections.get(output[0])
                if connection is not None:
                    chunks = output[1]
                    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
                    self._network.write(connection, int(connection.ends[1] is self), data)
            else:
                self._carry_out(broker, output)
        if len(broker.broker_connections) != self.links:
            self.links = len(broker.broker_connections)
            self._changed()
        due, now = broker.next_deadline(), self._timeline.now
        if due < self._due:
            self._due = due
            self._timeline.at(max(due, now) + 1e-6, partial(self._ring, due, self.lives))

    def _carry_out(self, broker: Broker, output: Output) -> None:
        life = self.lives
        match output:
            case Close(id, reason):
                self.closed[id] = reason
                connection = self.connections.get(id)
                if connection is not None:
                    self._network.close(connection, connection.side(self))
            case Dial(address):
                self.dialled.append(address)
                self._network.dial_address(self, address, partial(self._dialled, life, address))
            case Persist(ticket):
                if self.disk is None:
                    self._timeline.after(0.0, partial(self._persisted, life, ticket, NO_LOG))
                else:
                    self.disk.persist(output, partial(self._persisted, life))
            case Fetch(ticket):
                if self.disk is None:
                    self._timeline.after(0.0, partial(self._fetched, life, ticket, [], False, NO_LOG))
                else:
                    self.disk.fetch(output, partial(self._fetched, life))
            case Probe():
                self.tag_tests += 1
                if self.tag_test_s is not None:
                    self._timeline.after(self.tag_test_s, partial(self._probed, life, output))
            case Remark(text):
                self.remarks.append(text)

    def _persisted(self, life: int, ticket: int, error: str | None) -> None:
        if self.broker is None or self.lives != life:
            return
        if self._input.waits:
            self._input.add_other(partial(self._persisted, life, ticket, error))
            return
        self.broker.persisted(ticket, error, self._timeline.now)
        self.act()

    def _fetched(self, life: int, ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        if self.broker is None or self.lives != life:
            return
        if self._input.waits:
            self._input.add_other(partial(self._fetched, life, ticket, records, lost, error))
            return
        self.broker.fetched(ticket, records, lost, error, self._timeline.now)
        self.act()

    def _probed(self, life: int, probe: Probe) -> None:
        if self.broker is None or self.lives != life:
            return
        if self._input.waits:
            self._input.add_other(partial(self._probed, life, probe))
            return
        self.broker.probed(probe.ticket, self._tag_tests.answer(probe), self._timeline.now)
        self.act()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _ring(self, due: float, life: int) -> None:
        if self._due == due and self.lives == life and self.runs and not self._input.busy:
            self._tick()

    def _tick_if_due(self) -> None:
        """Tick if the timer has fired while the broker was busy."""
        if self.runs and self._due <= self._timeline.now:
            self._tick()

    def _tick(self) -> None:
        assert self.broker is not None, "it runs"
        self._due = math.inf
        self.broker.tick(self._timeline.now)
        self.act()

    # --- log ----------------------------------------------------------------------------------------------------------

    def _create_log(self) -> None:
        rng = Random(f"{self.terms.seed}/{self.number}/log")
        self._secret = rng.randbytes(32)
        if self.terms.identity is no_identity:
            identity = rng.getrandbits(62) + 1
        else:
            identity = incarnation_of(incarnation_key_of(self._secret))
        self.disk = Disk(self._timeline, rng, DiskTerms(), identity)

    def _recover(self) -> Recovered:
        if self.disk is None:
            return NOTHING_RECOVERED
        return replace(self.disk.recover(), log_secret=self._secret)

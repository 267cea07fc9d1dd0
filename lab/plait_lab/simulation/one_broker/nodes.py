"""The broker as a node: the production protocol object, driven by virtual time instead of asyncio.

It receives bytes and deadlines; its outputs are carried out on the simulated network and disk. A process can be killed,
paused and restarted, and its host can lose power. Outputs are taken once per loop tick, whose length is drawn per seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from plait_broker import Broker, BrokerSettings, Caller, Gate, OpenGate
from plait_broker.outputs import Close, Fetch, LogRecord, Persist, Send
from plait_core.matching import Index, new_index
from plait_core.wire.frame_types.session_frames import Unseen

from ..timeline import Action, Clock
from .disks import Disk
from .invariants.bounds import check_bounds
from .network import Connection, Network
from .recorder import Recorder

_BOUNDS_EVERY: Final = 64
"""Turns between two checks of all bounds."""

_TURNS_AT_ONCE_MAX: Final = 10_000
"""Turns at one instant beyond which a node is in an endless loop."""


class Process:
    """The base of all nodes: a process on a host, woken at its deadlines, that may be paused or without power."""

    def __init__(self, name: str, network: Network, recorder: Recorder, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.running = False
        self.paused = False
        self.powered = True
        self.network = network
        self.recorder = recorder
        self.timeline = network.timeline
        self._wake_at = float("inf")
        self._turn_at = -1.0
        self._turns = 0
        self._deferred: list[Action] = []

    @property
    def now(self) -> float:
        """The time of its own clock."""
        return self.clock.now()

    @property
    def reachable(self) -> bool:
        return self.powered

    @property
    def listening(self) -> bool:
        return False

    @property
    def reading(self) -> bool:
        return self.running and self.powered and not self.paused

    def pause(self) -> None:
        """Stop the process with SIGSTOP; its kernel continues."""
        self.recorder.fault("pause", self.name, live=self.running)
        self.paused = True

    def resume(self) -> None:
        """Continue the process with SIGCONT."""
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()
        for connection in self.network.of(self):
            connection.flush()
        self.wake()

    def when_running(self, action: Action) -> None:
        """Run an action now, or when the process is resumed."""
        if self.paused:
            self._deferred.append(action)
        elif self.reading:
            action()

    def wake_at(self, local: float) -> None:
        """Have `wake` called no later than a time of its own clock."""
        when = self.clock.true_time(local)
        if when < self._wake_at:
            self._wake_at = max(when, self.timeline.now)
            self.timeline.at(self._wake_at, lambda: self._woken(when))

    def wake(self) -> None:
        """Do the work that is due."""
        raise NotImplementedError

    def received(self, connection: Connection, data: bytes) -> None:
        """Handle received bytes."""
        raise NotImplementedError

    def writable(self, connection: Connection, writable: bool) -> None:
        """Handle a change of whether a connection accepts bytes."""
        raise NotImplementedError

    def lost(self, connection: Connection) -> None:
        """Handle the loss of a connection."""
        raise NotImplementedError

    def _woken(self, when: float) -> None:
        if self._wake_at <= self.timeline.now:
            self._wake_at = float("inf")
            if self.reading:
                self.count_turn()
                self.wake()

    def count_turn(self) -> None:
        """Assert that time advances."""
        if self._turn_at != self.timeline.now:
            self._turn_at, self._turns = self.timeline.now, 0
        self._turns += 1
        assert self._turns < _TURNS_AT_ONCE_MAX, f"{self.name} does not let time advance"


@dataclass(frozen=True, slots=True)
class BrokerTerms:
    """How a broker is configured and driven."""

    settings: BrokerSettings = field(default_factory=BrokerSettings)
    gate: Gate = field(default_factory=OpenGate)
    tick_s: float = 0.0
    """Length of a loop tick, after which outputs are taken; 0: they are taken at once."""


class BrokerNode(Process):
    """A broker on its host, with its disk."""

    def __init__(
        self,
        name: str,
        network: Network,
        recorder: Recorder,
        clock: Clock,
        disk: Disk,
        rng: Random,
        terms: BrokerTerms,
    ) -> None:
        super().__init__(name, network, recorder, clock)
        self.disk = disk
        self.settings = terms.settings
        self.gate = terms.gate
        self.broker: Broker | None = None
        self.new_index: Callable[[], Index] = new_index
        self._rng = rng
        self._tick_s = terms.tick_s
        self._turn_due = False
        self._life = 0
        self._acted = 0

    @property
    def listening(self) -> bool:
        return self.running and self.powered

    # --- lives --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process with the state on its disk."""
        assert self.broker is None
        self.powered = self.running = True
        self.paused = False
        self._life += 1
        recovered = self.disk.recover()
        self.broker = Broker(
            self.settings,
            self._rng,
            self.gate,
            now=self.now,
            wall_us=self.clock.wall_us(),
            recovered=recovered,
            index=self.new_index,
        )
        if self._life > 1:
            self.recorder.restarted(self.name)
        for connection in self.network.of(self):  # of an earlier incarnation: this host resets them
            connection.reset()
        self._act()

    def kill(self) -> None:
        """Kill the process with SIGKILL, on which the kernel closes its connections."""
        self.recorder.fault("kill", self.name, live=self.running)
        self._die()
        for connection in self.network.of(self):
            connection.abandon(self, notify=True)

    def cut_power(self) -> None:
        """Cut the host's power: its connections die silently."""
        self.recorder.fault("power cut", self.name, live=self.running)
        self._die()
        self.powered = False
        for connection in self.network.of(self):
            connection.abandon(self, notify=False)

    def count_reports(self) -> None:
        """Record what clients have reported to this incarnation. It is called at its end."""
        if self.broker is not None:
            self.recorder.reported_drops += self.broker.counters.client_dropped[Unseen.QUEUE_FULL]

    def _die(self) -> None:
        self.count_reports()
        self.broker = None
        self.running = self.paused = False
        self._deferred.clear()
        self._wake_at = float("inf")
        self.disk.crash()

    # --- the network --------------------------------------------------------------------------------------------------

    def accept(self, connection: Connection) -> None:
        """Accept a connection."""

        def accepted() -> None:
            if self.broker is not None and connection.open:
                self.broker.connected(connection.number, Caller(connection.client.name), self.now)

        self.when_running(accepted)

    def received(self, connection: Connection, data: bytes) -> None:
        assert self.broker is not None
        self.broker.receive(connection.number, data, self.now)
        self._act_soon()

    def writable(self, connection: Connection, writable: bool) -> None:
        if self.broker is not None:
            self.broker.set_writable(connection.number, writable, self.now)
            self._act_soon()

    def lost(self, connection: Connection) -> None:
        if self.broker is not None:
            self.broker.disconnected(connection.number, self.now)
            self._act_soon()

    # --- the disk -----------------------------------------------------------------------------------------------------

    def _persisted(self, ticket: int, error: str | None, life: int) -> None:
        def notify() -> None:
            if self.broker is not None and life == self._life:
                self.broker.persisted(ticket, error, self.now)
                self._act_soon()

        self.when_running(notify)

    def _fetched(self, ticket: int, records: list[LogRecord], lost: bool, error: str | None, life: int) -> None:
        def notify() -> None:
            if self.broker is not None and life == self._life:
                self.broker.fetched(ticket, records, lost, error, self.now)
                self._act_soon()

        self.when_running(notify)

    # --- turns --------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if self.broker is not None:
            if self.broker.next_deadline() <= self.now:
                self.broker.tick(self.now)
            self._act()

    def _act_soon(self) -> None:
        if not self._tick_s:
            self._act()
        elif not self._turn_due:
            self._turn_due = True
            self.timeline.after(self._tick_s, lambda: self.when_running(self._act))

    def _act(self) -> None:
        """Carry out the broker's outputs."""
        self._turn_due = False
        if self.broker is None or self.paused:
            return
        life = self._life
        for output in self.broker.take_output():
            connection = self.network.connections.get(output.connection) if isinstance(output, Send | Close) else None
            if isinstance(output, Send):
                if connection is not None:
                    connection.write(self, b"".join(output.chunks))
            elif isinstance(output, Close):
                self.recorder.note("close", self.name, output.connection, output.reason)
                if connection is not None:
                    connection.close(self)
            elif isinstance(output, Persist):
                self.disk.persist(output, lambda ticket, error: self._persisted(ticket, error, life))
            else:
                assert isinstance(output, Fetch)
                self.disk.fetch(
                    output, lambda ticket, found, lost, error: self._fetched(ticket, found, lost, error, life)
                )
            if self.broker is None:
                return
        self._acted += 1
        if not self._acted % _BOUNDS_EVERY:
            check_bounds(self.broker)
        self.wake_at(self.broker.next_deadline())

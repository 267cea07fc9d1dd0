"""An application on the SDK: the production client session, driven by virtual time instead of asyncio.

It publishes and subscribes as scripted, reads at its own speed, acknowledges events after reading, and reports all of
this to the recorder. After a kill it restarts as a new process with an empty session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from plait.errors import BufferFull, NotAllowed
from plait.options.addresses import Address
from plait.options.settings import Buffer, Outbox, Reconnect, SessionSettings
from plait.protocol.notices import Gap, Late
from plait.protocol.outputs import (
    Confirmed,
    Connect,
    Disconnect,
    Ended,
    Lost,
    NotConfirmed,
    Output,
    Reading,
    RequestCompleted,
    Write,
)
from plait.protocol.session import Session
from plait.protocol.subscription_state import Phase, Terms
from plait.protocol.subscription_state import SubscriptionState as Handle
from plait_core.errors import PlaitError
from plait_core.events import EventId
from plait_core.wire import Confirm

from .interests import Interest
from .network import Connection, Network, Path
from .nodes import BrokerNode, Process
from .recorder import NEVER, Outcome, Publication, Recorder, Tenure, digest_of
from .timeline import Clock

_UNKNOWN: Final = ("ConnectionLost", "Closed", "Timeout")
"""Errors after which it is unknown whether an event arrived."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How an application behaves."""

    read_s: float = 0.0
    """Seconds to read one event; 0: it reads all available events at once."""
    acknowledge_s: float = 0.0
    """Seconds from reading to acknowledging."""
    token: str | None = None


class Application(Process):
    """One client program."""

    def __init__(
        self,
        name: str,
        network: Network,
        recorder: Recorder,
        clock: Clock,
        broker: BrokerNode,
        rng: Random,
        path: Path | None = None,
        habits: Habits | None = None,
        outbox: Outbox | None = None,
        owner: str = "anyone",
    ) -> None:
        super().__init__(name, network, recorder, clock)
        self.owner = owner
        self.habits = habits or Habits()
        self.stuck = False
        """Whether it has stopped reading."""
        self.session: Session | None = None
        self.tenures: dict[int, Tenure] = {}
        """Subscriptions of this incarnation, by the session's number."""
        self.connection: Connection | None = None
        self._settings = SessionSettings(
            name, Reconnect(0.05, 1.0), heartbeat_s=1.0, timeout_s=3.0, outbox=outbox or Outbox()
        )
        self._broker = broker
        self._rng = rng
        self._path = path or Path()
        self._attempt = 0
        self._life = 0
        self._handles: dict[int, Handle] = {}
        self._requests: dict[int, Callable[[PlaitError | None], None]] = {}
        self._reading: set[int] = set()
        """Subscriptions whose next read is scheduled."""

    # --- lives --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the program."""
        self._life += 1
        self.running = True
        self.paused = False
        session = Session((Address("broker"),), self._settings, self._rng, lambda: self.habits.token)
        self.session = session
        session.start(self.now)
        self._act()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.recorder.fault("kill client", self.name, live=self.running)
        self.session = None
        self.running = self.paused = False
        self._put_off.clear()
        self._wake_at = NEVER
        for tenure in self.tenures.values():
            self.recorder.closing(tenure, "killed")
        for forgotten in (self.tenures, self._handles, self._requests, self._reading):
            forgotten.clear()
        self.connection = None
        for connection in self.network.of(self):
            connection.abandon(self, tell=True)

    # --- what it does -------------------------------------------------------------------------------------------------

    def publish(
        self,
        attributes: Mapping[str, Any],
        payload: bytes = b"",
        *,
        confirm: Confirm = Confirm.NONE,
        priority: int = 0,
        lifetime_us: int = 0,
    ) -> EventId | None:
        """Publish, unless the outbox is full."""
        session = self.session
        if session is None or self.paused or session.publishes.full or session.ended:
            return None
        id = EventId(session.publisher, session.stats().published + 1)
        publication = Publication(
            id,
            self.name,
            self.timeline.now,
            attributes,
            digest_of(attributes, payload),
            confirm,
            priority,
            lifetime_us,
        )
        self.recorder.published(publication)
        said, wall_us = dict(attributes), self.clock.wall_us()
        if confirm or lifetime_us:
            sequence = session.publish_retained(
                said, payload, wall_us, priority, {}, lifetime_us=lifetime_us, confirm=confirm, now=self.now
            )
        else:
            sequence = session.publish(said, payload, wall_us, priority)
        assert sequence == id.sequence
        self._act()
        return id

    def subscribe(self, interest: Interest, *, durable: str = "", buffer: Buffer | None = None) -> Tenure | None:
        """Subscribe."""
        session = self.session
        if session is None or self.paused or session.ended:
            return None
        terms = Terms(interest.text, buffer=buffer or Buffer(), durable=durable)
        handle, request = session.desired.subscribe(terms, self.now)
        tenure = self.recorder.asked(self.name, self.owner, handle.id, interest, durable)
        self.tenures[handle.id] = tenure
        self._handles[handle.id] = handle
        self._requests[request] = lambda error: self._subscribed(tenure, error)
        self._act()
        return tenure

    def change(self, tenure: Tenure, interest: Interest) -> None:
        """Request another filter."""
        handle = self._handles.get(tenure.number)
        if self.session is None or self.paused or handle is None or handle.phase is not Phase.OPEN:
            return
        terms = Terms(interest.text, buffer=handle.terms.buffer, durable=handle.terms.durable)
        before = tenure.wishes[-1].interest
        wish = self.recorder.changing(tenure, interest)

        def answered(error: PlaitError | None) -> None:
            if error is None:
                self.recorder.changed(wish)
            else:  # the session has asked for what it had before
                self.recorder.changing(tenure, before)

        request = self.session.desired.change(handle, terms, self.now)
        self._requests[request] = answered
        self._act()

    def unsubscribe(self, tenure: Tenure, *, drain: bool = False, forget: bool = False) -> None:
        """End a subscription."""
        handle = self._handles.get(tenure.number)
        if self.session is None or self.paused or handle is None or not handle.open:
            return
        self.recorder.closing(tenure, "unsubscribe")
        request = self.session.desired.unsubscribe(handle, self.now, drain=drain, forget=forget)
        self._requests[request] = lambda error: self._unsubscribed(tenure)
        self._act()

    def get_stuck(self, stuck: bool) -> None:
        """Stop reading, or resume."""
        self.stuck = stuck
        if not stuck:
            for number in list(self._handles):
                self._read(number)
            self._act()

    def hurry(self) -> None:
        """Use a fast network path and read at once, so that anything that stays unsettled is a fault and not just
        slow."""
        self.habits = replace(self.habits, read_s=0.0, acknowledge_s=0.0)
        self._path = Path()
        for connection in self.network.of(self):
            connection.path = self._path
        self.get_stuck(False)

    # --- the network --------------------------------------------------------------------------------------------------

    def received(self, connection: Connection, data: bytes) -> None:
        if self.session is not None and connection is self.connection:
            self.session.receive(data, self.now)
            self._act()

    def writable(self, connection: Connection, writable: bool) -> None:
        if self.session is not None and connection is self.connection:
            self.session.writable = writable
            self._act()

    def lost(self, connection: Connection) -> None:
        if self.session is not None and connection is self.connection:
            self.connection = None
            self.session.disconnected(self.now, "reset")
            self._act()

    def _connect(self) -> None:
        self._hang_up(abort=True)
        self._attempt += 1
        attempt, life = self._attempt, self._life

        def answered(connection: Connection | None) -> None:
            if self.session is None or life != self._life or attempt != self._attempt:
                if connection is not None:
                    connection.close(self, abort=True)
                return
            self.connection = connection
            if connection is None:
                self.session.disconnected(self.now, "refused")
            else:
                self._broker.accept(connection)
                self.session.writable = True
                self.session.connected(self.now)
            self._act()

        self.network.open(
            self, self._broker, self._path, lambda connection: self.when_running(lambda: answered(connection))
        )

    def _hang_up(self, *, abort: bool) -> None:
        self._attempt += 1
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(self, abort=abort)

    # --- turns --------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if self.session is not None:
            deadline = self.session.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.session.tick(self.now)
            self._act()

    def _act(self) -> None:
        """Carry out the session's outputs and record its happenings."""
        session = self.session
        while session is not None and not self.paused:
            for output in session.take_output(self.now):
                self._carry_out(output)
            for update in session.take_updates():
                self._handle(update)
            for handle in session.take_readable():
                self._look_at(handle)
            if self.session is not session:
                return
            if not session.has_output:
                break
        if session is not None:
            deadline = session.next_deadline()
            if deadline is not None:
                self.wake_at(deadline)

    def _carry_out(self, output: Output) -> None:
        match output:
            case Write(chunks):
                if self.connection is not None:
                    self.connection.write(self, b"".join(chunks))
            case Connect():
                self._connect()
            case Disconnect(abort):
                self._hang_up(abort=abort)
            case Reading(on):
                if self.connection is not None:
                    self.connection.set_reading(self, on)

    def _handle(self, update: object) -> None:
        assert self.session is not None
        match update:
            case Confirmed(sequence):
                self.recorder.settled(EventId(self.session.publisher, sequence), Outcome.OK)
            case NotConfirmed(sequence, error):
                kind = type(error).__name__
                outcome = Outcome.UNKNOWN if kind in _UNKNOWN else Outcome.FAILED
                self.recorder.settled(EventId(self.session.publisher, sequence), outcome, f"{kind}: {error}")
            case RequestCompleted(request, error):
                answered = self._requests.pop(request, None)
                if answered is not None:
                    answered(error)
            case Lost():
                for tenure in self.tenures.values():
                    tenure.disturbed = True
            case Ended(error):
                self.recorder.note("ended", self.name, str(error))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribed(self, tenure: Tenure, error: PlaitError | None) -> None:
        if error is None:
            self.recorder.installed(tenure)
        else:
            tenure.refused = isinstance(error, NotAllowed)
            self.recorder.closed(tenure, f"{type(error).__name__}: {error}")

    def _unsubscribed(self, tenure: Tenure) -> None:
        self._read(tenure.number)
        self.recorder.closed(tenure, "unsubscribed")

    def _look_at(self, handle: Handle) -> None:
        tenure = self.tenures.get(handle.id)
        if tenure is None:
            return
        notices = handle.notices.items
        while notices:
            notice = notices.popleft()
            if isinstance(notice, Gap):
                self.recorder.missed(tenure, notice.reason, notice.count)
            elif isinstance(notice, Late) and notice.dropped:
                self.recorder.missed(tenure, "late", notice.count)
        self._read(handle.id)
        if handle.phase is Phase.ENDED and handle.error is not None:
            tenure.cut_off = isinstance(handle.error, BufferFull)
            self.recorder.closed(tenure, f"{type(handle.error).__name__}: {handle.error}")

    def _read(self, number: int) -> None:
        """Read available events at the application's pace."""
        handle, tenure = self._handles.get(number), self.tenures.get(number)
        if handle is None or tenure is None or self.stuck or number in self._reading:
            return
        if not self.habits.read_s:
            while handle.queue and not self.stuck:
                self._take(handle, tenure)
        elif handle.queue:
            self._reading.add(number)
            life = self._life
            self.timeline.after(
                self.habits.read_s, lambda: self.when_running(lambda: self._read_one(handle, tenure, life))
            )

    def _read_one(self, handle: Handle, tenure: Tenure, life: int) -> None:
        if life != self._life:
            return
        self._reading.discard(handle.id)
        if handle.queue and not self.stuck:
            self._take(handle, tenure)
            self._act()
        self._read(handle.id)

    def _take(self, handle: Handle, tenure: Tenure) -> None:
        frame, _, position, _ = handle.take()
        if 0 < frame.lifetime_us < frame.delay_us:
            self.recorder.breach(tenure.name, f"{frame.id} came {frame.delay_us} us old, and lives {frame.lifetime_us}")
        self.recorder.received(tenure, frame.id, digest_of(frame.attributes(), frame.payload), frame.priority)
        if not self.habits.acknowledge_s:
            handle.acknowledge(position)
            return
        life = self._life

        def acknowledge() -> None:
            if life == self._life:
                handle.acknowledge(position)
                self._act()

        self.timeline.after(self.habits.acknowledge_s, lambda: self.when_running(acknowledge))

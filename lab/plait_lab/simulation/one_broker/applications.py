"""An application on the SDK: the production client session, driven by virtual time instead of asyncio.

It publishes and subscribes as scripted, reads at its own speed, acknowledges events after reading, and reports all of
this to the recorder. After a kill it restarts as a new process with an empty session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from plait.errors import BufferFull, NotAllowed, Refused
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
from plait_core.filters import parse
from plait_core.wire import Confirm

from ..timeline import Clock
from .interests import Interest
from .network import Connection, Network, Path
from .nodes import BrokerNode, Process
from .recorder import NEVER, ClientSubscription, Outcome, Publication, Recorder, digest_of

_UNKNOWN: Final = ("ConnectionLost", "Closed", "Timeout")
"""Errors after which it is unknown whether an event arrived."""


@dataclass(frozen=True, slots=True)
class ApplicationTerms:
    """How an application connects, reads and acknowledges."""

    read_s: float = 0.0
    """Seconds to read one event; 0: it reads all available events at once."""
    acknowledge_s: float = 0.0
    """Seconds from reading to acknowledging."""
    token: str | None = None
    path: Path = field(default_factory=Path)
    outbox: Outbox = field(default_factory=Outbox)
    owner: str = "anyone"
    """The principal that owns its durable subscriptions."""


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
        terms: ApplicationTerms | None = None,
    ) -> None:
        super().__init__(name, network, recorder, clock)
        self.terms = terms or ApplicationTerms()
        self.reading_paused = False
        """Whether it has stopped reading."""
        self.session: Session | None = None
        self.subscriptions: dict[int, ClientSubscription] = {}
        """Subscriptions of this incarnation, by the session's number."""
        self.connection: Connection | None = None
        self._settings = SessionSettings(
            name, Reconnect(0.05, 1.0), heartbeat_s=1.0, timeout_s=3.0, outbox=self.terms.outbox
        )
        self._broker = broker
        self._rng = rng
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
        session = Session((Address("broker"),), self._settings, self._rng, lambda: self.terms.token)
        self.session = session
        session.start(self.now)
        self._act()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.recorder.fault("kill client", self.name, live=self.running)
        self.session = None
        self.running = self.paused = False
        self._deferred.clear()
        self._wake_at = NEVER
        for subscription in self.subscriptions.values():
            self.recorder.closing(subscription, "killed")
        for forgotten in (self.subscriptions, self._handles, self._requests, self._reading):
            forgotten.clear()
        self.connection = None
        for connection in self.network.of(self):
            connection.abandon(self, notify=True)

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
        published, wall_us = dict(attributes), self.clock.wall_us()
        if confirm or lifetime_us:
            sequence = session.publish_retained(
                published, payload, wall_us, priority, {}, lifetime_us=lifetime_us, confirm=confirm, now=self.now
            )
        else:
            sequence = session.publish(published, payload, wall_us, priority)
        assert sequence == id.sequence
        self._act()
        return id

    def subscribe(
        self, interest: Interest, *, durable: str = "", buffer: Buffer | None = None
    ) -> ClientSubscription | None:
        """Subscribe."""
        session = self.session
        if session is None or self.paused or session.ended:
            return None
        terms = Terms(parse(interest.text), buffer=buffer or Buffer(), durable=durable)
        handle, request = session.desired.subscribe(terms, self.now)
        subscription = self.recorder.subscribe_requested(self.name, self.terms.owner, handle.id, interest, durable)
        self.subscriptions[handle.id] = subscription
        self._handles[handle.id] = handle
        self._requests[request] = lambda error: self._subscribed(subscription, error)
        self._act()
        return subscription

    def change(self, subscription: ClientSubscription, interest: Interest) -> None:
        """Request another filter."""
        handle = self._handles.get(subscription.number)
        if self.session is None or self.paused or handle is None or handle.phase is not Phase.OPEN:
            return
        terms = Terms(parse(interest.text), buffer=handle.terms.buffer, durable=handle.terms.durable)
        before = subscription.requested[-1].interest
        wish = self.recorder.change_requested(subscription, interest)

        def answered(error: PlaitError | None) -> None:
            if error is None:
                self.recorder.changed(wish)
                return
            wish.refused_at = self.timeline.now if isinstance(error, Refused) else NEVER
            self.recorder.change_requested(subscription, before)  # the session has restored the filter before

        request = self.session.desired.change(handle, terms, self.now)
        self._requests[request] = answered
        self._act()

    def unsubscribe(self, subscription: ClientSubscription, *, drain: bool = False, forget: bool = False) -> None:
        """End a subscription."""
        handle = self._handles.get(subscription.number)
        if self.session is None or self.paused or handle is None or not handle.open:
            return
        self.recorder.closing(subscription, "unsubscribe")
        request = self.session.desired.unsubscribe(handle, self.now, drain=drain, forget=forget)
        self._requests[request] = lambda error: self._unsubscribed(subscription)
        self._act()

    def pause_reading(self, paused: bool) -> None:
        """Stop reading, or resume."""
        self.reading_paused = paused
        if not paused:
            for number in list(self._handles):
                self._read(number)
            self._act()

    def use_fast_path(self) -> None:
        """Use a fast network path and read at once, so that anything that stays unsettled is a fault and not just
        slow."""
        self.terms = replace(self.terms, read_s=0.0, acknowledge_s=0.0, path=Path())
        for connection in self.network.of(self):
            connection.path = self.terms.path
        self.pause_reading(False)

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
        self._disconnect(abort=True)
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
            self, self._broker, self.terms.path, lambda connection: self.when_running(lambda: answered(connection))
        )

    def _disconnect(self, *, abort: bool) -> None:
        self._attempt += 1
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(self, abort=abort)

    # --- turns --------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if self.session is not None:
            if self.session.next_deadline() <= self.now:
                self.session.tick(self.now)
            self._act()

    def _act(self) -> None:
        """Carry out the session's outputs and record its happenings."""
        session = self.session
        while session is not None and not self.paused:
            for output in session.take_output(self.now):
                self._carry_out(output)
            for update in session.take_updates():
                self._record(update)
            for handle in session.take_readable():
                self._take_notices(handle)
            if self.session is not session:
                return
            if not session.has_output:
                break
        if session is not None:
            self.wake_at(session.next_deadline())

    def _carry_out(self, output: Output) -> None:
        match output:
            case Write(chunks):
                if self.connection is not None:
                    self.connection.write(self, b"".join(chunks))
            case Connect():
                self._connect()
            case Disconnect(abort):
                self._disconnect(abort=abort)
            case Reading(on):
                if self.connection is not None:
                    self.connection.set_reading(self, on)

    def _record(self, update: object) -> None:
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
                for subscription in self.subscriptions.values():
                    subscription.disturbed = True
            case Ended(error):
                self.recorder.note("ended", self.name, str(error))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribed(self, subscription: ClientSubscription, error: PlaitError | None) -> None:
        if error is None:
            self.recorder.installed(subscription)
        else:
            subscription.refused = isinstance(error, NotAllowed)
            if isinstance(error, Refused):
                subscription.requested[0].refused_at = self.timeline.now
            self.recorder.closed(subscription, f"{type(error).__name__}: {error}")

    def _unsubscribed(self, subscription: ClientSubscription) -> None:
        self._read(subscription.number)
        self.recorder.closed(subscription, "unsubscribed")

    def _take_notices(self, handle: Handle) -> None:
        subscription = self.subscriptions.get(handle.id)
        if subscription is None:
            return
        notices = handle.notices
        while notices:
            notice = notices.popleft()
            if isinstance(notice, Gap):
                self.recorder.missed(subscription, notice.reason, notice.count)
            elif isinstance(notice, Late) and notice.dropped:
                self.recorder.missed(subscription, "late", notice.count)
        self._read(handle.id)
        if handle.phase is Phase.ENDED and handle.error is not None:
            subscription.cut_off = isinstance(handle.error, BufferFull)
            self.recorder.closed(subscription, f"{type(handle.error).__name__}: {handle.error}")

    def _read(self, number: int) -> None:
        """Read available events at the application's pace."""
        handle, subscription = self._handles.get(number), self.subscriptions.get(number)
        if handle is None or subscription is None or self.reading_paused or number in self._reading:
            return
        if not self.terms.read_s:
            while handle.queue and not self.reading_paused:
                self._take(handle, subscription)
        elif handle.queue:
            self._reading.add(number)
            life = self._life
            self.timeline.after(
                self.terms.read_s, lambda: self.when_running(lambda: self._read_one(handle, subscription, life))
            )

    def _read_one(self, handle: Handle, subscription: ClientSubscription, life: int) -> None:
        if life != self._life:
            return
        self._reading.discard(handle.id)
        if handle.queue and not self.reading_paused:
            self._take(handle, subscription)
            self._act()
        self._read(handle.id)

    def _take(self, handle: Handle, subscription: ClientSubscription) -> None:
        frame, _, position, _ = handle.take()
        if 0 < frame.lifetime_us < frame.delay_us:
            self.recorder.breach(
                subscription.name, f"{frame.id} arrived {frame.delay_us} us old with a lifetime of {frame.lifetime_us}"
            )
        self.recorder.received(subscription, frame.id, digest_of(frame.attributes(), frame.payload), frame.priority)
        if not self.terms.acknowledge_s:
            handle.acknowledge(position)
            return
        life = self._life

        def acknowledge() -> None:
            if life == self._life:
                handle.acknowledge(position)
                self._act()

        self.timeline.after(self.terms.acknowledge_s, lambda: self.when_running(acknowledge))

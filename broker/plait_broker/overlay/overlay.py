"""One broker of the overlay, without I/O: frames of neighbours and the time go in, outputs come out.

The path of an event:

- `publish` at its publisher's broker numbers it in the stream of each destination (`reliable_stream.py`).
- One copy goes to each next hop (`event_streams.py`, `forwarder.py`), and names its destinations.
- `receive_events` at each broker on the path forwards it.
- The stream at the destination puts it into order. It is then an output.

The path of interest: `announce_filter` -> `interest_sync.py` -> InterestUpdate, hop by hop (`control_unicast.py`) ->
`remote_interest.py` at the publisher's broker -> InterestAck. Documents flood in `flooding.py`, and `link_state.py`
computes paths from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from plait_core.filters import Filter
from plait_core.ids import Randomness
from plait_core.matching import Index, new_index
from plait_core.wire import ControlFrame, Destination, EventFrame, Forward, Frame
from plait_core.wire.frame_types.envelope_frames import Signed
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome
from plait_core.wire.frame_types.strategy_frames import StrategyMessage
from plait_core.wire.frame_types.trace_frames import TraceMessage

from ..deposits import Deposit
from .dissemination.strategy import SendControl
from .documents import DocumentHandler
from .interest.install_watch import InstallDeadlines
from .messages import MessageHandler
from .outputs import DocumentKey, ExpelBroker, Installed, LogRemark, Output
from .security.identity import Forged, Identity
from .settings import Incarnation, OverlaySettings
from .state import OverlayState
from .topology.link_monitor import LinkMonitor
from .topology.membership import Membership
from .topology.neighbours import Neighbour
from .transport.reliable_stream import ReceivedEvent

INSTALL_TIMES: Final = 4
"""Timeout of acks of interest updates, in detection times: enough to try all source routes."""

STORED_TIMES: Final = 1.5
"""Timeout for other brokers to store durable interest, in detection times. Clients wait a little longer."""

TOMBSTONES: Final = 4
"""A withdrawn document is kept for so many times `gone_s`: until no broker can relay an older version."""


class Overlay(OverlayState):
    """The overlay at one broker."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        incarnation: Incarnation,
        identity: Identity | None,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index] = new_index,
    ) -> None:
        super().__init__(me, settings, incarnation, identity, randomness, now, index)
        self._links = LinkMonitor(self)
        self._membership = Membership(self, self._links)
        self._documents = DocumentHandler(self, self._links, self._membership)
        self._messages = MessageHandler(self, self._links)
        self.pending = True
        """Whether there was input since the last call of `take_outputs`. Without input there is no output."""
        self.due_at = now
        """When to call `tick`, at the latest."""
        self._reviewed = (0, 0)
        """The revisions of interest and advertisements for which absent home brokers were computed last."""
        self._links.originate()
        self._documents.learn_all(now)

    # --- links --------------------------------------------------------------------------------------------------------

    def link_up(self, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> bool:
        """Add a link to a broker. Return False if there is one already, or the broker is this one."""
        self._begin(now)
        added = self._links.up(link, broker, name, now, delay_us)
        self._documents.learn_all(now)
        return added

    def link_down(self, broker: int, now: float, reason: str = "the connection was lost") -> None:
        """Remove a link, and retransmit the events that may have been in flight on it."""
        self._begin(now)
        self._links.down(broker, now, reason)
        self._documents.learn_all(now)

    def locate(self, address: str, now: float) -> None:
        """Set the address where other brokers may connect."""
        self._begin(now)
        if address != self.address:
            self.address = address
            self._links.originate()
            self._documents.learn_all(now)

    def give_up(self, names: Iterable[str]) -> None:
        """Set the names of brokers that will not return."""
        self._membership.give_up(frozenset(names))

    def receive(self, broker: int, frame: ControlFrame | Forward, now: float) -> None:
        """Handle a frame of a neighbour. Raise FrameError if it is malformed."""
        self.now, self.pending = now, True
        neighbour = self.neighbours.get(broker)
        if neighbour is None:
            return
        neighbour.received_at = now
        try:
            self._messages.receive(neighbour, frame, now)
        except Forged as error:
            self.counts["forged"] += 1
            if isinstance(frame, Signed | Forward | GroupBatch):  # an honest neighbour checks these, or sends none such
                self._expel(neighbour, error)
        if self.flooding.learned or self.flooding.exceeded:
            self._documents.learn_all(now)

    def receive_events(self, broker: int, frames: Sequence[Frame], at: int, now: float) -> int:
        """Handle the run of Forward frames that starts at index `at`. Return the index after it."""
        self.now, self.pending = now, True
        neighbour = self.neighbours.get(broker)
        if neighbour is not None:
            neighbour.received_at = now
        link_us = None if neighbour is None else neighbour.transit.us(now)
        try:
            end = self.event_streams.receive_all(frames, at, now, broker, link_us)
        except Forged as error:
            assert neighbour is not None, "frames of other brokers are dropped"
            self.counts["forged"] += 1
            self._expel(neighbour, error)
            return len(frames)
        if neighbour is not None and link_us is not None:
            neighbour.events_arrived(link_us, end - at, now)
        return end

    def note_false_echo(self, broker: int, now: float) -> None:
        """Note that a neighbour has acknowledged events that were not sent to it."""
        self._begin(now)
        self.counts["false_echoes"] += 1
        neighbour = self.neighbours[broker]
        neighbour.false_echoes += 1
        if neighbour.false_echoes == 1:
            text = f"{self.map.name(broker)} acknowledges events that were not sent to it (counted as false_echoes)"
            self.outputs.append(LogRemark(text))

    def _expel(self, neighbour: Neighbour, error: Forged) -> None:
        self.outputs.append(ExpelBroker(neighbour.link, f"{neighbour.name} sent what is forged: {error}"))
        self.link_down(neighbour.id, self.now, f"{neighbour.name} sent what is forged")

    # --- advertisements and filters of this broker's clients ----------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0, values: bytes = b"") -> None:
        """Flood a client's advertisement. `Advertised` follows once the interest in it is known here."""
        self.pending = True
        self.local_advertisements.advertise(number, filter, rate, values, self.now)
        self._documents.learn_all(self.now)
        if not self.strategy.passive:
            self.strategy.interest_changed(self.me, self.now)

    def withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self.pending = True
        self.local_advertisements.withdraw(number)
        self._documents.learn_all(self.now)
        if not self.strategy.passive:
            self.strategy.interest_changed(self.me, self.now)

    def announce_filter(
        self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False, within_us: int = 0
    ) -> None:
        """Announce a subscription's filter. `Installed` follows once all publishers' brokers have acked it."""
        self.pending = True
        if durable:  # a broker acks the update only after it has stored this
            self.local_durable_interest.add(number, filter)
        detect_s = self.settings.detect_s
        terms = InstallDeadlines(self.now, INSTALL_TIMES * detect_s, STORED_TIMES * detect_s)
        self.interest_sync.add(number, filter, deposit, terms, everywhere=durable, within_us=within_us)
        if not self.strategy.passive:
            self.strategy.interest_changed(self.me, self.now)

    def withdraw_filter(self, number: int) -> None:
        """Remove a subscription's filter."""
        self.pending = True
        self.interest_sync.remove(number)
        if number in self.local_durable_interest:
            self.local_durable_interest.remove(number)
        if not self.strategy.passive:
            self.strategy.interest_changed(self.me, self.now)

    def recall(self, documents: Iterable[Signed], now: float) -> None:
        """Load the documents that were stored before a restart. Call it before there are links."""
        self._begin(now)
        self.counts["bad_documents"] += self.durable_interest_store.recall(documents)
        self._documents.learn_all(now)
        self._documents.put_gathered(now)
        self.durable_interest_store.discard_unused()
        self._review_absent()

    def stored(self, documents: Mapping[DocumentKey, Signed | None], now: float) -> None:
        """Note that these documents are stored or deleted (None), or that this has failed."""
        self._begin(now)
        self.durable_interest_store.stored(documents, now)

    # --- events -------------------------------------------------------------------------------------------------------

    def destinations(self, frame: EventFrame, fits: Callable[[Deposit], bool] | None = None) -> list[int]:
        """Return the brokers that an event must reach. `fits` tells whether a deposit fits a sealed event's tags."""
        interest = self.remote_interest
        homes = interest.match(frame, fits) if interest.count else []
        if self.remote_durable_interest.away:
            return list(dict.fromkeys([*homes, *self.remote_durable_interest.match(frame)]))
        return homes

    def meets(self, filter: Filter) -> bool:
        """Return whether another broker's filter meets an advertisement."""
        return self.remote_interest.meets(filter) or bool(self.remote_durable_interest.intersecting(filter))

    def intersecting(self, filter: Filter) -> set[int]:
        """Return the brokers that events of a filter may have to reach."""
        return {*self.remote_durable_interest.intersecting(filter), *self.remote_interest.intersecting(filter)}

    def publish(self, frame: EventFrame, homes: list[int], delay_us: int, flags: int, now: float) -> list[Destination]:
        """Send an event to these brokers. Return its position for each."""
        self.now, self.pending = now, True
        return self.event_streams.publish(frame, homes, delay_us, flags, now)

    def acknowledge(self, event: ReceivedEvent, now: float) -> None:
        """Ack a received event: this broker has charge of it."""
        self.pending = True
        self.event_streams.acknowledge(event, now)

    def stop(self, now: float) -> None:
        """Send the acks that are pending: this broker stops, and others would retransmit what they await acks for."""
        self._begin(now)
        self.interest_acks.flush(now)
        self.event_streams.ack_all(now)

    @property
    def unsent(self) -> bool:
        """Whether events wait for a link, a batch of a stream group, or the window of a stream whose destination can be
        reached."""
        if self.groups.pending or any(neighbour.lane.queue for neighbour in self.neighbours.values()):
            return True
        streams = self.event_streams.outgoing
        return any(stream.waiting and self.map.reaches(self.me, home) for home, stream in streams.items())

    def send_outcome(self, root: int, position: int, matched: int, code: str) -> None:
        """Send the result of an event with confirmation to its publisher's broker."""
        self.pending = True
        self.outcomes.send(DeliveryOutcome(root, self.me, position, matched, code), self.now)

    def send_trace(self, frame: TraceMessage) -> None:
        """Send a trace step, a query or its result to another broker."""
        self.pending = True
        self.unicast.send(frame, self.now)

    # --- time and outputs ---------------------------------------------------------------------------------------------

    def take_outputs(self, now: float) -> list[Output]:
        """Return what is to be done since the last call, in order. Call it until nothing is `pending`: what follows
        from the input as a whole, like acks, comes when all else is taken."""
        outputs = self.outputs
        if not outputs:
            self.now = now
            self._settle(now)
            if not outputs:
                self.pending = False
                self.due_at = self._next_deadline()
                return []
        taken = outputs[:]
        outputs.clear()
        self.copy_runs.clear()
        return taken

    def put_back(self, outputs: Iterable[Output]) -> None:
        """Return outputs that were taken and not carried out. They come before those that followed meanwhile."""
        self.outputs[:0] = outputs
        self.pending = True

    def tick(self, now: float) -> None:
        """Run the timers that are due."""
        self._begin(now)
        if self._links.tick(now):
            self._membership.expire(now)
            self.flooding.beat()
            self.flooding.forget_withdrawn(now, TOMBSTONES * self.settings.gone_s)
            self.event_streams.expire(now)
        self._documents.learn_all(now)
        if now >= self.interest_acks.due_at:
            self.interest_acks.flush(now)
        self.event_streams.tick(now)
        if self.groups.busy:
            self.groups.tick(now)
            self.event_streams.send_moved(now)
        self.strategy.tick(now)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        self.now, self.pending = now, True

    def _review_absent(self) -> None:
        """Compute which home brokers cannot send their interest now, if something has changed."""
        revisions = (self.remote_interest.changes, self.advertisements.revision)
        if revisions != self._reviewed:
            self._reviewed = revisions
            self._documents.review_absent()

    def _next_deadline(self) -> float:
        deadline, sync = self._links.due_at, self.interest_sync
        if sync.pending:
            deadline = min(deadline, max(sync.due_at, self.now))
            if sync.held:
                deadline = min(deadline, max(self._documents.calm_at, self.now))
        times: list[float | None] = []
        if self.event_streams.sending or self.event_streams.reporting:
            times.append(self.event_streams.next_deadline())
        deadline = min(deadline, self._documents.due_at, self.interest_acks.due_at)
        if self.local_advertisements.waiting:
            times.append(self.local_advertisements.next_deadline())
        if self.groups.busy:
            times.append(self.groups.due_at)
        if not self.strategy.passive:
            times.append(self.strategy.next_deadline())
        return min([deadline, *(at for at in times if at is not None)]) if times else deadline

    def _settle(self, now: float) -> None:
        """Send the messages and report the results that follow from the input so far."""
        sync = self.interest_sync
        if sync.pending:
            for update in sync.take_updates(now, self.reached.get, hold=now < self._documents.calm_at):
                self.unicast.send(update, now, [sync.tries(root) for root in update.to])
        if sync.installed:
            installed, sync.installed = sync.installed, []
            self.outputs += map(Installed, installed)
        while sync.silent:
            self._report_unacked(sync.silent.pop(0))
        if self.local_advertisements.waiting:
            self.local_advertisements.settle(self.remote_interest.homes, self.reached, now)
        self._review_absent()
        if self.groups.busy:
            self.groups.settle(now)
            self.event_streams.send_moved(now)
        if self.event_streams.reporting:
            self.event_streams.settle(now)
        for action in () if self.strategy.passive else self.strategy.take_actions():
            if not isinstance(action, SendControl):  # no socket serves a multicast group yet
                self.counts["groups_ignored"] += 1
            elif action.to in self.neighbours:
                self.sender.send(action.to, StrategyMessage(self.strategy.name, action.body))

    def _report_unacked(self, broker: int) -> None:
        self.counts["interest_unacked"] += 1
        text = (
            f"{self.map.name(broker)} can be reached, and does not ack interest updates: subscribers do not wait "
            "for it any longer, and may miss events that are published there"
        )
        self.outputs.append(LogRemark(text))

"""Confirmations between brokers: those that this broker awaits from others, and those that it owes them.

A destination acks an event once it has charge of it. A publisher that asks for its subscribers' confirmation waits for
the destination's outcome as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plait_core.wire import Confirm, EventFrame
from plait_core.wire.frame_types.overlay_frames import ACK_NOW, CONFIRM, DeliveryOutcome
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.confirmations import LOG, Outcome, Party, SilentBroker
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..overlay import Overlay, ReceivedEvent
from ..overlay.groups.group_branch import GROUP
from ..overlay.outputs import Acked, Lost

_STORED: Final = 0
_ANSWERED: Final = 1
"""The two steps of another broker's event that confirmations track: stored in the log, answered by subscribers."""


class RemoteConfirmations:
    """One broker's."""

    def __init__(self, context: BrokerContext, overlay: Overlay) -> None:
        self._confirmations = context.confirmations
        self._counters = context.counters
        self._observer = context.observer
        self._overlay = overlay
        self._awaited: dict[Party, None] = {}
        """Events whose confirmation needs the destination's outcome, not only its ack."""
        self._moved: dict[Party, Party] = {}
        """Awaited events whose position has changed since they were published, by that at which they were acked: they
        waited for their stream, or the destination has restarted."""
        self._moved_to: dict[Party, Party] = {}
        """The same, the other way round."""
        self._handles = 0
        self._received: dict[int, ReceivedEvent] = {}
        """By handle, other brokers' events that confirmations track here, under the negative handle as publisher."""

    # --- events of this broker's clients ------------------------------------------------------------------------------

    def publish(
        self, frame: EventFrame, homes: list[int], delay_us: int, now: float, confirm: Confirm
    ) -> Iterable[Party]:
        """Send an event to these brokers. Return the parties whose confirmation its publisher waits for."""
        subscribers = bool(confirm) and confirm is Confirm.SUBSCRIBERS
        flags = CONFIRM if subscribers else ACK_NOW if confirm else 0
        if self._observer.marked and frame.id in self._observer.marked:
            flags |= MARKED
        named = self._overlay.publish(frame, homes, delay_us, flags, now)
        if not confirm:
            return ()
        parties = [(-home, position) for home, position, _ in named]
        if subscribers:
            self._awaited.update(dict.fromkeys(parties))
        return parties

    def acked(self, output: Acked, now: float) -> None:
        """Take the ack of a destination: it has charge of these events."""
        if not len(self._confirmations):
            return
        for position, (_, _, _, _, party) in output.events:
            home, first_position = party or (output.destination, position)
            if (-home, first_position) not in self._awaited:
                self._confirmations.acknowledge((-home, first_position))
            elif party is not None:
                now_at, first = (-output.destination, position), (-home, first_position)
                self._moved[now_at], self._moved_to[first] = first, now_at

    def receive_outcome(self, outcome: DeliveryOutcome, now: float) -> None:
        """Take the result of an event with confirmation, as its destination reports it."""
        party = self._first_party(outcome.source, outcome.position)
        self.forget(party)
        if outcome.code:
            text = f"at {self._name(outcome.source)}: not all of those it was for have it"
            self._confirmations.fail(party, outcome.code, text)
        else:
            self._confirmations.acknowledge(party, outcome.matched)

    def _first_party(self, source: int, position: int) -> Party:
        """Return the party of an event. One that was sent again to a restarted broker has that of the first time."""
        moved = self._moved.pop((-source, position), None)
        if moved is not None:
            return moved
        outgoing = self._overlay.event_streams.outgoing.get(source)
        kept = outgoing.kept.get(position) if outgoing is not None else None  # its outcome may come before its ack
        if kept is None or kept[-1] is None:
            return -source, position
        home, first_position = kept[-1]
        return -home, first_position

    def lost(self, output: Lost, now: float) -> None:
        """Report an event that a destination will not get."""
        home, position, frame, delay_us, reason = output
        self._observer.lost(frame, reason, delay_us, [home], now)
        self._counters.dropped[DropReason(reason)] += 1
        party = (-home, position)
        self.forget(party)
        self._confirmations.fail(party, Code.UNAVAILABLE, f"{self._name(home)} does not get it: {reason}")

    def forget(self, party: Party) -> None:
        """Forget a party whose result is not awaited any more."""
        self._awaited.pop(party, None)
        moved = self._moved_to.pop(party, None)
        if moved is not None:
            self._moved.pop(moved, None)

    def silent_broker(self, party: Party) -> SilentBroker:
        """Return the broker whose confirmation timed out."""
        home, position = -party[0], party[1]
        streams = self._overlay.event_streams.outgoing
        if position >= GROUP:
            return self._silent(home, in_charge=not self._overlay.event_streams.is_pending(home, position))
        if home in streams:
            stream = streams[home]
            pending = position in stream.kept if position > 0 else -position in stream.unsettled
            return self._silent(home, in_charge=not pending)
        for broker, outgoing in streams.items():
            first = next(iter(outgoing.kept.values()), None)
            if first is not None and first[-1] is not None and first[-1][0] == home:  # it has restarted since
                return self._silent(broker, in_charge=False)
        return self._silent(home, in_charge=False)

    # --- events of other brokers --------------------------------------------------------------------------------------

    def send_outcome(self, event: ReceivedEvent, matched: int, code: str) -> None:
        """Send the result of an event whose publisher waits for subscribers."""
        self._overlay.send_outcome(event.root, event.position, matched, code)

    def wait_for(self, event: ReceivedEvent, parties: set[Party], matched: int, now: float) -> None:
        """Ack an event, once the log has stored it if it must, and send its result once all parties have it."""
        confirms = bool(event.flags & CONFIRM)
        stored = {party for party in parties if party[0] == LOG}
        if stored:
            self._begin(event, _STORED, 0, stored, now)
        else:
            self._overlay.acknowledge(event, now)
        if confirms:
            self._begin(event, _ANSWERED, matched, parties, now)

    def settled(self, outcome: Outcome, now: float) -> ReceivedEvent:
        """Handle the outcome of a step of another broker's event: ack it, or send its result. Return the event."""
        event = self._received.pop(-outcome.publisher)
        if outcome.code or outcome.sequence == _ANSWERED:
            self.send_outcome(event, outcome.matched, outcome.code)
        if outcome.sequence == _STORED:
            self._overlay.acknowledge(event, now)
        return event

    # --- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, event: ReceivedEvent, step: int, matched: int, parties: set[Party], now: float) -> None:
        self._handles += 1
        self._received[self._handles] = event
        self._confirmations.begin(-self._handles, step, matched, parties, now)

    def _silent(self, home: int, *, in_charge: bool) -> SilentBroker:
        overlay = self._overlay
        return SilentBroker(self._name(home), in_charge, overlay.map.reaches(overlay.me, home))

    def _name(self, broker: int) -> str:
        return self._overlay.map.name(broker) or f"broker {broker:016x}"

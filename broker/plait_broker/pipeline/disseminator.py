"""The steps *destinations* and *disseminate*: which brokers an event must reach, the log, and who confirms it."""

from __future__ import annotations

from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.overlay_frames import CONFIRM
from plait_core.wire.frame_types.session_frames import Code

from ..adapter.remote_confirmations import RemoteConfirmations
from ..clients.confirmations import Party
from ..clients.delivery import Deliveries
from ..clients.durable.durable_delivery import DurableDelivery
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..overlay import Overlay, ReceivedEvent
from .event_matcher import Match
from .publish_hold import PublishHold
from .sealed_events import SealedEvents

_CODES = {DropReason.DUPLICATE: "", DropReason.EXPIRED: Code.EXPIRED, DropReason.INVALID: DropReason.INVALID}
"""By reason to drop another broker's event, why its publisher gets no confirmation; empty if it has arrived before."""


class Disseminator:
    """Sends events of this broker's clients to other brokers and to the log, and acks the events of other brokers."""

    def __init__(
        self,
        context: BrokerContext,
        overlay: Overlay,
        sealed: SealedEvents,
        deliveries: Deliveries,
        durable_delivery: DurableDelivery,
        remote_confirmations: RemoteConfirmations,
    ) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._overlay = overlay
        self._sealed = sealed
        self._deliveries = deliveries
        self._durable_delivery = durable_delivery
        self._remote = remote_confirmations
        self.hold = PublishHold(context.settings, overlay.event_streams)
        self.destinations = overlay.destinations
        """Returns the brokers that an event must reach. Bound once: it runs for every event."""
        self.send = overlay.publish
        """Sends an event to other brokers, of which nobody waits for confirmation."""
        self.acknowledge = overlay.acknowledge
        """Acks another broker's event: this broker has charge of it."""

    # --- events of clients --------------------------------------------------------------------------------------------

    def disseminate(
        self, frame: Publish, matched: Match, destinations: list[int], delay_us: int, now: float
    ) -> list[int] | None:
        """Stage an event for the log, send it to other brokers, and await what its publisher asked for. Return the
        tokens that the subscriptions acknowledge it by."""
        subscriptions, durables, _ = matched
        subscribers = frame.confirm is Confirm.SUBSCRIBERS
        tokens, parties = self._stage(frame, matched, delay_us, now, subscribers=subscribers)
        if destinations:
            parties.update(self._remote.publish(frame, destinations, delay_us, now, frame.confirm))
        if frame.confirm:
            count = len(subscriptions) + len(durables)
            self._confirmations.begin(frame.publisher, frame.sequence, count, parties, now)
        return tokens

    def repeat(self, frame: Publish, delay_us: int, now: float) -> None:
        """Send an event that was admitted before to other brokers again, if its publisher asks for confirmation anew.
        The broker that sent it first may have died, or this one restarted; brokers that have the event drop it. If the
        log is still storing the event, which another broker may have sent before, the confirmation waits for that."""
        if not frame.confirm or self._confirmations.waits(frame.publisher, frame.sequence):
            return
        verdict = self._sealed.verdict(frame) if self._sealed.keys_elsewhere else None
        destinations = self.destinations(frame, verdict)
        parties = self._durable_delivery.storing(frame)
        if destinations:
            parties.update(self._remote.publish(frame, destinations, delay_us, now, frame.confirm))
        self._confirmations.begin(frame.publisher, frame.sequence, 0, parties, now)

    # --- events of other brokers --------------------------------------------------------------------------------------

    def confirm(self, event: ReceivedEvent, matched: Match, delay_us: int, now: float) -> list[int] | None:
        """Stage another broker's event for the log, and ack it once that is done; send its outcome if its publisher
        waits for subscribers. Return the tokens that the subscriptions acknowledge it by."""
        subscribers = bool(event.flags & CONFIRM)
        tokens, parties = self._stage(event.frame, matched, delay_us, now, subscribers=subscribers)
        self._remote.wait_for(event, parties, len(matched[0]) + len(matched[1]), now)
        return tokens

    def drop(self, event: ReceivedEvent, reason: DropReason, now: float, refused: str = "") -> None:
        """Drop another broker's event, and ack it, so that it is not sent again. A duplicate is acked once the log has
        stored the first copy: it may come from another broker, which confirms the event to its publisher.
        If the first copy was `refused` with a code, the duplicate is as well."""
        if reason is DropReason.EXPIRED:
            self._observer.lost(event.frame, reason, event.delay_us, [self._overlay.me], now)
        elif reason is DropReason.DUPLICATE:
            self._observer.ended(event.frame, reason, event.delay_us, now)
        self._counters.dropped[reason] += 1
        if reason is DropReason.DUPLICATE and (storing := self._durable_delivery.storing(event.frame)):
            self._remote.wait_for(event, storing, 0, now)
            return
        if refused or event.flags & CONFIRM:
            self._remote.send_outcome(event, 0, refused or _CODES[reason])  # first: an ack alone may confirm it
        self.acknowledge(event, now)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _stage(
        self, frame: EventFrame, matched: Match, delay_us: int, now: float, *, subscribers: bool
    ) -> tuple[list[int] | None, set[Party]]:
        """Stage an event for the log if it must be stored. Return the tokens of the subscriptions if the publisher
        awaits `subscribers`, and the parties that confirm the event."""
        subscriptions, durables, _ = matched
        parties: set[Party] = set()
        tokens = self._deliveries.new_tokens(subscriptions, parties) if subscribers else None
        if durables or self._settings.log_filter is not None:
            self._durable_delivery.stage(frame, durables, parties, delay_us, now, subscribers=subscribers)
        return tokens, parties

"""The step from a neighbour's frame to the part that handles it: link frames, envelopes and source-routed frames."""

from __future__ import annotations

from plait_core import PlaitError
from plait_core.errors import FrameError
from plait_core.wire import ControlFrame, Forward, Ping, Pong
from plait_core.wire.frame_types.envelope_frames import EndToEnd, Signed, SourceRouted, read_message
from plait_core.wire.frame_types.frame_schema import UnknownFrame
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupFrame, GroupOpen, GroupRepair
from plait_core.wire.frame_types.overlay_frames import (
    ClockStamp,
    DatabaseSummary,
    DeliveryOutcome,
    InterestAck,
    InterestUpdate,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.strategy_frames import StrategyMessage
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep

from .outputs import InterestChanged, SendFrame
from .state import OverlayState
from .topology.link_monitor import LinkMonitor
from .topology.neighbours import Neighbour


class MessageHandler:
    """Handles the frames of neighbours."""

    def __init__(self, state: OverlayState, links: LinkMonitor) -> None:
        self._state = state
        self._links = links

    def receive(self, neighbour: Neighbour, frame: ControlFrame | Forward, now: float) -> None:
        """Handle a neighbour's frame. Raise FrameError if it is malformed, Forged if its source did not send it."""
        state = self._state
        match frame:
            case Forward():
                state.event_streams.receive(frame, now, neighbour.id, neighbour.transit.us(now))
            case ClockStamp(at_us, _):
                neighbour.transit.mark(at_us, now)
            case EndToEnd():
                self._receive_envelope(neighbour, frame, now)
            case GroupBatch() | GroupAck() | GroupOpen() | GroupRepair():
                self._receive_group_frame(neighbour, frame, now)
            case Signed():
                state.flooding.receive(frame, neighbour.id)
            case DatabaseSummary():
                state.flooding.receive_summary(frame, neighbour.id)
            case SourceRouted():
                self._receive_routed(neighbour, frame, now)
            case StrategyMessage():
                self._receive_strategy_message(neighbour, frame, now)
            case Ping(nonce):
                state.outputs.append(SendFrame(neighbour.link, Pong(nonce)))
            case Pong(nonce):
                neighbour.pong(nonce, now)
                self._links.measured(now)
            case UnknownFrame():  # from a newer broker, without an agreed capability
                state.counts["unknown_frames"] += 1
            case _:
                state.counts["unexpected"] += 1

    def _receive_group_frame(self, neighbour: Neighbour, frame: GroupFrame, now: float) -> None:
        groups = self._state.groups
        match frame:
            case GroupBatch():
                link_us = neighbour.transit.us(now)
                neighbour.events_arrived(link_us, 1, now)
                groups.receive_batch(neighbour.id, frame, link_us, now)
            case GroupAck():
                groups.receive_ack(neighbour.id, frame, now)
            case GroupOpen():
                groups.receive_open(neighbour.id, frame, now)
            case GroupRepair():
                groups.receive_repair(neighbour.id, frame, now)

    def _receive_strategy_message(self, neighbour: Neighbour, message: StrategyMessage, now: float) -> None:
        state = self._state
        if message.strategy != state.strategy.name:
            state.counts["other_strategy"] += 1
            return
        try:
            state.strategy.receive_control(neighbour.id, message.body, now)
        except FrameError:
            state.counts["unexpected"] += 1

    def _receive_envelope(self, neighbour: Neighbour, envelope: EndToEnd, now: float) -> None:
        """Handle the message if it is for this broker, and relay it to its other destinations."""
        state = self._state
        if envelope.source == state.me:
            state.counts["loops"] += 1
            return
        if state.me in envelope.to:
            self._receive_message(envelope, envelope.to.index(state.me), now)
            if len(envelope.to) == 1:
                return
        state.unicast.pass_on(envelope, neighbour, now)

    def _receive_routed(self, neighbour: Neighbour, routed: SourceRouted, now: float) -> None:
        frame = self._state.unicast.receive_routed(routed, neighbour, now)
        if isinstance(frame, Forward):
            self._state.event_streams.receive(frame, now, neighbour.id, 0)
        elif frame is not None:
            self._receive_envelope(neighbour, frame, now)

    def _receive_message(self, envelope: EndToEnd, at: int, now: float) -> None:
        """Handle a message for this broker. Raise Forged if its source did not send it.

        A relay does not read the message, so the neighbour is not to blame for one that cannot be read.
        """
        state = self._state
        state.message_auth.check_message(envelope, at)
        try:
            message = read_message(envelope, at)
        except FrameError:
            state.counts["bad_messages"] += 1
            return
        match message:
            case StreamAck():  # most messages are acks
                state.event_streams.receive_ack(message, now)
            case None:
                state.counts["unknown_messages"] += 1
            case InterestUpdate():
                self._receive_interest_update(message, now)
            case InterestAck():
                state.interest_sync.receive_ack(message.source, message.version, message.offers, message.asked, now)
            case StreamSkip():
                state.event_streams.receive_skip(message, now)
            case DeliveryOutcome() | TraceStep() | Query() | QueryResult():
                state.outputs.append(message)

    def _receive_interest_update(self, update: InterestUpdate, now: float) -> None:
        state, interest = self._state, self._state.remote_interest
        try:
            asked, offers = update.versions[0], update.offers[0]
            version = interest.apply(update, asked, offers)
        except PlaitError:
            state.counts["bad_filters"] += 1
            return
        fingerprint = state.advertisements.fingerprint(state.me)
        ack = InterestAck(update.source, state.me, version, fingerprint, asked)
        if not update.more and version == asked:
            interest.complete(update.source, now)
            state.durable_interest_store.complete(update.source)
        state.durable_interest_store.answer(ack, interest.homes[update.source].repeats, now)
        state.strategy.interest_changed(update.source, now)
        state.outputs.append(InterestChanged())

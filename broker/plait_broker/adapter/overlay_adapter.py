"""The adapter from the overlay to the broker: it gives each output of the overlay to the part that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from ..clients.durable.durable_subscriptions import DurableSubscriptions
from ..outputs import Remark
from ..overlay import ReceivedEvent
from ..overlay.discovery.broker_connections import BrokerConnections
from ..overlay.outputs import (
    Acked,
    Advertised,
    CloseLink,
    CopyDropped,
    ExpelBroker,
    Installed,
    InterestChanged,
    LogRemark,
    Lost,
    Output,
    RelayFrame,
    SendBatch,
    SendFrame,
    StoreDocument,
)
from ..overlay.transport.event_copy import CopyRun
from ..pipeline.pipeline import EventPipeline
from ..pipeline.subscription_index import SubscriptionIndex
from ..tracing.explainer import Explainer
from .overlay_parts import OverlayParts


class OverlayAdapter:
    """Carries out the outputs of one broker's overlay."""

    def __init__(
        self,
        parts: OverlayParts,
        pipeline: EventPipeline,
        index: SubscriptionIndex,
        durables: DurableSubscriptions,
        broker_connections: BrokerConnections,
        explainer: Explainer,
    ) -> None:
        links, confirmations = parts.links, parts.confirmations
        self._overlay = parts.overlay
        self._links = links
        self._index = index
        self._durables = durables
        self._broker_connections = broker_connections
        self._explainer = explainer
        self.remarks: list[Remark] = []
        """Remarks for the operator, to take."""
        self._map_revision = -1
        self._handlers: Final[dict[type, Callable[[Any, float], None]]] = {
            CopyRun: links.forward,
            ReceivedEvent: pipeline.receive_remote,
            SendBatch: links.send_batch,
            SendFrame: links.send,
            RelayFrame: links.relay,
            CopyDropped: links.dropped,
            Acked: confirmations.acked,
            Lost: confirmations.lost,
            DeliveryOutcome: confirmations.receive_outcome,
            Installed: parts.install_waits.installed,
            Advertised: parts.install_waits.advertised,
            InterestChanged: self._interest_changed,
            StoreDocument: self._store_document,
            TraceStep: self._receive_trace,
            Query: self._receive_trace,
            QueryResult: self._receive_trace,
            CloseLink: self._close,
            ExpelBroker: self._expel,
            LogRemark: self._remark,
        }

    def carry_out(self, now: float) -> None:
        """Carry out what the overlay wants done, and what it wants done because of that.

        If a handler raises, which is an error of ours, that output is lost and the others stay for the next call.
        """
        handlers, overlay = self._handlers, self._overlay
        while overlay.pending:
            outputs = iter(overlay.take_outputs(now))
            output: Output | None = None
            try:
                for output in outputs:
                    handlers[type(output)](output, now)
            except Exception:
                overlay.put_back(outputs)
                if isinstance(output, ReceivedEvent):  # without an ack its stream would stop for ever
                    overlay.acknowledge(output, now)
                raise
        if overlay.map.revision != self._map_revision:
            self._map_revision = overlay.map.revision
            self._broker_connections.look()

    def take_remarks(self) -> list[Remark]:
        """Return the remarks for the operator since the last call."""
        taken, self.remarks = self.remarks, []
        return taken

    def _interest_changed(self, output: InterestChanged, now: float) -> None:
        self._index.doubt_all()  # another broker's filter may meet them, or do so no longer

    def _store_document(self, output: StoreDocument, now: float) -> None:
        self._durables.store_document(output.key, output.document)

    def _receive_trace(self, message: TraceMessage, now: float) -> None:
        self._explainer.receive(message, now)

    def _close(self, output: CloseLink, now: float) -> None:
        connection = self._links.connection(output.link)
        if connection is not None:
            self._broker_connections.close(connection, Code.TIMEOUT, output.reason)

    def _expel(self, output: ExpelBroker, now: float) -> None:
        connection = self._links.connection(output.link)
        if connection is not None:
            self._broker_connections.expel(connection, Code.FORGED, output.reason, now)

    def _remark(self, output: LogRemark, now: float) -> None:
        self.remarks.append(Remark(output.text))

"""Outputs of the overlay: values that `overlay_adapter.py` carries out, in their order.

Received events, outcomes and trace messages are outputs as they are: `ReceivedEvent`, `DeliveryOutcome`, `TraceStep`,
`Query` and `QueryResult`. Copies of events are output as a `CopyRun` for each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from plait_core.wire import ControlFrame, Destination, EventFrame, Forward
from plait_core.wire.frame_types.envelope_frames import Signed
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep

from .transport.event_copy import CopyRun
from .transport.reliable_stream import ReceivedEvent, Unacked

DocumentKey: TypeAlias = tuple[int, int]
"""Origin and number of a stored document; number 0 is the link state, and durable interest counts from 1."""


class SendFrame(NamedTuple):
    """Send a control frame of this broker over a link."""

    link: int
    frame: ControlFrame


class RelayFrame(NamedTuple):
    """Send another broker's control frame over a link, unless the link's queue is full."""

    link: int
    frame: ControlFrame


class SendBatch(NamedTuple):
    """Send events of a stream group over a link, through its lane. `at` is the time for which they state their
    ages."""

    link: int
    batch: GroupBatch
    at: float
    priority: int = 0
    """The highest of the events."""


class CloseLink(NamedTuple):
    link: int
    reason: str


class ExpelBroker(NamedTuple):
    """Close a link and refuse the broker at its other end for a while: no honest broker does what it did."""

    link: int
    reason: str


class LogRemark(NamedTuple):
    """Log a text for the operator of this broker."""

    text: str


class Installed(NamedTuple):
    """All publishers' brokers that can be reached have acked the filter of a subscription."""

    number: int


class Advertised(NamedTuple):
    """All brokers that can be reached have seen an advertisement and sent their interest in it."""

    number: int


class InterestChanged(NamedTuple):
    """Other brokers' interest in the events of this broker's publishers has changed."""


class StoreDocument(NamedTuple):
    """Store another broker's document on disk, or delete it (None). The overlay then wants a call of `stored`."""

    key: DocumentKey
    document: Signed | None


class Acked(NamedTuple):
    """A destination has acked events, given with their positions."""

    destination: int
    events: Sequence[tuple[int, Unacked]]


class Lost(NamedTuple):
    """An event of this broker's clients is given up for a destination. `delay_us` is its age."""

    destination: int
    position: int
    frame: EventFrame
    delay_us: int
    reason: str


class CopyDropped(NamedTuple):
    """A neighbour's copy is not sent on to these destinations. The publisher's broker counts the loss."""

    frame: Forward
    delay_us: int
    destinations: Sequence[Destination]
    reason: str


Output: TypeAlias = (
    CopyRun
    | ReceivedEvent
    | SendFrame
    | RelayFrame
    | SendBatch
    | Acked
    | Lost
    | CopyDropped
    | Installed
    | Advertised
    | InterestChanged
    | StoreDocument
    | DeliveryOutcome
    | TraceStep
    | Query
    | QueryResult
    | CloseLink
    | ExpelBroker
    | LogRemark
)

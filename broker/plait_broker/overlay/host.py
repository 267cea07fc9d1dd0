"""The interface through which the overlay calls its broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from plait_core.wire import ControlFrame, Destination, EventFrame, Forward
from plait_core.wire.frame_types.trace_frames import TraceMessage

from .transport.reliable_stream import ReceivedEvent

if TYPE_CHECKING:
    from plait_core.wire.frame_types.envelope_frames import Signed

    from .interest.durable_interest_store import MemoryKey


class Host(Protocol):
    """The broker, as the overlay sees it."""

    def send(self, link: int, frame: ControlFrame) -> None: ...
    def relay(self, link: int, frame: ControlFrame) -> bool:
        """Relay another broker's frame. Return False if the connection's queue is full."""
        ...

    def forward(
        self,
        link: int,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
    ) -> None: ...
    def close(self, link: int, reason: str) -> None: ...
    def expel(self, link: int, reason: str) -> None:
        """Close a link, and refuse the broker at its other end for a while: it did what no honest broker does."""
        ...

    def remark(self, text: str) -> None:
        """Log a text for the operator of this broker."""
        ...

    def arrived(self, arrival: ReceivedEvent) -> None:
        """Deliver an event to subscribers of this broker. Call `Overlay.take` once the broker has charge of it."""
        ...

    def installed(self, number: int) -> None:
        """Note that all publishers' brokers that can be reached have acked a filter."""
        ...

    def offered(self, number: int) -> None:
        """Note that all brokers that can be reached have seen an advertisement, and sent their interest in it."""
        ...

    def remember(self, key: MemoryKey, document: Signed | None) -> bool:
        """Store another broker's document on disk, or delete it. Return whether `Overlay.stored` will be called for
        it."""
        ...

    def interest_changed(self) -> None:
        """Note that other brokers' interest in events of this one's publishers has changed."""
        ...

    @property
    def waits(self) -> bool:
        """Whether the host needs calls of `taken` now."""
        ...

    def taken(self, home: int, position: int) -> None:
        """Note that a destination has acked an event."""
        ...

    def outcome(self, home: int, position: int, matched: int, code: str) -> None:
        """Take the result of an event with confirmation, as its destination reports it."""
        ...

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        """Note that a destination will not get an event, whose age is `delay_us` now."""
        ...

    def ended(self, frame: Forward, delay_us: int, destinations: Sequence[Destination], reason: str) -> None:
        """Note that a neighbour's copy, whose age is `delay_us` now, is not sent on to these destinations."""
        ...

    def told(self, frame: TraceMessage) -> None:
        """Take another broker's trace step, query or result."""
        ...

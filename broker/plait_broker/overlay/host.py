"""The interface of the overlay to the broker around it."""

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
    """The broker around it."""

    def send(self, link: int, frame: ControlFrame) -> None: ...
    def relay(self, link: int, frame: ControlFrame) -> bool:
        """Send another broker's frame. Return False when the other end does not take it now."""
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
        """Close it, and refuse the broker at its other end for a while: no honest broker does what it did."""
        ...

    def remark(self, text: str) -> None:
        """Log a text for the operator of this broker."""
        ...

    def arrived(self, arrival: ReceivedEvent) -> None:
        """Deliver an event to subscribers of this broker, and `take` it once the broker has charge of it."""
        ...

    def installed(self, number: int) -> None:
        """All publishers' brokers that can be reached have acked a filter."""
        ...

    def offered(self, number: int) -> None:
        """All brokers that can be reached have acked an advertisement, and their interest in it is known here."""
        ...

    def remember(self, key: MemoryKey, document: Signed | None) -> bool:
        """Store another broker's document beyond this one's life, or delete it. Return whether it will be stored, and
        `Overlay.stored` called."""
        ...

    def interest_changed(self) -> None:
        """The interest of other brokers in this one's publishers has changed."""
        ...

    @property
    def waits(self) -> bool:
        """Whether the host uses `taken` now."""
        ...

    def taken(self, home: int, position: int) -> None:
        """A destination has charge of an event."""
        ...

    def outcome(self, home: int, position: int, matched: int, code: str) -> None:
        """A destination reports the result of an event that was to be confirmed."""
        ...

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        """A destination will not get an event, so old by now."""
        ...

    def ended(self, frame: Forward, delay_us: int, destinations: Sequence[Destination], reason: str) -> None:
        """A copy that came from a neighbour, so old by now, goes no further to these."""
        ...

    def told(self, frame: TraceMessage) -> None:
        """Take another broker's trace step, query or result."""
        ...

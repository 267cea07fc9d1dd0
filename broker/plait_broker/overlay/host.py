"""What the overlay asks of the broker around it."""

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
        """Send what somebody else says; False when the other end does not take it now."""
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
        """Close it, and take whoever is there back only after a while: no honest broker does what it did."""
        ...

    def remark(self, text: str) -> None:
        """Something that whoever runs this broker should read."""
        ...

    def arrived(self, arrival: ReceivedEvent) -> None:
        """An event is here for subscribers of this broker: `take` it once it is in charge of it."""
        ...

    def installed(self, number: int) -> None:
        """All publishers' brokers that can be reached know of a filter."""
        ...

    def offered(self, number: int) -> None:
        """All brokers that can be reached know an offer, and what they want of it is known here."""
        ...

    def remember(self, key: MemoryKey, document: Signed | None) -> bool:
        """Store another broker's document beyond this one's life, or delete it. Return whether it will be stored, and
        `Overlay.stored` called."""
        ...

    def interest_changed(self) -> None:
        """Other brokers want something else of this one's publishers."""
        ...

    @property
    def waits(self) -> bool:
        """Whether it is of interest now what is `taken`."""
        ...

    def taken(self, home: int, position: int) -> None:
        """A destination has charge of an event."""
        ...

    def outcome(self, home: int, position: int, matched: int, code: str) -> None:
        """What became there of an event that was to be confirmed."""
        ...

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        """A destination will not get an event, so old by now."""
        ...

    def ended(self, frame: Forward, delay_us: int, destinations: Sequence[Destination], reason: str) -> None:
        """A copy that came from a neighbour, so old by now, goes no further to these."""
        ...

    def told(self, frame: TraceMessage) -> None:
        """Another broker tells of a marked event, asks, or answers."""
        ...

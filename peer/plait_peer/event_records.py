"""What the peers of one process record of events, many at a time as they come and go. No I/O.

Each subscription is a peer of its own, and so is each publisher. So an event arrives once for each subscription that it
is brought to, and expects one delivery there, or none where only the sub-space fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from plait_core.telemetry import TO_BROKER, RecordKind, reason_code
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.peer_frames import Happening
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import Telemetry, TelemetrySettings

from .protocol.outputs import Deliver

_PUBLISH, _ARRIVAL, _FORWARD, _DELIVERY = map(
    int, (RecordKind.PUBLISH, RecordKind.ARRIVAL, RecordKind.FORWARD, RecordKind.DELIVERY)
)

NOT_FOR_IT: Final = frozenset(("unmatched", "invalid", "duplicate", "not_allowed"))
"""Reasons for which an event is dropped where nobody was to have it, or has it already."""

_US: Final = 1_000_000


class Came(NamedTuple):
    """By which way events have come."""

    origin: int
    """The process of their publisher; 0 where that is not known."""
    added_us: int
    """Comes to the delay that they came with."""
    hops: int
    """Peers that they have passed, this one included."""
    now: float


class PeerTelemetry(Telemetry):
    """The records of one process. Of events that come and go many at a time the recorder is told at once."""

    def __init__(self, settings: TelemetrySettings, wall_offset_us: int, records: int = RING_RECORDS) -> None:
        super().__init__(settings, wall_offset_us, records)
        self.arrivals = 0
        """Events that were brought to a subscription, so far."""
        self.handed: Counter[int] = Counter()
        """Events handed to each neighbour since somebody has last looked."""
        self._each: Final = self.ring.each

    def said(self, frames: Sequence[EventFrame], cell: int, copies: int, now: float) -> None:
        """Events of a publisher that lives here, which lie in one cell, go to so many other peers at once; who gets
        them from these, these know."""
        self._each(_PUBLISH, frames, cell, None, 0, copies, 0, 1, 0, now)
        if not copies:
            self._drop(frames, "unmatched", 0, Came(0, 0, 1, now))

    def passed_on(self, frames: Sequence[EventFrame], neighbour: int, came: Came) -> None:
        """Copies were handed to a peer of another process."""
        self.handed[neighbour] += len(frames)
        self._each(_FORWARD, frames, neighbour, None, came.added_us, 1, 0, came.hops, 0, came.now)

    def written(self, frames: Sequence[EventFrame], dropped: int, neighbour: int, now: float) -> None:
        """Events of a publisher that lives here were written to a link, but for the last of them."""
        came, written = Came(0, 0, 1, now), len(frames) - dropped
        self.passed_on(frames[:written] if dropped else frames, neighbour, came)
        if dropped:
            self.not_passed_on(frames[written:], neighbour, "overlay_full", came)

    def not_passed_on(self, frames: Sequence[EventFrame], neighbour: int, reason: str, came: Came) -> None:
        """Copies for a peer of another process end here."""
        self._drop(frames, reason, neighbour, came, flags=TO_BROKER)

    def heard(
        self, frames: Sequence[EventFrame], came: Came, number: int, within_us: int, reason: str = "", flags: int = 0
    ) -> None:
        """Events were brought to the subscription of this number and bound, and delivered if no reason says why not."""
        wanted = reason not in NOT_FOR_IT
        self.arrivals += len(frames)
        self._each(_ARRIVAL, frames, came.origin, None, came.added_us, 0, int(wanted), came.hops, 0, came.now)
        if not reason:
            self._each(_DELIVERY, frames, number, within_us, came.added_us, 1, 1, came.hops, flags, came.now)
        else:
            self._drop(frames, reason, number if wanted else 0, came, bound_us=within_us if wanted else 0)

    def sifted(
        self,
        frames: Sequence[EventFrame],
        wanted: Sequence[EventFrame],
        malformed: Sequence[EventFrame],
        came: Came,
        number: int,
    ) -> None:
        """The same of many events, in the order in which they came; no bound is known to the subscription."""
        if len(wanted) == len(frames):
            self.heard(wanted, came, number, 0)
            return
        known = {id(frame) for frame in (*wanted, *malformed)}
        rest = [frame for frame in frames if id(frame) not in known]
        for some, reason in ((wanted, ""), (malformed, "invalid"), (rest, "unmatched")):
            if some:
                self.heard(some, came, number, 0, reason)

    def dropped_copies(self, frames: Sequence[EventFrame], reason: str, came: Came) -> None:
        """What came once more, or was not asked for; it is no arrival."""
        self._drop(frames, reason, 0, came)

    def _drop(
        self, frames: Sequence[EventFrame], reason: str, subject: int, came: Came, bound_us: int = 0, flags: int = 0
    ) -> None:
        kind = RecordKind.DROP | reason_code(reason) << 8
        self._each(kind, frames, subject, bound_us, came.added_us, 1, 0, came.hops, flags, came.now)


def frames_of(event: Happening) -> tuple[EventFrame]:
    """An event that goes by itself, as what goes many at a time is recorded."""
    return (Publish(Confirm.NONE, event.block),)


def course_of(event: Happening | Deliver, now: float, origin: int = 0) -> Came:
    """How an event got where it is."""
    return Came(origin, int(event.delay * _US), event.hops + 1, now)

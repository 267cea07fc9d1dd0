"""The account of one subscription's deliveries: handed out, dropped by reason, waiting. `client_reports.py` sends it.

Totals count from the time at which the subscription was opened at the present broker. Losses and waiting events are
kept by publisher, so that the broker's telemetry can tell whose events the application has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from plait_core.wire import Deliver
from plait_core.wire.frame_types.session_frames import Unseen

SOURCES_MAX: Final = 16
"""Pairs of reason and publisher that one account keeps apart. Further ones share a line without a publisher."""

SCANNED_MAX: Final = 4096
"""Waiting events whose publisher is read for one report, in less than a millisecond. Of more, shares are estimated."""

_WAITING: Final = Unseen.WAITING.value

Queue: TypeAlias = Sequence[tuple[Deliver, int, int, float]]
"""A subscription's queue of deliveries."""

Source: TypeAlias = tuple[str, int]
"""Reason and publisher; publisher 0 for all others."""


class Line(NamedTuple):
    """Events that the application has not seen, for one reason and of one publisher."""

    reason: str
    publisher: int
    events: int
    """Their number."""
    last: int
    """The sequence number of the last of them."""


class DeliveryAccount:
    """One subscription's."""

    __slots__ = ("_delivered", "_drops", "_lost", "_received", "_reported", "_sent", "carried", "dropped")

    def __init__(self) -> None:
        self.carried = 0
        """Events that waited when the subscription was opened at this broker."""
        self.dropped = 0
        """Events dropped in the client, for any reason."""
        self._lost = 0  # dropped, but never received
        self._received = self._delivered = 0  # the subscription's counters when it was opened at this broker
        self._drops: dict[Source, tuple[int, int]] = {}  # count and last sequence number
        self._sent: dict[Source, int] = {}  # counts as last reported
        self._reported: tuple[int, int, int] | None = None  # figures as last reported

    def begin(self, received: int, delivered: int, waiting: int) -> None:
        """Begin anew: the subscription is being opened at a broker that has no session of this client."""
        self._received, self._delivered, self.carried = received, delivered, waiting
        self.dropped = self._lost = 0
        self._drops, self._sent, self._reported = {}, {}, None

    def drop(self, reason: str, publisher: int, sequence: int, count: int = 1, *, received: bool = True) -> None:
        """Count dropped events. `received`: whether they had arrived in the client."""
        self.dropped += count
        if not received:
            self._lost += count
        source = self._source(self._drops, reason, publisher)
        before = self._drops.get(source)
        self._drops[source] = (count if before is None else before[0] + count, sequence)

    # --- reports ------------------------------------------------------------------------------------------------------

    def has_news(self, delivered: int, waiting: int) -> bool:
        """Return whether the figures have changed since they were last reported."""
        reported = self._reported
        if reported is None:
            return bool(delivered != self._delivered or self.dropped or waiting)
        return reported != (delivered, self.dropped, waiting)

    def take_report(self, received: int, delivered: int, queue: Queue) -> tuple[int, list[Line]]:
        """Return the events handed out, and the lines that have changed since the last report."""
        room = max(0, received - self._received + self._lost + self.carried - self.dropped)
        handed_out = min(max(0, delivered - self._delivered), room)
        lines = {source: Line(*source, count, last) for source, (count, last) in self._drops.items()}
        lines |= self._waiting(queue, min(len(queue), room - handed_out))
        for source in self._sent:
            if source not in lines:  # nothing of this publisher waits any more
                lines[source] = Line(*source, 0, 0)
        changed = [line for source, line in lines.items() if self._sent.get(source, 0) != line.events]
        self._sent = {source: line.events for source, line in lines.items() if line.events}
        self._reported = (delivered, self.dropped, len(queue))
        return handed_out, changed

    def repeat(self) -> None:
        """Report everything again: the last reports may not have arrived."""
        self._reported = None
        self._sent = dict.fromkeys(self._sent, -1)  # no count, so every line has changed

    def _waiting(self, queue: Queue, count: int) -> dict[Source, Line]:
        """Return a line for each publisher of waiting events. Counts add up to `count`."""
        if not count:
            return {}
        found: dict[Source, tuple[int, int]] = {}
        for arrival in islice(queue, SCANNED_MAX):
            frame = arrival[0]
            source = self._source(found, _WAITING, frame.publisher)
            before = found.get(source)
            found[source] = (1 if before is None else before[0] + 1, frame.sequence)
        scanned, lines, left = min(len(queue), SCANNED_MAX), {}, count
        for source, (share, last) in found.items():
            part = min(left, -(-share * count // scanned))
            left -= part
            lines[source] = Line(*source, part, last)
        return lines

    @staticmethod
    def _source(known: dict[Source, tuple[int, int]], reason: str, publisher: int) -> Source:
        source = (reason, publisher)
        return source if source in known or len(known) < SOURCES_MAX else (reason, 0)

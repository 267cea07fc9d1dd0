"""The last step of the overlay's frames and copies: into the connections to neighbours."""

from __future__ import annotations

from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.connection import Connection
from ..counters import Counters
from ..outputs import ConnectionId
from ..overlay import Overlay
from ..overlay.outputs import CopyDropped, RelayFrame, SendFrame
from ..overlay.transport.event_copy import CopyRun, EventCopy
from ..pipeline.observer import EventObserver


class LinkWriter:
    """Writes to the neighbours of one broker. A copy waits while its lane is full."""

    def __init__(
        self,
        overlay: Overlay,
        connections: dict[ConnectionId, Connection],
        counters: Counters,
        observer: EventObserver,
    ) -> None:
        self._overlay = overlay
        self._connections = connections
        self._counters = counters
        self._observer = observer

    def connection(self, link: int) -> Connection | None:
        """Return the connection of a link, or None after its end."""
        return self._connections.get(link)

    def send(self, output: SendFrame, now: float) -> None:
        """Write a control frame of this broker."""
        connection = self._connections.get(output.link)
        if connection is not None:
            connection.send(output.frame)

    def relay(self, output: RelayFrame, now: float) -> None:
        """Write another broker's control frame, if the connection has room. Its source retransmits a refused one."""
        connection = self._connections.get(output.link)
        if connection is None or not connection.relay(output.frame):
            self._overlay.counts["relays_refused"] += 1

    def forward(self, run: CopyRun, now: float) -> None:
        """Write copies of events, or keep them until the connection takes data again."""
        connection = self._connections.get(run.link)
        if connection is None:
            return
        copies, observer = run.copies, self._observer
        self._counters.forwarded += len(copies)
        marked = run.flags & MARKED
        for frame, _, delay_us, flags, _, _ in copies if marked else ():
            if flags & MARKED:
                observer.relayed(frame, delay_us, now)
        lane = connection.lane
        queue = lane.queue
        written = 0 if queue else connection.forward(copies)
        for copy in copies[:written] if marked or observer.telemetry is not None else ():
            self._report(connection, copy, 0, now)
        for copy in copies[written:]:
            if not queue.add(copy, run.at):  # its publisher's broker has it, and retransmits it
                self._overlay.counts["lane_full"] += 1
        if queue:
            lane.note_backlog(now)

    def write_waiting(self, connection: Connection, now: float) -> None:
        """Write the copies that waited for a connection, as many as it takes."""
        lane = connection.lane
        waiting = lane.queue
        if not waiting:
            return
        lane.note_backlog(now)
        before, waited_us = waiting.items, 0
        while waiting and connection.takes_data:
            copy, waited_us = waiting.take(now)
            connection.forward((copy,))
            if self._observer.telemetry is not None or copy[3] & MARKED:
                self._report(connection, copy, waited_us, now)
        if waiting.items < before:
            lane.figures.waited(waited_us, before - waiting.items, now)
            lane.note_backlog(now)

    def dropped(self, output: CopyDropped, now: float) -> None:
        """Report a neighbour's copy that is not sent on."""
        self._observer.lost(output.frame, output.reason, output.delay_us, output.destinations, now)

    def _report(self, connection: Connection, copy: EventCopy, waited_us: int, now: float) -> None:
        """Report a written copy to the observer."""
        neighbour = self._overlay.neighbours.get(connection.neighbour)
        if neighbour is not None:
            self._observer.forwarded(copy, (neighbour.id, round(neighbour.delay_us)), waited_us, now)

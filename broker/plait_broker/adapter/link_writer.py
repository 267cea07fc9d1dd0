"""The last step of the overlay's frames and copies: into the connections to neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.connection import BURST_BYTES_MAX, Connection
from ..counters import Counters
from ..outputs import ConnectionId
from ..overlay import Overlay
from ..overlay.outputs import CopyDropped, RelayFrame, SendBatch, SendFrame
from ..overlay.transport.event_copy import CopyRun, EventCopy
from ..pipeline.observer import EventObserver

TURN_BYTES: Final = 4096
"""Bytes that one of several streams writes before the next has its turn."""


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
        if marked or observer.telemetry is not None:
            self._report(connection, copies[:written], 0, now)
        if written < len(copies):  # its publisher's broker has a refused one, and retransmits it
            refused = queue.add_all(copies[written:] if written else copies, run.at)
            if refused:
                self._overlay.counts["lane_full"] += refused
        if queue:
            lane.note_backlog(now)

    def send_batch(self, output: SendBatch, now: float) -> None:
        """Write events of a stream group, or keep them until the connection takes data again."""
        connection = self._connections.get(output.link)
        if connection is None:
            return
        self._counters.forwarded += 1
        queue = connection.lane.queue
        if queue or not connection.forward_batches((output.batch,)):
            if not queue.add_batch(output.batch, output.at, output.priority):  # the neighbour asks for it again
                self._overlay.counts["lane_full"] += 1
            connection.lane.note_backlog(now)

    def write_waiting(self, connection: Connection, now: float) -> None:
        """Write the copies that waited for a connection, as many as it takes."""
        lane = connection.lane
        queue = lane.queue
        if not queue:
            return
        lane.note_backlog(now)
        before, waited_us = queue.items, 0
        while queue and connection.takes_data:
            run = queue.first
            run_waited_us = run.waited_us(now)
            turn_bytes = TURN_BYTES if queue.shared else BURST_BYTES_MAX
            if run.batches:
                written = connection.forward_batches(run.batches, run_waited_us, turn_bytes)
            else:
                written = connection.forward(run.copies, run_waited_us, turn_bytes)
            if not written:
                break
            waited_us = run_waited_us
            if self._observer.telemetry is not None or run.flags & MARKED:
                self._report(connection, run.copies[:written], waited_us, now)
            queue.remove(written)
        if queue.items < before:
            lane.figures.waited(waited_us, before - queue.items, now)
            lane.note_backlog(now)

    def dropped(self, output: CopyDropped, now: float) -> None:
        """Report a neighbour's copy that is not sent on."""
        self._observer.lost(output.frame, output.reason, output.delay_us, output.destinations, now)

    def _report(self, connection: Connection, copies: Sequence[EventCopy], waited_us: int, now: float) -> None:
        """Report written copies to the observer, with how long they waited."""
        neighbour = self._overlay.neighbours.get(connection.neighbour)
        if neighbour is None:
            return
        to, forwarded = (neighbour.id, round(neighbour.delay_us)), self._observer.forwarded
        for frame, tree, delay_us, flags, path, destinations in copies:
            forwarded((frame, tree, delay_us + waited_us, flags, path, destinations), to, waited_us, now)

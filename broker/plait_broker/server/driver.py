"""Drives the broker protocol with asyncio: input straight in, output once per turn of the loop, one timer, the log.

However many connections have been read in a turn, their output is taken once, after all of them, and each connection
is written to once: what one read brought in leaves in one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from plait_core.sealed_opening import Fit
from plait_core.wire.frame_types.session_frames import Code

from ..broker import Broker
from ..clients.access import Caller
from ..log.event_log import EventLog
from ..outputs import Close, ConnectionId, Dial, Fetch, LogRecord, Output, Persist, Probe, Remark, Send
from .tag_test_pool import TagTestPool
from .tcp_connection import TcpConnection

NO_LOG: Final = "this broker keeps no log (start it with --data DIR)"

TURN_BYTES_MAX: Final = 256 * 1024
"""Bytes read before output is taken, though the turn is not over: libuv reads one busy socket up to 32 times a turn,
and what all that brings for one subscriber would not fit its connection's burst."""

log: Final = logging.getLogger(__name__)


class BrokerDriver:
    """Everything that happens to one broker, from its start to its end."""

    def __init__(self, broker: Broker, event_log: EventLog | None) -> None:
        self.broker = broker
        self._counters = broker.counters
        self._log = event_log
        self._probes = TagTestPool(self._probed_elsewhere)
        self._loop = asyncio.get_running_loop()
        self._connections: dict[ConnectionId, TcpConnection] = {}
        self._links = 0
        self._flush_scheduled = False
        self._turn_bytes = 0
        self._reads = 0
        """In this turn of the loop."""
        self._lone = True
        """Whether the last turn had one read: then so has this one, perhaps, and its output goes out at once."""
        self._output_due = False
        """Whether there may be output that was not written yet."""
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._stopped = False
        self.dial: Callable[[str], None] | None = None
        """Connects to another broker."""
        self.changed = asyncio.Event()
        """Set whenever a connection is gone or the log has answered: the broker may be drained now."""

    def start(self) -> None:
        """Begin to keep deadlines."""
        self._schedule_flush()

    async def drain(self, within_s: float) -> int:
        """Let the broker finish: clients take what is queued, the log what is staged. How many had to be cut off."""
        give_up_at = monotonic() + within_s
        self.broker.drain(monotonic())
        self._schedule_flush()
        while not self._finished and (left_s := give_up_at - monotonic()) > 0:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left_s)
            except TimeoutError:
                break
        return len(self._connections)

    @property
    def _finished(self) -> bool:
        return self.broker.drained and not self._connections

    async def stop(self) -> None:
        """Cut what is still connected, and do nothing more."""
        for connection in list(self._connections.values()):
            connection.abort()
        while self._connections:
            self.changed.clear()
            await self.changed.wait()
        self._stopped = True
        await asyncio.to_thread(self._probes.close)
        if self._timer is not None:
            self._timer.cancel()

    def settings_changed(self) -> None:
        """The broker was given others: its deadlines may have moved."""
        self._schedule_flush()

    async def ask(self, brokers: Iterable[int], topic: str, question: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Ask brokers, of which ours may be one; the answers of those who gave one in time."""
        answered: asyncio.Future[dict[int, dict[str, Any]]] = self._loop.create_future()

        def done(answers: dict[int, dict[str, Any]]) -> None:
            if not answered.done():  # whoever asked may have gone
                answered.set_result(answers)

        self.broker.explaining.inquiries.ask(brokers, topic, question, monotonic(), done)
        self._schedule_flush()
        return await answered

    # --- from connections ---------------------------------------------------------------------------------------------

    def opened(self, connection: TcpConnection, caller: Caller) -> ConnectionId:
        """A connection is there."""
        self._links += 1
        self._connections[self._links] = connection
        self.broker.connected(self._links, caller, monotonic())
        self._schedule_flush()
        return self._links

    def received(self, link: ConnectionId, data: bytes) -> None:
        """Bytes came in."""
        began, counters = monotonic(), self._counters
        published = counters.published
        try:
            self.broker.receive(link, data, began)
        except Exception:
            self._fail(link)
        matched = monotonic()
        self._reads += 1
        self._turn_bytes += len(data)
        self._output_due = True
        try:
            if self._turn_bytes >= TURN_BYTES_MAX or (self._lone and self._reads == 1):
                self._write_output()
        finally:
            if not self._flush_scheduled:
                self._call_flush()
        if published := counters.published - published:
            elapsed_us = int((matched - began) * 1_000_000)
            counters.matching_times.observe(elapsed_us, published)
            if self.broker.telemetry is not None:
                self.broker.telemetry.matched(published, elapsed_us, began)

    def writable(self, link: ConnectionId, writable: bool) -> None:
        """A connection takes bytes again, or for now no more."""
        self.broker.set_writable(link, writable, monotonic())
        self._schedule_flush()

    def lost(self, link: ConnectionId) -> None:
        """A connection is gone."""
        del self._connections[link]
        self.broker.disconnected(link, monotonic())
        self._schedule_flush()

    def _fail(self, link: ConnectionId) -> None:
        """The broker raised, which is our mistake: the one connection that led there pays for it, and nobody else."""
        log.exception("internal error: please report this; the connection that led to it is cut")
        self.broker.counters.faults["internal"] += 1
        self._connections[link].abort()

    # --- output -------------------------------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        self._output_due = True
        self._call_flush()

    def _call_flush(self) -> None:
        if not self._flush_scheduled and not self._stopped:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self._stopped:
            self._lone, self._reads = self._reads <= 1, 0
            try:
                if self._output_due:
                    self._write_output()
            finally:
                self._keep_deadline()
                self.changed.set()

    def _write_output(self) -> None:
        self._turn_bytes, self._output_due = 0, False
        for output in self.broker.take_output():
            if type(output) is Send:
                connection = self._connections.get(output.connection)
                if connection is not None:
                    connection.write(output.chunks)
            else:
                self._carry_out(output)

    def _carry_out(self, output: Output) -> None:
        match output:
            case Close(link, reason):
                connection = self._connections.get(link)
                if connection is not None:
                    level = logging.DEBUG if reason == Code.BYE else logging.INFO
                    log.log(level, "closing connection %d: %s", link, reason)
                    connection.close()
            case Dial(address):
                assert self.dial is not None, "a broker that dials has a face that does"
                self.dial(address)
            case Persist():
                self._persist(output)
            case Fetch():
                self._fetch(output)
            case Probe():
                self._probes.test(output)
            case Remark(text):
                log.warning("%s", text)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _keep_deadline(self) -> None:
        """Have one timer run out at the next deadline. One that runs out too early costs less than moving it."""
        deadline = self.broker.next_deadline()
        if self._timer is not None and self._timer_at <= deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        wait_s = deadline - monotonic()
        self._timer = self._loop.call_later(wait_s, self._tick) if wait_s > 0 else self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._stopped:
            try:
                self.broker.tick(monotonic())
            finally:
                self._output_due = True
                self._flush()

    # --- what runs elsewhere: the log, tests of tags ------------------------------------------------------------------

    def _persist(self, persist: Persist) -> None:
        if self._log is None:
            self._loop.call_soon(self._persisted, persist.ticket, NO_LOG)
        else:
            self._log.persist(persist, self._persisted_elsewhere)

    def _fetch(self, fetch: Fetch) -> None:
        if self._log is None:
            self._loop.call_soon(self._fetched, fetch.ticket, [], False, NO_LOG)
        else:
            self._log.fetch(fetch, self._fetched_elsewhere)

    def _persisted_elsewhere(self, ticket: int, error: str | None) -> None:
        """In the log's thread."""
        self._loop.call_soon_threadsafe(self._persisted, ticket, error)

    def _fetched_elsewhere(self, ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        """In the log's thread."""
        self._loop.call_soon_threadsafe(self._fetched, ticket, records, lost, error)

    def _probed_elsewhere(self, ticket: int, fits: Sequence[Fit] | None) -> None:
        """In a thread that tests tags."""
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._probed, ticket, fits)

    def _probed(self, ticket: int, fits: Sequence[Fit] | None) -> None:
        if not self._stopped:
            self.broker.probed(ticket, fits, monotonic())
            self._schedule_flush()

    def _persisted(self, ticket: int, error: str | None) -> None:
        if not self._stopped:
            self.broker.persisted(ticket, error, monotonic())
            self._schedule_flush()

    def _fetched(self, ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        if not self._stopped:
            self.broker.fetched(ticket, records, lost, error, monotonic())
            self._schedule_flush()

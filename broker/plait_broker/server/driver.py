"""Drives the broker protocol with asyncio: input directly, output once per turn of the loop, one timer, the log.

All connections that are readable in a turn are read before output is taken once, and each connection is written to
once: the results of one read leave in one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Final

from plait_core.values import Json
from plait_core.wire.frame_types.session_frames import Code

from ..broker import Broker
from ..clients.access import Caller
from ..log.event_log import EventLog
from ..outputs import Close, ConnectionId, Dial, Fetch, Linked, LogRecord, Output, Persist, Probe, Probed, Remark, Send
from .tag_test_pool import TagTestPool
from .tcp_connection import TcpConnection

NO_LOG: Final = "this broker keeps no log (start it with --data DIR)"

TURN_BYTES_MAX: Final = 256 * 1024
"""Bytes read after which output is taken within a turn. libuv reads one busy socket up to 32 times a turn, and the
deliveries of all that to one subscriber would exceed its connection's burst."""

RETRY_OUTPUT_S: Final = 0.05
"""Time after an internal error until output is taken again, unless there is input before: an error that repeats must
neither fill the processor nor the log."""

log: Final = logging.getLogger(__name__)


class BrokerDriver:
    """Runs one broker, from its start to its end."""

    def __init__(self, broker: Broker, event_log: EventLog | None) -> None:
        self.broker = broker
        self._counters = broker.counters
        self._log = event_log
        self._tag_tests = TagTestPool(self._probed_in_thread)
        self._loop = asyncio.get_running_loop()
        self._connections: dict[ConnectionId, TcpConnection] = {}
        self._links = 0
        self._flush_scheduled = False
        self._turn_bytes = 0
        self._reads = 0
        """Reads in this turn of the loop."""
        self._single_read = True
        """Whether the last turn had a single read. This turn then probably has one too, and its output is written at
        once."""
        self._output_due = False
        """Whether there may be unwritten output."""
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._stopped = False
        self._dial: Callable[[str], None] | None = None
        self.changed = asyncio.Event()
        """Set whenever a connection is lost or the log has answered: the broker may be drained."""

    def start(self, dial: Callable[[str], None]) -> None:
        """Start to carry out outputs and to keep deadlines. `dial` connects to another broker."""
        self._dial = dial
        self._schedule_flush()

    async def drain(self, within_s: float) -> int:
        """Let clients read what is queued and the log store what is staged; return the number of connections that
        remain."""
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
        """Abort the remaining connections, and do nothing more."""
        for connection in list(self._connections.values()):
            connection.abort()
        while self._connections:
            self.changed.clear()
            await self.changed.wait()
        self._stopped = True
        await asyncio.to_thread(self._tag_tests.close)
        if self._timer is not None:
            self._timer.cancel()

    def settings_changed(self) -> None:
        """Recompute the deadline after a change of settings."""
        self._schedule_flush()

    async def query_brokers(self, brokers: Iterable[int], topic: str, query: Json) -> dict[int, Json]:
        """Query brokers, which may include this one; return the results of those that answered in time."""
        answered: asyncio.Future[dict[int, Json]] = self._loop.create_future()

        def done(answers: dict[int, Json]) -> None:
            if not answered.done():  # the request may have been cancelled
                answered.set_result(answers)

        self.broker.explainer.queries.start(brokers, topic, query, monotonic(), done)
        self._schedule_flush()
        return await answered

    # --- from connections ---------------------------------------------------------------------------------------------

    def opened(self, connection: TcpConnection, caller: Caller) -> ConnectionId:
        """Register a new connection."""
        self._links += 1
        self._connections[self._links] = connection
        self.broker.connected(self._links, caller, monotonic())
        self._schedule_flush()
        return self._links

    def received(self, link: ConnectionId, data: bytes) -> None:
        """Pass bytes to the broker."""
        began, counters = monotonic(), self._counters
        before = counters.published + counters.copies
        try:
            self.broker.receive(link, data, began)
        except Exception:
            self._fail(link)
        matched = monotonic()
        self._reads += 1
        self._turn_bytes += len(data)
        self._output_due = True
        try:
            if self._turn_bytes >= TURN_BYTES_MAX or (self._single_read and self._reads == 1):
                self._write_output()
        finally:
            if not self._flush_scheduled:
                self._call_flush()
        if events := counters.published + counters.copies - before:
            elapsed_us = int((matched - began) * 1_000_000)
            counters.matching_times.observe(elapsed_us, events)
            if self.broker.telemetry is not None:
                self.broker.telemetry.matched(events, elapsed_us, began)
        counters.busy_s += monotonic() - began

    def writable(self, link: ConnectionId, writable: bool) -> None:
        """Report that a connection accepts bytes again, or that its write buffer is full."""
        self.broker.set_writable(link, writable, monotonic())
        self._schedule_flush()

    def lost(self, link: ConnectionId) -> None:
        """Report that a connection is lost."""
        del self._connections[link]
        self.broker.disconnected(link, monotonic())
        self._schedule_flush()

    def _fail(self, link: ConnectionId) -> None:
        """Abort the one connection whose input made the broker raise, which is an error of ours."""
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
            began = monotonic()
            self._single_read, self._reads = self._reads <= 1, 0
            try:
                if self._output_due:
                    self._write_output()
            finally:
                self._keep_deadline()
                self.changed.set()
                self._counters.busy_s += monotonic() - began

    def _write_output(self) -> None:
        self._turn_bytes, self._output_due = 0, False
        try:
            outputs = self.broker.take_output()
        except Exception:
            self._retry_output()
            return
        for output in outputs:
            if type(output) is Send:
                connection = self._connections.get(output.connection)
                if connection is not None:
                    connection.write(output.chunks)
            else:
                self._carry_out(output)

    def _retry_output(self) -> None:
        """Take the output again soon: the broker raised, which is an error of ours, and keeps what is left of it."""
        log.exception("internal error: please report this; one step is lost, the rest is tried again")
        self.broker.counters.faults["internal"] += 1
        self._output_due = True
        self._loop.call_later(RETRY_OUTPUT_S, self._call_flush)

    def _carry_out(self, output: Output) -> None:
        match output:
            case Close(link, reason):
                connection = self._connections.get(link)
                if connection is not None:
                    level = logging.DEBUG if reason == Code.BYE else logging.INFO
                    log.log(level, "closing connection %d: %s", link, reason)
                    connection.close()
            case Dial(address):
                assert self._dial is not None, "outputs are carried out after the start"
                self._dial(address)
            case Linked(link):
                linked = self._connections.get(link)
                if linked is not None:
                    linked.limit_unsent()
            case Persist():
                self._persist(output)
            case Fetch():
                self._fetch(output)
            case Probe():
                self._tag_tests.test(output)
            case Remark(text):
                log.warning("%s", text)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _keep_deadline(self) -> None:
        """Keep one timer for the next deadline. A timer that fires too early costs less than moving it."""
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
            began = monotonic()
            try:
                self.broker.tick(began)
            finally:
                self._counters.busy_s += monotonic() - began
                self._output_due = True
                self._flush()

    # --- threads: the log, tests of tags ------------------------------------------------------------------------------

    def _persist(self, persist: Persist) -> None:
        if self._log is None:
            self._loop.call_soon(self._persisted, persist.ticket, NO_LOG)
        else:
            self._log.persist(persist, self._persisted_in_thread)

    def _fetch(self, fetch: Fetch) -> None:
        if self._log is None:
            self._loop.call_soon(self._fetched, fetch.ticket, [], False, NO_LOG)
        else:
            self._log.fetch(fetch, self._fetched_in_thread)

    def _persisted_in_thread(self, ticket: int, error: str | None) -> None:
        """Answer a Persist, from the log's thread."""
        self._loop.call_soon_threadsafe(self._persisted, ticket, error)

    def _fetched_in_thread(self, ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        """Answer a Fetch, from the log's thread."""
        self._loop.call_soon_threadsafe(self._fetched, ticket, records, lost, error)

    def _probed_in_thread(self, ticket: int, answer: Probed | None) -> None:
        """Answer a Probe, from a thread that tests tags."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._probed, ticket, answer)

    def _probed(self, ticket: int, answer: Probed | None) -> None:
        if not self._stopped:
            self.broker.probed(ticket, answer, monotonic())
            self._schedule_flush()

    def _persisted(self, ticket: int, error: str | None) -> None:
        if not self._stopped:
            self.broker.persisted(ticket, error, monotonic())
            if self._log is not None:
                self.broker.trimmed(self._log.first_position)
            self._schedule_flush()

    def _fetched(self, ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        if not self._stopped:
            self.broker.fetched(ticket, records, lost, error, monotonic())
            self._schedule_flush()

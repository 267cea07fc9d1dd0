"""A live peer: the peers of one process on asyncio, with TCP links to other processes and sessions of applications.

Nothing is awaited between a read and a write. An application's session reaches its `SdkSession` through memory
(`SdkTransport`): its frames are handled at once, and it reads the answers in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Any, Final, cast

from plait_core.errors import PlaitError
from plait_core.rate_limit import TokenBucket
from plait_net.multicast_socket import MulticastSocket
from plait_telemetry.recording import Recording, TelemetryConfig

from .discovery import DATAGRAM_BYTES_MAX, GROUP, Announcements
from .event_records import PeerTelemetry
from .group import Group
from .link import Link, LinkRefused
from .link_cipher import NewCipher, new_noise_cipher
from .node import Node
from .periodic_samples import Sampler
from .protocol.policies import MeasuredDelay, Policies
from .protocol.settings import PeerSettings
from .sdk.session import SdkSession

log: Final = logging.getLogger(__name__)

PERIOD_S: Final = 0.3
"""The period of gossip, keepalives and connection management."""
SILENCE_PERIODS: Final = 5
"""Periods after which a silent peer counts as dead: less than two seconds, but longer than a process waits for its turn
on a busy machine."""
DUPLICATES_MAX: Final = 65_536
"""Events remembered to detect duplicates: half a minute at 2,000 a second, the rate for a group of twenty."""
FALSE_SHARE: Final = 0.1
"""The share of all events that a peer accepts as false positives for a better place (thesis 2.5)."""
LIVE: Final = PeerSettings(
    policies=Policies(link_cost=MeasuredDelay(unmeasured_s=0.001)),
    period_s=PERIOD_S,
    silence_periods=SILENCE_PERIODS,
    false_share=FALSE_SHARE,
    confirming=True,
    duplicates_max=DUPLICATES_MAX,
)
DIAL_S: Final = 2.0
"""Timeout of a dial."""
WRITE_BUFFER_BYTES: Final = 16 * 1024
"""Bytes buffered in a connection before the node queues. Control frames overtake events in the node's queue alone, so
this and `UNSENT_BYTES` are the bytes behind which a keepalive waits: half a second of 1 Mbit/s with a write. Peers that
wait three times as long for an answer give up."""
UNSENT_BYTES: Final = 16 * 1024
"""Bytes that the kernel holds and has not sent, above what is on its way."""
RECEIVE_BYTES: Final = 64 * 1024
"""Receive buffer of a connection (the kernel doubles it). uvloop reads on while it can fill its own 256 KiB, megabytes
at a time. Keepalives that wait meanwhile would make peers look dead."""
CONGESTED_BYTES: Final = 4 << 20
"""Bytes queued for one link at which applications are asked to pause: far below the limit at which events are
dropped."""
REFUSALS_LOGGED: Final = 5
REFUSALS_LOGGED_PER_S: Final = 0.1
"""Log lines about refused links: a few at once, then one in ten seconds. Strangers cannot fill the log."""


class ListenFailed(PlaitError):
    """The address cannot be listened on now."""

    retryable = True


class PeerServer:
    """All peers of one process, and the sessions of its applications."""

    def __init__(
        self,
        group: Group,
        *,
        name: str = "peer",
        settings: PeerSettings = LIVE,
        telemetry: TelemetryConfig | None = None,
        new_cipher: NewCipher = new_noise_cipher,
    ) -> None:
        """`telemetry` is the directory for records (None: no telemetry), `new_cipher` makes the encryption of links."""
        self.group = group
        self.node: Node
        self.address = ""
        self._name = name
        self._settings = settings
        self._telemetry_config = telemetry
        self._new_cipher = new_cipher
        self._recording: Recording | None = None
        self._loop = asyncio.get_running_loop()
        self._rng = random.SystemRandom()
        self._transports: list[SdkTransport] = []
        self._connections: dict[int, LinkConnection] = {}
        self._last_link = 0
        self._server: asyncio.Server | None = None
        self._multicast: MulticastSocket | None = None
        self._dials: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_session_tick = 0.0
        self._seeds: list[str] = []
        self._silent: set[str] = set()
        """Seeds that did not answer, which was logged."""
        self._logged: LinkRefused | None = None
        """The last refusal, which was logged or left out."""
        self._refusals_to_log = TokenBucket(REFUSALS_LOGGED_PER_S, REFUSALS_LOGGED, monotonic())
        self._closed = False

    async def start(self, *, listen: str, advertise: str = "", join: list[str], discover: bool, interface: str) -> None:
        """Listen, and look for other processes: at addresses, by multicast, or both."""
        host, _, port = listen.rpartition(":")
        try:
            self._server = await self._loop.create_server(lambda: LinkConnection(self, ""), host.strip("[]"), int(port))
        except OSError as error:
            raise ListenFailed(
                f"cannot listen on {listen}: {_reason(error)}", hint="name another address, or port 0 for any"
            ) from error
        bound = self._server.sockets[0].getsockname()[1]
        self.address = advertise or f"{host}:{bound}"
        now = monotonic()
        events = self._new_telemetry(now)
        self.node = Node(
            self.group,
            self.address,
            self._rng,
            self._settings,
            now=now,
            telemetry=events,
            new_cipher=self._new_cipher,
        )
        self._seeds = [seed for seed in join if seed != self.address]
        if discover:
            self._multicast = self._multicast_socket(interface, now)
            self._multicast.start()
        self._tick()
        if events is not None and self._telemetry_config is not None:
            sampler, folder = Sampler(self.node, self._name, events, lambda: self.sessions), f"peer-{self._name}"
            recording = Recording(self.node.id, folder, events, sampler, self._telemetry_config, events.wall_us(now))
            await recording.start()
            self._recording = recording

    def _multicast_socket(self, interface: str, now: float) -> MulticastSocket:
        announcements = Announcements(self.group, self.node.id, self.address, self._rng, now)

        def receive(datagram: bytes, host: str, now: float) -> None:
            address = announcements.receive(datagram, now)
            if address is not None:
                self.node.link_table.dial(address)
                self.carry_out()

        return MulticastSocket(
            announcements,
            receive,
            group=GROUP,
            interface=interface,
            bytes_max=DATAGRAM_BYTES_MAX,
            missing="peers are not discovered",
        )

    def _new_telemetry(self, now: float) -> PeerTelemetry | None:
        """Return telemetry with wall-clock timestamps, as applications date events, or None if it is disabled."""
        if self._telemetry_config is None:
            return None
        return PeerTelemetry(self._telemetry_config.settings, time_ns() // 1000 - round(now * 1_000_000))

    async def close(self) -> None:
        """Leave the group, and write what is queued."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._multicast is not None:
            self._multicast.close()
        for transport in self._transports:
            transport.session.disconnected(monotonic())
        if self._recording is not None:
            await self._recording.stop()  # its last sample still counts the sessions
        self._leave(monotonic())
        for task in self._dials:
            task.cancel()
        if self._dials:
            await asyncio.wait(self._dials)
        if self._server is not None:
            self._server.close()
        connections = list(self._connections.values())
        for connection in connections:
            connection.end()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=1.0)
        for connection in connections:
            connection.transport.abort()

    async def dial(self, address: object, make: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Connect an application in this process to a new session."""
        transport = SdkTransport(self, SdkSession(self.node, self._name), make())
        self._transports.append(transport)
        transport.protocol.connection_made(transport)
        return transport

    @property
    def sessions(self) -> list[SdkSession]:
        """The sessions of the applications."""
        return [transport.session for transport in self._transports]

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def link_opened(self, connection: LinkConnection) -> int:
        """Register a new connection and return its link id."""
        self._last_link += 1
        self._connections[self._last_link] = connection
        self.node.connected(self._last_link, connection.dialled, monotonic())
        self.carry_out()
        return self._last_link

    def received(self, link: int, data: bytes) -> None:
        """Handle bytes from another process."""
        began, telemetry = monotonic(), self.node.telemetry
        arrivals = telemetry.arrivals if telemetry is not None else 0
        self.node.received(link, data, began)
        self._log_refusal(began)
        if telemetry is not None and telemetry.arrivals > arrivals:
            telemetry.matched(telemetry.arrivals - arrivals, int((monotonic() - began) * 1_000_000), began)
        for transport in self._transports:
            if transport.session.size:
                transport.flush()
        self.carry_out()

    def writable(self, link: int, writable: bool) -> None:
        """Stop or resume writing to a connection."""
        known = self.node.links.get(link)
        if known is not None:
            known.paused = not writable
            if link in self._connections:
                self._connections[link].write(known)
        self._apply_backpressure()

    def link_lost(self, link: int) -> None:
        """Remove a closed connection."""
        self._connections.pop(link, None)
        if not self._closed:
            now = monotonic()
            self.node.disconnected(link, now)
            if not self.node.links:  # with links to others, the other process has probably just ended
                self._log_refusal(now)
            self.carry_out()

    def session_closed(self, transport: SdkTransport) -> None:
        """Remove the session of an application that has disconnected."""
        if transport in self._transports:
            self._transports.remove(transport)
            transport.session.disconnected(monotonic())
            self.carry_out()

    def carry_out(self) -> None:
        """Open connections, write queued bytes and hand answers to the applications."""
        if self._closed:
            return
        for dial in self.node.link_table.take_dials():
            task = self._loop.create_task(self._dial(dial.address), name=f"plait peer dials {dial.address}")
            self._dials.add(task)
            task.add_done_callback(self._dials.discard)
        self._write()
        for transport in self._transports:
            if transport.session.size:
                transport.flush_soon()
        self._apply_backpressure()

    # --- internals ----------------------------------------------------------------------------------------------------

    def _leave(self, now: float) -> None:
        """Leave the group. Nothing overtakes the goodbyes, so each link hands over all that waits."""
        self.node.leave(now)
        for id, connection in self._connections.items():
            connection.write(self.node.links[id], all=True)

    def _log_refusal(self, now: float) -> None:
        """Log why a link was refused, unless strangers make this too frequent."""
        refusal = self.node.refusal
        if refusal is not self._logged:
            self._logged = refusal
            if self._refusals_to_log.take(now):
                log.warning("a link was refused: %s", refusal)

    def _write(self) -> None:
        node = self.node
        for id in node.link_table.take_writable():
            link, connection = node.links.get(id), self._connections.get(id)
            if link is not None and connection is not None:
                connection.write(link)
        for id in node.link_table.take_closing():
            if id in self._connections:
                self._connections[id].end()

    def _apply_backpressure(self) -> None:
        """Ask applications to pause while a link or their session is congested."""
        full = any(link.paused and link.size > CONGESTED_BYTES for link in self.node.links.values())
        for transport in self._transports:
            transport.set_congested(congested=full or transport.session.congested)

    def _tick(self) -> None:
        now = monotonic()
        self.node.tick(now)
        if now >= self._next_session_tick:
            self._next_session_tick = now + self._settings.period_s
            for transport in self._transports:
                transport.session.tick(now)
            if self._seeds and not self.node.links:
                for seed in self._seeds:
                    self.node.link_table.dial(seed)
        self.carry_out()
        after = max(0.0, min(self.node.next_deadline(), self._next_session_tick) - monotonic())
        self._timer = self._loop.call_later(after, self._tick)

    async def _dial(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(DIAL_S):
                await self._loop.create_connection(lambda: LinkConnection(self, address), host.strip("[]"), int(port))
        except (OSError, ValueError, TimeoutError) as error:
            if address in self._seeds and address not in self._silent and not self.node.links:
                self._silent.add(address)
                log.warning("no peer answers at %s: %s; trying again", address, _reason(error))
            else:
                log.debug("cannot connect to %s: %s", address, error)
            self.node.unreachable(address, monotonic())
            self.carry_out()


def _reason(error: Exception) -> str:
    """Return why a connection failed."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return (os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "") or str(error)


class LinkConnection(asyncio.Protocol):
    """One TCP connection to another process."""

    transport: asyncio.Transport

    def __init__(self, server: PeerServer, dialled: str) -> None:
        self.dialled = dialled
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = server
        self._link = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._link = self._server.link_opened(self)

    def data_received(self, data: bytes) -> None:
        self._server.received(self._link, data)

    def pause_writing(self) -> None:
        self._server.writable(self._link, False)

    def resume_writing(self) -> None:
        self._server.writable(self._link, True)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._server.link_lost(self._link)

    def write(self, link: Link, *, all: bool = False) -> None:
        """Write what is queued while the transport accepts bytes, or all of it."""
        while link.size and (all or not link.paused) and not self.transport.is_closing():
            self.transport.write(link.take())

    def end(self) -> None:
        """Close the connection once its bytes are written."""
        self.transport.close()


class SdkTransport(asyncio.Transport):
    """An in-memory connection between an application's session and its `SdkSession`."""

    def __init__(self, server: PeerServer, session: SdkSession, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.session = session
        self.protocol = protocol
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._due = self._closed = self._reading_paused = self._congested = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closed:
            self.session.receive(bytes(data), monotonic())
            self._server.carry_out()

    def flush_soon(self) -> None:
        """Hand over queued bytes in the next turn, when the application is not in the middle of a call."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand over queued bytes now."""
        self._due = False
        session = self.session
        if self._closed:
            return
        if self._reading_paused:
            session.client_bytes = session.size
            return
        session.client_bytes = 0
        if session.size:
            self.protocol.data_received(session.take())
        if session.ended:
            self.close()

    def set_congested(self, *, congested: bool) -> None:
        """Ask the application to pause or resume publishing."""
        if congested != self._congested and not self._closed:
            self._congested = congested
            (self.protocol.pause_writing if congested else self.protocol.resume_writing)()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._end)

    abort = close

    def _end(self) -> None:
        self._server.session_closed(self)
        self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self.flush_soon()

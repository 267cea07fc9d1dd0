"""A live peer's face: one process' peers on asyncio, with TCP links to others and a way in for its application.

Nothing is awaited between a read and a write. The application's session meets its `SdkSession` through memory
(`SdkTransport`): what it writes is carried out at once, what is for it is read in the same turn of the loop that it
came in.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Any, Final, cast

from plait_core.errors import PlaitError
from plait_net.multicast_socket import MulticastSocket
from plait_telemetry.recording import Recording, TelemetryPlace

from .discovery import DATAGRAM_BYTES_MAX, GROUP, Announcements
from .event_records import PeerTelemetry
from .group import Group
from .node import Node
from .periodic_samples import Sampler
from .protocol.policies import MeasuredDelay, Policies
from .protocol.settings import PeerSettings
from .sdk_session import SdkSession

log: Final = logging.getLogger(__name__)

PERIOD_S: Final = 0.3
"""Of gossip, pulses and looking for parents."""
SILENCE_PERIODS: Final = 5
"""A death that closes no connection is noticed after so many: below two seconds; a process that has to wait for its
turn on a busy machine is not taken for dead."""
DUPLICATES_MAX: Final = 65_536
"""Events that are remembered: half a minute of the 2,000 a second that a group of twenty is made for."""
FALSE_SHARE: Final = 0.1
"""Of all events, what a peer takes in vain for the sake of a better place (thesis 2.5)."""
LIVE: Final = PeerSettings(
    policies=Policies(link_cost=MeasuredDelay(unmeasured_s=0.001)),
    period_s=PERIOD_S,
    silence_periods=SILENCE_PERIODS,
    false_share=FALSE_SHARE,
    confirming=True,
    duplicates_max=DUPLICATES_MAX,
)
DIAL_S: Final = 2.0
"""For a connection to stand."""
WRITE_BUFFER_BYTES: Final = 1 << 20
"""Bytes given to a connection before what comes waits with the node, and the application is asked to wait."""
RECEIVE_BYTES: Final = 64 * 1024
"""The kernel's buffer of a connection; it doubles that. uvloop reads on as long as it fills its own of 256 KiB,
megabytes at a time, and peers that do not come to their turn meanwhile look dead to others."""
CONGESTED_BYTES: Final = 4 << 20
"""Bytes that wait for one link when the application is asked to publish no more: far less than is dropped at."""


class ListenFailed(PlaitError):
    """An address that cannot be listened on now."""

    retryable = True


class PeerServer:
    """All peers of one process, and its applications' homes."""

    def __init__(
        self,
        group: Group,
        *,
        name: str = "peer",
        settings: PeerSettings = LIVE,
        telemetry: TelemetryPlace | None = None,
    ) -> None:
        """`telemetry`: where to record what happens."""
        self.group = group
        self.node: Node
        self.address = ""
        self._name = name
        self._settings = settings
        self._place = telemetry
        self._recording: Recording | None = None
        self._loop = asyncio.get_running_loop()
        self._rng = random.SystemRandom()
        self._passages: list[SdkTransport] = []
        self._wires: dict[int, LinkConnection] = {}
        self._last_link = 0
        self._server: asyncio.Server | None = None
        self._multicast: MulticastSocket | None = None
        self._dials: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_look = 0.0
        self._seeds: list[str] = []
        self._closed = False

    async def start(self, *, listen: str, advertise: str = "", join: list[str], discover: bool, interface: str) -> None:
        """Listen, and look for others: at addresses, by multicast, or both."""
        host, _, port = listen.rpartition(":")
        try:
            self._server = await self._loop.create_server(lambda: LinkConnection(self, ""), host.strip("[]"), int(port))
        except OSError as error:
            raise ListenFailed(f"cannot listen on {listen}: {error.strerror or error}", hint="port 0 is any") from error
        bound = self._server.sockets[0].getsockname()[1]
        self.address = advertise or f"{host}:{bound}"
        now = monotonic()
        recorder = self._recorder(now)
        self.node = Node(self.group, self.address, self._rng, self._settings, now=now, telemetry=recorder)
        self._seeds = [seed for seed in join if seed != self.address]
        if discover:
            self._multicast = self._multicast_socket(interface, now)
            self._multicast.start()
        self._ring()
        if recorder is not None and self._place is not None:
            sampler, home = Sampler(self.node, self._name, recorder, lambda: self.homes), f"peer-{self._name}"
            recording = Recording(self.node.id, home, recorder, sampler, self._place, recorder.wall_us(now))
            await recording.start()
            self._recording = recording

    def _multicast_socket(self, interface: str, now: float) -> MulticastSocket:
        announcements = Announcements(self.group, self.node.id, self.address, self._rng, now)

        def receive(datagram: bytes, host: str, now: float) -> None:
            address = announcements.hear(datagram, now)
            if address is not None:
                self.node.meet(address)
                self.turn()

        return MulticastSocket(
            announcements,
            receive,
            group=GROUP,
            interface=interface,
            bytes_max=DATAGRAM_BYTES_MAX,
            missing="peers are not discovered",
        )

    def _recorder(self, now: float) -> PeerTelemetry | None:
        """What records events by the calendar that its applications date them by; None where nobody wants that."""
        if self._place is None:
            return None
        return PeerTelemetry(self._place.settings, time_ns() // 1000 - round(now * 1_000_000))

    async def close(self) -> None:
        """Say goodbye, and let what was said go out."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._multicast is not None:
            self._multicast.close()
        for passage in self._passages:
            passage.home.gone(monotonic())
        if self._recording is not None:
            await self._recording.stop()  # while all the others are there
        self.node.leave(monotonic())
        self._write()
        for task in self._dials:
            task.cancel()
        if self._dials:
            await asyncio.wait(self._dials)
        if self._server is not None:
            self._server.close()
        wires = list(self._wires.values())
        for wire in wires:
            wire.end()
        if wires:
            await asyncio.wait([wire.gone for wire in wires], timeout=1.0)
        for wire in wires:
            wire.transport.abort()

    async def dial(self, address: object, make: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """The connection of an application in this process to its home."""
        passage = SdkTransport(self, SdkSession(self.node, self._name), make())
        self._passages.append(passage)
        passage.protocol.connection_made(passage)
        return passage

    @property
    def homes(self) -> list[SdkSession]:
        """Those of its applications."""
        return [passage.home for passage in self._passages]

    # --- what happens -------------------------------------------------------------------------------------------------

    def made(self, wire: LinkConnection) -> int:
        """A connection stands."""
        self._last_link += 1
        self._wires[self._last_link] = wire
        self.node.connected(self._last_link, wire.dialled, monotonic())
        self.turn()
        return self._last_link

    def read(self, link: int, data: bytes) -> None:
        """Bytes came from another process."""
        began, telemetry = monotonic(), self.node.telemetry
        arrivals = telemetry.arrivals if telemetry is not None else 0
        self.node.received(link, data, began)
        if telemetry is not None and telemetry.arrivals > arrivals:
            telemetry.matched(telemetry.arrivals - arrivals, int((monotonic() - began) * 1_000_000), began)
        for passage in self._passages:
            if passage.home.size:
                passage.flush()
        self.turn()

    def writable(self, link: int, writable: bool) -> None:
        """A connection takes no more for now, or does again."""
        known = self.node.links.get(link)
        if known is not None:
            known.paused = not writable
            if writable and known.size:
                self._wires[link].transport.write(known.take())
        self._steer()

    def lost(self, link: int) -> None:
        """A connection is gone."""
        self._wires.pop(link, None)
        if not self._closed:
            self.node.disconnected(link, monotonic())
            self.turn()

    def left(self, passage: SdkTransport) -> None:
        """An application has hung up."""
        if passage in self._passages:
            self._passages.remove(passage)
            passage.home.gone(monotonic())
            self.turn()

    def turn(self) -> None:
        """Carry out what the node asks for."""
        if self._closed:
            return
        for dial in self.node.take_dials():
            task = self._loop.create_task(self._dial(dial.address), name=f"plait peer dials {dial.address}")
            self._dials.add(task)
            task.add_done_callback(self._dials.discard)
        self._write()
        for passage in self._passages:
            if passage.home.size:
                passage.flush_soon()
        self._steer()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        node = self.node
        for id in node.take_touched():
            link, wire = node.links.get(id), self._wires.get(id)
            if link is not None and wire is not None and link.size and not link.paused:
                wire.transport.write(link.take())
        for id in node.take_cuts():
            if id in self._wires:
                self._wires[id].end()

    def _steer(self) -> None:
        """Applications publish no faster than the links take it."""
        full = any(link.paused and link.size > CONGESTED_BYTES for link in self.node.links.values())
        for passage in self._passages:
            passage.steer(congested=full or passage.home.congested)

    def _ring(self) -> None:
        now = monotonic()
        self.node.tick(now)
        if now >= self._next_look:
            self._next_look = now + self._settings.period_s
            for passage in self._passages:
                passage.home.tick(now)
            if self._seeds and not self.node.links:
                for seed in self._seeds:
                    self.node.meet(seed)
        self.turn()
        after = max(0.0, min(self.node.next_deadline(), self._next_look) - monotonic())
        self._timer = self._loop.call_later(after, self._ring)

    async def _dial(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(DIAL_S):
                await self._loop.create_connection(lambda: LinkConnection(self, address), host.strip("[]"), int(port))
        except (OSError, ValueError, TimeoutError) as error:
            log.debug("nobody at %s: %s", address, error)
            self.node.unreachable(address, monotonic())
            self.turn()


class LinkConnection(asyncio.Protocol):
    """One TCP connection to another process."""

    transport: asyncio.Transport

    def __init__(self, live: PeerServer, dialled: str) -> None:
        self.dialled = dialled
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._live = live
        self._link = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self._link = self._live.made(self)

    def data_received(self, data: bytes) -> None:
        self._live.read(self._link, data)

    def pause_writing(self) -> None:
        self._live.writable(self._link, False)

    def resume_writing(self) -> None:
        self._live.writable(self._link, True)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        self._live.lost(self._link)

    def end(self) -> None:
        """Close once what was written is gone."""
        self.transport.close()


class SdkTransport(asyncio.Transport):
    """Between an application's session and its home, in memory."""

    def __init__(self, live: PeerServer, home: SdkSession, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.home = home
        self.protocol = protocol
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._due = self._closed = self._held_back = self._congested = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closed:
            self.home.receive(bytes(data), monotonic())
            self._live.turn()

    def flush_soon(self) -> None:
        """Hand over what there is, but not while the application is in the middle of something."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand over what there is."""
        self._due = False
        home = self.home
        if self._closed:
            return
        if self._held_back:
            home.client_bytes = home.size
            return
        home.client_bytes = 0
        if home.size:
            self.protocol.data_received(home.take())
        if home.ended:
            self.close()

    def steer(self, *, congested: bool) -> None:
        """Tell the application to wait with publishing, or to go on."""
        if congested != self._congested and not self._closed:
            self._congested = congested
            (self.protocol.pause_writing if congested else self.protocol.resume_writing)()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._end)

    abort = close

    def _end(self) -> None:
        self._live.left(self)
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
        self._held_back = True

    def resume_reading(self) -> None:
        self._held_back = False
        self.flush_soon()

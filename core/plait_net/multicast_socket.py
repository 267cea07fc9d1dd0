"""One UDP socket in an IPv4 multicast group, on an asyncio event loop.

A multicast group is often unavailable: in containers, in clouds, on a host without a route. The socket then logs one
warning with the reason and sends nothing, and the process continues without it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

HOPS_MAX: Final = 1
"""TTL of a datagram: it stays on its network segment."""
BATCH: Final = 64
"""Datagrams read in one turn of the event loop, so that a flood of them does not starve other connections."""

log: Final = logging.getLogger(__name__)


class Announcer(Protocol):
    """The source of the datagrams."""

    def next_deadline(self) -> float:
        """Return the time at which the next datagram is due."""
        ...

    def announce(self, now: float) -> bytes:
        """Return the datagram to send now, and schedule the next one."""
        ...


class MulticastSocket:
    """Sends an announcer's datagrams to a group, and passes the group's datagrams to a callback.

    `receive(datagram, host, now)` may bring the announcer's deadline forward. `interface` is the address of the network
    interface to use; if it is empty, the system chooses. A datagram longer than `bytes_max` arrives with one byte more
    than that, so that the callback can tell. `missing` says in the warning what does not work without multicast.
    """

    def __init__(
        self,
        announcer: Announcer,
        receive: Callable[[bytes, str, float], None],
        *,
        group: tuple[str, int],
        interface: str,
        bytes_max: int,
        missing: str,
    ) -> None:
        self._announcer = announcer
        self._receive = receive
        self._group = group
        self._interface = interface
        self._bytes_max = bytes_max
        self._missing = missing
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reported = False

    def start(self) -> None:
        """Join the group if the network allows it, and send the first datagram."""
        try:
            self._socket = _open_member(self._group, self._interface)
        except OSError as error:
            self._report(error)
            return
        self._loop.add_reader(self._socket, self._read)
        self._send()

    def close(self) -> None:
        """Leave the group and cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _send(self) -> None:
        assert self._socket is not None, "the timer runs only while the socket is open"
        try:
            self._socket.sendto(self._announcer.announce(monotonic()), self._group)
        except BlockingIOError:
            pass  # announcements repeat: a full send buffer costs one interval
        except OSError as error:
            self._report(error)
        self._arm_timer()

    def _arm_timer(self) -> None:
        if self._socket is None:
            return  # a callback closed the socket
        if self._timer is not None:
            self._timer.cancel()
        after = max(0.0, self._announcer.next_deadline() - monotonic())
        self._timer = self._loop.call_later(after, self._send)

    def _read(self) -> None:
        for _ in range(BATCH):
            if self._socket is None:
                return  # the callback closed the socket
            try:
                datagram, (host, _) = self._socket.recvfrom(self._bytes_max + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._report(error)
                return
            before = self._announcer.next_deadline()
            self._receive(datagram, host, monotonic())
            if self._announcer.next_deadline() != before:
                self._arm_timer()

    def _report(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            host, port = self._group
            where = f"{host}:{port} on {self._interface or 'the default interface'}"
            log.warning("multicast at %s does not work: %s; %s", where, error.strerror or error, self._missing)


def _open_member(group: tuple[str, int], interface: str) -> socket.socket:
    """Open a socket in a multicast group. Other processes of this machine can be in the group, too."""
    near = socket.inet_aton(interface) if interface else bytes(4)
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(group)
        membership = struct.pack("4s4s", socket.inet_aton(group[0]), near)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS_MAX)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if interface:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, near)
    except OSError:
        opened.close()
        raise
    return opened

"""Discovery's face: one UDP socket in a multicast group, as asyncio has it.

Multicast is often not to be had: in containers, in clouds, without a route. Then the log says so once, and seeds
(`join`) are the way in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from time import monotonic
from typing import Final

from .discovery import DATAGRAM_BYTES_MAX, Announcements

GROUP: Final = ("239.255.46.82", 4682)
"""Administratively scoped (RFC 2365): routers at the site's border do not pass it on."""
HOPS_MAX: Final = 1
"""Announcements stay on their network segment."""
BATCH: Final = 64
"""Datagrams read in one turn of the loop."""

log: Final = logging.getLogger(__name__)


class Multicast:
    """Announces one process, and tells of others by their address."""

    def __init__(self, discovery: Announcements, interface: str, found: Callable[[str], None]) -> None:
        """`interface`, by its address, is where datagrams go out and come in."""
        self._discovery = discovery
        self._interface = interface
        self._found = found
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False

    def start(self) -> None:
        """Join, if that can be done, and announce from now on."""
        try:
            self._socket = _member(self._interface)
        except OSError as error:
            self._tell(error)
            return
        self._loop.add_reader(self._socket, self._read)
        self._announce()

    def close(self) -> None:
        """Leave."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _announce(self) -> None:
        assert self._socket is not None, "only a member announces"
        try:
            self._socket.sendto(self._discovery.announce(monotonic()), GROUP)
        except BlockingIOError:
            pass  # the next one will find room
        except OSError as error:
            self._tell(error)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, self._discovery.next_deadline() - monotonic()), self._announce)

    def _read(self) -> None:
        for _ in range(BATCH):
            if self._socket is None:
                return
            try:
                datagram = self._socket.recv(DATAGRAM_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._tell(error)
                return
            found = self._discovery.hear(datagram, monotonic())
            if found is not None:
                self._found(found)
                self._arm()

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            log.warning("multicast does not work: %s; peers are not discovered", error.strerror or error)


def _member(interface: str) -> socket.socket:
    """A socket in the multicast group, shared with whoever else on this machine is in it."""
    near = socket.inet_aton(interface)
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(GROUP)
        opened.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(GROUP[0]), near)
        )
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS_MAX)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, near)
    except OSError:
        opened.close()
        raise
    return opened

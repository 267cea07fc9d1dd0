"""Discovery's face: one UDP socket in a multicast group, read and written as asyncio has it.

Multicast is often not to be had: in containers, in clouds, without a route. Then the log says so once, with the reason,
and the broker goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from time import monotonic
from typing import Final

from ..overlay.discovery.announcements import DATAGRAM_BYTES_MAX, Announcements, Found
from .endpoints import Endpoint

HOPS_MAX: Final = 1
"""Announcements stay on their network segment."""

BATCH: Final = 64
"""Datagrams read in one turn of the loop: whoever floods the group takes no more than its share."""

log: Final = logging.getLogger(__name__)


class MulticastDiscovery:
    """Announces one broker, and tells of others."""

    def __init__(
        self, discovery: Announcements, group: Endpoint, interface: str, found: Callable[[Found], None]
    ) -> None:
        """`interface`, by its address, is where datagrams go out and come in; empty: the system chooses."""
        self._discovery = discovery
        self._group = group
        self._interface = interface
        self._found = found
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False

    def start(self) -> None:
        """Join the group, if that can be done, and announce from now on."""
        try:
            self._socket = _member(self._group, self._interface)
        except OSError as error:
            self._tell(error)
            return
        self._loop.add_reader(self._socket, self._read)
        self._announce()

    def close(self) -> None:
        """Leave the group."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _announce(self) -> None:
        assert self._socket is not None, "only a member announces"
        try:
            self._socket.sendto(self._discovery.announce(monotonic()), (self._group.host, self._group.port))
        except BlockingIOError:
            pass  # the next one will find room
        except OSError as error:
            self._tell(error)
        self._keep_deadline()

    def _keep_deadline(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._discovery.next_deadline() - monotonic(), self._announce)

    def _read(self) -> None:
        for _ in range(BATCH):
            if self._socket is None:
                return
            try:
                datagram, (host, _) = self._socket.recvfrom(DATAGRAM_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._tell(error)
                return
            found = self._discovery.hear(datagram, host, monotonic())
            if found is not None:
                self._found(found)
                self._keep_deadline()

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            where = f"{self._group} on {self._interface or 'the default interface'}"
            log.warning("multicast at %s does not work: %s; brokers are not discovered", where, error.strerror or error)


def _member(group: Endpoint, interface: str) -> socket.socket:
    """A socket in a multicast group, shared with whoever else on this machine is in it."""
    near = socket.inet_aton(interface) if interface else bytes(4)
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind((group.host, group.port))
        opened.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(group.host), near)
        )
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, HOPS_MAX)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if interface:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, near)
    except OSError:
        opened.close()
        raise
    return opened

"""Addresses to listen on: `HOST:PORT` as people write it, and the sockets bound there."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plait_core.errors import PlaitError

BACKLOG: Final = 4096
"""Connections that the kernel queues: Linux's own maximum. A storm of reconnects waits there and is not lost."""

_BIND_HINTS: Final = {
    errno.EADDRINUSE: "another program listens there, perhaps another broker: choose another port, or 0 for any",
    errno.EADDRNOTAVAIL: "this machine does not have that address: 0.0.0.0 or [::] listens on all that it has",
    errno.EACCES: "ports below 1024 need privileges: choose a higher one",
}


class ListenFailed(PlaitError):
    """The broker cannot listen on an address now."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Return the endpoint that `text` writes, or raise ValueError with the reason."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host:
            raise ValueError("is written HOST:PORT, like 127.0.0.1:4680 or [::1]:4680")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError("an IPv6 address goes into brackets, like [::1]:4680")
        if not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65_535:
            raise ValueError("the port is a number from 0 to 65535")
        if not host.isprintable() or any(character in " /@[]" for character in host):
            raise ValueError("the host is a name or an IP address")
        return cls(host, int(port))

    @property
    def is_one_address(self) -> bool:
        """Whether the host is one IPv4 address of this machine, and no name."""
        try:
            return ipaddress.IPv4Address(self.host).is_unspecified is False
        except ValueError:
            return False

    @property
    def wildcard(self) -> bool:
        """Whether the host means all addresses of this machine. Other machines cannot connect to such a host."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than `localhost` is assumed to be reachable by
        others."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind(endpoint: Endpoint) -> list[socket.socket]:
    """Return listening sockets for every address of the host, all on one port; raise ListenFailed if one cannot be
    bound."""
    bound: list[socket.socket] = []
    port = endpoint.port
    try:
        for family, address in _addresses(endpoint):
            listener = socket.socket(family, socket.SOCK_STREAM)
            bound.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            listener.listen(BACKLOG)
            port = listener.getsockname()[1]
    except OSError as error:
        for listener in bound:
            listener.close()
        hint = _BIND_HINTS.get(error.errno or 0, "")
        raise ListenFailed(f"cannot listen on {endpoint}: {error.strerror or error}", hint=hint) from error
    return bound


def port_of(listeners: Sequence[socket.socket]) -> int:
    """Return the port that the sockets share."""
    port: int = listeners[0].getsockname()[1]
    return port


def _addresses(endpoint: Endpoint) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))

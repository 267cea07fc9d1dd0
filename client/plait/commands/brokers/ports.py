"""Ports of brokers on this machine: each takes two, for clients and for HTTP. Ports that are taken are passed over."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ...options.addresses import PORT, parse_host_port
from ..terminal.failures import Failure

LOOPBACK: Final = "127.0.0.1"
PORTS_ANY: Final = range(10_000, 32_768)
"""Ports for brokers whose address may be any. They lie below the ports of outgoing connections: such a connection
might take the port of a broker that is being restarted."""
PORT_MAX: Final = 65_534
"""The last port that has another one above it."""


LOCK_POLL_S: Final = 0.1


@asynccontextmanager
async def choosing_ports() -> AsyncIterator[None]:
    """Choose ports and start brokers, one process of this user at a time: two would choose the same free ports."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    lock = _open_home()
    try:
        while lock is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_POLL_S)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _open_home() -> int | None:
    """Open the user's home directory, whose lock leaves no file behind. None: there is none."""
    try:
        return os.open(Path.home(), os.O_RDONLY)
    except (OSError, RuntimeError):
        return None


def first_addresses(listen: str | None, http: str | None) -> tuple[str, str]:
    """Return the first broker's addresses for clients and for HTTP.

    An address that was given must be free: Failure if it is not, before any broker starts and links itself to the one
    that is there. Without one, the first free pair from 4680 on is taken.
    """
    for given, option in ((listen, "--listen"), (http, "--http")):
        if given is not None:
            _check_free(given, option)
    if listen is None:
        reserved = () if http is None else (parse_host_port(http, any_port=True).port,)
        listen = f"{LOOPBACK}:{next_pair(PORT, reserved)}"
    if http is None:
        port = parse_host_port(listen, any_port=True).port
        http = f"{LOOPBACK}:{port + 1 if port and is_free(port + 1) else 0}"
    return listen, http


def listen_addresses(first: str, count: int, reserved: Collection[int] = ()) -> list[str]:
    """Return an address for each broker, since brokers need each other's addresses before they listen.

    Each is the next free pair above the one before, or any free port if the first one may have any. `reserved` ports
    are passed over, too.
    """
    if count == 1:
        return [first]
    port = int(first.rpartition(":")[2])
    if not port:
        return [f"{LOOPBACK}:{any_port}" for any_port in _any_ports(count)]
    addresses = [first]
    for _ in range(count - 1):
        port = next_pair(port + 2, reserved)
        addresses.append(f"{LOOPBACK}:{port}")
    return addresses


def http_of(listen: str) -> str:
    """Return the address of a broker's HTTP side: one port above `listen`, or any free port if that one is taken."""
    port = int(listen.rpartition(":")[2]) + 1
    return f"{LOOPBACK}:{port if is_free(port) else 0}"


def next_pair(port: int, reserved: Collection[int] = ()) -> int:
    """Return the first port of the next free pair: `port`, or two, four, ... above it."""
    for candidate in range(port, PORT_MAX, 2):
        pair = (candidate, candidate + 1)
        if not any(each in reserved for each in pair) and all(map(is_free, pair)):
            return candidate
    raise Failure(f"no two ports in a row are free from {port} on", hint="--listen HOST:PORT names another")


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server may listen there. Ports of connections that have ended count as free."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError):
            return False
    return True


def _check_free(address: str, option: str) -> None:
    place = parse_host_port(address, any_port=True)
    if place.port and not is_free(place.port, place.host):
        hint = f"{option} HOST:PORT names another; without it, `plait up` takes the next free one"
        raise Failure(f"{address} is in use, or is no address of this machine", hint=hint)


def _any_ports(count: int) -> list[int]:
    """Return different free ports."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.choice(PORTS_ANY)  # noqa: S311 - a port is no secret
        if port not in ports and is_free(port):
            ports.append(port)
    return ports

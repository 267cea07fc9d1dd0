"""Checks of `plait doctor` in a container: common mistakes with Docker's networks and volumes.

They read the container's PLAIT_ variables, its network interfaces and its mounts.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from plait_core import PlaitError

from ...options.target import DEFAULT_SOURCE, Target
from ..connection.addressing import find_target
from .checks import Finding

CONNECT_S: Final = 2.0
FREE_BYTES_ADVISED: Final = 256 << 20
MTU_USUAL: Final = 1500
_SIGNS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_PREFIX: Final = "PLAIT_BROKER__"
_TMPFS: Final = {"tmpfs", "ramfs"}


def in_container() -> bool:
    """Return whether this process runs in a container of Docker or Podman, by the files that they create."""
    return any(sign.exists() for sign in _SIGNS)


def check_listen(environment: Mapping[str, str]) -> Finding:
    """Find a broker that listens on the container's loopback, which nothing outside reaches, published or not."""
    for variable in (f"{_PREFIX}LISTEN", f"{_PREFIX}HTTP"):
        address = environment.get(variable, "")
        if _is_loopback(address):
            port = address.rpartition(":")[2]
            return Finding(
                "fail", f"{variable}={address} is reachable only from inside this container",
                f"0.0.0.0:{port}, and publish it: ports: [\"127.0.0.1:{port}:{port}\"]; `docker port NAME` shows it",
            )  # fmt: skip
    return Finding("ok", environment.get(f"{_PREFIX}LISTEN", "PLAIT_BROKER__LISTEN is not set"))


def check_advertised(environment: Mapping[str, str]) -> Finding:
    """Find an advertised address that other containers cannot dial: for them, localhost is their own."""
    address = environment.get(f"{_PREFIX}OVERLAY__ADVERTISE", "")
    if _is_loopback(address):
        hint = "advertise the service's name: broker-1:4680"
        return Finding("fail", f"{address} is advertised: other brokers would dial themselves", hint)
    if not address and environment.get(f"{_PREFIX}OVERLAY__SEEDS"):
        hint = f"set {_PREFIX}OVERLAY__ADVERTISE=SERVICE:4680"
        return Finding("warn", "no address is advertised: others dial the address that they see, which changes", hint)
    return Finding("ok", address or "nothing is advertised")


def check_neighbours(environment: Mapping[str, str]) -> Finding:
    """Dial the configured neighbours. Docker's DNS resolves only containers on a common network."""
    neighbours = [
        word.strip(" \"'")
        for key in ("LINKS", "SEEDS")
        for word in environment.get(f"{_PREFIX}OVERLAY__{key}", "").strip("[] ").split(",")
        if word.strip(" \"'")
    ]
    for address in neighbours:
        host, _, port = address.rpartition(":")
        if _is_loopback(address):
            return Finding(
                "fail", f"{address} is this container itself", "give the other service's name: broker-2:4680"
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except socket.gaierror:
            hint = "is it up, and on a network with this one? the default bridge resolves no names: declare networks:"
            return Finding("fail", f"{host} does not resolve here", hint)
        except (OSError, ValueError) as error:
            hint = "is it up? between containers, use the container's port (4680), not the published one"
            return Finding("warn", f"{address} does not answer: {getattr(error, 'strerror', None) or error}", hint)
    return Finding("ok", f"{len(neighbours)} neighbours answer" if neighbours else "no neighbours are configured")


def check_discovery(environment: Mapping[str, str]) -> Finding:
    """Find discovery by multicast, which does not leave one bridge network."""
    if environment.get(f"{_PREFIX}OVERLAY__DISCOVER", "").lower() == "true":
        hint = f"across networks and hosts: {_PREFIX}OVERLAY__SEEDS='[\"broker-1:4680\"]'"
        return Finding("warn", "multicast discovery finds only brokers on the same bridge network", hint)
    return Finding("ok", "not by multicast")


def check_mtu(root: Path = Path("/sys/class/net")) -> Finding:
    """Find differing MTUs. An overlay network has a smaller one; larger packets are dropped and connections stall."""
    sizes = {
        path.name: int((path / "mtu").read_text())
        for path in sorted(root.iterdir())
        if path.name != "lo" and (path / "mtu").exists()
    }
    found = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "no network but loopback"
    if len(set(sizes.values())) > 1 or any(size > MTU_USUAL for size in sizes.values()):
        hint = 'if large events stall: networks: NAME: driver_opts: com.docker.network.driver.mtu: "1450"'
        return Finding("warn", found, hint)
    return Finding("ok", found)


def check_data(environment: Mapping[str, str], mounts: Path = Path("/proc/self/mounts")) -> Finding:
    """Check that durable events go to a writable volume with free space."""
    configured = environment.get(f"{_PREFIX}DATA")
    if not configured:
        return Finding("ok", "nothing is stored: PLAIT_BROKER__DATA is not set")
    directory = Path(configured)
    if not os.access(directory, os.W_OK):
        hint = f"mount a volume there that user {os.getuid()} may write: chown {os.getuid()}, and not :ro"
        return Finding("fail", f"{directory} cannot be written", hint)
    mount, kind = _mount_of(directory, mounts)
    free = shutil.disk_usage(directory).free
    found = f"{directory} on {kind}, {free >> 20:,} MiB free"
    if kind in _TMPFS:
        return Finding("warn", f"{found}: lost when the container stops", f'a volume: volumes: ["data:{directory}"]')
    if mount == "/":
        hint = f'a volume: volumes: ["data:{directory}"]'
        return Finding("warn", f"{found}: the container's own layer, lost with the container", hint)
    if free < FREE_BYTES_ADVISED:
        return Finding(
            "warn", found, "a full disk makes brokers refuse durable events: free space, or set [retention] bytes_max"
        )
    return Finding("ok", found)


def check_container_target(target: Target) -> Finding:
    """Find a client that dials localhost, which in a container is the container itself."""
    address = target.url.partition("://")[2]
    if not _is_loopback(address):
        return Finding("ok", f"{target.url} is not localhost")
    if _answers(address):
        return Finding("ok", f"{address} answers, in this container")
    hint = "plait://SERVICE:4680 for another container, plait://host.docker.internal:4680 for the host"
    configured = target.source != DEFAULT_SOURCE
    return Finding(
        "fail" if configured else "warn",
        f"{target.url} ({target.source}) is this container itself, and nothing listens",
        hint,
    )


def container_checks(environment: Mapping[str, str], url: str | None) -> dict[str, Callable[[], Finding]]:
    """Return the checks by name, in the order of the output."""
    return {
        "listen": lambda: check_listen(environment),
        "advertised": lambda: check_advertised(environment),
        "neighbours": lambda: check_neighbours(environment),
        "discovery": lambda: check_discovery(environment),
        "mtu": check_mtu,
        "data": lambda: check_data(environment),
        "target": lambda: _check_selected(url),
    }


def _check_selected(url: str | None) -> Finding:
    """Check the broker that commands of this container use."""
    try:
        return check_container_target(find_target(url))
    except PlaitError as error:
        return Finding("fail", error.message, error.hint or "see `plait context list`")


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]") if ":" in address else address
    return host in ("localhost", "::1") or host.startswith("127.")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError):
        return False
    return True


def _mount_of(directory: Path, mounts: Path) -> tuple[str, str]:
    """Return the mount point of a directory and its file system's type."""
    real = directory.resolve()
    rows = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    found = [(place, kind) for place, kind in rows if real.is_relative_to(place)]
    return max(found, key=lambda row: len(row[0]), default=("/", "unknown"))

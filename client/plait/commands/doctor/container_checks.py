"""What `plait doctor` looks at besides, when it runs in a container: the mistakes that people make with Docker's
networks and volumes, found in what this container was told (PLAIT_... variables) and in what it has."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .checks import Finding

LOOKS_S: Final = 2.0
FREE_BYTES_WANTED: Final = 256 << 20
MTU_USUAL: Final = 1500
DIALLED: Final = "127.0.0.1:4680"
"""Where nothing is said."""
_SIGNS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_PREFIX: Final = "PLAIT_BROKER__"
_TMPFS: Final = {"tmpfs", "ramfs"}


def in_container() -> bool:
    """Whether this is one: by what Docker and Podman leave there."""
    return any(sign.exists() for sign in _SIGNS)


def check_listen(environment: Mapping[str, str]) -> Finding:
    """A broker that listens on the container's own loopback is reached by nobody, published or not."""
    for variable in (f"{_PREFIX}LISTEN", f"{_PREFIX}HTTP"):
        address = environment.get(variable, "")
        if _is_loopback(address):
            port = address.rpartition(":")[2]
            return Finding(
                "fail", f"{variable}={address} is reached from inside this container alone",
                f"0.0.0.0:{port}, and publish it: ports: [\"127.0.0.1:{port}:{port}\"]; `docker port NAME` shows it",
            )  # fmt: skip
    return Finding("ok", environment.get(f"{_PREFIX}LISTEN", "no broker is told here where to listen"))


def check_advertised(environment: Mapping[str, str]) -> Finding:
    """What is advertised is dialled by other containers, where localhost is they themselves."""
    address = environment.get(f"{_PREFIX}OVERLAY__ADVERTISE", "")
    if _is_loopback(address):
        hint = "advertise the service's name, as other containers call it: broker-1:4680"
        return Finding("fail", f"{address} is advertised: to others that is they themselves", hint)
    if not address and environment.get(f"{_PREFIX}OVERLAY__SEEDS"):
        hint = f"set {_PREFIX}OVERLAY__ADVERTISE=SERVICE:4680"
        return Finding("warn", "no address is advertised: others go by the one they see, which changes", hint)
    return Finding("ok", address or "nothing is advertised")


def check_neighbours(environment: Mapping[str, str]) -> Finding:
    """Names of other containers: known to Docker's DNS on networks that both are in, and there only."""
    wanted = [
        word.strip(" \"'")
        for key in ("LINKS", "SEEDS")
        for word in environment.get(f"{_PREFIX}OVERLAY__{key}", "").strip("[] ").split(",")
        if word.strip(" \"'")
    ]
    for address in wanted:
        host, _, port = address.rpartition(":")
        if _is_loopback(address):
            return Finding(
                "fail", f"{address} is this container itself", "give the other service's name: broker-2:4680"
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), LOOKS_S).close()
        except socket.gaierror:
            hint = "is it up, and in a network with this one? the default bridge knows no names: declare networks:"
            return Finding("fail", f"{host} is no name here", hint)
        except (OSError, ValueError) as error:
            hint = "is it up? inside networks the container's port counts (4680), not the published one"
            return Finding("warn", f"{address} does not answer: {getattr(error, 'strerror', None) or error}", hint)
    return Finding("ok", f"{len(wanted)} neighbours answer" if wanted else "no neighbours are configured")


def check_discovery(environment: Mapping[str, str]) -> Finding:
    """Multicast stays within one bridge."""
    if environment.get(f"{_PREFIX}OVERLAY__DISCOVER", "").lower() == "true":
        hint = f"across networks and hosts: {_PREFIX}OVERLAY__SEEDS='[\"broker-1:4680\"]'"
        return Finding("warn", "brokers are found by multicast, which one bridge network carries and no other", hint)
    return Finding("ok", "not by multicast")


def check_mtu(root: Path = Path("/sys/class/net")) -> Finding:
    """A network inside another has room for less; what is too large vanishes, and connections stall."""
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
    """Where durable events go: a volume, writable, with room."""
    written = environment.get(f"{_PREFIX}DATA")
    if not written:
        return Finding("ok", "nothing is kept: no PLAIT_BROKER__DATA")
    directory = Path(written)
    if not os.access(directory, os.W_OK):
        hint = f"mount a volume there that user {os.getuid()} may write: chown {os.getuid()}, and not :ro"
        return Finding("fail", f"{directory} cannot be written", hint)
    place, kind = _mount_of(directory, mounts)
    free = shutil.disk_usage(directory).free
    found = f"{directory} on {kind}, {free >> 20:,} MiB free"
    if kind in _TMPFS:
        return Finding("warn", f"{found}: gone when the container stops", f'a volume: volumes: ["data:{directory}"]')
    if place == "/":
        hint = f'a volume: volumes: ["data:{directory}"]'
        return Finding("warn", f"{found}: the container's own layer, gone with the container", hint)
    if free < FREE_BYTES_WANTED:
        return Finding(
            "warn", found, "when it is full, what is durable is refused: give it room, or [retention] bytes_max"
        )
    return Finding("ok", found)


def check_container_target(environment: Mapping[str, str]) -> Finding:
    """A client in a container that dials localhost finds itself."""
    named = environment.get("PLAIT_URL", "").partition("://")[2].rpartition("@")[2]  # a token is not to be shown
    address = named or DIALLED
    if not _is_loopback(address):
        return Finding("ok", "PLAIT_URL is not localhost")
    if _answers(address):
        return Finding("ok", f"{address} answers, in this container")
    hint = "plait://SERVICE:4680 for another container, plait://host.docker.internal:4680 for the host"
    if named:
        return Finding("fail", f"PLAIT_URL names {address}, which is this container itself, and nobody listens", hint)
    return Finding("warn", f"no PLAIT_URL: {address} is dialled, this container itself, and nobody listens", hint)


def container_checks(environment: Mapping[str, str]) -> dict[str, Callable[[], Finding]]:
    """By name, in the order in which they are shown."""
    return {
        "listen": lambda: check_listen(environment),
        "advertised": lambda: check_advertised(environment),
        "neighbours": lambda: check_neighbours(environment),
        "discovery": lambda: check_discovery(environment),
        "mtu": check_mtu,
        "data": lambda: check_data(environment),
        "target": lambda: check_container_target(environment),
    }


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]") if ":" in address else address
    return host in ("localhost", "::1") or host.startswith("127.")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), LOOKS_S).close()
    except (OSError, ValueError):
        return False
    return True


def _mount_of(directory: Path, mounts: Path) -> tuple[str, str]:
    """The mount that a directory is on, and of what kind."""
    real = directory.resolve()
    rows = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    found = [(place, kind) for place, kind in rows if real.is_relative_to(place)]
    return max(found, key=lambda row: len(row[0]), default=("/", "unknown"))

"""Checks of this machine in `plait doctor`. Each tries the real thing, and returns a state and a hint."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ..settings.version import DISTRIBUTIONS, installed_versions
from ..terminal.failures import Failure

MULTICAST: Final = ("239.255.46.80", 4680)
FILES_ADVISED: Final = 4096
FILES_NEEDED: Final = 256
CLOCK_SAMPLE_S: Final = 0.05
CLOCK_SKEW_MAX_S: Final = 0.005
ANSWER_S: Final = 1.0
DOCKER_S: Final = 3.0
SQLITE_NEEDED: Final = (3, 35)


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    state: Literal["ok", "warn", "fail"]
    found: str
    hint: str = ""


def check_python() -> Finding:
    """Report the interpreter. pip installs Plait on no older one than it needs."""
    return Finding("ok", f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}")


def check_packages() -> Finding:
    ours = installed_versions(DISTRIBUTIONS)
    theirs = installed_versions(("click", "rich", "msgpack", "numpy"))
    found = ", ".join(f"{name} {version}" for name, version in {**ours, **theirs}.items())
    if len(set(ours.values())) > 1:
        return Finding("fail", found, f"all must have one version: pip install --upgrade {' '.join(ours)}")
    if "plait-broker" not in ours:
        return Finding("warn", found, "no broker can be started here: pip install plait-broker")
    return Finding("ok", found)


def check_index() -> Finding:
    from plait_core import index_name, new_index, parse

    index = new_index()
    index.add(1, parse("symbol == 'IBM' and price < 120"))
    if list(index.match({"symbol": "IBM", "price": 99.5})) != [1]:
        return Finding("fail", f"the {index_name()} index matches wrongly", "reinstall plait-core and plait-kernel")
    return Finding("ok", f"{index_name()} matching")


def check_uvloop() -> Finding:
    version = installed_versions(("uvloop",)).get("uvloop")
    if version is None:
        return Finding("warn", "uvloop is not installed", "half the latency: pip install 'plait[speed]'")
    return Finding("ok", f"uvloop {version}")


def check_target(url: str | None = None) -> Finding:
    from plait_core import PlaitError

    from ...options.contexts import contexts_file, load_contexts
    from ..connection.addressing import find_target

    try:
        target, contexts = find_target(url), load_contexts()
    except (PlaitError, Failure) as error:
        return Finding("fail", error.message, error.hint or "see PLAIT_URL and plait context list")
    token = f"token from {target.token_source}" if target.token else "no token"
    found = f"{target.url} ({target.source}), {token}; {len(contexts.saved)} contexts saved"
    path = contexts_file()
    if path.exists() and path.stat().st_mode & 0o077:
        return Finding("warn", f"{found}; other users may read {path}", f"it holds tokens: chmod 600 {path}")
    return Finding("ok", found)


def check_clients_port() -> Finding:
    return _check_port(4680, "--listen")


def check_http_port() -> Finding:
    return _check_port(4681, "--http")


def check_multicast() -> Finding:
    group, port = MULTICAST
    sent = os.urandom(16)
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            receiver.bind((group if sys.platform == "linux" else "", port))
            member = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton("127.0.0.1"))
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            sender.sendto(sent, (group, port))
            until = time.monotonic() + ANSWER_S
            while (left_s := until - time.monotonic()) > 0:
                receiver.settimeout(left_s)
                if receiver.recv(64) == sent:
                    return Finding("ok", f"{group}:{port} works on loopback")
        reason = f"within {ANSWER_S:g} s"
    except OSError as error:
        reason = f"({error})"
    return Finding("warn", f"{group}:{port} does not work on loopback {reason}", "only discovery needs it")


def check_files() -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("ok", "this system has no ulimit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{soft} open files allowed (up to {hard})"
    hint = "each client of a broker takes one: ulimit -n 65536"
    if 0 <= soft < FILES_NEEDED:
        return Finding("fail", found, hint)
    return Finding("warn", found, hint) if 0 <= soft < FILES_ADVISED else Finding("ok", found)


def check_clock() -> Finding:
    resolution_s = time.get_clock_info("monotonic").resolution
    wall, monotonic = time.time(), time.monotonic()
    time.sleep(CLOCK_SAMPLE_S)
    skew_s = abs((time.time() - wall) - (time.monotonic() - monotonic))
    found = f"resolution {resolution_s * 1e9:.0f} ns, now {time.strftime('%Y-%m-%dT%H:%M:%S%z')}"
    if resolution_s > 0.001:
        return Finding("warn", found, "delays are measured no finer than this clock")
    if skew_s > CLOCK_SKEW_MAX_S:
        return Finding("warn", f"{found}, adjusted by {skew_s * 1000:.1f} ms", "is a time service adjusting it?")
    return Finding("ok", found)


def check_sqlite() -> Finding:
    found = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        return Finding("fail", found, "durable subscriptions need 3.35 or newer")
    return Finding("ok", found)


def check_docker() -> Finding:
    hint = "only deployment by docker compose needs it"
    docker = shutil.which("docker")
    if docker is None:
        return Finding("warn", "Docker is not installed", hint)
    try:
        ran = subprocess.run(  # noqa: S603 (the user's own docker, without a shell)
            [docker, "version", "--format", "{{.Server.Version}}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOCKER_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return Finding("warn", "Docker does not answer", hint)
    if ran.returncode:
        return Finding("warn", "Docker is installed, but its daemon does not answer", hint)
    return Finding("ok", f"Docker {ran.stdout.strip()}")


CHECKS: Final[dict[str, Callable[[], Finding]]] = {
    "python": check_python,
    "packages": check_packages,
    "index": check_index,
    "uvloop": check_uvloop,
    "broker": check_target,
    "port 4680": check_clients_port,
    "port 4681": check_http_port,
    "multicast": check_multicast,
    "files": check_files,
    "clock": check_clock,
    "sqlite": check_sqlite,
    "docker": check_docker,
}


def _check_port(port: int, option: str) -> Finding:
    """Report whether a port is free, or which process uses it."""
    from ..connection.http_api import get_json

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            pass
        else:
            return Finding("ok", "free")
    try:
        answer = get_json("http://127.0.0.1:4681", "/api/v1/broker")
    except Failure:
        hint = f"plait broker {option} HOST:PORT uses another"
        return Finding("warn", "in use by another program", hint)
    name = answer.get("name", "?") if isinstance(answer, dict) else "?"
    return Finding("ok", f"the broker {str(name)[:64]} is running here")

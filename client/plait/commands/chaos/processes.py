"""Finds the process of a broker on this machine by its name, and sends it a signal.

For a broker of `plait up` that has ended it finds the placeholder, which is asleep (`child.py`).
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
    """Send a signal to a running or sleeping broker, given its process id or `--name`. Return its description."""
    pid = _by_id(int(process), asleep) if process.isdecimal() else _by_name(process, asleep)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Failure(f"there is no process {pid}") from None
    except PermissionError:
        raise Failure(f"process {pid} belongs to another user") from None
    return f"process {pid}" if process.isdecimal() else f"{process}, process {pid}"


def _by_id(pid: int, asleep: bool) -> int:
    if not PROCESSES.is_dir():
        return pid
    words = _words(pid)
    if not _is_broker(words):
        raise WrongUse(f"process {pid} is no Plait broker", hint="`kill` is for other processes")
    if _is_asleep(words) != asleep:
        raise _wrong_state(f"process {pid}", str(pid), asleep)
    return pid


def _by_name(name: str, asleep: bool) -> int:
    if not PROCESSES.is_dir():
        raise WrongUse("this system does not list processes by name", hint="give the process id")
    named = {pid: words for pid in _process_ids() if _is_broker(words := _words(pid)) and _broker_name(words) == name}
    found = [pid for pid, words in named.items() if _is_asleep(words) == asleep]
    if named and not found:
        raise _wrong_state(name, name, asleep)
    if len(found) != 1:
        which = "no broker" if not found else f"{len(found)} brokers"
        raise Failure(f"{which} of this machine started with --name {name}", hint="give the process id")
    return found[0]


def _wrong_state(broker: str, process: str, asleep: bool) -> Failure:
    if asleep:
        return Failure(f"{broker} has not ended", hint="`plait chaos resume` resumes a paused broker")
    return Failure(f"{broker} has ended", hint=f"`plait chaos start {process}` starts it again")


def _process_ids() -> list[int]:
    return sorted(int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdecimal())


def _words(pid: int) -> list[str]:
    try:
        return (PROCESSES / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:  # it has ended, or belongs to another user
        return []


def _is_broker(words: list[str]) -> bool:
    return any("plait" in word for word in words) and any(word == "broker" or "broker(" in word for word in words)


def _is_asleep(words: list[str]) -> bool:
    return ASLEEP in words[: words.index("broker")] if "broker" in words else False


def _broker_name(words: list[str]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--name":
            return following
        if word.startswith("--name="):
            return word.removeprefix("--name=")
    return ""

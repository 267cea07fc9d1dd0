"""Starting the processes of a trial, what they cost, and the certainty that none of them is left behind.

Each is killed when its block ends, whatever ends it; and should this process die itself, the kernel kills them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from ..failures import Disturbed, TrialFailed
from .contender import HOST

LAUNCH: Final = Path(__file__).with_name("launch.py")
STOP_S: Final = 3.0
"""For a process to end when it is asked to."""
LOOK_S: Final = 0.05
"""Between two looks at whether all processes are well: a look costs some microseconds for each."""
START_S: Final = 30.0
"""For a server to listen, and for clients to be connected."""


STILL_S: Final = 0.5
"""By so much a sleep may be too long: more, and the machine itself was held, or so busy that times mean nothing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process has used so far."""

    cpu_s: float
    resident_mb: float


class TrialProcesses:
    """The processes of one block."""

    def __init__(self, place: Path, outer: TrialProcesses | None = None) -> None:
        """`outer`: the processes of the block around it, which are checked with its own."""
        self._place = place
        self._outer = outer
        self._looked_at = 0.0
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> TrialProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, process in reversed(self._processes):
            _end(process)

    def start(self, name: str, command: list[str]) -> int:
        """Start one; its process id. What it says is kept for when it fails."""
        with self._said(name).open("wb") as said:
            self._processes.append((name, _start(command, said)))
        return self._processes[-1][1].pid

    def check(self) -> None:
        """Raises when one of them has ended, with the last of what it said; or is held by a signal or a debugger:
        memory that does not grow would then mean nothing."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        if self._outer is not None:
            self._outer.check()
        for name, process in self._processes:
            if process.poll() is None and _state(process.pid) in "Tt":
                raise Disturbed(f"{name} was stopped from outside: nothing is measured by that")
            if process.poll() is not None:
                last = self._said(name).read_text(errors="replace").strip().splitlines()[-3:]
                raise TrialFailed(f"{name} ended with {process.returncode}: {' / '.join(last)}")

    def wait(self, what: str, ready: Callable[[], bool], seconds: float = START_S) -> None:
        """Until something is so, while all of them live."""
        end = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise TrialFailed(f"{what}: not within {seconds:g} s")
            time.sleep(0.005)

    @staticmethod
    def rest(seconds: float) -> None:
        """Between two looks at a trial; raises when it took so long that the machine must have stood still."""
        end = time.monotonic() + seconds
        time.sleep(seconds)
        if (late_s := time.monotonic() - end) > STILL_S:
            raise Disturbed(f"the machine stood still for {late_s:.1f} s")

    def _said(self, name: str) -> Path:
        return self._place / f"{name}.log"


def cost(process: int) -> Cost:
    """Of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return Cost(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def _state(process: int) -> str:
    """As in ps: R, S, D, T and so on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def free_port() -> int:
    """A port of the loopback that is free, and so is the next: ZeroMQ's proxy has two."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind((HOST, 0))
            port: int = first.getsockname()[1]
            try:
                second.bind((HOST, port + 1))
            except (OSError, OverflowError):
                continue
            return port
    raise TrialFailed("no two free ports in a row")


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _start(command: list[str], said: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

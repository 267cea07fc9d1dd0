"""The processes of a trial: starting them, their cost, and their certain end.

Each is killed when its block ends, for any reason. If this process dies, the kernel kills them.
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
"""Timeout for a process to end after SIGTERM."""
LOOK_S: Final = 0.05
"""Seconds between two checks of all processes; a check costs some microseconds for each."""
START_S: Final = 30.0
"""Timeout for a server to listen and for clients to connect."""


STILL_S: Final = 0.5
"""Excess of a sleep that means that the machine stalled, or was too busy for times to be meaningful."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The resources that a process has used so far."""

    cpu_s: float
    resident_mb: float


class TrialProcesses:
    """The processes of one block."""

    def __init__(self, place: Path, outer: TrialProcesses | None = None) -> None:
        """`outer`: the processes of the enclosing block, which are checked together with these."""
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
        """Start a process and return its id. Its output is kept for a failure message."""
        with self._log(name).open("wb") as output:
            self._processes.append((name, _start(command, output)))
        return self._processes[-1][1].pid

    def check(self) -> None:
        """Raise TrialFailed with the last output of a process that ended; raise Disturbed if one is stopped.

        A process held by a signal or a debugger does not grow, so its memory would be meaningless.
        """
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        if self._outer is not None:
            self._outer.check()
        for name, process in self._processes:
            if process.poll() is None and _state(process.pid) in "Tt":
                raise Disturbed(f"{name} was stopped from outside: nothing is measured by that")
            if process.poll() is not None:
                last = self._log(name).read_text(errors="replace").strip().splitlines()[-3:]
                raise TrialFailed(f"{name} ended with {process.returncode}: {' / '.join(last)}")

    def wait(self, what: str, ready: Callable[[], bool], seconds: float = START_S) -> None:
        """Wait until a condition holds, while all processes live."""
        end = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise TrialFailed(f"{what}: not within {seconds:g} s")
            time.sleep(0.005)

    @staticmethod
    def rest(seconds: float) -> None:
        """Sleep between two checks of a trial. Raise Disturbed if it took so long that the machine stalled."""
        end = time.monotonic() + seconds
        time.sleep(seconds)
        if (late_s := time.monotonic() - end) > STILL_S:
            raise Disturbed(f"the machine stood still for {late_s:.1f} s")

    def _log(self, name: str) -> Path:
        return self._place / f"{name}.log"


def cost(process: int) -> Cost:
    """Return the cost of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return Cost(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def _state(process: int) -> str:
    """Return the state as in ps: R, S, D, T and so on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def free_port() -> int:
    """Return a free loopback port whose successor is free, too: ZeroMQ's proxy needs two."""
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
    """Return whether a server accepts connections at a port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _start(command: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
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

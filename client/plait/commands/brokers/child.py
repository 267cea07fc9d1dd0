"""`python -m plait.commands.brokers.child PARENT COMMAND...`: runs a command that ends when its parent does.

On Linux the kernel sends it SIGTERM when the parent ends, even by kill -9; a broker then drains and stops. With
`asleep` before COMMAND the process prints so, waits for SIGCONT, and then replaces itself with the command.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final, NoReturn

ASLEEP: Final = "asleep"
"""Argument of a process that waits, and the line that it prints when it can receive SIGCONT."""
AWAKE: Final = "awake"
"""Line that it prints after SIGCONT."""

_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent ends. Exit if it has ended already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def sleep() -> NoReturn:
    """Wait for SIGCONT, then execute this command again without `asleep`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})  # so that it stays pending instead of being ignored
    print(ASLEEP, flush=True)
    signal.sigwait({signal.SIGCONT})
    print(AWAKE, flush=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCONT})
    at = sys.orig_argv.index(ASLEEP)
    os.execv(sys.executable, [*sys.orig_argv[:at], *sys.orig_argv[at + 1 :]])  # noqa: S606 - its own command


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    if sys.argv[2] == ASLEEP:
        sleep()
    sys.argv = ["plait", *sys.argv[2:]]
    from plait.__main__ import main

    main()

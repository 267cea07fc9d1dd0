"""`python -m plait.commands.brokers.child PARENT COMMAND...`: runs a command that ends when its parent does.

Even if the parent is killed with -9: on Linux the kernel then sends SIGTERM, which a broker takes as "drain and stop".
With `asleep` before COMMAND it waits for SIGCONT first, says so on stdout, and then runs the command in its own place.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final, NoReturn

ASLEEP: Final = "asleep"
"""What it is told, and says when SIGCONT would be heard."""
AWAKE: Final = "awake"
"""What it says when it was."""

_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> None:
    """Ask for SIGTERM when the parent is gone; no parent, no child."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def sleep() -> NoReturn:
    """Wait for SIGCONT, then be the same process without `asleep` among its words."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})  # so that it is kept, where it would be ignored
    print(ASLEEP, flush=True)
    signal.sigwait({signal.SIGCONT})
    print(AWAKE, flush=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCONT})
    at = sys.orig_argv.index(ASLEEP)
    os.execv(sys.executable, [*sys.orig_argv[:at], *sys.orig_argv[at + 1 :]])  # noqa: S606 - what it was started with


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    if sys.argv[2] == ASLEEP:
        sleep()
    sys.argv = ["plait", *sys.argv[2:]]
    from plait.__main__ import main

    main()

"""`python launch.py PARENT COMMAND...`: execute the command, after asking the kernel to kill it when the parent dies.

A separate file that imports the standard library only, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
OPEN_FILES: Final = 65_536
"""Enough for thousands of connections on either side."""


def launch(parent: int, command: list[str]) -> None:
    """Replace this process with the command. Does not return."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent has already ended")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    os.execvp(command[0], command)  # noqa: S606 - that is the point


if __name__ == "__main__":
    launch(int(sys.argv[1]), sys.argv[2:])

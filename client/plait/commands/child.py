"""`python -m plait.commands.child PARENT COMMAND...`: runs a command that ends when its parent does.

Even if the parent is killed with -9: on Linux the kernel then sends SIGTERM, which a broker takes as "drain and stop".
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> None:
    """Ask for SIGTERM when the parent is gone; no parent, no child."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    sys.argv = ["plait", *sys.argv[2:]]
    from plait.__main__ import main

    main()

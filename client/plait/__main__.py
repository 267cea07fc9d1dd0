"""`python -m plait` and the `plait` script."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. End the process with its exit code."""
    try:
        _have_standard_streams()
        from .commands.terminal.interrupts import end_at_once

        end_at_once()
        from .commands.root import plait

        plait.main(prog_name="plait")
    except KeyboardInterrupt:  # raised before the command line handles signals
        sys.exit(130)


def _have_standard_streams() -> None:
    """Open /dev/null for each standard stream that is closed (`plait ... >&-`), so that no socket gets its number."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor, "open() uses the lowest free number"
            setattr(sys, name, os.fdopen(opened, mode))


if __name__ == "__main__":
    main()

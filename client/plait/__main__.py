"""`python -m plait` and the `plait` script."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line; ends the process with its exit code."""
    try:
        _have_standard_streams()
        from .commands.terminal.interrupts import end_at_once

        end_at_once()
        from .commands.root import plait

        plait.main(prog_name="plait")
    except KeyboardInterrupt:  # so early, or so often, that nobody else took it
        sys.exit(130)


def _have_standard_streams() -> None:
    """What was started with one of them closed (`plait ... >&-`) must not find a socket of its own in its place."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor, "the lowest that is free is this one"
            setattr(sys, name, os.fdopen(opened, mode))


if __name__ == "__main__":
    main()

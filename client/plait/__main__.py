"""`python -m plait` and the `plait` script."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; ends the process with its exit code."""
    try:
        from .commands.root import plait

        plait.main(prog_name="plait")
    except KeyboardInterrupt:  # so early, or so often, that nobody else took it
        sys.exit(130)


if __name__ == "__main__":
    main()

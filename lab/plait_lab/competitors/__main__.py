"""`python -m plait_lab.competitors install|list`: install or list the competitors. Exit code 1 if one is missing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .installation import install, show


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.competitors", description=__doc__)
    parser.add_argument("do", choices=("install", "list"), help="install what is missing, or list what is installed")
    chosen = parser.parse_args(arguments).do
    return 0 if (install if chosen == "install" else show)(print) else 1


if __name__ == "__main__":
    sys.exit(main())

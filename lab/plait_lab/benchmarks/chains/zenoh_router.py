"""`python -m plait_lab.benchmarks.chains.zenoh_router PORT NEXT`: run a Zenoh router, connected to port NEXT unless
0."""

from __future__ import annotations

import signal
import sys

from ...competitors.contender import HOST
from ...competitors.systems.zenoh import Zenoh


def main(port: int, following: int) -> None:
    """Serve until killed."""
    settings = {"listen/endpoints": [f"tcp/{HOST}:{port}"]}
    if following:
        settings["connect/endpoints"] = [f"tcp/{HOST}:{following}"]
    with Zenoh().session("router", settings):
        signal.pause()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))

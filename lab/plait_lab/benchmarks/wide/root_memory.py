"""The memory of an overlay that knows many brokers and has published an event to all of them.

`python -m plait_lab.benchmarks.wide.root_memory group 1000` measures in its own process and prints megabytes.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plait_broker.overlay import OverlaySettings

from .single_costs import SINGLE
from .wide_root import SETTINGS, WideRoot

GROUP: Final = replace(SETTINGS, destinations_max=1)
"""Settings with which every event for two or more brokers takes a stream group."""

KINDS: Final[Mapping[str, OverlaySettings]] = {"group": GROUP, "single": SINGLE}


def measure_root(kind: str, brokers: int, seed: int) -> float:
    """Measure in a separate process. Return megabytes."""
    command = [sys.executable, "-m", __name__, kind, str(brokers), "--seed", str(seed)]
    # A session of its own: Ctrl-C reaches this process alone, which then ends the other.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
    return float(done.stdout)


def _measure(kind: str, brokers: int, seed: int) -> float:
    """Return what is freed with the overlay. Python's allocations are counted, those of OpenSSL are not."""
    tracemalloc.start()
    root = WideRoot(seed, brokers, 3 * (brokers - 1), KINDS[kind])
    root.overlay.publish(root.event(), root.ids[1:], 0, 0, root.now)
    root.take()
    gc.collect()
    with_overlay, _ = tracemalloc.get_traced_memory()
    del root.overlay
    gc.collect()
    without, _ = tracemalloc.get_traced_memory()
    return (with_overlay - without) / 1e6


def main() -> None:
    """Print the memory of one overlay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("brokers", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(_measure(options.kind, options.brokers, options.seed))


if __name__ == "__main__":
    main()

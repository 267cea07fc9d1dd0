"""The memory of the filters that other brokers have installed at a publisher's broker.

`python -m plait_lab.benchmarks.wide.remote_filters bands 1000000` measures its own process and prints JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import thread_time
from typing import Any, Final

from plait_broker.overlay.interest.remote_interest import RemoteInterest
from plait_core.filters import parse
from plait_core.limits import INTEREST_FILTERS_MAX
from plait_core.matching import new_index
from plait_core.wire.frame_types.overlay_frames import InterestUpdate

from ..measures import resident_mb

HOMES: Final = 100
"""Home brokers, each with as many filters."""

SYMBOLS: Final = 5_000


def _band(number: int) -> str:
    """Return one of many price bands of a symbol: all are equally wide, so none covers another."""
    low = 100 + number // SYMBOLS
    return f"symbol == 'S{number % SYMBOLS}' and {low} <= price < {low + 10}"


def _name(number: int) -> str:
    return f"client == 'user-{number:07d}'"


KINDS: Final[dict[str, Callable[[int], str]]] = {"bands": _band, "names": _name}
"""Filters by number. No filter covers another of its kind."""


@dataclass(frozen=True, slots=True)
class FilterMemory:
    """The growth of a process in MB, and the time of an installation."""

    settled_mb: float
    """After all filters were merged."""
    loaded_mb: float
    """Right after the last update."""
    most_mb: float
    """The most at the end of any update."""
    install_us: float
    """Processor time to apply one filter of an update, parsing included."""


def measure_memory(kind: str, filters: int) -> FilterMemory:
    """Measure filters of a kind in a separate process: memory freed by other work would hide what they take."""
    command = [sys.executable, "-m", "plait_lab.benchmarks.wide.remote_filters", kind, str(filters)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return FilterMemory(**json.loads(printed))


def _measure(kind: str, filters: int) -> FilterMemory:
    text_of = KINDS[kind]
    _load(RemoteInterest(new_index), text_of, HOMES)  # imports everything
    gc.collect()
    empty, most, interest = resident_mb(), 0.0, RemoteInterest(new_index)
    began = thread_time()
    most = _load(interest, text_of, filters)
    install_us = 1e6 * (thread_time() - began) / filters
    loaded = resident_mb()
    index: Any = interest._index
    assert len(interest) == filters
    for number in range(0, filters, filters // 10):
        assert len(index.covering(parse(text_of(number)))) == 1, "no other filter covers it"
    if hasattr(index, "settle"):
        index.settle()
    gc.collect()
    return FilterMemory(resident_mb() - empty, loaded - empty, max(most, loaded) - empty, install_us)


def _load(interest: RemoteInterest, text_of: Callable[[int], str], filters: int) -> float:
    """Apply the updates of all home brokers. Return the most resident memory in MB at the end of any of them."""
    most, each = 0.0, -(-filters // HOMES)
    for home in range(HOMES):
        numbers = range(home * each, min((home + 1) * each, filters))
        for part in range(0, len(numbers), INTEREST_FILTERS_MAX):
            added = tuple(numbers[part : part + INTEREST_FILTERS_MAX])
            version = 1 + part // INTEREST_FILTERS_MAX
            texts = tuple(map(text_of, added))
            update = InterestUpdate((0,), (1 << 60) + home, (version,), (0,), version == 1, added, texts, ())
            interest.apply(update, version, 0)
            most = max(most, resident_mb())
    return most


def main() -> None:
    """Print the memory of one kind of filters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("filters", type=int)
    options = parser.parse_args()
    print(json.dumps(asdict(_measure(options.kind, options.filters))))


if __name__ == "__main__":
    main()

"""Groups of benchmarks: the modules of this package that end in `_bench` and define `GROUP`.

`GROUP = Group(name, title, run)`; `run` takes a `Session` and yields figures. The driver (`bench.py`) finds the groups,
runs them, prints their tables and writes their sections of the document.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from plait_lab import benchmarks

from .reports import Figure

ShowProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the benchmarks, as groups see it."""

    seed: int
    quick: bool
    progress: ShowProgress
    """Prints a short line of progress."""

    def rng(self, purpose: str) -> Generator:
        """Return a generator for one purpose, independent of the measurements that run."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def size(self, full: int, quick: int) -> int:
        """Return the full size, or in a quick run the small one that only shows that the measurement works."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Group:
    """Benchmarks whose figures form one table."""

    name: str
    """The name in `--only` and in the document's markers."""
    title: str
    run: Callable[[Session], Iterable[Figure]]


def find_groups(progress: ShowProgress) -> list[Group]:
    """Return all groups that can be imported, by name, and report the others."""
    groups = []
    for module in sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__)):
        if not module.endswith("_bench"):
            continue
        try:
            group = getattr(importlib.import_module(f"plait_lab.benchmarks.{module}"), "GROUP", None)
        except ImportError as error:
            progress(f"{module} left out: {error}")
            continue
        if group is not None:
            assert isinstance(group, Group), f"{module}.GROUP is no Group"
            groups.append(group)
    return sorted(groups, key=lambda group: group.name)

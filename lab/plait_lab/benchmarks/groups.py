"""Groups of benchmarks. A module of this package whose name ends in `_bench` and that has `GROUP` is one.

`GROUP = Group(name, title, run)`; `run` is given a `Session` and yields figures as they come. Nothing else is needed:
the driver (`bench.py`) finds it, runs it, prints its table and writes its section of the document.
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

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the benchmarks, as groups see it."""

    seed: int
    quick: bool
    tell: Tell
    """progress, for people: a short line"""

    def rng(self, purpose: str) -> Generator:
        """A generator for one purpose: the same whichever other measures run."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def size(self, full: int, quick: int) -> int:
        """One of two sizes: the real one, or one that only shows that the measure works."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Group:
    """Benchmarks that are told in one table."""

    name: str
    """as in `--only` and the document's markers"""
    title: str
    run: Callable[[Session], Iterable[Figure]]


def find_groups(tell: Tell) -> list[Group]:
    """Every group that can be imported, by name; tells of those that cannot."""
    groups = []
    for module in sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__)):
        if not module.endswith("_bench"):
            continue
        try:
            group = getattr(importlib.import_module(f"plait_lab.benchmarks.{module}"), "GROUP", None)
        except ImportError as error:
            tell(f"{module} left out: {error}")
            continue
        if group is not None:
            assert isinstance(group, Group), f"{module}.GROUP is no Group"
            groups.append(group)
    return sorted(groups, key=lambda group: group.name)

"""The interface of a system whose servers form a chain; its clients are those of `competitors`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ...competitors.contender import Contender

LONG: Final = 3
"""Servers of a chain: the fewest with a middle server that has no clients."""


class Chain(ABC):
    """One system."""

    contender: ClassVar[Contender]
    means: ClassVar[str]
    """How its servers are connected."""

    @property
    def title(self) -> str:
        return self.contender.title

    def missing(self) -> str | None:
        """Return what is not installed here, or None."""
        return self.contender.missing()

    @abstractmethod
    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        """Return the command of each server, in the order of ports.

        Servers are started from the last to the first, each after the next one listens.
        """

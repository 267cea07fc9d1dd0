"""What the harness asks of a system whose servers stand in a row; its clients are those of `rivals`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from ...competitors.contender import Contender

LONG: Final = 3
"""Servers of a chain: the least with one in the middle that nobody is attached to."""


class Chain(ABC):
    """One system."""

    contender: ClassVar[Contender]
    means: ClassVar[str]
    """How its servers are joined."""

    @property
    def title(self) -> str:
        return self.contender.title

    def missing(self) -> str | None:
        """What is not installed here; None when all is."""
        return self.contender.missing()

    @abstractmethod
    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        """What starts the server at each port, joined with those beside it: a command each, in the order of ports.

        They are started from the last to the first, each when the one after it listens.
        """

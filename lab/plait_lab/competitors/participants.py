"""The participants of a run of the benchmarks: those measured, those missing, and those that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..attempts import Attempts
from ..benchmarks.groups import ShowProgress
from ..benchmarks.reports import Figure
from .contender import Contender
from .systems.catalogue import ALL_RIVALS, DURABLE_RIVALS, OURS, OURS_DURABLE, RIVALS
from .trials import Server, served

T = TypeVar("T")


class Participants:
    """The contenders of one run. A missing competitor is reported and skipped; Plait must be present."""

    def __init__(self, progress: ShowProgress) -> None:
        self.progress = progress
        self.missing = {rival: reason for rival in ALL_RIVALS if (reason := rival.missing())}
        self.present: list[Contender] = [OURS, *(rival for rival in RIVALS if rival not in self.missing)]
        self.durable: list[Contender] = [
            OURS_DURABLE,
            *(rival for rival in DURABLE_RIVALS if rival not in self.missing),
        ]
        self._attempts = Attempts(progress, {rival.title for rival in ALL_RIVALS})
        self.failed = self._attempts.excluded

    def rounds(self, repeats: int, contenders: Sequence[Contender], what: str) -> Iterator[Contender]:
        """Yield the contenders in every repeat, in rotating order, without those that failed."""
        for repeat in range(repeats):
            first = repeat % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                if contender.title not in self.failed:
                    self.progress(f"{contender.title}, {what}, {repeat + 1} of {repeats}")
                    yield contender

    def measure(
        self, contender: Contender, what: str, trial: Callable[[Server], T], folder: Path | None = None
    ) -> T | None:
        """Run a trial with a new server. Return None if it failed, or if the contender failed before."""

        def attempt() -> T:
            with served(contender, folder) as server:
                return trial(server)

        return self._attempts.measure(contender.title, what, attempt)

    def figures(self) -> Iterator[Figure]:
        """Yield a figure for each participant with its versions and terms, each failure, and each missing
        competitor."""
        for contender in (*self.present, *self.durable):
            repeats = self._attempts.repeats[contender.title]
            beside = {f"{contender.versions()}; {contender.terms}; trials repeated": float(repeats)}
            measured = self._attempts.measured[contender.title]
            yield Figure(f"taken part: {contender.title}", measured, "trials", None, beside)
        yield from self._attempts.figures()
        for rival, reason in self.missing.items():
            yield Figure(f"left out: {rival.title} ({reason}; install it with: {rival.install})", 0, "trials")

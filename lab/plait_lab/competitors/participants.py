"""The field: who takes part in a run of the benchmarks, who cannot, and how it went for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..attempts import Attempts
from ..benchmarks.groups import Tell
from ..benchmarks.reports import Figure
from .contender import Contender
from .systems.catalogue import OURS, RIVALS
from .trials import Server, served

T = TypeVar("T")


class Participants:
    """All contenders of one run. A rival that cannot be measured is told and done with; Plait has to be."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.missing = {rival.title: reason for rival in RIVALS if (reason := rival.missing())}
        self.present: list[Contender] = [OURS, *(rival for rival in RIVALS if rival.title not in self.missing)]
        self._attempts = Attempts(tell, {rival.title for rival in RIVALS})
        self.failed = self._attempts.excluded

    def rounds(self, repeats: int, contenders: Sequence[Contender], what: str) -> Iterator[Contender]:
        """Everybody's turn in every repeat, in rotating order, without those that have failed."""
        for repeat in range(repeats):
            first = repeat % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                if contender.title not in self.failed:
                    self.tell(f"{contender.title}, {what}, {repeat + 1} of {repeats}")
                    yield contender

    def measure(
        self, contender: Contender, what: str, trial: Callable[[Server], T], folder: Path | None = None
    ) -> T | None:
        """Run a trial with a server of its own. Return None if it failed, or if the contender failed before."""

        def attempt() -> T:
            with served(contender, folder) as server:
                return trial(server)

        return self._attempts.measure(contender.title, what, attempt)

    def figures(self) -> Iterator[Figure]:
        """Who took part with what and on which terms, who failed, who is not here."""
        for contender in self.present:
            repeats = self._attempts.repeats[contender.title]
            beside = {f"{contender.versions()}; {contender.terms}; trials repeated": float(repeats)}
            measured = self._attempts.measured[contender.title]
            yield Figure(f"taken part: {contender.title}", measured, "trials", None, beside)
        yield from self._attempts.figures()
        for title, reason in self.missing.items():
            yield Figure(f"left out: {title} ({reason}; see python -m plait_lab.competitors install)", 0, "trials")

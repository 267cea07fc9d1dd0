"""The field: who takes part in a run of the benchmarks, who cannot, and how it went for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ..baselines import WrongAnswer
from ..groups import Tell
from ..reports import Figure
from .catalogue import OURS, RIVALS
from .contender import Contender
from .processes import Disturbed, TrialFailed
from .trials import Server, served

T = TypeVar("T")

TRIES: Final = 3
"""Of a trial that is disturbed from outside."""


class Field:
    """All contenders of one run. A rival that cannot be measured is told and done with; Plait has to be."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.missing = {rival.title: reason for rival in RIVALS if (reason := rival.missing())}
        self.present: list[Contender] = [OURS, *(rival for rival in RIVALS if rival.title not in self.missing)]
        self.failed: dict[str, str] = {}
        self._measured: Counter[str] = Counter()
        self._disturbed: Counter[str] = Counter()

    def rounds(self, repeats: int, contenders: Sequence[Contender], what: str) -> Iterator[Contender]:
        """Everybody's turn in every repeat, in rotating order, without those that have failed."""
        for repeat in range(repeats):
            first = repeat % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                if contender.title not in self.failed:
                    self.tell(f"{contender.title}, {what}, {repeat + 1} of {repeats}")
                    yield contender

    def measure(self, contender: Contender, trial: Callable[[Server], T], folder: Path | None = None) -> T | None:
        """The trial with a server of its own; None for a rival that fails, now or before."""
        if contender.title in self.failed:
            return None
        try:
            return self._tried(contender, trial, folder)
        except TrialFailed as error:
            if contender not in RIVALS:
                raise WrongAnswer(f"{contender.title}: {error}") from error
            self.tell(f"{contender.title} failed: {error}")
            self.failed[contender.title] = str(error).partition(":")[0]
            return None

    def _tried(self, contender: Contender, trial: Callable[[Server], T], folder: Path | None) -> T:
        for remaining in reversed(range(TRIES)):
            try:
                with served(contender, folder) as server:
                    found = trial(server)
            except Disturbed as error:
                self._disturbed[contender.title] += 1
                self.tell(f"{contender.title} was disturbed: {error}")
                if not remaining:
                    raise
            else:
                self._measured[contender.title] += 1
                return found
        raise AssertionError("the last try returns or raises")

    def figures(self) -> Iterator[Figure]:
        """Who took part with what and on which terms, who failed, who is not here."""
        for contender in self.present:
            beside = {f"{contender.versions()}; {contender.terms}; trials repeated": self._disturbed[contender.title]}
            measured = self._measured[contender.title]
            yield Figure(f"taken part: {contender.title}", measured, "trials", None, dict(beside))
        for title, reason in self.failed.items():
            yield Figure(f"failed: {title} ({reason})", self._measured[title], "trials")
        for title, reason in self.missing.items():
            yield Figure(f"left out: {title} ({reason}; see python -m plait_lab.rivals install)", 0, "trials")

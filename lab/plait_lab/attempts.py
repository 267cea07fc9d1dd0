"""Run the trials of a group of benchmarks so that one failed trial does not end the group.

A trial that gives no measurement is repeated. If it fails again, it is listed beside the results. A competitor that
fails for another reason takes no further part. If Plait fails for another reason, that is a wrong answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from .benchmarks.groups import ShowProgress
from .benchmarks.measurement.baselines import WrongAnswer
from .benchmarks.reports import Figure
from .failures import TrialFailed, Unmeasured

T = TypeVar("T")


class Attempts:
    """All trials of one group."""

    def __init__(self, progress: ShowProgress, competitors: Collection[str]) -> None:
        """Take the titles of the competitors. Every other title is Plait's."""
        self.measured: Counter[str] = Counter()
        """Trials with a result, by title."""
        self.repeats: Counter[str] = Counter()
        """Repeated trials, by title."""
        self.excluded: dict[str, str] = {}
        """Competitors that take no further part, with the reason."""
        self._progress = progress
        self._competitors = competitors
        self._failed: Counter[tuple[str, str]] = Counter()
        """Failed trials, by label and last reason."""

    def measure(self, title: str, what: str, trial: Callable[[], T]) -> T | None:
        """Return the result of a trial, or None if it failed or its competitor is excluded."""
        if title in self.excluded:
            return None
        try:
            found = self._repeated(title, what, trial)
        except TrialFailed as error:
            if title not in self._competitors:
                raise WrongAnswer(f"{title}: {error}") from error
            self._progress(f"{title} failed: {error}")
            self.excluded[title] = str(error).partition(":")[0]
            return None
        self.measured[title] += found is not None
        return found

    def _repeated(self, title: str, what: str, trial: Callable[[], T]) -> T | None:
        causes: Counter[type[Unmeasured]] = Counter()
        while True:
            try:
                return trial()
            except Unmeasured as error:
                causes[type(error)] += 1
                failed = causes[type(error)] >= error.tries
                self._progress(f"{title}, {what}: {error}; {'failed' if failed else 'repeated'}")
                if failed:
                    self._failed[f"{title}, {what}", str(error)] += 1
                    return None
                self.repeats[title] += 1

    def figures(self) -> Iterator[Figure]:
        """Count the failed trials by label and reason, and name the excluded competitors."""
        for (label, reason), count in self._failed.items():
            yield Figure(f"failed trial: {label} ({reason})", count, "trials")
        for title, reason in self.excluded.items():
            yield Figure(f"failed: {title} ({reason})", self.measured[title], "trials")

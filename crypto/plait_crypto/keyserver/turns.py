"""Turns: callers are served one after the other, each by a slice of its oldest job. No I/O.

So a large job delays others by one slice, and a caller with many jobs delays only itself.

Invariant: a caller is listed exactly while it has jobs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

J = TypeVar("J")


class Turns(Generic[J]):
    """The waiting jobs of all callers, bounded in all and per caller."""

    def __init__(self, jobs_max: int, jobs_per_caller_max: int) -> None:
        self._jobs_max = jobs_max
        self._jobs_per_caller_max = jobs_per_caller_max
        self._jobs: OrderedDict[str, deque[J]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, caller: str, job: J) -> bool:
        """Add a job. Return False if there is no room for it."""
        if self._count >= self._jobs_max or len(self._jobs.get(caller, ())) >= self._jobs_per_caller_max:
            return False
        self._jobs.setdefault(caller, deque()).append(job)
        self._count += 1
        return True

    def take(self) -> tuple[str, J] | None:
        """Return the caller whose turn it is with its oldest job, and give the next turn to another caller."""
        if not self._jobs:
            return None
        caller = next(iter(self._jobs))
        self._jobs.move_to_end(caller)
        return caller, self._jobs[caller][0]

    def finish(self, caller: str) -> None:
        """Remove the caller's oldest job."""
        self._jobs[caller].popleft()
        self._count -= 1
        if not self._jobs[caller]:
            del self._jobs[caller]

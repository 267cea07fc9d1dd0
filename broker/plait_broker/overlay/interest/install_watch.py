"""Filters that are being installed, and how many acks each of them waits for.

`awaited` counts, for each announced filter, the brokers in reach that have not acked it. The counts change with
announcements and acks. A filter is looked at when it is added, and again when the count that it waits for falls to
zero. So no turn looks at all filters that are being installed, or at all brokers for one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class InstallDeadlines:
    """The timeouts of a filter that is being installed."""

    since: float = 0.0
    wait_s: float = math.inf
    """The longest wait for a broker without any ack."""
    store_s: float = math.inf
    """The longest wait for a broker that has the filter, or does not need it, and only has to store it."""
    versions: dict[int, int] = field(default_factory=dict)
    """By broker that must ack in any case, the version to be acked."""


def stored_key(number: int) -> int:
    """Return the key that counts the brokers which must ack a filter even if they do not need it."""
    return ~number


class InstallWatch:
    """The filters of one broker that are being installed."""

    def __init__(self) -> None:
        self.installing: dict[int, InstallDeadlines] = {}
        self.awaited: dict[int, int] = {}
        """By announced filter, or by `stored_key`, the acks that are awaited; no entry for none."""
        self._waiting: dict[int, list[tuple[int, InstallDeadlines]]] = {}
        """By the same key, the filters that are looked at again when no ack is awaited."""
        self._open: list[tuple[int, InstallDeadlines]] = []
        """Filters to look at."""

    @property
    def due(self) -> bool:
        """Whether there are filters to look at."""
        return bool(self._open)

    def add(self, number: int, terms: InstallDeadlines) -> None:
        """Add a filter, or begin anew with one."""
        self.installing.pop(number, None)
        self.installing[number] = terms
        self._open.append((number, terms))

    def remove(self, number: int) -> None:
        """Remove a filter if it is being installed."""
        self.installing.pop(number, None)

    def count(self, keys: Iterable[int], by: int) -> None:
        """Count acks that are awaited from now on (1), or no longer (-1)."""
        awaited = self.awaited
        for key in keys:
            left = awaited.get(key, 0) + by
            assert left >= 0, "an ack was awaited before it came"
            if left:
                awaited[key] = left
            else:
                del awaited[key]
                self._open += self._waiting.pop(key, ())

    def take_installed(self, coverer: Callable[[int], int]) -> list[int]:
        """Return the filters for which no ack is awaited any more. `coverer` returns the announced filter for one."""
        installed: list[int] = []
        opened, self._open = self._open, []
        for number, terms in opened:
            if self.installing.get(number) is not terms:  # withdrawn or replaced meanwhile
                continue
            for key in (coverer(number), stored_key(number)):
                if key in self.awaited:
                    self._waiting.setdefault(key, []).append((number, terms))
                    break
            else:
                del self.installing[number]
                installed.append(number)
        return installed

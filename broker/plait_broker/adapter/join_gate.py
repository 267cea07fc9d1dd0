"""The join gate: clients of a starting broker wait until it knows the interest of the other brokers.

A broker that has just started must not confirm an event as unmatched because it lacks their interest.
"""

from __future__ import annotations

from typing import Final

from plait_core.wire import Hello

from ..clients.connection import Connection
from ..overlay import Overlay

CALM_S: Final = 0.1
"""Time after interest came from all known brokers: link states of further brokers behind them arrive within it."""


class JoinGate:
    """One broker's."""

    def __init__(self, overlay: Overlay, expected: int, opens_at: float) -> None:
        """`expected` is the least number of neighbours to wait for. The gate opens at `opens_at` in any case."""
        self._overlay = overlay
        self._expected = expected
        self._opens_at = opens_at
        self._open = not expected
        self._informed_since: float | None = None
        self.waiting: dict[Connection, Hello] = {}
        """Clients that came too early, each with its hello."""

    def is_open(self, now: float) -> bool:
        """Return whether clients may come in: the interest of other brokers is known, or the time is over."""
        if self._open:
            return True
        overlay = self._overlay
        if len(overlay.neighbours) < self._expected or not overlay.informed:
            self._informed_since = None
        elif self._informed_since is None:
            self._informed_since = now
        informed = self._informed_since is not None and now - self._informed_since >= CALM_S
        self._open = informed or now >= self._opens_at
        return self._open

    def hold(self, connection: Connection, hello: Hello) -> None:
        """Keep the hello of a client that came too early."""
        self.waiting[connection] = hello

    def forget(self, connection: Connection) -> None:
        """Forget a client that has gone."""
        self.waiting.pop(connection, None)

    def take(self, now: float) -> list[tuple[Connection, Hello]]:
        """Return the clients that waited, once the gate is open."""
        if not self.waiting or not self.is_open(now):
            return []
        waiting, self.waiting = self.waiting, {}
        return [(connection, hello) for connection, hello in waiting.items() if not connection.closing]

    def next_deadline(self, now: float) -> float:
        """Return when to look again while clients wait."""
        return now + CALM_S / 2

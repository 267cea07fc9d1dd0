"""How others behave: what is held against them, until it is forgotten, or they are shunned.

Peers may lie about their delays or subscriptions, flood us with requests, or repeat what others said. None of it can be
proved by one look, so every fault has a weight, the sum fades, and whoever passes the threshold is not asked, not
answered and not believed until it has faded again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from .outputs import PeerId

SHUNNED_AT: Final = 8.0
"""More than churn makes of an honest peer: it takes several faults of the grave kind, close together."""
FADING: Final = 0.97
"""What is left of a score after a period: half of it after 23."""
REMEMBERED_MAX: Final = 1024
"""Peers with a score or a count; the least guilty are forgotten first."""


class Fault(Enum):
    """What may be held against a peer, and its weight."""

    FLOOD = 1.5  # more requests in a period than there is reason for
    UNASKED = 0.5  # an answer to nothing
    DELAY = 1.0  # events come later than it says they do
    SILENT = 3.0  # events that it should have passed on did not come
    OUTSIDE = 0.25  # events that nobody wanted of it


class Reputation:
    """The scores of others."""

    __slots__ = ("_counts", "_most", "_scores")

    def __init__(self, requests_per_period_max: int) -> None:
        self._most = requests_per_period_max
        self._scores: dict[PeerId, float] = {}
        self._counts: dict[PeerId, int] = {}

    def blame(self, peer: PeerId, fault: Fault) -> None:
        """Hold something against it."""
        scores = self._scores
        scores[peer] = min(scores.get(peer, 0.0) + fault.value, 4 * SHUNNED_AT)
        if len(scores) > REMEMBERED_MAX:
            del scores[min(scores, key=scores.__getitem__)]

    def shunned(self, peer: PeerId) -> bool:
        """Whether we have nothing to do with it for now."""
        return self._scores.get(peer, 0.0) >= SHUNNED_AT

    def score(self, peer: PeerId) -> float:
        """What is held against it."""
        return self._scores.get(peer, 0.0)

    def admits(self, peer: PeerId) -> bool:
        """Whether a request of this peer is looked at: it is one of few in this period, and it is not shunned."""
        if self.shunned(peer):
            return False
        counts = self._counts
        if peer not in counts and len(counts) >= REMEMBERED_MAX:
            return False  # a flood from many: whoever came first in this period is served
        counts[peer] = counts.get(peer, 0) + 1
        if counts[peer] <= self._most:
            return True
        self.blame(peer, Fault.FLOOD)
        return False

    def fade(self) -> None:
        """A period has passed."""
        if self._counts:
            self._counts.clear()
        if self._scores:
            self._scores = {peer: left for peer, score in self._scores.items() if (left := score * FADING) > 0.05}

"""The reputation of other peers: weighted faults that decay, and a threshold above which a peer is shunned.

Peers may lie about their delays or subscriptions, send floods of requests, or replay profiles. One observation proves
none of it. Each fault therefore adds a weight to a score. Above the threshold this peer neither sends to the other nor
accepts its frames, until the score has decayed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from .outputs import PeerId

SHUNNED_AT: Final = 8.0
"""Score at which a peer is shunned. Churn gives an honest peer less: it takes several grave faults close together."""
FADING: Final = 0.97
"""The share of a score that remains after a period: half of it after 23."""
REMEMBERED_MAX: Final = 1024
"""Peers with a score or a count; beyond it the lowest score is removed."""


class Fault(Enum):
    """A kind of misbehaviour, and its weight."""

    FLOOD = 1.5  # too many requests in one period
    UNASKED = 0.5  # a reply without a request
    DELAY = 1.0  # events later than announced
    SILENT = 3.0  # omitted events
    OUTSIDE = 0.25  # events that were not requested


class Reputation:
    """The scores of other peers."""

    __slots__ = ("_counts", "_most", "_scores")

    def __init__(self, requests_per_period_max: int) -> None:
        self._most = requests_per_period_max
        self._scores: dict[PeerId, float] = {}
        self._counts: dict[PeerId, int] = {}

    def blame(self, peer: PeerId, fault: Fault) -> None:
        """Add a fault's weight to a peer's score."""
        scores = self._scores
        scores[peer] = min(scores.get(peer, 0.0) + fault.value, 4 * SHUNNED_AT)
        if len(scores) > REMEMBERED_MAX:
            del scores[min(scores, key=scores.__getitem__)]

    def shunned(self, peer: PeerId) -> bool:
        """Return whether the peer's score is above the threshold."""
        return self._scores.get(peer, 0.0) >= SHUNNED_AT

    def score(self, peer: PeerId) -> float:
        """Return the peer's score."""
        return self._scores.get(peer, 0.0)

    def admits(self, peer: PeerId) -> bool:
        """Count a request, and return whether it is handled: the peer is not shunned and within its limit for this
        period."""
        if self.shunned(peer):
            return False
        counts = self._counts
        if peer not in counts and len(counts) >= REMEMBERED_MAX:
            return False  # a flood from many: only the first peers of a period are served
        counts[peer] = counts.get(peer, 0) + 1
        if counts[peer] <= self._most:
            return True
        self.blame(peer, Fault.FLOOD)
        return False

    def fade(self) -> None:
        """Decay all scores and reset the request counts; called once a period."""
        if self._counts:
            self._counts.clear()
        if self._scores:
            self._scores = {peer: left for peer, score in self._scores.items() if (left := score * FADING) > 0.05}

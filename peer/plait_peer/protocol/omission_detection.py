"""Detection of parents that omit events: events that publishers announce by gossip, compared with those received.

A peer that claims to cover more than it receives, or forwards nothing, sends frames that look correct. But publishers
announce their last events by gossip, which takes other paths. An event that is missing although the parent was
connected when it was published counts as the parent's fault. A publisher whose announcements accuse one parent after
another is not believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plait_core.wire.frame_types.peer_frames import Profile

from .outputs import PeerId
from .peer_state import PeerState
from .reputation import Fault, Reputation
from .subspaces import covers
from .topology.parents import Parents

MISSING_MAX = 32
"""Missing events awaited at a time."""
WAIT_PERIODS = 3
"""Periods for an announced event to arrive."""
ACCUSED_MAX = 3
"""Parents that the announcements of one publisher may accuse; beyond it the publisher is doubted."""


@dataclass(slots=True)
class Claims:
    """The announcements of one publisher."""

    highest: int
    since_period: int
    """The period of the last announcement, by the age of its profile."""
    accused: set[PeerId]
    """Parents shunned because of these announcements."""


class OmissionDetection:
    """Compares announced with received events."""

    __slots__ = ("_blamed", "_claims", "_missing", "_parents", "_received", "_reputation", "_state")

    def __init__(
        self, state: PeerState, parents: Parents, reputation: Reputation, received: Callable[[PeerId, int], bool]
    ) -> None:
        self._state = state
        self._parents = parents
        self._reputation = reputation
        self._received = received
        self._claims: dict[PeerId, Claims] = {}
        self._missing: list[tuple[int, PeerId, int, str, PeerId]] = []
        self._blamed: dict[PeerId, int] = {}

    def handle_profile(self, profile: Profile, age: int, now: float) -> None:
        """Note the last events that a publisher's profile announces."""
        if not profile.recent_numbers:
            return
        state = self._state
        claims = self._claims.get(profile.peer)
        if claims is None:
            if len(self._claims) < state.settings.publishers_max:
                self._claims[profile.peer] = Claims(max(profile.recent_numbers), state.period - age, set())
            return
        if max(profile.recent_numbers) <= claims.highest:
            return
        for number, dz in zip(profile.recent_numbers, profile.recent_dz, strict=True):
            if number > claims.highest and covers(state.interest, dz):
                self._suspect(profile.peer, number, dz, claims, now)
        claims.highest = max(profile.recent_numbers)
        claims.since_period = state.period - age

    def _suspect(self, publisher: PeerId, number: int, dz: str, claims: Claims, now: float) -> None:
        parent = self._parents.subscriber_for(dz)
        if parent is None or self._received(publisher, number) or len(self._missing) >= MISSING_MAX:
            return
        state = self._state
        published_after = now - (state.period - claims.since_period) * state.settings.period_s
        settled_s = state.settings.grace_periods * state.settings.period_s
        if publisher in parent.sources and parent.since + settled_s <= published_after:
            self._missing.append((state.period + WAIT_PERIODS, publisher, number, dz, parent.profile.peer))

    def check(self) -> None:
        """Blame parents for events that are still missing; called once a period."""
        due = [each for each in self._missing if each[0] <= self._state.period]
        if not due:
            return
        self._missing = [each for each in self._missing if each[0] > self._state.period]
        for _, publisher, number, _, peer in due:
            accused = self._claims[publisher].accused
            believed = peer in accused or len(accused) < ACCUSED_MAX
            if self._received(publisher, number) or peer not in self._parents.by_id or not believed:
                continue
            if self._state.period < self._blamed.get(peer, 0) + WAIT_PERIODS:
                continue  # an outage loses many events but counts as one fault
            self._blamed = {other: at for other, at in self._blamed.items() if other in self._parents.by_id}
            self._blamed[peer] = self._state.period
            self._reputation.blame(peer, Fault.SILENT)
            if self._reputation.shunned(peer):
                accused.add(peer)
                self._state.counters.shunned += 1
                self._parents.leave(peer, "events are missing", avoid=True)

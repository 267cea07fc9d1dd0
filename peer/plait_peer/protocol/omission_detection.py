"""Detection of parents that omit events: events that publishers announce by gossip, compared with those received.

A peer that claims to cover more than it receives, or forwards nothing, sends frames that look correct. But publishers
announce their last events by gossip, which takes other paths. An event that is missing although the parent was
connected when it was published counts as the parent's fault. A publisher whose announcements accuse one parent after
another is not believed.

Announcements overtake events that wait for a full link. The events of one publisher keep their order. So a missing
event is late, not omitted, while earlier events of its publisher arrive.
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
LATE_PERIODS_MAX = 120
"""Periods for an announced event to arrive while earlier ones do: 36 s, in which 1 Mbit/s carry the 4 MiB that may wait
for a link before publishers pause."""
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


@dataclass(slots=True)
class MissingEvent:
    """An announced event that has not arrived."""

    publisher: PeerId
    number: int
    parent: PeerId
    since: int
    """The period of its announcement."""
    due: int
    """The period in which it is checked next."""
    highest: int
    """The publisher's highest number that had arrived at the last check."""


class OmissionDetection:
    """Compares announced with received events."""

    __slots__ = ("_blamed", "_claims", "_highest", "_missing", "_parents", "_received", "_reputation", "_state")

    def __init__(
        self,
        state: PeerState,
        parents: Parents,
        reputation: Reputation,
        received: Callable[[PeerId, int], bool],
        highest: Callable[[PeerId], int],
    ) -> None:
        """`received` returns whether an event was received, `highest` a publisher's highest number that was."""
        self._state = state
        self._parents = parents
        self._reputation = reputation
        self._received = received
        self._highest = highest
        self._claims: dict[PeerId, Claims] = {}
        self._missing: list[MissingEvent] = []
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
            due, highest = state.period + WAIT_PERIODS, self._highest(publisher)
            self._missing.append(MissingEvent(publisher, number, parent.profile.peer, state.period, due, highest))

    def check(self) -> None:
        """Blame parents for events that are still missing; called once a period."""
        period = self._state.period
        due = [each for each in self._missing if each.due <= period]
        if not due:
            return
        late = [each for each in due if self._is_late(each)]
        for each in late:
            each.due, each.highest = period + WAIT_PERIODS, self._highest(each.publisher)
        self._missing = [each for each in self._missing if each.due > period]
        for each in due:
            peer, accused = each.parent, self._claims[each.publisher].accused
            believed = peer in accused or len(accused) < ACCUSED_MAX
            missing = each not in late and not self._received(each.publisher, each.number)
            if not missing or peer not in self._parents.by_id or not believed:
                continue
            if period < self._blamed.get(peer, 0) + WAIT_PERIODS:
                continue  # an outage loses many events but counts as one fault
            self._blamed = {other: at for other, at in self._blamed.items() if other in self._parents.by_id}
            self._blamed[peer] = period
            self._reputation.blame(peer, Fault.SILENT)
            if self._reputation.shunned(peer):
                accused.add(peer)
                self._state.counters.shunned += 1
                self._parents.leave(peer, "events are missing", avoid=True)

    def _is_late(self, missing: MissingEvent) -> bool:
        """Return whether earlier events of the publisher have arrived since the last check."""
        patient = self._state.period - missing.since < LATE_PERIODS_MAX
        return patient and missing.highest < self._highest(missing.publisher) < missing.number

"""Evidence that a parent keeps events from us: what publishers say of their last events, against what came.

A peer that claims to cover more than it receives, or passes nothing on, looks well in every frame it sends. But
publishers tell their last events by gossip, which goes other ways; an event that we should have and do not, published
since we have that parent, is held against it. A publisher whose word accuses parent after parent is not believed.
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

SUSPICIONS_MAX = 32
"""Missing events that are waited for at a time."""
WAIT_PERIODS = 3
"""How long an event may still come after we have heard of it."""
ACCUSED_MAX = 3
"""Parents that one publisher's word may accuse before it is the word that is doubted."""


@dataclass(slots=True)
class Account:
    """What a publisher has said so far."""

    highest: int
    since_period: int
    """When it said so, by the age of its profile."""
    accused: set[PeerId]
    """Parents that its word has convicted."""


class OmissionDetection:
    """What should have come."""

    __slots__ = ("_accounts", "_blamed", "_conduct", "_incoming", "_me", "_received", "_suspicions")

    def __init__(
        self, me: PeerState, incoming: Parents, conduct: Reputation, received: Callable[[PeerId, int], bool]
    ) -> None:
        self._me = me
        self._incoming = incoming
        self._conduct = conduct
        self._received = received
        self._accounts: dict[PeerId, Account] = {}
        self._suspicions: list[tuple[int, PeerId, int, str, PeerId]] = []
        self._blamed: dict[PeerId, int] = {}

    def heard(self, profile: Profile, age: int, now: float) -> None:
        """A publisher tells what it published last."""
        if not profile.recent_numbers:
            return
        me = self._me
        account = self._accounts.get(profile.peer)
        if account is None:
            if len(self._accounts) < me.settings.publishers_max:
                self._accounts[profile.peer] = Account(max(profile.recent_numbers), me.period - age, set())
            return
        if max(profile.recent_numbers) <= account.highest:
            return
        for number, dz in zip(profile.recent_numbers, profile.recent_dz, strict=True):
            if number > account.highest and covers(me.wanted, dz):
                self._suspect(profile.peer, number, dz, account, now)
        account.highest = max(profile.recent_numbers)
        account.since_period = me.period - age

    def _suspect(self, publisher: PeerId, number: int, dz: str, account: Account, now: float) -> None:
        parent = self._incoming.subscriber_for(dz)
        if parent is None or self._received(publisher, number) or len(self._suspicions) >= SUSPICIONS_MAX:
            return
        me = self._me
        published_after = now - (me.period - account.since_period) * me.settings.period_s
        settled_s = me.settings.grace_periods * me.settings.period_s
        if publisher in parent.sources and parent.since + settled_s <= published_after:
            self._suspicions.append((me.period + WAIT_PERIODS, publisher, number, dz, parent.profile.peer))

    def check(self) -> None:
        """Once a period: what has not come by now is held against the parent that we had for it."""
        due = [each for each in self._suspicions if each[0] <= self._me.period]
        if not due:
            return
        self._suspicions = [each for each in self._suspicions if each[0] > self._me.period]
        for _, publisher, number, _, peer in due:
            accused = self._accounts[publisher].accused
            believed = peer in accused or len(accused) < ACCUSED_MAX
            if self._received(publisher, number) or peer not in self._incoming.parents or not believed:
                continue
            if self._me.period < self._blamed.get(peer, 0) + WAIT_PERIODS:
                continue  # one outage loses many events, and is one fault
            self._blamed = {other: at for other, at in self._blamed.items() if other in self._incoming.parents}
            self._blamed[peer] = self._me.period
            self._conduct.blame(peer, Fault.SILENT)
            if self._conduct.shunned(peer):
                accused.add(peer)
                self._me.counters.shunned += 1
                self._incoming.leave(peer, "events are missing", avoid=True)

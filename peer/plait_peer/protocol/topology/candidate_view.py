"""pView and pubList: possible parents, and the publishers whose events concern the peer (2.4.2.1, 2.4.2.2).

Gossip fills both lists, and entries without news expire: `updatePviewAndPubList`, Algorithm 1, lines 1 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from plait_core.wire.frame_types.peer_frames import Profile

from ..outputs import PeerId
from ..peer_state import PeerState
from ..subspaces import Texts, related, touches

UNRESPONSIVE_MAX = 256
"""Peers remembered as unresponsive."""
_FUTURE_MAX = 1 << 20
"""The most that a version may exceed the known one. A forged version beyond it would block its peer's updates for
ever."""


class CandidateView:
    """Both lists. The entry refreshed longest ago comes first."""

    __slots__ = ("_state", "_unresponsive", "publishers", "subscribers")

    def __init__(self, state: PeerState) -> None:
        self._state = state
        self._unresponsive: dict[PeerId, int] = {}
        self.subscribers: dict[PeerId, tuple[Profile, int]] = {}
        self.publishers: dict[PeerId, tuple[Profile, int]] = {}

    def update(self, profile: Profile, age: int) -> bool:
        """Add or refresh an entry (lines 2 to 7). Return False if the profile is older than the known one."""
        state, peer = self._state, profile.peer
        if peer == state.id or state.publisher:  # publishers keep no lists (2.4.3.1)
            return True
        entries = self.publishers if profile.publisher else self.subscribers
        known = entries.get(peer)
        born = state.period - age
        if peer in self._unresponsive:
            if self._unresponsive[peer] >= born:
                return True
            del self._unresponsive[peer]
        if known is not None:
            if profile.version < known[0].version:
                return False
            if profile.version > known[0].version + _FUTURE_MAX:
                return False
            if profile.version == known[0].version and born <= known[1]:
                return True
            del entries[peer]
        if age > state.settings.view_age_max:
            return True
        if (known is not None and known[0].dz is profile.dz) or related(state.dz, profile.dz):
            entries[peer] = (profile, born)
            most = state.settings.publishers_max if profile.publisher else state.settings.view_max
            if len(entries) > most:
                del entries[next(iter(entries))]
        return True

    def expire(self) -> None:
        """Remove old entries (line 8). The first entry was refreshed longest ago, so the scan stops at the first fresh
        one."""
        oldest = self._state.period - self._state.settings.view_age_max
        for entries in (self.subscribers, self.publishers):
            while entries:
                first = next(iter(entries))
                if entries[first][1] >= oldest:
                    break
                del entries[first]

    def drop_unrelated(self) -> None:
        """Remove entries that are unrelated to the peer's new sub-spaces."""
        for entries in (self.subscribers, self.publishers):
            unrelated = [peer for peer, (profile, _) in entries.items() if not related(self._state.dz, profile.dz)]
            for peer in unrelated:
                del entries[peer]

    def forget(self, peer: PeerId) -> None:
        """Remove a peer that is dead or not trusted."""
        self.subscribers.pop(peer, None)
        self.publishers.pop(peer, None)

    def mark_unresponsive(self, peer: PeerId) -> None:
        """Note that a peer did not answer. Its earlier profiles are then no sign of life, however often they are
        repeated."""
        if not self._state.policies.prompt:
            return
        self._unresponsive.pop(peer, None)
        self._unresponsive[peer] = self._state.period
        if len(self._unresponsive) > UNRESPONSIVE_MAX:
            del self._unresponsive[next(iter(self._unresponsive))]

    def unresponsive(self, peer: PeerId) -> bool:
        """Return whether the peer did not answer and has sent no newer profile."""
        return peer in self._unresponsive

    def profiles(self) -> Iterator[Profile]:
        """Return the profiles of possible parents."""
        oldest = self._state.period - self._state.settings.view_age_max
        return (profile for profile, born in self.subscribers.values() if born >= oldest)

    def relevant(self, dz: str) -> list[Profile]:
        """Return the publishers whose advertisements touch a sub-space."""
        return [profile for profile, _ in self.publishers.values() if touches(profile.dz, dz)]

    def relevant_ids(self, texts: Texts) -> list[PeerId]:
        """Return the publishers whose advertisements touch one of the sub-spaces."""
        return [peer for peer, (profile, _) in self.publishers.items() if related(profile.dz, texts)]

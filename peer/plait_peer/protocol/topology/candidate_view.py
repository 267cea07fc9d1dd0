"""pView and pubList: the peers that may be parents, and the publishers whose events concern us (2.4.2.1, 2.4.2.2).

Both live from what gossip brings, and forget what they have not heard of for long: `updatePviewAndPubList`,
Algorithm 1, lines 1 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from plait_core.wire.frame_types.peer_frames import Profile

from ..outputs import PeerId
from ..peer_state import PeerState
from ..subspaces import Texts, related, touches

MOURNED_MAX = 256
"""Peers that are remembered as not having answered."""
_FUTURE_MAX = 1 << 20
"""A version may run ahead of the one known by so much; a forged one beyond it would silence its peer for ever."""


class CandidateView:
    """Both lists. The entry that was refreshed longest ago comes first."""

    __slots__ = ("_me", "_mourned", "publishers", "subscribers")

    def __init__(self, me: PeerState) -> None:
        self._me = me
        self._mourned: dict[PeerId, int] = {}
        self.subscribers: dict[PeerId, tuple[Profile, int]] = {}
        self.publishers: dict[PeerId, tuple[Profile, int]] = {}

    def update(self, profile: Profile, age: int) -> bool:
        """Lines 2 to 7. False for what is older than what is known."""
        me, peer = self._me, profile.peer
        if peer == me.id or me.publisher:  # publishers keep no views (2.4.3.1)
            return True
        entries = self.publishers if profile.publisher else self.subscribers
        known = entries.get(peer)
        born = me.period - age
        if peer in self._mourned:
            if self._mourned[peer] >= born:
                return True
            del self._mourned[peer]
        if known is not None:
            if profile.version < known[0].version:
                return False
            if profile.version > known[0].version + _FUTURE_MAX:
                return False
            if profile.version == known[0].version and born <= known[1]:
                return True
            del entries[peer]
        if age > me.settings.view_age_max:
            return True
        if (known is not None and known[0].dz is profile.dz) or related(me.dz, profile.dz):
            entries[peer] = (profile, born)
            most = me.settings.publishers_max if profile.publisher else me.settings.view_max
            if len(entries) > most:
                del entries[next(iter(entries))]
        return True

    def grow_old(self) -> None:
        """Line 8. What is first was refreshed longest ago, so it is enough to look there, and a little beyond."""
        oldest = self._me.period - self._me.settings.view_age_max
        for entries in (self.subscribers, self.publishers):
            while entries:
                first = next(iter(entries))
                if entries[first][1] >= oldest:
                    break
                del entries[first]

    def reconsider(self) -> None:
        """Our sub-spaces have changed: what has nothing to do with them any more goes."""
        for entries in (self.subscribers, self.publishers):
            gone = [peer for peer, (profile, _) in entries.items() if not related(self._me.dz, profile.dz)]
            for peer in gone:
                del entries[peer]

    def forget(self, peer: PeerId) -> None:
        """It is gone, or not to be trusted."""
        self.subscribers.pop(peer, None)
        self.publishers.pop(peer, None)

    def mourn(self, peer: PeerId) -> None:
        """It did not answer: whatever it said of itself before now is no sign of life, however often it is repeated."""
        if not self._me.policies.prompt:
            return
        self._mourned.pop(peer, None)
        self._mourned[peer] = self._me.period
        if len(self._mourned) > MOURNED_MAX:
            del self._mourned[next(iter(self._mourned))]

    def mourned(self, peer: PeerId) -> bool:
        """Whether it is not known to live."""
        return peer in self._mourned

    def profiles(self) -> Iterator[Profile]:
        """Of those who may be parents."""
        oldest = self._me.period - self._me.settings.view_age_max
        return (profile for profile, born in self.subscribers.values() if born >= oldest)

    def relevant(self, dz: str) -> list[Profile]:
        """The publishers who may publish something in this sub-space."""
        return [profile for profile, _ in self.publishers.values() if touches(profile.dz, dz)]

    def relevant_ids(self, texts: Texts) -> list[PeerId]:
        """The publishers who may publish something in one of them."""
        return [peer for peer, (profile, _) in self.publishers.items() if related(profile.dz, texts)]

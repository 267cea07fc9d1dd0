"""Peer sampling by gossip: a bounded view of the group that is renewed all the time (2.4.2.2).

This is the framework of Jelasity et al. with push and pull. Once a period a peer sends half of its view to the peer of
its oldest entry, which answers with half of its own. H (healing) drops the oldest entries of both halves, S (swapping)
the entries that were sent. An entry carries its peer's profile, so that the exchange also distributes profiles.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.limits import PEER_SAMPLE_MAX
from plait_core.wire.frame_types.peer_frames import Gossip, Profile

from ..outputs import PeerId
from ..peer_state import PeerState

_AGE_MAX = 2**31
ADVERTS_SENT_MAX = 4
"""Publishers in one half of an exchange. Knowledge of a publisher doubles in a period even with few."""
ADVERTS_MAX = 256
"""Publishers remembered for gossip, relevant or not."""


class PeerSampling:
    """The view of one peer. An entry holds its period of birth instead of an age, so that ageing costs nothing."""

    __slots__ = ("_half", "_partner", "_sent", "_state", "adverts", "exchanges", "view")

    def __init__(self, state: PeerState) -> None:
        self._state = state
        self._half = min(state.settings.sample_view // 2, PEER_SAMPLE_MAX)
        self._partner: PeerId | None = None
        self._sent: list[PeerId] = []
        self.exchanges = 0
        """The number of exchanges so far."""
        self.view: dict[PeerId, tuple[Profile, int]] = {}
        self.adverts: dict[PeerId, tuple[Profile, int]] = {}
        assert self._half >= 1, "an exchange carries entries"

    def seed(self, profiles: Iterable[Profile]) -> None:
        """Add peers that are known from elsewhere: configured, or discovered."""
        entries = [(profile, self._state.period) for profile in profiles]
        self._merge(entries)
        self._merge_adverts(entries)

    def exchange(self) -> None:
        """Begin an exchange with the peer of the oldest entry; called once a period."""
        if self._partner is not None:  # no reply within a period: dead or unreachable
            self.view.pop(self._partner, None)
        if not self.view:
            self._partner = None
            return
        partner, (profile, _) = min(self.view.items(), key=lambda entry: entry[1][1])
        self._partner = partner
        del self.view[partner]  # its reply adds it again
        self._state.send(partner, self._gossip(reply=False), profile.address)

    def receive(self, sender: PeerId, gossip: Gossip) -> bool:
        """Handle the other half of an exchange. Return False for a reply without a request."""
        if gossip.reply and sender != self._partner:
            return False
        if gossip.reply:
            self._partner = None
        else:
            self._state.send(sender, self._gossip(reply=True))
        now = self._state.period
        self.exchanges += 1
        profiles = [(profile, now - age - 1) for profile, age in zip(gossip.profiles, gossip.ages, strict=True)]
        adverts = [(profile, now - age - 1) for profile, age in zip(gossip.adverts, gossip.advert_ages, strict=True)]
        self._merge(profiles)
        self._merge_adverts(adverts)
        self._merge_adverts(profiles)
        return True

    def forget(self, peer: PeerId) -> None:
        """Remove a peer that is dead or not trusted."""
        self.view.pop(peer, None)
        self.adverts.pop(peer, None)
        if self._partner == peer:
            self._partner = None

    def _gossip(self, *, reply: bool) -> Gossip:
        """Return this peer's half: its own profile, and random entries without the H oldest."""
        state = self._state
        entries = list(self.view.values())
        if len(entries) >= self._half:
            entries.sort(key=lambda entry: -entry[1])
            entries = entries[: max(self._half - 1, len(entries) - state.settings.healing)]
            random = state.rng.random
            for place in range(self._half - 1):  # a partial Fisher-Yates shuffle
                other = place + int(random() * (len(entries) - place))
                entries[place], entries[other] = entries[other], entries[place]
            del entries[self._half - 1 :]
        self._sent = [profile.peer for profile, _ in entries]
        profiles = (state.profile, *[profile for profile, _ in entries])
        ages = (0, *[min(max(state.period - born, 0), _AGE_MAX) for _, born in entries])
        adverts = self._draw_adverts()
        advert_ages = tuple([max(state.period - born, 0) for _, born in adverts])
        return Gossip(reply, profiles, ages, tuple([profile for profile, _ in adverts]), advert_ages)

    def _draw_adverts(self) -> list[tuple[Profile, int]]:
        """Return a few random publishers with recent news."""
        state = self._state
        oldest = state.period - state.settings.view_age_max
        fresh = [entry for entry in self.adverts.values() if entry[1] >= oldest]
        if len(fresh) < len(self.adverts):
            self.adverts = {entry[0].peer: entry for entry in fresh}
        for place in range(min(ADVERTS_SENT_MAX, len(fresh))):
            other = place + int(state.rng.random() * (len(fresh) - place))
            fresh[place], fresh[other] = fresh[other], fresh[place]
        return fresh[:ADVERTS_SENT_MAX]

    def _merge_adverts(self, received: list[tuple[Profile, int]]) -> None:
        for profile, born in received:
            if profile.publisher and profile.peer != self._state.id:
                known = self.adverts.get(profile.peer)
                if known is None or _later(profile, born, known):
                    self.adverts[profile.peer] = (profile, born)
        while len(self.adverts) > ADVERTS_MAX:
            del self.adverts[min(self.adverts, key=lambda peer: self.adverts[peer][1])]

    def _merge(self, received: list[tuple[Profile, int]]) -> None:
        state, view = self._state, self.view
        for profile, born in received:
            known = view.get(profile.peer)
            if profile.peer != state.id and (known is None or _later(profile, born, known)):
                view[profile.peer] = (profile, born)
        excess = len(view) - state.settings.sample_view
        if excess > 0:
            excess -= self._drop_oldest(min(state.settings.healing, excess))
        swapped = state.settings.swapping
        for peer in self._sent:
            if excess <= 0 or swapped <= 0:
                break
            if peer in view:
                del view[peer]
                excess -= 1
                swapped -= 1
        while excess > 0:
            peers = list(view)
            del view[peers[int(state.rng.random() * len(peers))]]
            excess -= 1
        assert len(view) <= state.settings.sample_view, "the view is bounded"

    def _drop_oldest(self, count: int) -> int:
        for peer, _ in sorted(self.view.items(), key=lambda entry: entry[1][1])[:count]:
            del self.view[peer]
        return count


def _later(profile: Profile, born: int, known: tuple[Profile, int]) -> bool:
    """Return whether an entry is newer than the known one: a higher version, or the same version and a later birth."""
    return profile.version > known[0].version or (profile.version == known[0].version and born > known[1])

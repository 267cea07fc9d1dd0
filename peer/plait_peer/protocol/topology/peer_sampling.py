"""Peer sampling by gossip: a bounded view of the group that is always new (2.4.2.2).

Jelasity et al.'s framework, push and pull: once a period the oldest entry's peer gets half of our view and answers with
half of its own; H (healing) drops the oldest of what both halves hold, S (swapping) what was sent away. Entries carry
the profile of their peer, which makes the same exchange the carrier of everything that peers say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.limits import PEER_SAMPLE_MAX
from plait_core.wire.frame_types.peer_frames import Gossip, Profile

from ..outputs import PeerId
from ..peer_state import PeerState

_AGE_MAX = 2**31
ADVERTS_TOLD = 4
"""Publishers in one half of an exchange: each rumour doubles its hearers in a period, whatever else is told."""
ADVERTS_MAX = 256
"""Publishers that we tell of, whether they concern us or not."""


class PeerSampling:
    """The view of one peer. Ages are kept as the period of birth, so that growing older costs nothing."""

    __slots__ = ("_asked", "_half", "_me", "_sent", "adverts", "exchanges", "view")

    def __init__(self, me: PeerState) -> None:
        self._me = me
        self._half = min(me.settings.sample_view // 2, PEER_SAMPLE_MAX)
        self._asked: PeerId | None = None
        self._sent: list[PeerId] = []
        self.exchanges = 0
        """So often somebody has told us what he knows."""
        self.view: dict[PeerId, tuple[Profile, int]] = {}
        self.adverts: dict[PeerId, tuple[Profile, int]] = {}
        assert self._half >= 1, "an exchange exchanges something"

    def seed(self, profiles: Iterable[Profile]) -> None:
        """Peers that are known from elsewhere: configured, or discovered."""
        entries = [(profile, self._me.period) for profile in profiles]
        self._take(entries)
        self._hear(entries)

    def exchange(self) -> None:
        """Once a period: ask the peer that was heard of the longest ago."""
        if self._asked is not None:  # no answer in a whole period: gone, or not reachable
            self.view.pop(self._asked, None)
        if not self.view:
            self._asked = None
            return
        partner, (profile, _) = min(self.view.items(), key=lambda entry: entry[1][1])
        self._asked = partner
        del self.view[partner]  # it comes back with its answer
        self._me.send(partner, self._gossip(reply=False), profile.address)

    def receive(self, sender: PeerId, gossip: Gossip) -> bool:
        """The other half of an exchange; False for an answer that nobody asked for."""
        if gossip.reply and sender != self._asked:
            return False
        if gossip.reply:
            self._asked = None
        else:
            self._me.send(sender, self._gossip(reply=True))
        now = self._me.period
        self.exchanges += 1
        self._take([(profile, now - age - 1) for profile, age in zip(gossip.profiles, gossip.ages, strict=True)])
        self._hear([(profile, now - age - 1) for profile, age in zip(gossip.adverts, gossip.advert_ages, strict=True)])
        self._hear([(profile, now - age - 1) for profile, age in zip(gossip.profiles, gossip.ages, strict=True)])
        return True

    def forget(self, peer: PeerId) -> None:
        """It is gone, or not to be trusted."""
        self.view.pop(peer, None)
        self.adverts.pop(peer, None)
        if self._asked == peer:
            self._asked = None

    def _gossip(self, *, reply: bool) -> Gossip:
        """Ourselves, and others of the view: the oldest H stay at home."""
        me = self._me
        entries = list(self.view.values())
        if len(entries) >= self._half:
            entries.sort(key=lambda entry: -entry[1])
            entries = entries[: max(self._half - 1, len(entries) - me.settings.healing)]
            random = me.rng.random
            for place in range(self._half - 1):  # a partial shuffle: the first ones are drawn uniformly
                other = place + int(random() * (len(entries) - place))
                entries[place], entries[other] = entries[other], entries[place]
            del entries[self._half - 1 :]
        self._sent = [profile.peer for profile, _ in entries]
        profiles = (me.profile, *[profile for profile, _ in entries])
        ages = (0, *[min(max(me.period - born, 0), _AGE_MAX) for _, born in entries])
        told = self._told_adverts()
        advert_ages = tuple([max(me.period - born, 0) for _, born in told])
        return Gossip(reply, profiles, ages, tuple([profile for profile, _ in told]), advert_ages)

    def _told_adverts(self) -> list[tuple[Profile, int]]:
        """A few publishers, drawn from those that were heard of lately."""
        me = self._me
        oldest = me.period - me.settings.view_age_max
        fresh = [entry for entry in self.adverts.values() if entry[1] >= oldest]
        if len(fresh) < len(self.adverts):
            self.adverts = {entry[0].peer: entry for entry in fresh}
        for place in range(min(ADVERTS_TOLD, len(fresh))):
            other = place + int(me.rng.random() * (len(fresh) - place))
            fresh[place], fresh[other] = fresh[other], fresh[place]
        return fresh[:ADVERTS_TOLD]

    def _hear(self, received: list[tuple[Profile, int]]) -> None:
        for profile, born in received:
            if profile.publisher and profile.peer != self._me.id:
                known = self.adverts.get(profile.peer)
                if known is None or _later(profile, born, known):
                    self.adverts[profile.peer] = (profile, born)
        while len(self.adverts) > ADVERTS_MAX:
            del self.adverts[min(self.adverts, key=lambda peer: self.adverts[peer][1])]

    def _take(self, received: list[tuple[Profile, int]]) -> None:
        me, view = self._me, self.view
        for profile, born in received:
            known = view.get(profile.peer)
            if profile.peer != me.id and (known is None or _later(profile, born, known)):
                view[profile.peer] = (profile, born)
        excess = len(view) - me.settings.sample_view
        if excess > 0:
            excess -= self._drop_oldest(min(me.settings.healing, excess))
        swapped = me.settings.swapping
        for peer in self._sent:
            if excess <= 0 or swapped <= 0:
                break
            if peer in view:
                del view[peer]
                excess -= 1
                swapped -= 1
        while excess > 0:
            peers = list(view)
            del view[peers[int(me.rng.random() * len(peers))]]
            excess -= 1
        assert len(view) <= me.settings.sample_view, "the view is bounded"

    def _drop_oldest(self, count: int) -> int:
        for peer, _ in sorted(self.view.items(), key=lambda entry: entry[1][1])[:count]:
            del self.view[peer]
        return count


def _later(profile: Profile, born: int, known: tuple[Profile, int]) -> bool:
    """A higher version says more; the same version, heard later, that its peer still lived then."""
    return profile.version > known[0].version or (profile.version == known[0].version and born > known[1])

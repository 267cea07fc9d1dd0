"""Custody of events whose publisher wants to know that all subscribers have them (`confirm="subscribers"`).

Trees change while events are on their way down, so nobody there could promise anything. Each subscriber *enrols* with
the publishers that concern it, and is subscribed when they have answered. From then on a publisher owes it every event
of its sub-spaces that is to be confirmed: it keeps the event until each has said Taken, to the publisher itself, and
brings it to whoever is late by a way that needs no tree. What m bounds is how often peers pass events on; what is
enrolled, taken and brought again is told directly, many events in one frame.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from plait_core.limits import ACKNOWLEDGED_MAX, PEER_DZ_MAX, PEER_MEMBERS_MAX
from plait_core.wire.frame_types.peer_frames import Enrol, Enrolled, Happening, Taken

from .outputs import Confirmed, PeerId
from .peer_state import PeerState
from .subspaces import covers
from .topology.candidate_view import CandidateView

HELD_MAX = 16_384
"""Events that the application of one subscriber has not dealt with: what comes on top comes again."""
KEPT_MAX = 4096
"""Events that a publisher keeps; the face lets the application wait."""
RENEW_PERIODS = 2
"""Between two signs of life of a member."""
ROUND_PERIODS = 2
"""Without an answer for so long an event is brought to a member directly; then after twice that, and so on, ..."""
ROUND_PERIODS_MAX = 16
"""... up to this."""
AGAIN_MAX = 128
"""Events that are brought to one member in one period: what is new shares the same links. Each has its own share, so
that many who take nothing keep nothing from one who does."""
QUIET_PERIODS = 5
"""A member that has said nothing for so long is asked whether it lives, before anything is brought to it."""
DEAD_PERIODS = 10
"""So long without a word from a member that cannot be reached either: it is gone."""
SILENT_PERIODS = 40
"""So long without a word, whatever the reason."""
KEPT_PERIODS = 100
"""Then an event is given up, and its publisher told so."""


@dataclass(slots=True)
class Membership:
    """One publisher, to the subscriber that has enrolled with it."""

    number: int = 0
    told: int = -RENEW_PERIODS
    answered: int = -1
    """When it said last that we are on its list."""
    since: int = 0


@dataclass(slots=True)
class Member:
    """One subscriber, to the publisher."""

    dz: tuple[str, ...]
    heard: int
    lost: int = 0
    """How often it could not be reached since it was heard."""


@dataclass(slots=True)
class Kept:
    """An event of our own."""

    event: Happening
    waiting: set[PeerId]
    owed: int
    since: int
    sent: int
    wait: int = ROUND_PERIODS


class ConfirmedDelivery:
    """One peer's part in it: a subscriber's or a publisher's."""

    def __init__(self, me: PeerState, views: CandidateView) -> None:
        self._me = me
        self._views = views
        self._memberships: dict[PeerId, Membership] = {}
        self._undealt: set[tuple[PeerId, int]] = set()
        self._taken: dict[PeerId, list[int]] = {}
        self._members: dict[PeerId, Member] = {}
        self._kept: dict[int, Kept] = {}
        self._crowded = -SILENT_PERIODS
        """When somebody could not be put on the list."""

    def period(self) -> None:
        """Once a period."""
        if not self._me.settings.confirming:
            return
        if self._me.publisher:
            self._look_after_members()
            self._look_after_kept()
        else:
            self._renew()

    def lost(self, peer: PeerId) -> None:
        """Somebody cannot be reached, or could not for a moment."""
        member = self._members.get(peer)
        if member is not None:
            member.lost += 1

    def leave(self) -> None:
        """We want nothing any more."""
        for publisher, membership in self._memberships.items():
            self._me.send(publisher, Enrol(membership.number + 1, ()))
        self._memberships.clear()

    # --- a subscriber's part ------------------------------------------------------------------------------------------

    @property
    def enrolled(self) -> bool:
        """Whether all publishers that are known and concern us have us on their lists."""
        concerned = self._views.relevant_ids(self._me.wanted)
        known = self._memberships
        return all(peer in known and known[peer].answered >= 0 for peer in concerned)

    @property
    def laden(self) -> bool:
        """Whether the application has so much before it that nothing more is taken."""
        return len(self._undealt) >= HELD_MAX

    def knows(self, publisher: PeerId) -> bool:
        """Whether it may bring us events itself."""
        return publisher in self._memberships

    def _renew(self) -> None:
        me, known = self._me, self._memberships
        for peer in self._views.relevant_ids(me.wanted):
            if peer not in known and len(known) < me.settings.publishers_max:
                known[peer] = Membership(since=me.period)
        for peer, membership in list(known.items()):
            if me.period - max(membership.answered, membership.since) > SILENT_PERIODS:
                del known[peer]
            elif me.period - membership.told >= RENEW_PERIODS:
                entry = self._views.publishers.get(peer)
                membership.number += 1
                membership.told = me.period
                frame = Enrol(membership.number, me.wanted[:PEER_DZ_MAX])
                me.send(peer, frame, entry[0].address if entry else "")

    def answer(self, sender: PeerId, frame: Enrolled, now: float) -> None:
        """A publisher has us on its list."""
        membership = self._memberships.get(sender)
        if membership is not None and 0 < frame.number <= membership.number:
            membership.answered = self._me.period

    def given(self, publisher: PeerId, number: int) -> None:
        """The application is given an event that its publisher waits for."""
        self._undealt.add((publisher, number))

    def again(self, publisher: PeerId, number: int) -> None:
        """It has come once more: if it is dealt with, its publisher has not heard so."""
        if (publisher, number) not in self._undealt:
            self._taken.setdefault(publisher, []).append(number)

    def dealt_with(self, publisher: PeerId, number: int) -> None:
        """The application has taken it, or does not want it."""
        if (publisher, number) in self._undealt:
            self._undealt.discard((publisher, number))
            self._taken.setdefault(publisher, []).append(number)

    def speak(self) -> None:
        """Say what was taken since the last output, in one frame for each publisher."""
        if not self._taken:
            return
        taken, self._taken = self._taken, {}
        for publisher, numbers in taken.items():
            for start in range(0, len(numbers), ACKNOWLEDGED_MAX):
                self._me.send(publisher, Taken(tuple(numbers[start : start + ACKNOWLEDGED_MAX])))

    # --- a publisher's part -------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether a publisher keeps as much as it may."""
        return len(self._kept) >= KEPT_MAX

    def enrol(self, sender: PeerId, frame: Enrol, now: float) -> None:
        """A subscriber is to be on the list, or off it."""
        me = self._me
        if not me.publisher:
            return
        if not frame.dz:
            self._strike(sender)
            return
        if sender not in self._members and len(self._members) >= PEER_MEMBERS_MAX:
            self._crowded = me.period
            return
        self._members[sender] = Member(frame.dz, me.period)
        me.send(sender, Enrolled(frame.number))

    def keep(self, event: Happening) -> None:
        """An event goes out for the first time."""
        me = self._me
        assert me.publisher, "custody begins at the publisher"
        assert event.round, "an event in custody has a round"
        if me.period - self._crowded < SILENT_PERIODS:  # somebody is not on the list who may want it
            me.out.append(Confirmed(event.number, None))
            return
        waiting = {peer for peer, member in self._members.items() if covers(member.dz, event.dz)}
        self._kept[event.number] = kept = Kept(event, waiting, len(waiting), me.period, me.period)
        self._settle(kept)

    def taken(self, sender: PeerId, frame: Taken, now: float) -> None:
        """Somebody has events of ours."""
        member = self._members.get(sender)
        if member is None:
            return
        member.heard, member.lost = self._me.period, 0
        for number in frame.numbers:
            kept = self._kept.get(number)
            if kept is not None:
                kept.waiting.discard(sender)
                self._settle(kept)

    def _settle(self, kept: Kept) -> None:
        if not kept.waiting:
            del self._kept[kept.event.number]
            self._me.out.append(Confirmed(kept.event.number, kept.owed))

    def _strike(self, peer: PeerId) -> None:
        if self._members.pop(peer, None) is None:
            return
        for kept in list(self._kept.values()):
            if peer in kept.waiting:
                kept.waiting.discard(peer)
                kept.owed -= 1
                self._settle(kept)

    def _look_after_members(self) -> None:
        for peer, member in list(self._members.items()):
            quiet = self._me.period - member.heard
            if quiet > SILENT_PERIODS or (quiet > DEAD_PERIODS and member.lost > 1):
                self._strike(peer)
            elif quiet >= QUIET_PERIODS:
                self._me.send(peer, Enrolled(0))  # nobody answers it; it is found out whether it can be brought

    def _look_after_kept(self) -> None:
        me = self._me
        brought: Counter[PeerId] = Counter()
        for kept in list(self._kept.values()):
            if me.period - kept.since > KEPT_PERIODS:
                del self._kept[kept.event.number]
                me.out.append(Confirmed(kept.event.number, None))
            elif me.period - kept.sent >= kept.wait:
                self._bring_again(kept, brought)

    def _bring_again(self, kept: Kept, brought: Counter[PeerId]) -> None:
        """To all who lack it and can hear us, as far as each has not had its share."""
        me, old = self._me, kept.event
        hearing = [peer for peer in kept.waiting if me.period - self._members[peer].heard < QUIET_PERIODS]
        hearing = [peer for peer in hearing if brought[peer] < AGAIN_MAX]
        if not hearing:
            return
        brought.update(hearing)
        waited = me.period - kept.since
        delay = me.policies.link_cost.waiting(waited * me.settings.period_s)
        kept.event = Happening(old.publisher, old.number, old.dz, delay, 0, old.block, old.round + 1)
        kept.sent, kept.wait = me.period, min(2 * kept.wait, ROUND_PERIODS_MAX)
        for peer in sorted(hearing):
            me.send(peer, kept.event)

"""Confirmed delivery: publishers retransmit an event until all subscribers have acked it (`confirm="subscribers"`).

Trees change while events are on their way, so that no hop can promise delivery. Each subscriber therefore *enrols* with
the publishers that concern it; its subscription is open when they have answered. From then on a publisher keeps each
confirmed event until every enrolled subscriber of its sub-space has acked it. It retransmits to late subscribers
directly, without the tree. The out-degree m bounds forwarding; enrolments, acks and retransmissions go directly between
publisher and subscriber, many events in one frame.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from plait_core.limits import ACKNOWLEDGED_MAX, PEER_DZ_MAX, PEER_MEMBERS_MAX
from plait_core.wire.frame_types.peer_frames import Enrol, Enrolled, PeerEvent, Taken

from .outputs import Confirmed, PeerId
from .peer_state import PeerState
from .subspaces import covers
from .topology.candidate_view import CandidateView

UNACKNOWLEDGED_MAX = 16_384
"""Events that one subscriber's application has not acknowledged. Beyond it events are dropped unacked, and
retransmitted."""
UNACKED_MAX = 4096
"""Unacked events of a publisher. When it is reached, publishing fails with a retryable refusal."""
RENEW_PERIODS = 2
"""Periods between two enrolments of a member: its keepalive."""
RETRANSMIT_PERIODS = 2
"""Periods without an ack before the first retransmission. The interval then doubles, ..."""
RETRANSMIT_PERIODS_MAX = 16
"""... up to this."""
RETRANSMIT_MAX = 128
"""Events retransmitted to one member in one period, since new events share the links. The limit is for each member, so
that members that ack nothing take no capacity from others."""
QUIET_PERIODS = 5
"""Periods of silence after which a member is probed before anything is retransmitted to it."""
DEAD_PERIODS = 10
"""Periods of silence after which a member that is unreachable as well is removed."""
SILENT_PERIODS = 40
"""Periods of silence after which a member is removed in any case."""
GIVE_UP_PERIODS = 100
"""Periods after which the publisher gives up an event and reports it as unconfirmed."""


@dataclass(slots=True)
class Membership:
    """A subscriber's enrolment with one publisher."""

    number: int = 0
    sent: int = -RENEW_PERIODS
    confirmed: int = -1
    """The period of the publisher's last answer; -1: none yet."""
    since: int = 0


@dataclass(slots=True)
class Member:
    """A publisher's entry for one subscriber."""

    dz: tuple[str, ...]
    last_seen: int
    lost: int = 0
    """The number of failed sends since its last frame."""


@dataclass(slots=True)
class UnackedEvent:
    """A published event that some members have not acked."""

    event: PeerEvent
    waiting: set[PeerId]
    members: int
    since: int
    sent: int
    backoff: int = RETRANSMIT_PERIODS


class ConfirmedDelivery:
    """One peer's part in confirmed delivery, as a subscriber or as a publisher."""

    def __init__(self, state: PeerState, candidates: CandidateView) -> None:
        self._state = state
        self._candidates = candidates
        self._memberships: dict[PeerId, Membership] = {}
        self._unacknowledged: set[tuple[PeerId, int]] = set()
        self._acks: dict[PeerId, list[int]] = {}
        self._members: dict[PeerId, Member] = {}
        self._unacked: dict[int, UnackedEvent] = {}
        self._rejected_at = -SILENT_PERIODS
        """The period in which a subscriber was last rejected because the list was full."""

    def period(self) -> None:
        """Renew enrolments, or check members and retransmit; called once a period."""
        if not self._state.settings.confirming:
            return
        if self._state.publisher:
            self._check_members()
            self._retransmit_due()
        else:
            self._renew()

    def lost(self, peer: PeerId) -> None:
        """Count a failed send to a member."""
        member = self._members.get(peer)
        if member is not None:
            member.lost += 1

    def leave(self) -> None:
        """Cancel all enrolments."""
        for publisher, membership in self._memberships.items():
            self._state.send(publisher, Enrol(membership.number + 1, ()))
        self._memberships.clear()

    # --- a subscriber's part ------------------------------------------------------------------------------------------

    @property
    def enrolled(self) -> bool:
        """Whether all known relevant publishers have confirmed the enrolment."""
        concerned = self._candidates.relevant_ids(self._state.interest)
        known = self._memberships
        return all(peer in known and known[peer].confirmed >= 0 for peer in concerned)

    @property
    def backlog_full(self) -> bool:
        """Whether the application has so many unacknowledged events that further ones are dropped."""
        return len(self._unacknowledged) >= UNACKNOWLEDGED_MAX

    def enrolled_with(self, publisher: PeerId) -> bool:
        """Return whether a publisher may send events directly."""
        return publisher in self._memberships

    def _renew(self) -> None:
        state, known = self._state, self._memberships
        for peer in self._candidates.relevant_ids(state.interest):
            if peer not in known and len(known) < state.settings.publishers_max:
                known[peer] = Membership(since=state.period)
        for peer, membership in list(known.items()):
            if state.period - max(membership.confirmed, membership.since) > SILENT_PERIODS:
                del known[peer]
            elif state.period - membership.sent >= RENEW_PERIODS:
                entry = self._candidates.publishers.get(peer)
                membership.number += 1
                membership.sent = state.period
                frame = Enrol(membership.number, state.interest[:PEER_DZ_MAX])
                state.send(peer, frame, entry[0].address if entry else "")

    def handle_enrolled(self, sender: PeerId, frame: Enrolled, now: float) -> None:
        """Handle a publisher's answer to an enrolment."""
        membership = self._memberships.get(sender)
        if membership is not None and 0 < frame.number <= membership.number:
            membership.confirmed = self._state.period

    def delivered(self, publisher: PeerId, number: int) -> None:
        """Note that the application was given an event that awaits an ack."""
        self._unacknowledged.add((publisher, number))

    def received_again(self, publisher: PeerId, number: int) -> None:
        """Repeat the ack of a retransmitted event if the application has acknowledged it: the first ack was lost."""
        if (publisher, number) not in self._unacknowledged:
            self._acks.setdefault(publisher, []).append(number)

    def acknowledge(self, publisher: PeerId, number: int) -> None:
        """Queue an ack: the application has the event, or its filter does not match."""
        if (publisher, number) in self._unacknowledged:
            self._unacknowledged.discard((publisher, number))
            self._acks.setdefault(publisher, []).append(number)

    def flush_acks(self) -> None:
        """Send the acks queued since the last output, in one frame for each publisher."""
        if not self._acks:
            return
        acks, self._acks = self._acks, {}
        for publisher, numbers in acks.items():
            for start in range(0, len(numbers), ACKNOWLEDGED_MAX):
                self._state.send(publisher, Taken(tuple(numbers[start : start + ACKNOWLEDGED_MAX])))

    # --- a publisher's part -------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether the publisher has as many unacked events as it may."""
        return len(self._unacked) >= UNACKED_MAX

    def handle_enrol(self, sender: PeerId, frame: Enrol, now: float) -> None:
        """Add a subscriber to the members, or remove it if it names no sub-space."""
        state = self._state
        if not state.publisher:
            return
        if not frame.dz:
            self._remove_member(sender)
            return
        if sender not in self._members and len(self._members) >= PEER_MEMBERS_MAX:
            self._rejected_at = state.period
            return
        self._members[sender] = Member(frame.dz, state.period)
        state.send(sender, Enrolled(frame.number))

    def keep(self, event: PeerEvent) -> None:
        """Keep a published event until all members of its sub-space have acked it."""
        state = self._state
        assert state.publisher, "only publishers keep events"
        assert event.round, "confirmed events have a round"
        if state.period - self._rejected_at < SILENT_PERIODS:  # a rejected subscriber may match
            state.out.append(Confirmed(event.number, None))
            return
        waiting = {peer for peer, member in self._members.items() if covers(member.dz, event.dz)}
        self._unacked[event.number] = unacked = UnackedEvent(event, waiting, len(waiting), state.period, state.period)
        self._confirm_if_complete(unacked)

    def handle_taken(self, sender: PeerId, frame: Taken, now: float) -> None:
        """Handle a member's acks."""
        member = self._members.get(sender)
        if member is None:
            return
        member.last_seen, member.lost = self._state.period, 0
        for number in frame.numbers:
            unacked = self._unacked.get(number)
            if unacked is not None:
                unacked.waiting.discard(sender)
                self._confirm_if_complete(unacked)

    def _confirm_if_complete(self, unacked: UnackedEvent) -> None:
        if not unacked.waiting:
            del self._unacked[unacked.event.number]
            self._state.out.append(Confirmed(unacked.event.number, unacked.members))

    def _remove_member(self, peer: PeerId) -> None:
        if self._members.pop(peer, None) is None:
            return
        for unacked in list(self._unacked.values()):
            if peer in unacked.waiting:
                unacked.waiting.discard(peer)
                unacked.members -= 1
                self._confirm_if_complete(unacked)

    def _check_members(self) -> None:
        for peer, member in list(self._members.items()):
            quiet = self._state.period - member.last_seen
            if quiet > SILENT_PERIODS or (quiet > DEAD_PERIODS and member.lost > 1):
                self._remove_member(peer)
            elif quiet >= QUIET_PERIODS:
                self._state.send(peer, Enrolled(0))  # a probe without an answer: it fails if the member is unreachable

    def _retransmit_due(self) -> None:
        state = self._state
        retransmitted: Counter[PeerId] = Counter()
        for unacked in list(self._unacked.values()):
            if state.period - unacked.since > GIVE_UP_PERIODS:
                del self._unacked[unacked.event.number]
                state.out.append(Confirmed(unacked.event.number, None))
            elif state.period - unacked.sent >= unacked.backoff:
                self._retransmit(unacked, retransmitted)

    def _retransmit(self, unacked: UnackedEvent, retransmitted: Counter[PeerId]) -> None:
        """Retransmit an event to the reachable members that lack it, within each one's limit."""
        state, old = self._state, unacked.event
        reachable = [peer for peer in unacked.waiting if state.period - self._members[peer].last_seen < QUIET_PERIODS]
        reachable = [peer for peer in reachable if retransmitted[peer] < RETRANSMIT_MAX]
        if not reachable:
            return
        retransmitted.update(reachable)
        waited = state.period - unacked.since
        delay = state.policies.link_cost.waiting(waited * state.settings.period_s)
        unacked.event = PeerEvent(old.publisher, old.number, old.dz, delay, 0, old.block, old.round + 1)
        unacked.sent, unacked.backoff = state.period, min(2 * unacked.backoff, RETRANSMIT_PERIODS_MAX)
        for peer in sorted(reachable):
            state.send(peer, unacked.event)

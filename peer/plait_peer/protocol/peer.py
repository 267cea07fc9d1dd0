"""One peer without a broker: its reactions to frames and to time (thesis ch. 2). No I/O, no clock, no randomness of its
own.

A peer subscribes or publishes; an application that does both has one of each. `receive` handles a frame, `tick` does
the work due at `next_deadline`, and `take_output` returns the frames to send and the events to deliver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import lt
from typing import Any

from plait_core.ids import Randomness
from plait_core.limits import PEER_RECENT_MAX
from plait_core.space import DzSet
from plait_core.wire.frame_types.peer_frames import (
    UNREACHED,
    Accept,
    Beat,
    Connect,
    DetectCycle,
    Disconnect,
    Enrol,
    Enrolled,
    Gossip,
    PeerEvent,
    PeerFrame,
    PotentialParent,
    Profile,
    Pulse,
    Taken,
)

from .accuracy import Accuracy
from .confirmed_delivery import ConfirmedDelivery
from .dissemination import Dissemination
from .omission_detection import OmissionDetection
from .outputs import Output, PeerId
from .peer_state import Counters, PeerState
from .rates import Rates
from .reputation import Fault, Reputation
from .settings import PeerSettings
from .subspaces import Texts, related
from .topology.candidate_view import CandidateView
from .topology.children import Children
from .topology.cycle_detection import CycleDetection
from .topology.parent_search import ParentSearch
from .topology.parents import Parents
from .topology.peer_sampling import PeerSampling

_SETTINGS = PeerSettings()
_KEEPS_TOPOLOGY = {PeerEvent, Taken, Enrol, Enrolled}
"""Frames from a parent that change no connection."""
GOSSIP_PER_PERIOD_MAX = 6
"""Gossip exchanges that one peer may begin with this one in a period; honest peers begin one."""
EXCHANGES_MIN = 2
"""Exchanges after which a new peer assumes that it knows all publishers."""
RATES_PERIODS = 10
"""Periods between two announcements of measured rates; other changes of the profile are announced at once."""


class Peer:
    """A subscriber, or with a bound of 0 a publisher, of one group."""

    def __init__(
        self,
        id: PeerId,
        interest: DzSet,
        bound: float,
        *,
        randomness: Randomness,
        settings: PeerSettings = _SETTINGS,
        theta: int | None = None,
        address: str = "",
        now: float = 0.0,
    ) -> None:
        """`interest` is the exact mapping of a subscription or advertisement; at most `theta` sub-spaces then cover
        it."""
        exact = tuple(dz.text for dz in interest)
        dz = exact if theta is None else tuple(each.text for each in interest.at_most(theta))
        self.state = PeerState(id, exact, dz, bound, settings, randomness, address)
        self.candidates = CandidateView(self.state)
        self.sampling = PeerSampling(self.state)
        self.reputation = Reputation(settings.requests_per_period_max)
        self.parents = Parents(self.state, self.candidates)
        self.children = Children(self.state, self.candidates, self.parents, self.reputation)
        self.parent_search = ParentSearch(self.state, self.candidates, self.parents, self.children, self.reputation)
        self.rates = Rates(settings.period_s, settings.rates_max)
        self.cycle_detection = CycleDetection(self.state, self.parents, self.children)
        self.confirmed_delivery = ConfirmedDelivery(self.state, self.candidates)
        self.dissemination = Dissemination(
            self.state,
            self.parents,
            self.children,
            self.parent_search,
            self.rates,
            self.reputation,
            self.confirmed_delivery,
        )
        self.omission_detection = OmissionDetection(
            self.state,
            self.parents,
            self.reputation,
            self.dissemination.has_received,
            self.dissemination.highest,
        )
        self.accuracy = Accuracy(
            self.state, self.candidates, self.parents, self.parent_search, self.rates, self._subscription_changed
        )
        self._published = 0
        self._recent: deque[tuple[int, str]] = deque(maxlen=PEER_RECENT_MAX)
        self._rates_sent_at = self._reactions = 0
        self._gossip_counts: dict[PeerId, int] = {}
        self._deadline = now + randomness.random() * settings.period_s  # desynchronises the periods of peers
        self._handlers: dict[type, Any] = {
            Gossip: self._gossip,
            Connect: self._connect,
            Accept: self._accept,
            PotentialParent: self.parent_search.handle_hint,
            Disconnect: self._disconnect,
            DetectCycle: self._detect_cycle,
            Pulse: self.children.handle_pulse,
            Beat: self._beat,
            PeerEvent: self.dissemination.receive,
            Enrol: self.confirmed_delivery.handle_enrol,
            Enrolled: self.confirmed_delivery.handle_enrolled,
            Taken: self.confirmed_delivery.handle_taken,
        }

    # --- interface --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> PeerId:
        """The peer's id."""
        return self.state.id

    @property
    def dz(self) -> Texts:
        """The peer-level subscription: the sub-spaces whose events it receives."""
        return self.state.dz

    @property
    def reached(self) -> bool:
        """Whether each sub-space has a parent, and all known publishers reach the peer."""
        parents = self.parents
        known = bool(self.candidates.publishers) and not parents.missing()
        return known and parents.delay(self.state.interest) < UNREACHED

    @property
    def open(self) -> bool:
        """Whether every event published from now on reaches the peer."""
        exchanged = self.sampling.exchanges >= EXCHANGES_MIN
        return exchanged and self.reached and (self.confirmed_delivery.enrolled or not self.state.settings.confirming)

    @property
    def counters(self) -> Counters:
        """The counters since the start."""
        return self.state.counters

    def join(self, profiles: Iterable[Profile], now: float) -> None:
        """Add peers of the group that are known from outside: from a seed, or by discovery."""
        found = [profile for profile in profiles if profile.peer != self.state.id]
        self.sampling.seed(found)
        for profile in found:
            self._learn(profile, 0, now)

    def publish(self, dz: str, block: bytes, now: float, *, number: int = 0, confirm: bool = False) -> int:
        """Publish an event and return its number; numbers rise. With `confirm` an output `Confirmed` follows."""
        assert self.state.publisher, "subscribers do not publish"
        assert not number or number > self._published, "event numbers must rise"
        assert self.state.settings.confirming or not confirm, "confirmation is disabled in this group"
        self._published = number or self._published + 1
        self._recent.append((self._published, dz))
        self.dissemination.publish(self._published, dz, block, confirm=confirm)
        return self._published

    def acknowledge(self, publisher: PeerId, number: int) -> None:
        """Acknowledge a delivered event: the application has it, or its filter does not match."""
        self.confirmed_delivery.acknowledge(publisher, number)

    def receive(self, sender: PeerId, frame: PeerFrame, now: float) -> None:
        """Handle a frame from a peer. The caller has authenticated the sender."""
        if sender == self.state.id or self.reputation.shunned(sender):
            return
        self._handlers[type(frame)](sender, frame, now)
        if type(frame) not in _KEEPS_TOPOLOGY or sender not in self.parents.by_id:
            self.dissemination.forget_routes()
        if self.parents.changed:
            self._react(now)

    def receive_batch(
        self, sender: PeerId, publisher: PeerId, numbers: list[int], dz: str, latest: float
    ) -> tuple[float, list[bool] | None] | None:
        """Receive unconfirmed events that end here: the fast path. Return the delay of the last link and which events
        are new (None: all).

        The result is None if the events need the slow path; then nothing was done, and `receive` has to handle them.
        """
        edge = self.dissemination.edge(sender, publisher, dz)
        if edge is None or latest > edge.late or self.reputation.shunned(sender):
            return None
        return edge.link, self.dissemination.receive_batch(edge, publisher, numbers, dz)

    def publish_batch(self, numbers: list[int], dz: str) -> tuple[PeerId, ...]:
        """Publish unconfirmed events: the fast path. Return the children to which the caller sends them."""
        assert numbers[0] > self._published, "event numbers must rise"
        assert all(map(lt, numbers, numbers[1:])), "event numbers must rise"
        self._published = numbers[-1]
        self._recent.extend([(number, dz) for number in numbers[-PEER_RECENT_MAX:]])
        next_hops = self.next_hops(dz)
        self.dissemination.count_published(dz, len(numbers), next_hops)
        return next_hops

    def next_hops(self, dz: str) -> tuple[PeerId, ...]:
        """Return the children to which a publisher's events in a sub-space go."""
        return self.dissemination.next_hops(dz)

    def lost(self, peer: PeerId, now: float) -> None:
        """Remove a peer that is unreachable, or whose connection broke."""
        self.parents.lost(peer)
        self.children.lost(peer)
        self.confirmed_delivery.lost(peer)
        self.sampling.forget(peer)
        self.candidates.forget(peer)
        self.candidates.mark_unresponsive(peer)
        self.dissemination.forget_routes()
        if self.parents.changed:
            self._react(now)

    def next_deadline(self) -> float:
        """Return the time of the next `tick`."""
        return self._deadline

    def tick(self, now: float) -> None:
        """Run one period if it is due."""
        if now < self._deadline:
            return
        late_s = now - self._deadline
        if late_s > self.state.settings.period_s:
            self._extend_timeouts(late_s)
        self._deadline = max(self._deadline, now - self.state.settings.period_s) + self.state.settings.period_s
        self._run_period(now)

    def mark_alive(self, sender: PeerId, now: float) -> None:
        """Note that a frame that needs no answer arrived from a parent or child."""
        parent, child = self.parents.by_id.get(sender), self.children.by_id.get(sender)
        for end in (parent, child):
            if end is not None:
                end.last_seen = now

    def _extend_timeouts(self, late_s: float) -> None:
        """Extend all timeouts by the time for which this process did not run: frames sent meanwhile are still
        unread."""
        for parent in self.parents.by_id.values():
            parent.last_seen += late_s
        for child in self.children.by_id.values():
            child.last_seen += late_s
        for request in self.parents.requests.values():
            request.sent += late_s

    def take_output(self) -> list[Output]:
        """Return the frames to send and the events to deliver, in order."""
        self.confirmed_delivery.flush_acks()
        taken, self.state.out = self.state.out, []
        return taken

    def leave(self, now: float) -> None:
        """Disconnect from all parents and children."""
        self.confirmed_delivery.leave()
        for peer in list(self.parents.by_id):
            self.parents.leave(peer, "leaving")
        for peer in list(self.children.by_id):
            self.children.drop(peer, "leaving")

    def _react(self, now: float) -> None:
        """Do now, within a limit, what should not wait for the next period: look for a parent, and announce sources to
        children."""
        self.parents.changed = False
        if not self.state.policies.prompt or self.state.publisher or self._reactions >= self.state.settings.prompt_max:
            return
        self._reactions += 1
        self.parent_search.request_missing(now)
        self.children.announce_sources()

    # --- periodic work ----------------------------------------------------------------------------------------------

    def _run_period(self, now: float) -> None:
        state = self.state
        state.period += 1
        self.dissemination.forget_routes()
        self._gossip_counts.clear()
        self._reactions = 0
        self.reputation.fade()
        self.rates.fade()
        self.cycle_detection.new_period()
        self.candidates.expire()
        self.children.check(now)
        if not state.publisher:
            self._maintain_parents(now)
        self._update_profile()
        self.sampling.exchange()
        self.parents.send_pulses(now)
        self.confirmed_delivery.period()
        self.dissemination.forget_routes()

    def _maintain_parents(self, now: float) -> None:
        """A subscriber's part of a period: its parents, and its place."""
        for peer in self.parents.check(now):
            self.candidates.forget(peer)
            self.candidates.mark_unresponsive(peer)
            self.sampling.forget(peer)
        self.omission_detection.check()
        self.parent_search.every_period(now)
        self.accuracy.check(now)
        self.cycle_detection.recheck(unreached=self.state.period % self.state.settings.cycle_check_periods == 0)

    def _update_profile(self) -> None:
        """Renew the profile if a field that matters to others has changed."""
        state, sent = self.state, self.state.profile
        delay, free = self.parents.delay(state.dz), self.children.free()
        rates_due = state.period - self._rates_sent_at >= RATES_PERIODS
        news = bool(self._recent) and self._recent[-1][0] != max(sent.recent_numbers, default=0)
        if delay == sent.delay and free == sent.free and state.dz == sent.dz and not (rates_due or news):
            return
        rates = sent.rates
        if rates_due or len(rates) != len(state.dz):
            self._rates_sent_at = state.period
            overall = self.accuracy.overall()
            rates = tuple(
                [self.rates.of(dz) if state.publisher else self.rates.with_prior(dz, overall) for dz in state.dz]
            )
        numbers = tuple([number for number, _ in self._recent])
        places = tuple([dz for _, dz in self._recent])
        state.update_profile(dz=state.dz, delay=delay, free=free, rates=rates, recent_numbers=numbers, recent_dz=places)

    def _subscription_changed(self) -> None:
        self.candidates.drop_unrelated()

    # --- frame handlers ---------------------------------------------------------------------------------------------

    def _gossip(self, sender: PeerId, gossip: Gossip, now: float) -> None:
        if not gossip.reply:
            self._gossip_counts[sender] = self._gossip_counts.get(sender, 0) + 1
            if self._gossip_counts[sender] > GOSSIP_PER_PERIOD_MAX:
                self.reputation.blame(sender, Fault.FLOOD)
                return
        if not self.sampling.receive(sender, gossip):
            self.reputation.blame(sender, Fault.UNASKED)
            return
        for profile, age in zip(gossip.profiles, gossip.ages, strict=True):
            self._learn(profile, age, now)
        for profile, age in zip(gossip.adverts, gossip.advert_ages, strict=True):
            self._learn(profile, age, now)

    def _learn(self, profile: Profile, age: int, now: float) -> None:
        if self.reputation.shunned(profile.peer):
            return
        checked = self.candidates.update(profile, age) and profile.publisher and not self.state.publisher
        if checked and related(self.state.dz, profile.dz):
            self.omission_detection.handle_profile(profile, age, now)

    def _connect(self, sender: PeerId, connect: Connect, now: float) -> None:
        self.children.handle_connect(sender, connect, now)

    def _accept(self, sender: PeerId, accept: Accept, now: float) -> None:
        if accept.profile.peer == sender and self.parents.handle_accept(sender, accept, now):
            self.parent_search.accepted_by(sender)
            if not accept.profile.publisher:
                self.cycle_detection.start(self.parents.by_id[sender].dz, accept.profile.bound)

    def _disconnect(self, sender: PeerId, frame: Disconnect, now: float) -> None:
        self.parents.lost(sender)
        self.children.lost(sender)

    def _detect_cycle(self, sender: PeerId, frame: DetectCycle, now: float) -> None:
        self.cycle_detection.receive(sender, frame)

    def _beat(self, sender: PeerId, beat: Beat, now: float) -> None:
        if not self.parents.handle_beat(sender, beat, now):
            self.state.send(sender, Disconnect("no parent"))

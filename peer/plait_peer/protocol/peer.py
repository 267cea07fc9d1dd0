"""One peer without a broker: what it makes of frames and time (thesis ch. 2). No I/O, no clock, no chance of its own.

A peer subscribes or publishes: an application that does both has one of each. `receive` takes what came, `tick` does
what is due at `next_deadline`, `take_output` gives what is to be sent and delivered.
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
    Happening,
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
_STILL = {Happening, Taken, Enrol, Enrolled}
"""Frames that change no connection, when they come from a parent."""
GOSSIP_PER_PERIOD_MAX = 6
"""Exchanges that one peer may begin with us in a period; honest ones begin one."""
EXCHANGES_OPEN = 2
"""So many others must have told a newcomer which publishers there are, before it believes that it knows them all."""
RETELL_PERIODS = 10
"""Measured rates are told anew so often; places and delays as soon as they change."""


class Peer:
    """A subscriber, or with a bound of 0 a publisher, of one group."""

    def __init__(
        self,
        me: PeerId,
        wanted: DzSet,
        bound: float,
        *,
        randomness: Randomness,
        settings: PeerSettings = _SETTINGS,
        theta: int | None = None,
        address: str = "",
        now: float = 0.0,
    ) -> None:
        """`wanted` is the exact mapping of a subscription or advertisement, covered by at most `theta` sub-spaces."""
        exact = tuple(dz.text for dz in wanted)
        dz = exact if theta is None else tuple(each.text for each in wanted.at_most(theta))
        self.me = PeerState(me, exact, dz, bound, settings, randomness, address)
        self.views = CandidateView(self.me)
        self.sampling = PeerSampling(self.me)
        self.conduct = Reputation(settings.requests_per_period_max)
        self.incoming = Parents(self.me, self.views)
        self.outgoing = Children(self.me, self.views, self.incoming, self.conduct)
        self.seeking = ParentSearch(self.me, self.views, self.incoming, self.outgoing, self.conduct)
        self.rates = Rates(settings.period_s, settings.rates_max)
        self.cycles = CycleDetection(self.me, self.incoming, self.outgoing)
        self.custody = ConfirmedDelivery(self.me, self.views)
        self.dissemination = Dissemination(
            self.me, self.incoming, self.outgoing, self.seeking, self.rates, self.conduct, self.custody
        )
        self.evidence = OmissionDetection(self.me, self.incoming, self.conduct, self.dissemination.received)
        self.accuracy = Accuracy(
            self.me, self.views, self.incoming, self.seeking, self.rates, self._subscription_changed
        )
        self._published = 0
        self._recent: deque[tuple[int, str]] = deque(maxlen=PEER_RECENT_MAX)
        self._retold = self._hurries = 0
        self._gossips: dict[PeerId, int] = {}
        self._next = now + randomness.random() * settings.period_s  # so that not all peers speak at once
        self._answers: dict[type, Any] = {
            Gossip: self._gossip,
            Connect: self._connect,
            Accept: self._accept,
            PotentialParent: self.seeking.hinted,
            Disconnect: self._disconnect,
            DetectCycle: self._detect_cycle,
            Pulse: self.outgoing.pulse,
            Beat: self._beat,
            Happening: self.dissemination.receive,
            Enrol: self.custody.enrol,
            Enrolled: self.custody.answer,
            Taken: self.custody.taken,
        }

    # --- the outside ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> PeerId:
        """Who this is."""
        return self.me.id

    @property
    def dz(self) -> Texts:
        """What it receives: the peer-level subscription."""
        return self.me.dz

    @property
    def reached(self) -> bool:
        """Whether everything that it receives has a parent, and all known publishers get through to it."""
        incoming = self.incoming
        known = bool(self.views.publishers) and not incoming.missing()
        return known and incoming.delay(self.me.wanted) < UNREACHED

    @property
    def open(self) -> bool:
        """Whether nothing that is published from now on passes it by."""
        heard = self.sampling.exchanges >= EXCHANGES_OPEN
        return heard and self.reached and (self.custody.enrolled or not self.me.settings.confirming)

    @property
    def counters(self) -> Counters:
        """What has happened so far."""
        return self.me.counters

    def join(self, profiles: Iterable[Profile], now: float) -> None:
        """Peers of the group that are known from outside: from a seed, or by discovery."""
        found = [profile for profile in profiles if profile.peer != self.me.id]
        self.sampling.seed(found)
        for profile in found:
            self._learn(profile, 0, now)

    def publish(self, dz: str, block: bytes, now: float, *, number: int = 0, confirm: bool = False) -> int:
        """Send an event on its way; gives back its number, which rises. `confirm`: an output `Confirmed` follows."""
        assert self.me.publisher, "subscribers do not publish"
        assert not number or number > self._published, "numbers rise"
        assert self.me.settings.confirming or not confirm, "the group confirms nothing"
        self._published = number or self._published + 1
        self._recent.append((self._published, dz))
        self.dissemination.publish(self._published, dz, block, confirm=confirm)
        return self._published

    def dealt_with(self, publisher: PeerId, number: int) -> None:
        """The application has an event that was delivered to it, or does not want it."""
        self.custody.dealt_with(publisher, number)

    def receive(self, sender: PeerId, frame: PeerFrame, now: float) -> None:
        """A frame has come from a peer. The face has made sure that it is really from it."""
        if sender == self.me.id or self.conduct.shunned(sender):
            return
        self._answers[type(frame)](sender, frame, now)
        if type(frame) not in _STILL or sender not in self.incoming.parents:
            self.dissemination.changed()
        if self.incoming.shaken:
            self._at_once(now)

    def arrive(
        self, sender: PeerId, publisher: PeerId, numbers: list[int], dz: str, latest: float
    ) -> tuple[float, list[bool] | None] | None:
        """The short way for events that are in no custody, wanted, and for nobody below: what the last link added to
        their delay, and which of them are new (None: all). None: nothing was done, and `receive` is to see them."""
        edge = self.dissemination.edge(sender, publisher, dz)
        if edge is None or latest > edge.late or self.conduct.shunned(sender):
            return None
        return edge.link, self.dissemination.arrive(edge, publisher, numbers, dz)

    def says(self, numbers: list[int], dz: str) -> tuple[PeerId, ...]:
        """The short way to publish events that nobody need confirm: the children to whom the face is to bring them."""
        assert numbers[0] > self._published, "numbers rise"
        assert all(map(lt, numbers, numbers[1:])), "numbers rise"
        self._published = numbers[-1]
        self._recent.extend([(number, dz) for number in numbers[-PEER_RECENT_MAX:]])
        lane = self.lane(dz)
        self.dissemination.said(dz, len(numbers), lane)
        return lane

    def lane(self, dz: str) -> tuple[PeerId, ...]:
        """The children to whom a publisher's events in a sub-space go."""
        return self.dissemination.lane(dz)

    def lost(self, peer: PeerId, now: float) -> None:
        """The face cannot reach a peer, or its connection broke."""
        self.incoming.lost(peer)
        self.outgoing.lost(peer)
        self.custody.lost(peer)
        self.sampling.forget(peer)
        self.views.forget(peer)
        self.views.mourn(peer)
        self.dissemination.changed()
        if self.incoming.shaken:
            self._at_once(now)

    def next_deadline(self) -> float:
        """When `tick` has something to do."""
        return self._next

    def tick(self, now: float) -> None:
        """What is due: once a period, a round of everything."""
        if now < self._next:
            return
        late_s = now - self._next
        if late_s > self.me.settings.period_s:
            self._overslept(late_s)
        self._next = max(self._next, now - self.me.settings.period_s) + self.me.settings.period_s
        self._round(now)

    def alive(self, sender: PeerId, now: float) -> None:
        """Something has come from a peer that needs no answer, and is a sign of life all the same."""
        parent, child = self.incoming.parents.get(sender), self.outgoing.children.get(sender)
        for end in (parent, child):
            if end is not None:
                end.heard = now

    def _overslept(self, late_s: float) -> None:
        """It was we who heard nothing: what others have said meanwhile is still to be read."""
        for parent in self.incoming.parents.values():
            parent.heard += late_s
        for child in self.outgoing.children.values():
            child.heard += late_s
        for request in self.incoming.requests.values():
            request.sent += late_s

    def take_output(self) -> list[Output]:
        """What is to be sent and delivered, in order."""
        self.custody.speak()
        taken, self.me.out = self.me.out, []
        return taken

    def leave(self, now: float) -> None:
        """Say goodbye to everyone connected."""
        self.custody.leave()
        for peer in list(self.incoming.parents):
            self.incoming.leave(peer, "leaving")
        for peer in list(self.outgoing.children):
            self.outgoing.drop(peer, "leaving")

    def _at_once(self, now: float) -> None:
        """What should not wait for the next period: another parent, and children that need to know."""
        self.incoming.shaken = False
        if not self.me.policies.prompt or self.me.publisher or self._hurries >= self.me.settings.prompt_max:
            return
        self._hurries += 1
        self.seeking.look(now)
        self.outgoing.tell()

    # --- a period ---------------------------------------------------------------------------------------------------

    def _round(self, now: float) -> None:
        me = self.me
        me.period += 1
        self.dissemination.changed()
        self._gossips.clear()
        self._hurries = 0
        self.conduct.fade()
        self.rates.fade()
        self.cycles.forget()
        self.views.grow_old()
        self.outgoing.check(now)
        if not me.publisher:
            self._look_up(now)
        self._tell()
        self.sampling.exchange()
        self.incoming.pulse(now)
        self.custody.period()
        self.dissemination.changed()

    def _look_up(self, now: float) -> None:
        """A subscriber's part: its parents, and its place."""
        for peer in self.incoming.check(now):
            self.views.forget(peer)
            self.views.mourn(peer)
            self.sampling.forget(peer)
        self.evidence.check()
        self.seeking.seek(now)
        self.accuracy.check(now)
        self.cycles.pursue(lonely=self.me.period % self.me.settings.pursue_periods == 0)

    def _tell(self) -> None:
        """Our profile, when something in it has changed that matters to others."""
        me, told = self.me, self.me.profile
        delay, free = self.incoming.delay(me.dz), self.outgoing.free()
        retell = me.period - self._retold >= RETELL_PERIODS
        news = bool(self._recent) and self._recent[-1][0] != max(told.recent_numbers, default=0)
        if delay == told.delay and free == told.free and me.dz == told.dz and not (retell or news):
            return
        rates = told.rates
        if retell or len(rates) != len(me.dz):
            self._retold = me.period
            overall = self.accuracy.overall()
            rates = tuple([self.rates.of(dz) if me.publisher else self.rates.leaning(dz, overall) for dz in me.dz])
        numbers = tuple([number for number, _ in self._recent])
        places = tuple([dz for _, dz in self._recent])
        me.renew(dz=me.dz, delay=delay, free=free, rates=rates, recent_numbers=numbers, recent_dz=places)

    def _subscription_changed(self) -> None:
        self.views.reconsider()

    # --- answers ----------------------------------------------------------------------------------------------------

    def _gossip(self, sender: PeerId, gossip: Gossip, now: float) -> None:
        if not gossip.reply:
            self._gossips[sender] = self._gossips.get(sender, 0) + 1
            if self._gossips[sender] > GOSSIP_PER_PERIOD_MAX:
                self.conduct.blame(sender, Fault.FLOOD)
                return
        if not self.sampling.receive(sender, gossip):
            self.conduct.blame(sender, Fault.UNASKED)
            return
        for profile, age in zip(gossip.profiles, gossip.ages, strict=True):
            self._learn(profile, age, now)
        for profile, age in zip(gossip.adverts, gossip.advert_ages, strict=True):
            self._learn(profile, age, now)

    def _learn(self, profile: Profile, age: int, now: float) -> None:
        if self.conduct.shunned(profile.peer):
            return
        heeded = self.views.update(profile, age) and profile.publisher and not self.me.publisher
        if heeded and related(self.me.dz, profile.dz):
            self.evidence.heard(profile, age, now)

    def _connect(self, sender: PeerId, connect: Connect, now: float) -> None:
        self.outgoing.request(sender, connect, now)

    def _accept(self, sender: PeerId, accept: Accept, now: float) -> None:
        if accept.profile.peer == sender and self.incoming.accepted(sender, accept, now):
            self.seeking.taken(sender)
            if not accept.profile.publisher:
                self.cycles.chase(self.incoming.parents[sender].dz, accept.profile.bound)

    def _disconnect(self, sender: PeerId, frame: Disconnect, now: float) -> None:
        self.incoming.lost(sender)
        self.outgoing.lost(sender)

    def _detect_cycle(self, sender: PeerId, frame: DetectCycle, now: float) -> None:
        self.cycles.receive(sender, frame)

    def _beat(self, sender: PeerId, beat: Beat, now: float) -> None:
        if not self.incoming.beat(sender, beat, now):
            self.me.send(sender, Disconnect("no parent"))

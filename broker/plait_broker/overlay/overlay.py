"""One broker's part in the overlay, without I/O: frames from neighbours and a time in, calls to its host out.

Follow one event: `publish` at its publisher's broker -> a stream for each destination (`reliable_stream.py`) -> one
copy a neighbour, with the destinations that this copy alone is responsible for (`event_streams.py`,
`forwarding_table.py`) -> `hear` at each broker on the way -> its destination's stream -> the host. Follow interest:
`want` -> `interest_sync.py` -> Want, hop by hop -> `remote_interest.py` at the publisher's broker -> Heard. What floods
is in `flooding.py`, its consequences in `link_state.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from plait_core import PlaitError
from plait_core.errors import FrameError
from plait_core.filters import Filter
from plait_core.ids import Randomness, new_id
from plait_core.matching import Index, new_index
from plait_core.wire import ControlFrame, Destination, EventFrame, Forward, Frame, Ping, Pong
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    ClockStamp,
    DatabaseSummary,
    DeliveryOutcome,
    DurableInterest,
    EndToEnd,
    InterestAck,
    InterestUpdate,
    LinkState,
    SourceRouted,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.strategy_frames import StrategyMessage
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from .dissemination.registry import STRATEGIES
from .dissemination.shortest_paths import ShortestPaths
from .dissemination.strategy import SendControl
from .dissemination.views import InterestOfOthers, OverlayTopology
from .host import Host
from .interest.advertisement_table import AdvertisementTable
from .interest.durable_interest import LocalDurableInterest, RemoteDurableInterest
from .interest.durable_interest_store import DurableInterestStore
from .interest.interest_sync import InstallDeadlines, InterestSync
from .interest.remote_interest import RemoteInterest
from .security.identity import Forged, Identity
from .security.message_auth import MessageAuth
from .settings import OverlaySettings
from .topology.flooding import Document, Flooding, Key
from .topology.forwarding_table import ForwardingTable
from .topology.link_state import LinkStateDatabase
from .topology.membership import Membership
from .topology.neighbours import Neighbour
from .topology.source_routes import unwrap
from .transport.control_unicast import ControlUnicast
from .transport.event_streams import EventStreams
from .transport.forwarder import Forwarder

OFFER_TIMES: Final = 2
"""Brokers that can be reached but do not say what they want are waited for so many times as long as a link that says
nothing: whoever does not answer must not keep others from publishing."""

INSTALL_TIMES: Final = 4
"""The same for what is wanted of them: as long as all ways around whoever loses things take, and no longer."""

STORED_TIMES: Final = 1.5
"""The same for what durable subscriptions want, and whether it is stored. Clients wait for a little longer."""

TOMBSTONES: Final = 4
"""A withdrawn offer is remembered for so many times what a broker may be out of reach: until nobody can tell of it."""


class Overlay:
    """One broker among others."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        host: Host,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index] = new_index,
        *,
        log: int = 0,
        born: int = 0,
        identity: Identity | None = None,
    ) -> None:
        """`log`: which log it keeps, so that others know it again when it has started anew; `born`: when that was, by
        the calendar, compared with its own other starts alone. Without an identity it believes whatever is said."""
        self.me = me
        self.settings = settings
        self.log = log
        self.born = born
        self.map = LinkStateDatabase()
        self.neighbours: dict[int, Neighbour] = {}
        self.routes = ForwardingTable(me, self.map, self.neighbours)
        self.counts: Counter[str] = Counter()
        self.offered = AdvertisementTable(me)
        self._unsettled: dict[int, tuple[int, float]] = {}
        """By number of an offer of ours that not all have seen yet, the revision of our offers that has it, and until
        when they are waited for."""
        self.wanted = RemoteInterest(index)
        self.wanting = InterestSync(me, index)
        self.trust = MessageAuth(me, identity)
        self.errands = ControlUnicast(
            me,
            self.map,
            lambda: self.routes,
            self.neighbours,
            self.trust,
            self.counts,
            self._send,
            self._pass,
            lambda: self.now,
        )
        topology = OverlayTopology(me, self.map, self.routes)
        interest = InterestOfOthers(self.wanted)
        self.strategy = STRATEGIES[settings.dissemination](topology, interest)
        forwarder = Forwarder(
            host, topology, self.neighbours, self.strategy, ShortestPaths(topology, interest), self.counts
        )
        self.dissemination = EventStreams(me, settings, host, self.map, forwarder, self.errands, self.trust)
        self.host = host
        self._randomness = randomness
        self.flooding = Flooding(me, self._send, self._learned, self.trust, self.counts)
        self.standing = RemoteDurableInterest(index)
        self.ours = LocalDurableInterest(me, self.flooding, index)
        self.keeping = DurableInterestStore(me, host, self.flooding, self.standing, self.errands)
        self._reviewed = (0, 0)
        """How far what others have told, and what we offer, had changed when it was last looked at who is away."""
        self._absences = Membership(self)
        self.given_up: frozenset[str] = frozenset()
        """Names of brokers that will not come back."""
        self.now = now
        """When whatever happens now was heard."""
        self._beat_at = now
        self._bury_at = now
        """No link is to be given up before; looked at anew with each beat."""
        self._reported = -1
        self.address = ""
        """Where other brokers may connect to this one, once that is known."""
        self._sheet(now)

    @property
    def offers(self) -> dict[tuple[int, int], Filter]:
        """What other brokers offer, by their ids and numbers."""
        return {key: filter for key, filter in self.offered.filters.items() if key[0] != self.me}

    @property
    def informed(self) -> bool:
        """Whether all brokers that can be reached have told what they want."""
        return all(broker in self.wanted.homes for broker in self.map.distances(self.me) if broker != self.me)

    # --- links --------------------------------------------------------------------------------------------------------

    def link_up(self, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> bool:
        """A link to a broker stands; False when there is one already, or it leads here."""
        self.now = now
        if broker == self.me or broker in self.neighbours:
            return False
        neighbour = self.neighbours[broker] = Neighbour(broker, name, link, now)
        if delay_us:
            neighbour.delay_us = delay_us
            neighbour.tell(now)
        self._topology_changed(now)
        self._ping(neighbour, now)
        if delay_us:
            self._sheet(now)
        self.flooding.link_up(broker)
        return True

    def link_down(self, broker: int, now: float) -> None:
        """It stands no more: what may have been on it is sent again another way."""
        self.now = now
        if self.neighbours.pop(broker, None) is None:
            return
        self.flooding.link_down(broker)
        self._topology_changed(now)
        self._sheet(now)
        self.dissemination.hurry(now, lost=broker)

    def hear(self, broker: int, frame: ControlFrame | Forward, now: float) -> None:
        """A neighbour says something."""
        self.now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is None:
            return
        neighbour.heard_at = now
        try:
            self._hear(neighbour, frame, now)
        except Forged as error:
            self.counts["forged"] += 1
            if isinstance(
                frame, LinkState | Advertisement | DurableInterest | Forward
            ):  # which honest neighbours check, or have not sent
                self._expel(neighbour, error)

    def hear_events(self, broker: int, frames: Sequence[Frame], at: int, now: float) -> int:
        """A neighbour hands on events, from one of these frames on; where they end."""
        self.now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is not None:
            neighbour.heard_at = now
        link_us = None if neighbour is None else neighbour.transit.us(now)
        try:
            return self.dissemination.receive_all(frames, at, now, broker, link_us)
        except Forged as error:
            assert neighbour is not None, "of others nothing is heard"
            self.counts["forged"] += 1
            self._expel(neighbour, error)
            return len(frames)

    def _expel(self, neighbour: Neighbour, error: Forged) -> None:
        self.host.expel(neighbour.link, f"{neighbour.name} tells what is forged: {error}")
        self.link_down(neighbour.id, self.now)

    def _hear(self, neighbour: Neighbour, frame: ControlFrame | Forward, now: float) -> None:
        broker = neighbour.id
        match frame:
            case Forward():
                self.dissemination.receive(frame, now, broker, neighbour.transit.us(now))
            case ClockStamp(at_us):
                neighbour.transit.mark(at_us, now)
            case LinkState() | Advertisement() | DurableInterest():
                self.flooding.hear(frame, broker)
            case DatabaseSummary():
                self.flooding.hear_digest(frame, broker)
            case InterestUpdate():
                self._hear_want(neighbour, frame, now)
            case InterestAck() | StreamAck() | StreamSkip() | DeliveryOutcome() | TraceStep() | Query() | QueryResult():
                self._hear_errand(neighbour, frame, now)
            case SourceRouted():
                self._hear_detour(neighbour, frame, now)
            case StrategyMessage():
                self._receive_strategy_message(neighbour, frame, now)
            case Ping(nonce):
                self.host.send(neighbour.link, Pong(nonce))
            case Pong(nonce):
                neighbour.pong(nonce, now)
                self._delays(now)
            case _:
                self.counts["unexpected"] += 1

    def _receive_strategy_message(self, neighbour: Neighbour, message: StrategyMessage, now: float) -> None:
        if message.strategy != self.strategy.name:
            self.counts["other_strategy"] += 1
            return
        try:
            self.strategy.receive_control(neighbour.id, message.body, now)
        except FrameError:
            self.counts["unexpected"] += 1

    def locate(self, address: str, now: float) -> None:
        """Other brokers may connect to this one there."""
        if address != self.address:
            self.address = address
            self._sheet(now)

    # --- what this broker's clients offer and want --------------------------------------------------------------------

    def offer(self, number: int, filter: Filter) -> None:
        """A client advertises: `offered` will say when all know it, and what is wanted of it is known here."""
        self._say_offer(number, filter.text)
        self._unsettled[number] = (self.offered.revision, self.now + OFFER_TIMES * self.settings.detect_s)

    def withdraw(self, number: int) -> None:
        """It does so no more."""
        self._unsettled.pop(number, None)
        self._say_offer(number, "")

    def want(self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False) -> None:
        """A client subscribes: `installed` will say when that is known everywhere."""
        if durable:  # who answers to what is wanted has stored what was said before
            self.ours.add(number, filter)
        detect_s = self.settings.detect_s
        terms = InstallDeadlines(self.now, INSTALL_TIMES * detect_s, STORED_TIMES * detect_s)
        self.wanting.add(number, filter, deposit, terms, everywhere=durable)

    def unwant(self, number: int) -> None:
        """It does so no more."""
        self.wanting.remove(number)
        if number in self.ours:
            self.ours.remove(number)

    def recall(self, documents: Iterable[Document], now: float) -> None:
        """What an earlier life had its host remember, before there are links."""
        self.now = now
        self.keeping.recall(documents)
        self._look_away()

    def stored(self, keys: Iterable[Key]) -> None:
        """What was to be remembered is stored, or cannot be."""
        self.keeping.stored(keys)

    # --- events -------------------------------------------------------------------------------------------------------

    def destinations(self, frame: EventFrame, fits: Callable[[bytes], bool] | None = None) -> list[int]:
        """The brokers that an event must reach. `fits`: of a sealed event, whether its tags fit a deposit."""
        homes = self.wanted.match(frame, fits) if self.wanted.home_of else []
        if self.standing.away:
            return list(dict.fromkeys([*homes, *self.standing.match(frame)]))
        return homes

    def meets(self, filter: Filter) -> bool:
        """Whether another broker wants something that an advertisement promises."""
        return self.wanted.meets(filter) or bool(self.standing.meeting(filter))

    def meeting(self, filter: Filter) -> dict[int, list[Filter]]:
        """The brokers that events of a filter may have to reach, each with those of its filters that meet it."""
        return self.standing.meeting(filter) | self.wanted.meeting(filter)

    def publish(self, frame: EventFrame, homes: list[int], delay_us: int, flags: int, now: float) -> list[Destination]:
        """Send an event to these brokers; its position for each."""
        self.now = now
        return self.dissemination.publish(frame, homes, delay_us, flags, now)

    def take(self, root: int, position: int, now: float) -> None:
        """This broker has charge of an event that `arrived`."""
        self.dissemination.take(root, position, now)

    def tell_outcome(self, root: int, position: int, matched: int, code: str) -> None:
        """What became of an event that is to be confirmed."""
        self.errands.say(DeliveryOutcome(root, self.me, position, matched, code))

    # --- explanations -------------------------------------------------------------------------------------------------

    def tell(self, frame: TraceMessage) -> None:
        """Tell another broker of a marked event, ask it, or answer it."""
        self.errands.say(frame)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """After some input: say what has become of it."""
        self.now = now
        if self.wanting.restless:
            for want in self.wanting.tell(now, self._reaches):
                self.errands.say_want(want, [self.wanting.tries(root) for root in want.to])
        while self.wanting.installed:
            self.host.installed(self.wanting.installed.pop(0))
        while self.wanting.silent:
            self._not_answered(self.wanting.silent.pop(0))
        if self._unsettled:
            self._look_offered()
        if self._reviewed != (self.wanted.changes, self.offered.revision):
            self._look_away()
        if self.dissemination.reporting:
            self.dissemination.settle(now)
        for action in self.strategy.take_actions():
            if isinstance(action, SendControl) and action.to in self.neighbours:
                self._send(action.to, StrategyMessage(self.strategy.name, action.body))

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        if now >= min(self._bury_at, self._beat_at):
            self._bury(now)
        if now >= self._beat_at:
            self._beat_at = now + self.settings.heartbeat_s
            self._beat(now)
        self.dissemination.tick(now)
        self.strategy.tick(now)
        self.settle(now)

    def next_deadline(self) -> float:
        """When `tick` is to be called, at the latest."""
        deadline = min(self._beat_at, self._bury_at)
        wants = self.wanting.next_deadline()
        if wants is not None:
            deadline = min(deadline, max(wants, self.now))
        for due in (self.dissemination.next_deadline(), self.strategy.next_deadline()):
            if due is not None:
                deadline = min(deadline, due)
        return min([deadline, *(by for _, by in self._unsettled.values())]) if self._unsettled else deadline

    # --- inside: links and the map ------------------------------------------------------------------------------------

    def _bury(self, now: float) -> None:
        """Give up links that are dead."""
        for neighbour in list(self.neighbours.values()):
            if now >= neighbour.dies_at(self.settings.detect_s):
                self.counts["links_dead"] += 1
                self.host.close(neighbour.link, f"{neighbour.name} is silent")
                self.link_down(neighbour.id, now)
        deaths = [neighbour.dies_at(self.settings.detect_s) for neighbour in self.neighbours.values()]
        self._bury_at = min(deaths, default=math.inf)

    def _beat(self, now: float) -> None:
        for neighbour in list(self.neighbours.values()):
            self._ping(neighbour, now)
        self._delays(now)
        for neighbour in self.neighbours.values():
            if neighbour.compare(self.map.claim_us(neighbour.id, self.me), now):
                self.counts["disputed"] += 1
                self.host.remark(
                    f"{neighbour.name} tells others that the link to it takes {neighbour.claimed_us / 1000:g} ms; it "
                    f"takes {neighbour.told_us / 1000:g}, and that counts"
                )
        self._absences.expire(now)
        self.flooding.beat()
        self.flooding.forget_withdrawn(now, TOMBSTONES * self.settings.gone_s)
        self.dissemination.expire(now)

    def _ping(self, neighbour: Neighbour, now: float) -> None:
        nonce = new_id(self._randomness)
        neighbour.ping(nonce, now)
        self.host.send(neighbour.link, Ping(nonce))

    def _topology_changed(self, now: float) -> None:
        self.routes.stale()
        self.strategy.topology_changed(now)

    def _delays(self, now: float) -> None:
        """Delays were measured: tell the others when they have moved, and choose anew."""
        self._topology_changed(now)
        if any(neighbour.worth_telling(now) for neighbour in self.neighbours.values()):
            for neighbour in self.neighbours.values():
                if neighbour.worth_telling(now):
                    neighbour.tell(now)
            self._sheet(now)

    def _sheet(self, now: float) -> None:
        told = sorted(neighbour.id for neighbour in self.neighbours.values() if neighbour.told_us)
        delays = tuple(self.neighbours[broker].told_us for broker in told)
        version = self._reported = self._reported + 1
        sheet = LinkState(
            self.me, version, self.settings.name, tuple(told), delays, self.log, self.born, address=self.address
        )
        self.flooding.say(sheet)
        self._learn_sheet(sheet)

    def _learned(self, document: Document, before: Document | None) -> None:
        if isinstance(document, DurableInterest):
            if document.origin != self.me:
                self.counts["bad_filters"] += not self.keeping.learn(document)
                self._look_away()
        elif isinstance(document, LinkState):
            if document.origin == self.me:
                self._reported = document.version
            self._learn_sheet(document)
        else:
            self._learn_offer(document)

    def _learn_sheet(self, sheet: LinkState) -> None:
        before = self.map.known.get(sheet.origin)
        if self.map.put(sheet):
            self.dissemination.hurry(self.now)
        self.strategy.topology_changed(self.now)
        if before is None or before.neighbours != sheet.neighbours:
            self.wanting.hurry(self.now)
        self.wanting.meet(sheet.origin)
        if sheet.origin != self.me:
            self.ours.begin()
            self.keeping.learn_sheet(sheet)
        self._absences.look(sheet.log, self.now)

    def _learn_offer(self, offer: Advertisement) -> None:
        key = (offer.origin, offer.number)
        filter, readable = self.offered.learn(offer)
        if not readable:
            self.counts["bad_filters"] += 1
        if offer.origin == self.me:
            return
        self.wanting.meet(offer.origin)
        if filter is None:
            self.wanting.withdraw(*key)
        else:
            self.wanting.offer(*key, filter)
        self.wanting.offered(offer.origin, self.offered.fingerprint(offer.origin))

    def _say_offer(self, number: int, text: str) -> None:
        offer = Advertisement(self.me, number, self.flooding.next_version((self.me, number)), text)
        self.offered.learn(offer)
        self.flooding.say(offer)

    def _look_offered(self) -> None:
        """Whether all brokers that can be reached have said what they want of our latest offers."""
        homes, seen = self.wanted.homes, self.offered.revision
        for broker in self.map.distances(self.me):
            if broker != self.me:
                home = homes.get(broker)
                seen = min(seen, -1 if home is None else self.offered.revision_of(home.offers))
        for number, (revision, by) in list(self._unsettled.items()):
            if revision <= seen or self.now >= by:
                self.counts["advertisements_unacked"] += revision > seen
                del self._unsettled[number]
                self.host.offered(number)

    def _not_answered(self, broker: int) -> None:
        self.counts["interest_unacked"] += 1
        self.host.remark(
            f"{self.map.name(broker)} can be reached, and does not answer to what is wanted of it: subscribers do not "
            "wait for that any longer, and may miss what is published there"
        )

    def _look_away(self) -> None:
        self._reviewed = (self.wanted.changes, self.offered.revision)
        self.standing.review(self.wanted.homes, self.offered.fingerprint(self.me))

    def _reaches(self, broker: int) -> bool:
        return broker in self.map.distances(self.me)

    # --- inside: from one broker to another ---------------------------------------------------------------------------

    def _send(self, broker: int, frame: ControlFrame) -> None:
        self.counts[type(frame).__name__] += 1
        self.host.send(self.neighbours[broker].link, frame)

    def _pass(self, broker: int, frame: ControlFrame) -> None:
        """Hand on what somebody else says, as far as the neighbour takes it now: it will be sent again."""
        neighbour = self.neighbours[broker]
        if neighbour.passed.take(self.now) and self.host.relay(neighbour.link, frame):
            self.counts[type(frame).__name__] += 1
        else:
            self.counts["relays_refused"] += 1

    def _relays(self, neighbour: Neighbour, now: float) -> bool:
        """Whether one more frame is passed on for a neighbour; what is not will be sent again."""
        relays = neighbour.relays.take(now)
        self.counts["relays_refused"] += not relays
        return relays

    def _hear_errand(self, neighbour: Neighbour, frame: EndToEnd | TraceMessage, now: float) -> None:
        if frame.source == self.me:
            self.counts["loops"] += 1
            return
        if frame.to != self.me:
            if self._relays(neighbour, now):
                self.errands.pass_on(frame)
            return
        self.trust.check_errand(frame)
        match frame:
            case InterestAck():
                self.wanting.heard(frame.source, frame.version, frame.offers, frame.asked, now)
            case StreamAck():
                self.dissemination.hear_took(frame, now)
            case StreamSkip():
                self.dissemination.hear_skip(frame, now)
            case DeliveryOutcome():
                self.host.outcome(frame.source, frame.position, frame.matched, frame.code)
            case TraceStep() | Query() | QueryResult():
                self.host.told(frame)

    def _hear_detour(self, neighbour: Neighbour, detour: SourceRouted, now: float) -> None:
        at = detour.at
        if not at or detour.route[at] != self.me or detour.route[at - 1] != neighbour.id:
            self.counts["unexpected"] += 1
            return
        delay_us = min(detour.delay_us + neighbour.transit.us(now), 2**32 - 1)
        detour = replace(detour, delay_us=delay_us)
        if at + 1 < len(detour.route):
            if self._relays(neighbour, now):
                self.errands.pass_detour(detour)
            return
        try:
            frame = unwrap(detour)
        except FrameError:  # who handed it on could not know
            self.counts["unexpected"] += 1
            return
        if frame is None:
            self.counts["unexpected"] += 1
        else:
            self.errands.came_around(detour)
            if isinstance(frame, Forward):
                self.dissemination.receive(frame, now, neighbour.id, 0)
            else:
                self._hear(neighbour, frame, now)

    def _hear_want(self, neighbour: Neighbour, want: InterestUpdate, now: float) -> None:
        if want.source == self.me:
            self.counts["loops"] += 1
            return
        for at, to in enumerate(want.to):
            if to == self.me:
                self._learn_want(want, at)
        others = [at for at, to in enumerate(want.to) if to != self.me]
        if others and self._relays(neighbour, now):
            self.errands.spread(want, others)

    def _learn_want(self, want: InterestUpdate, at: int) -> None:
        self.trust.check_want(want, at)
        try:
            version = self.wanted.hear(want, want.versions[at], want.offers[at])
            heard = InterestAck(want.source, self.me, version, self.offered.fingerprint(self.me), want.versions[at])
            if not want.more and version == want.versions[at]:
                self.wanted.complete(want.source, self.now)
                self.keeping.told(want.source)
            self.keeping.answer(heard, self.wanted.homes[want.source].repeats)
            self.strategy.interest_changed(want.source, self.now)
            self.host.interest_changed()
        except PlaitError:
            self.counts["bad_filters"] += 1

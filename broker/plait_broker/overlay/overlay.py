"""One broker of the overlay, without I/O: frames of neighbours and the time go in, calls to the host come out.

The path of an event:

- `publish` at its publisher's broker numbers it in the stream of each destination (`reliable_stream.py`).
- One copy goes to each next hop (`event_streams.py`, `forwarder.py`), and names its destinations.
- `hear_events` at each broker on the path forwards it.
- The stream at the destination delivers it to the host.

The path of interest: `want` -> `interest_sync.py` -> InterestUpdate, hop by hop (`control_unicast.py`) ->
`remote_interest.py` at the publisher's broker -> InterestAck. Documents flood in `flooding.py`, and `link_state.py`
computes paths from them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from plait_core import PlaitError
from plait_core.errors import FrameError
from plait_core.filters import Filter
from plait_core.ids import Randomness, new_id
from plait_core.matching import Index, new_index
from plait_core.wire import ControlFrame, Destination, EventFrame, Forward, Frame, Ping, Pong
from plait_core.wire.frame_types.envelope_frames import (
    ADVERTISEMENT,
    EndToEnd,
    Signed,
    SourceRouted,
    frame_name,
    read_message,
)
from plait_core.wire.frame_types.frame_schema import UnknownFrame
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    ClockStamp,
    DatabaseSummary,
    DeliveryOutcome,
    Document,
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.strategy_frames import StrategyMessage
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from .dissemination.registry import strategy_named
from .dissemination.shortest_paths import ShortestPaths
from .dissemination.strategy import SendControl
from .dissemination.views import OverlayInterest, OverlayTopology
from .host import Host
from .interest.advertisement_table import AdvertisementTable
from .interest.durable_interest import LocalDurableInterest, RemoteDurableInterest
from .interest.durable_interest_store import DurableInterestStore, MemoryKey
from .interest.interest_sync import InstallDeadlines, InterestSync
from .interest.remote_interest import RemoteInterest
from .security.identity import Forged, Identity
from .security.message_auth import MessageAuth
from .settings import OverlaySettings
from .topology.flooding import Flooding
from .topology.forwarding_table import ForwardingTable
from .topology.link_state import LinkStateDatabase
from .topology.membership import Membership
from .topology.neighbours import Neighbour
from .transport.control_unicast import ControlUnicast
from .transport.event_streams import EventStreams
from .transport.forwarder import Forwarder

OFFER_TIMES: Final = 2
"""Timeout of an advertisement, in detection times: a reachable broker that sends no interest must not keep others from
publishing."""

INSTALL_TIMES: Final = 4
"""Timeout of acks of interest updates, in detection times: enough to try all source routes."""

STORED_TIMES: Final = 1.5
"""Timeout for other brokers to store durable interest, in detection times. Clients wait a little longer."""

TOMBSTONES: Final = 4
"""A withdrawn document is kept for so many times `gone_s`: until no broker can relay an older version."""


class Overlay:
    """The overlay at one broker."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        host: Host,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index] = new_index,
        *,
        incarnation: int = 0,
        born: int = 0,
        identity: Identity | None = None,
    ) -> None:
        """`incarnation` names its log, by which others recognise it after a restart. `born` is the calendar time of its
        start, compared only among starts with the same log. Without an identity nothing is signed or checked."""
        self.me = me
        self.settings = settings
        self.incarnation = incarnation
        self.born = born
        self.map = LinkStateDatabase()
        self.neighbours: dict[int, Neighbour] = {}
        self.routes = ForwardingTable(me, self.map, self.neighbours)
        self.counts: Counter[str] = Counter()
        self.offered = AdvertisementTable(me)
        self._unsettled: dict[int, tuple[int, float]] = {}
        """By number of our advertisements that not all brokers have seen, the revision that has it, and the timeout."""
        self.wanted = RemoteInterest(index)
        self.wanting = InterestSync(me, index)
        self.trust = MessageAuth(me, identity)
        self.unicast = ControlUnicast(
            me,
            self.map,
            lambda: self.routes,
            self.neighbours,
            self.trust,
            self.counts,
            self._send,
            self._relay,
            lambda: self.now,
        )
        topology = OverlayTopology(me, self.map, self.routes)
        interest = OverlayInterest(me, self.wanted, self.wanting, self.offered)
        self.strategy = strategy_named(settings.dissemination, laboratory=settings.laboratory)(topology, interest)
        forwarder = Forwarder(
            host, topology, self.neighbours, self.strategy, ShortestPaths(topology, interest), self.counts
        )
        self.dissemination = EventStreams(me, settings, host, self.map, forwarder, self.unicast, self.trust)
        self.host = host
        self._randomness = randomness
        self.flooding = Flooding(me, self._send, self._learned, self.trust, self.counts)
        self.standing = RemoteDurableInterest(index)
        self.ours = LocalDurableInterest(me, self.flooding, index)
        self.keeping = DurableInterestStore(me, host, self.flooding, self.standing, self.unicast)
        self._reviewed = (0, 0)
        """The revisions of interest and advertisements for which absent home brokers were computed last."""
        self._absences = Membership(self)
        self.given_up: frozenset[str] = frozenset()
        """Names of brokers that the operator has given up."""
        self.now = now
        """The time of the current input."""
        self._heartbeat_at = now
        self._dead_at = now
        """The earliest time at which a link can be dead."""
        self._reported = -1
        self.address = ""
        """The address at which other brokers can connect to this one; empty while unknown."""
        self._originate_link_state(now)

    @property
    def offers(self) -> dict[tuple[int, int], Filter]:
        """The advertisements of other brokers, by their ids and numbers."""
        return {key: filter for key, filter in self.offered.filters.items() if key[0] != self.me}

    @property
    def informed(self) -> bool:
        """Whether all brokers that can be reached have sent their interest."""
        return all(broker in self.wanted.homes for broker in self.map.distances(self.me) if broker != self.me)

    # --- links --------------------------------------------------------------------------------------------------------

    def link_up(self, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> bool:
        """Add a link to a broker. Return False if there is one already, or the broker is this one."""
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
            self._originate_link_state(now)
        self.flooding.link_up(broker)
        return True

    def link_down(self, broker: int, now: float) -> None:
        """Remove a link, and retransmit the events that may have been in flight on it."""
        self.now = now
        if self.neighbours.pop(broker, None) is None:
            return
        self.flooding.link_down(broker)
        self._topology_changed(now)
        self._originate_link_state(now)
        self.dissemination.hurry(now, lost=broker)

    def hear(self, broker: int, frame: ControlFrame | Forward, now: float) -> None:
        """Handle a frame of a neighbour. Raise FrameError if it is malformed."""
        self.now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is None:
            return
        neighbour.heard_at = now
        try:
            self._receive(neighbour, frame, now)
        except Forged as error:
            self.counts["forged"] += 1
            if isinstance(frame, Signed | Forward):  # an honest neighbour verifies the one, and does not send the other
                self._expel(neighbour, error)

    def hear_events(self, broker: int, frames: Sequence[Frame], at: int, now: float) -> int:
        """Handle the run of Forward frames that starts at index `at`. Return the index after it."""
        self.now = now
        neighbour = self.neighbours.get(broker)
        if neighbour is not None:
            neighbour.heard_at = now
        link_us = None if neighbour is None else neighbour.transit.us(now)
        try:
            return self.dissemination.receive_all(frames, at, now, broker, link_us)
        except Forged as error:
            assert neighbour is not None, "frames of other brokers are dropped"
            self.counts["forged"] += 1
            self._expel(neighbour, error)
            return len(frames)

    def _expel(self, neighbour: Neighbour, error: Forged) -> None:
        self.host.expel(neighbour.link, f"{neighbour.name} sent what is forged: {error}")
        self.link_down(neighbour.id, self.now)

    def _receive(self, neighbour: Neighbour, frame: ControlFrame | Forward, now: float) -> None:
        broker = neighbour.id
        match frame:
            case Forward():
                self.dissemination.receive(frame, now, broker, neighbour.transit.us(now))
            case ClockStamp(at_us):
                neighbour.transit.mark(at_us, now)
            case Signed():
                self.flooding.receive(frame, broker)
            case DatabaseSummary():
                self.flooding.receive_summary(frame, broker)
            case EndToEnd():
                self._receive_envelope(neighbour, frame, now)
            case SourceRouted():
                self._receive_routed(neighbour, frame, now)
            case StrategyMessage():
                self._receive_strategy_message(neighbour, frame, now)
            case Ping(nonce):
                self.host.send(neighbour.link, Pong(nonce))
            case Pong(nonce):
                neighbour.pong(nonce, now)
                self._delays(now)
            case UnknownFrame():  # from a newer broker, without an agreed capability
                self.counts["unknown_frames"] += 1
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
        """Set the address where other brokers may connect."""
        if address != self.address:
            self.address = address
            self._originate_link_state(now)

    # --- advertisements and filters of this broker's clients ----------------------------------------------------------

    def offer(self, number: int, filter: Filter, rate: float = 0.0, values: bytes = b"") -> None:
        """Flood a client's advertisement. Call the host's `offered` once the interest in it is known here."""
        self._advertise(number, filter.text, rate, values)
        self._unsettled[number] = (self.offered.revision, self.now + OFFER_TIMES * self.settings.detect_s)
        self.strategy.interest_changed(self.me, self.now)

    def withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self._unsettled.pop(number, None)
        self._advertise(number, "")
        self.strategy.interest_changed(self.me, self.now)

    def want(
        self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False, within_us: int = 0
    ) -> None:
        """Announce a subscription's filter. Call the host's `installed` once all publishers' brokers have acked it."""
        if durable:  # a broker acks the update only after it has stored this
            self.ours.add(number, filter)
        detect_s = self.settings.detect_s
        terms = InstallDeadlines(self.now, INSTALL_TIMES * detect_s, STORED_TIMES * detect_s)
        self.wanting.add(number, filter, deposit, terms, everywhere=durable, within_us=within_us)
        self.strategy.interest_changed(self.me, self.now)

    def unwant(self, number: int) -> None:
        """Remove a subscription's filter."""
        self.wanting.remove(number)
        if number in self.ours:
            self.ours.remove(number)
        self.strategy.interest_changed(self.me, self.now)

    def recall(self, documents: Iterable[Signed], now: float) -> None:
        """Load the documents that the host stored before a restart. Call it before there are links."""
        self.now = now
        self.counts["bad_memories"] += self.keeping.recall(documents)
        self._review_absent()

    def stored(self, keys: Iterable[MemoryKey]) -> None:
        """Note that the host has stored these documents, or has failed to."""
        self.keeping.stored(keys)

    # --- events -------------------------------------------------------------------------------------------------------

    def destinations(self, frame: EventFrame, fits: Callable[[bytes], bool] | None = None) -> list[int]:
        """Return the brokers that an event must reach. `fits` tests the tags of a sealed event against a deposit."""
        homes = self.wanted.match(frame, fits) if self.wanted.home_of else []
        if self.standing.away:
            return list(dict.fromkeys([*homes, *self.standing.match(frame)]))
        return homes

    def meets(self, filter: Filter) -> bool:
        """Return whether another broker's filter meets an advertisement."""
        return self.wanted.meets(filter) or bool(self.standing.meeting(filter))

    def meeting(self, filter: Filter) -> dict[int, list[Filter]]:
        """Return the brokers that events of a filter may have to reach, each with its filters that intersect it."""
        return self.standing.meeting(filter) | self.wanted.meeting(filter)

    def publish(self, frame: EventFrame, homes: list[int], delay_us: int, flags: int, now: float) -> list[Destination]:
        """Send an event to these brokers. Return its position for each."""
        self.now = now
        return self.dissemination.publish(frame, homes, delay_us, flags, now)

    def take(self, root: int, position: int, now: float) -> None:
        """Ack an event that `arrived`: this broker has charge of it."""
        self.dissemination.take(root, position, now)

    def tell_outcome(self, root: int, position: int, matched: int, code: str) -> None:
        """Send the result of an event with confirmation to its publisher's broker."""
        self.unicast.send(DeliveryOutcome(root, self.me, position, matched, code))

    # --- explanations -------------------------------------------------------------------------------------------------

    def tell(self, frame: TraceMessage) -> None:
        """Send a trace step, a query or its result to another broker."""
        self.unicast.send(frame)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """Send the messages and report the results that follow from the input so far."""
        self.now = now
        if self.wanting.pending:
            for update in self.wanting.take_updates(now, self._reaches):
                self.unicast.send(update, [self.wanting.tries(root) for root in update.to])
        while self.wanting.installed:
            self.host.installed(self.wanting.installed.pop(0))
        while self.wanting.silent:
            self._report_unacked(self.wanting.silent.pop(0))
        if self._unsettled:
            self._settle_advertisements()
        if self._reviewed != (self.wanted.changes, self.offered.revision):
            self._review_absent()
        if self.dissemination.reporting:
            self.dissemination.settle(now)
        for action in self.strategy.take_actions():
            if isinstance(action, SendControl) and action.to in self.neighbours:
                self._send(action.to, StrategyMessage(self.strategy.name, action.body))

    def tick(self, now: float) -> None:
        """Run the timers that are due."""
        self.now = now
        if now >= min(self._dead_at, self._heartbeat_at):
            self._close_dead_links(now)
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + self.settings.heartbeat_s
            self._heartbeat(now)
        self.dissemination.tick(now)
        self.strategy.tick(now)
        self.settle(now)

    def next_deadline(self) -> float:
        """Return when `tick` is to be called, at the latest."""
        deadline = min(self._heartbeat_at, self._dead_at)
        wants = self.wanting.next_deadline()
        if wants is not None:
            deadline = min(deadline, max(wants, self.now))
        for due in (self.dissemination.next_deadline(), self.strategy.next_deadline()):
            if due is not None:
                deadline = min(deadline, due)
        return min([deadline, *(by for _, by in self._unsettled.values())]) if self._unsettled else deadline

    # --- inside: links and link states --------------------------------------------------------------------------------

    def _close_dead_links(self, now: float) -> None:
        """Close dead links, and compute when the next one can be dead."""
        for neighbour in list(self.neighbours.values()):
            if now >= neighbour.dies_at(self.settings.detect_s):
                self.counts["links_dead"] += 1
                self.host.close(neighbour.link, f"{neighbour.name} is silent")
                self.link_down(neighbour.id, now)
        deaths = [neighbour.dies_at(self.settings.detect_s) for neighbour in self.neighbours.values()]
        self._dead_at = min(deaths, default=math.inf)

    def _heartbeat(self, now: float) -> None:
        for neighbour in list(self.neighbours.values()):
            self._ping(neighbour, now)
        self._delays(now)
        for neighbour in self.neighbours.values():
            if neighbour.compare(self.map.claim_us(neighbour.id, self.me), now):
                self.counts["disputed"] += 1
                self.host.remark(
                    f"{neighbour.name} floods a delay of {neighbour.claimed_us / 1000:g} ms for the link to it; "
                    f"measured are {neighbour.told_us / 1000:g} ms, and paths use the greater delay"
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
        """Flood measured delays that have changed, and compute next hops anew."""
        self._topology_changed(now)
        if any(neighbour.worth_telling(now) for neighbour in self.neighbours.values()):
            for neighbour in self.neighbours.values():
                if neighbour.worth_telling(now):
                    neighbour.tell(now)
            self._originate_link_state(now)

    def _originate_link_state(self, now: float) -> None:
        measured = sorted(neighbour.id for neighbour in self.neighbours.values() if neighbour.told_us)
        delays = tuple(self.neighbours[broker].told_us for broker in measured)
        version = self._reported = self._reported + 1
        settings = self.settings
        link_state = LinkState(
            *(self.me, version, settings.name, tuple(measured), delays),
            incarnation=self.incarnation,
            born=self.born,
            address=self.address,
            capacities=(settings.link_capacity,) * len(measured) if settings.link_capacity else (),
            segments=settings.segments,
        )
        self.flooding.originate(link_state)
        self._learn_link_state(link_state)

    def _learned(self, document: Document, before: Document | None) -> None:
        if isinstance(document, DurableInterest):
            if document.origin != self.me:
                self.counts["bad_filters"] += not self.keeping.learn(document)
                self._review_absent()
        elif isinstance(document, LinkState):
            if document.origin == self.me:
                self._reported = document.version
            self._learn_link_state(document)
        else:
            self._learn_advertisement(document)

    def _learn_link_state(self, link_state: LinkState) -> None:
        before = self.map.known.get(link_state.origin)
        if self.map.put(link_state):
            self.dissemination.hurry(self.now)
        self.strategy.topology_changed(self.now)
        if before is None or before.neighbours != link_state.neighbours:
            self.wanting.hurry(self.now)
        self.wanting.meet(link_state.origin)
        if link_state.origin != self.me:
            self.ours.begin()
            self.keeping.learn_link_state(link_state.origin)
        self._absences.link_state_changed(link_state.incarnation, self.now)

    def _learn_advertisement(self, offer: Advertisement) -> None:
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

    def _advertise(self, number: int, text: str, rate: float = 0.0, values: bytes = b"") -> None:
        version = self.flooding.next_version((self.me, ADVERTISEMENT, number))
        advertisement = Advertisement(self.me, number, version, text, rate, values)
        self.offered.learn(advertisement)
        self.flooding.originate(advertisement)

    def _settle_advertisements(self) -> None:
        """Report advertisements that timed out, or that all reachable brokers have seen, by the fingerprints in their
        updates."""
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

    def _report_unacked(self, broker: int) -> None:
        self.counts["interest_unacked"] += 1
        self.host.remark(
            f"{self.map.name(broker)} can be reached, and does not ack interest updates: subscribers do not wait "
            "for it any longer, and may miss events that are published there"
        )

    def _review_absent(self) -> None:
        self._reviewed = (self.wanted.changes, self.offered.revision)
        self.standing.review(self.wanted.homes, self.offered.fingerprint(self.me))

    def _reaches(self, broker: int) -> bool:
        return broker in self.map.distances(self.me)

    # --- inside: from one broker to another ---------------------------------------------------------------------------

    def _send(self, broker: int, frame: ControlFrame) -> None:
        self.counts[frame_name(frame)] += 1
        self.host.send(self.neighbours[broker].link, frame)

    def _relay(self, broker: int, frame: ControlFrame) -> None:
        """Relay another broker's frame unless a limit or a full queue refuses it: its source retransmits it."""
        neighbour = self.neighbours[broker]
        if neighbour.passed.take(self.now) and self.host.relay(neighbour.link, frame):
            self.counts[frame_name(frame)] += 1
        else:
            self.counts["relays_refused"] += 1

    def _receive_envelope(self, neighbour: Neighbour, envelope: EndToEnd, now: float) -> None:
        """Handle the message if it is for this broker, and relay it to its other destinations."""
        if envelope.source == self.me:
            self.counts["loops"] += 1
            return
        if self.me in envelope.to:
            self._receive_message(envelope, envelope.to.index(self.me), now)
        self.unicast.pass_on(envelope, neighbour, now)

    def _receive_message(self, envelope: EndToEnd, at: int, now: float) -> None:
        """Handle a message for this broker. Raise Forged if its source did not send it.

        A relay does not read the message, so the neighbour is not to blame for one that cannot be read.
        """
        self.trust.check_message(envelope, at)
        try:
            message = read_message(envelope, at)
        except FrameError:
            self.counts["bad_messages"] += 1
            return
        match message:
            case None:
                self.counts["unknown_messages"] += 1
            case InterestUpdate():
                self._apply_update(message)
            case InterestAck():
                self.wanting.acked(message.source, message.version, message.offers, message.asked, now)
            case StreamAck():
                self.dissemination.hear_took(message, now)
            case StreamSkip():
                self.dissemination.hear_skip(message, now)
            case DeliveryOutcome():
                self.host.outcome(message.source, message.position, message.matched, message.code)
            case TraceStep() | Query() | QueryResult():
                self.host.told(message)

    def _receive_routed(self, neighbour: Neighbour, routed: SourceRouted, now: float) -> None:
        frame = self.unicast.receive_routed(routed, neighbour, now)
        if isinstance(frame, Forward):
            self.dissemination.receive(frame, now, neighbour.id, 0)
        elif frame is not None:
            self._receive_envelope(neighbour, frame, now)

    def _apply_update(self, update: InterestUpdate) -> None:
        try:
            asked, offers = update.versions[0], update.offers[0]
            version = self.wanted.apply(update, asked, offers)
            ack = InterestAck(update.source, self.me, version, self.offered.fingerprint(self.me), asked)
            if not update.more and version == asked:
                self.wanted.complete(update.source, self.now)
                self.keeping.complete(update.source)
            self.keeping.answer(ack, self.wanted.homes[update.source].repeats)
            self.strategy.interest_changed(update.source, self.now)
            self.host.interest_changed()
        except PlaitError:
            self.counts["bad_filters"] += 1

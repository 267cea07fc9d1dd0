"""What joins a broker to the overlay: its clients' interest goes out, other brokers' events come in.

The overlay (`overlay/`) knows brokers, filters and streams; sessions, subscriptions and confirmations are the broker's.
This file is between them: it is the overlay's host, and the broker's only way to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from plait_core.errors import FrameError
from plait_core.filters import Filter
from plait_core.ids import Randomness
from plait_core.matching import Index
from plait_core.wire import (
    VERSION_MAX,
    Confirm,
    ControlFrame,
    Destination,
    EventFrame,
    Forward,
    FrameDecoder,
    Hello,
    encode_frame,
)
from plait_core.wire.frame_types.envelope_frames import Signed
from plait_core.wire.frame_types.overlay_frames import CONFIRM
from plait_core.wire.frame_types.session_frames import Brokers, Code
from plait_core.wire.frame_types.trace_frames import MARKED, TraceMessage

from .clients.confirmations import LOG, Confirmations, Outcome, Party, SilentBroker
from .clients.connection import Connection
from .counters import Counters
from .drop_reasons import DropReason
from .outputs import ConnectionId, Remark
from .overlay import Overlay, OverlaySettings, ReceivedEvent
from .overlay.interest.durable_interest_store import MemoryKey
from .overlay.security.identity import Identity
from .pipeline.advertisement_gate import AdvertisementGate
from .pipeline.observer import EventObserver
from .settings import BrokerSettings

_STORED: Final = 0
_ANSWERED: Final = 1
"""What is waited for of an event from elsewhere."""

Asked: TypeAlias = tuple[int, int]
"""A session, and its request."""


Copy: TypeAlias = tuple[EventFrame, int, int, int, tuple[int, ...], Sequence[Destination], float]
"""What `Connection.forward` takes, and since when it has waited."""

HELD_BYTES_MAX: Final = 16 << 20
"""Copies that wait for one connection to another broker; what does not fit is sent again by where it came from."""


@dataclass(slots=True)
class Held:
    """Copies that wait for a connection."""

    copies: deque[Copy] = field(default_factory=deque)
    bytes: int = 0


CALM_S: Final = 0.1
"""It has heard from all whom it knows for so long: whoever is behind them is known by then."""


class Joining:
    """One broker's place among others."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        links: dict[ConnectionId, Connection],
        counters: Counters,
        confirmations: Confirmations,
        observer: EventObserver,
        randomness: Randomness,
        now: float,
        index: Callable[[], Index],
        *,
        arrive: Callable[[ReceivedEvent, float], None],
        close: Callable[[ConnectionId, str], None],
        expel: Callable[[ConnectionId, str], None],
        done: Callable[[Asked], None],
        interest_changed: Callable[[], None],
        clock: Callable[[], float],
        identity: Identity,
        incarnation: int,
        born: int,
        expected: int,
        join_s: float,
        remember: Callable[[MemoryKey, bytes], None] | None,
        told: Callable[[TraceMessage], None],
    ) -> None:
        """`arrive` takes an event for this broker's subscribers, `close` ends a link, `expel` one to a broker that is
        not to be trusted, `done` answers a request; `remember` keeps bytes beyond this broker's life, where there is a
        log; `told` takes a message about marked events or a query."""
        self._links = links
        self._counters = counters
        self._confirmations = confirmations
        self._observer = observer
        self._arrive = arrive
        self._close = close
        self._expel = expel
        self._done = done
        self._interest_changed = interest_changed
        self._now = clock
        self._remember = remember
        self._told = told
        self._held: dict[int, Held] = {}
        """By connection to another broker, copies that it does not take now."""
        self._numbers: dict[int, int] = {}
        """By number of a subscription, the one that its present filter has in the overlay."""
        self._count = 0
        self._installing: dict[int, list[Asked]] = {}
        self._stored: dict[Asked, bool] = {}
        """Requests that wait to be installed, and whether that is all that they wait for."""
        self._awaited: dict[Party, None] = {}
        """Events of which the subscribers' answer is awaited, not only that their broker has charge."""
        self._handles = 0
        self._arrivals: dict[int, ReceivedEvent] = {}
        """Events from elsewhere that are waited for here: to confirmations, each is a publisher of its own."""
        self.remarks: list[Remark] = []
        self.overlay = Overlay(
            me, settings, self, randomness, now, index, incarnation=incarnation, born=born, identity=identity
        )
        self.offering = AdvertisementGate(self.overlay, index, now)
        self._advertising: dict[int, list[Asked]] = {}
        """By advertisement that not all brokers have seen yet, the requests that wait for that."""
        self._expected = expected
        self.joined = not expected
        """Whether what is published here finds everyone who wants it."""
        self.join_by = now + join_s
        self.early: dict[Connection, Hello] = {}
        """Clients that came before that."""
        self._informed_since = 0.0
        self._revision = self.overlay.map.revision
        self._names: dict[int, str] = {}

    def look_joined(self, now: float) -> bool:
        """Whether events may be taken: what other brokers want of them is known, or they have had their time.

        A broker that starts anew must not confirm an event as unmatched because it has not heard yet who wants it.
        """
        if self.joined:
            return True
        if len(self.overlay.neighbours) >= self._expected and self.overlay.informed:
            self._informed_since = self._informed_since or now
        else:
            self._informed_since = 0.0
        informed = bool(self._informed_since) and now - self._informed_since >= CALM_S
        self.joined = informed or now >= self.join_by
        return self.joined

    def take_early(self, now: float) -> list[tuple[Connection, Hello]]:
        """Clients that have waited for this broker to join the others, once it has."""
        if not self.early or not self.look_joined(now):
            return []
        early, self.early = self.early, {}
        return list(early.items())

    def next_deadline(self, now: float) -> float:
        """When something is due."""
        deadline = self.overlay.next_deadline()
        return min(deadline, now + CALM_S / 2) if self.early else deadline

    def recall(self, memories: Iterable[bytes], now: float) -> None:
        """Take up the documents of other brokers that were stored in an earlier life."""
        documents = []
        for memory in memories:
            decoder = FrameDecoder(version=VERSION_MAX)
            try:
                decoder.feed(memory)
                documents += [frame for frame in decoder.take() if isinstance(frame, Signed)]
            except FrameError:
                self.overlay.counts["bad_memories"] += 1
        self.overlay.recall(documents, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        if now >= self.overlay.next_deadline():
            self.overlay.tick(now)
            self.offering.review(now)

    # --- for the broker -----------------------------------------------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0) -> None:
        """Flood a client's advertisement, with the rate of events that it expects."""
        self._advertising[number] = []
        self.offering.advertise(number, filter, rate)

    def withdraw(self, number: int) -> None:
        """It does so no more."""
        self._advertising.pop(number, None)
        self.offering.withdraw(number)

    def answer_when_offered(self, number: int, asked: Asked) -> bool:
        """Whether all brokers have seen an advertisement; else its request is answered once they have."""
        waiting = self._advertising.get(number)
        if waiting is not None:
            waiting.append(asked)
        return waiting is None

    def want(
        self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False, within_us: int = 0
    ) -> None:
        """A subscription is there, or has another filter: what is new is asked for before what was is taken back."""
        before = self._numbers.get(number)
        self._count += 1
        self._numbers[number] = self._count
        self._installing[self._count] = self._installing.pop(before, []) if before is not None else []
        self.overlay.want(self._count, filter, deposit, durable=durable, within_us=within_us)
        if before is not None:
            self.overlay.unwant(before)

    def unwant(self, number: int) -> None:
        """A subscription is no more."""
        known = self._numbers.pop(number)
        for asked in self._installing.pop(known, ()):
            self._stored.pop(asked, None)
        self.overlay.unwant(known)

    def answer_when_installed(self, number: int, asked: Asked, *, stored: bool = True) -> bool:
        """Whether all publishers' brokers know of a subscription; else its request is answered once they do. One that
        is yet to be stored is answered when both are done: `may_answer` asks for that."""
        waiting = self._installing.get(self._numbers[number])
        if waiting is None:
            return True
        waiting.append(asked)
        self._stored[asked] = stored
        return False

    def may_answer(self, asked: Asked) -> bool:
        """What a request asked for is stored: whether it may be answered now, and not only once it is installed."""
        if asked not in self._stored:
            return True
        self._stored[asked] = True
        return False

    def publish(
        self, frame: EventFrame, homes: list[int], delay_us: int, now: float, confirm: Confirm
    ) -> Iterable[Party]:
        """Send an event to these brokers; the parties that its publisher waits for."""
        subscribers = bool(confirm) and confirm is Confirm.SUBSCRIBERS
        flags = CONFIRM if subscribers else 0
        if self._observer.marked and frame.id in self._observer.marked:
            flags |= MARKED
        named = self.overlay.dissemination.publish(frame, homes, delay_us, flags, now)
        if not confirm:
            return ()
        parties = [(-home, position) for home, position, _ in named]
        if subscribers:
            self._awaited.update(dict.fromkeys(parties))
        return parties

    def in_charge(self, arrival: ReceivedEvent, now: float) -> None:
        """This broker has an event where nothing short of its end loses it."""
        self.overlay.dissemination.take(arrival.root, arrival.position, now)

    def answered(self, arrival: ReceivedEvent, matched: int, code: str) -> None:
        """What has become of an event whose publisher waits for subscribers."""
        self.overlay.tell_outcome(arrival.root, arrival.position, matched, code)

    def wait_for(self, arrival: ReceivedEvent, parties: set[Party], matched: int, now: float) -> None:
        """Be in charge of an event once it is stored, if it is to be, and answer for it once all have it."""
        if not parties and not arrival.flags & CONFIRM:
            self.in_charge(arrival, now)
            return
        stored = {party for party in parties if party[0] == LOG}
        if stored:
            self._begin(arrival, _STORED, 0, stored, now)
        else:
            self.in_charge(arrival, now)
        if arrival.flags & CONFIRM:
            self._begin(arrival, _ANSWERED, matched, parties - stored, now)

    def settled(self, outcome: Outcome, now: float) -> None:
        """What was waited for here has come, or has failed."""
        arrival = self._arrivals.pop(-outcome.publisher)
        if outcome.code or outcome.sequence == _ANSWERED:
            self.answered(arrival, outcome.matched, outcome.code)
        if outcome.sequence == _STORED:
            self.in_charge(arrival, now)

    def _begin(self, arrival: ReceivedEvent, what: int, matched: int, parties: set[Party], now: float) -> None:
        self._handles += 1
        self._arrivals[self._handles] = arrival
        self._confirmations.begin(-self._handles, what, matched, parties, now)

    def silent_broker(self, party: Party) -> SilentBroker:
        """The broker whose answer this is that did not come in time."""
        home, position = -party[0], party[1]
        streams = self.overlay.dissemination.outgoing
        if home in streams:
            return self._silent(home, in_charge=position not in streams[home].kept)
        for broker, outgoing in streams.items():
            first = next(iter(outgoing.kept.values()), None)
            if first is not None and first.party is not None and first.party[0] == home:  # it has started anew since
                return self._silent(broker, in_charge=False)
        return self._silent(home, in_charge=False)

    def _silent(self, home: int, *, in_charge: bool) -> SilentBroker:
        return SilentBroker(self._name(home), in_charge, self.overlay.map.reaches(self.overlay.me, home))

    def forget(self, party: Party) -> None:
        """Nobody waits any more for what another broker has to say of an event."""
        self._awaited.pop(party, None)

    def pump(self, link: Connection) -> bool:
        """A connection to another broker takes bytes again: write what waited for it. Whether something still does."""
        held = self._held.get(link.id)
        if held is None:
            return False
        now = self._now()
        while held.copies and link.takes_data:
            frame, tree, delay_us, flags, path, destinations, since = held.copies.popleft()
            held.bytes -= len(frame.block)
            waited_us = round((now - since) * 1_000_000)
            link.forward(frame, tree, delay_us + waited_us, flags, path, destinations)
            if self._observer.telemetry is not None or flags & MARKED:
                self._report(link, frame, delay_us + waited_us, flags, path, destinations, waited_us)
        if not held.copies:
            del self._held[link.id]
        return bool(held.copies)

    def holds(self, link: int) -> bool:
        """Whether something waits for a connection."""
        return link in self._held

    def link_gone(self, link: int) -> None:
        """A connection has ended, with what waited for it."""
        self._held.pop(link, None)

    def names_changed(self) -> bool:
        """Whether brokers have come or gone since this was last asked."""
        overlay_map = self.overlay.map
        if self._revision == overlay_map.revision:
            return False
        self._revision = overlay_map.revision
        before, self._names = self._names, {sheet.origin: sheet.name for sheet in overlay_map.link_states}
        return before != self._names

    def introduce(self, link: Connection | None) -> None:
        """Tell a client what the brokers are called that its events pass."""
        sheets = self.overlay.map.link_states
        if link is not None and len(sheets) > 1:
            link.send(Brokers(tuple(sheet.origin for sheet in sheets), tuple(sheet.name for sheet in sheets)))

    # --- for the overlay ----------------------------------------------------------------------------------------------

    def send(self, link: int, frame: ControlFrame) -> None:
        known = self._links.get(link)
        if known is not None:
            known.send(frame)

    def relay(self, link: int, frame: ControlFrame) -> bool:
        known = self._links.get(link)
        return known is not None and known.relay(frame)

    def forward(
        self,
        link: int,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
    ) -> None:
        known = self._links.get(link)
        if known is None:
            return
        self._counters.forwarded += 1
        if flags & MARKED:
            self._observer.relayed(frame, delay_us, self._now())
        if link not in self._held and known.forward(frame, tree, delay_us, flags, path, destinations):
            if self._observer.telemetry is not None or flags & MARKED:
                self._report(known, frame, delay_us, flags, path, destinations, 0)
            return
        held = self._held.setdefault(link, Held())
        if held.bytes > HELD_BYTES_MAX:  # its publisher's broker still has it, and will send it again
            self.overlay.counts["relay_buffer_full"] += 1
            return
        held.bytes += len(frame.block)
        held.copies.append((frame, tree, delay_us, flags, path, destinations, self._now()))

    def close(self, link: int, reason: str) -> None:
        self._close(link, reason)

    def expel(self, link: int, reason: str) -> None:
        self._expel(link, reason)

    def remark(self, text: str) -> None:
        self.remarks.append(Remark(text))

    def take_remarks(self) -> list[Remark]:
        """What whoever runs this broker should read."""
        taken, self.remarks = self.remarks, []
        return taken

    def arrived(self, arrival: ReceivedEvent) -> None:
        self._arrive(arrival, self.overlay.now)

    def installed(self, number: int) -> None:
        for asked in self._installing.pop(number, ()):
            if self._stored.pop(asked, False):
                self._done(asked)

    @property
    def waits(self) -> bool:
        return bool(len(self._confirmations))

    def taken(self, home: int, position: int) -> None:
        if (-home, position) not in self._awaited:
            self._confirmations.acknowledge((-home, position))

    def outcome(self, home: int, position: int, matched: int, code: str) -> None:
        party = (-home, position)
        self._awaited.pop(party, None)
        if code:
            self._confirmations.fail(party, code, f"at {self._name(home)}: not all of those it was for have it")
        else:
            self._confirmations.acknowledge(party, matched)

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        self._observer.lost(frame, reason, delay_us, [home], self._now())
        self._counters.dropped[DropReason(reason)] += 1
        party = (-home, position)
        self._awaited.pop(party, None)
        self._confirmations.fail(party, Code.UNAVAILABLE, f"{self._name(home)} does not get it: {reason}")

    def ended(self, frame: Forward, delay_us: int, destinations: Sequence[Destination], reason: str) -> None:
        self._observer.lost(frame, reason, delay_us, destinations, self._now())  # its publisher's broker counts it

    def told(self, frame: TraceMessage) -> None:
        self._told(frame)

    def remember(self, key: MemoryKey, document: Signed | None) -> bool:
        if self._remember is None:
            return False
        self._remember(key, b"" if document is None else encode_frame(document))
        return document is not None

    def offered(self, number: int) -> None:
        self.offering.seen(number)
        for asked in self._advertising.pop(number, ()):
            self._done(asked)

    def interest_changed(self) -> None:
        self._interest_changed()

    def _report(
        self,
        link: Connection,
        frame: EventFrame,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
        waited_us: int,
    ) -> None:
        """Report a written copy to the observer."""
        neighbour = self.overlay.neighbours.get(link.neighbour)
        if neighbour is not None:
            to, now = (neighbour.id, round(neighbour.delay_us)), self._now()
            self._observer.forwarded(frame, to, delay_us, flags, path, destinations, waited_us, now)

    def _name(self, broker: int) -> str:
        return self.overlay.map.name(broker) or f"broker {broker:016x}"


def overlay_settings(settings: BrokerSettings) -> OverlaySettings:
    """What the overlay is told of a broker's settings."""
    return OverlaySettings(
        name=settings.name,
        heartbeat_s=settings.overlay_heartbeat_s,
        detect_s=settings.overlay_detect_s,
        gone_s=settings.overlay_gone_s,
        durable_gone_s=settings.overlay_durable_gone_s,
        dissemination=settings.linking.dissemination,
        laboratory=settings.linking.laboratory,
        retransmit=settings.linking.retransmit,
        stream_items_max=settings.overlay_stream_items_max,
        stream_bytes_max=settings.overlay_stream_bytes_max,
        link_capacity=settings.linking.capacity,
        segments=settings.linking.segments,
    )

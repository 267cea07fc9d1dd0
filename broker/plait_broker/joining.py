"""The adapter between a broker and the overlay: its clients' interest goes out, other brokers' events come in.

The overlay (`overlay/`) knows brokers, filters and streams. The broker knows sessions, subscriptions and confirmations.
`Joining` translates between them. It is the overlay's host, and the broker's only access to the overlay.
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
"""The two steps of another broker's event that confirmations track: stored in the log, answered by subscribers."""

Asked: TypeAlias = tuple[int, int]
"""A session and the number of its request."""

Copy: TypeAlias = tuple[EventFrame, int, int, int, tuple[int, ...], Sequence[Destination], float]
"""The arguments of `Connection.forward`, and the time since which the copy waits."""

HELD_BYTES_MAX: Final = 16 << 20
"""Bytes of copies that wait for one connection to another broker. Further copies are dropped, and their publisher's
broker retransmits them."""


@dataclass(slots=True)
class Held:
    """The copies that wait for one connection."""

    copies: deque[Copy] = field(default_factory=deque)
    bytes: int = 0


CALM_S: Final = 0.1
"""Time after interest came from all known brokers: link states of further brokers behind them arrive within it."""


class Joining:
    """One broker's connection to the overlay."""

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
        """`arrive` takes an event for this broker's subscribers. `close` ends a link; `expel` ends one to a broker that
        broke the rules. `done` answers a request. `remember` stores bytes on disk; it is None without a log. `told`
        takes trace messages of other brokers."""
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
        """By connection to another broker, the copies that wait for it."""
        self._numbers: dict[int, int] = {}
        """By number of a subscription, the number of its present filter in the overlay."""
        self._count = 0
        self._installing: dict[int, list[Asked]] = {}
        self._stored: dict[Asked, bool] = {}
        """Requests whose filter is being installed, and whether its subscription is stored already."""
        self._awaited: dict[Party, None] = {}
        """Events whose confirmation needs the subscribers' result, not only the ack of their home broker."""
        self._handles = 0
        self._arrivals: dict[int, ReceivedEvent] = {}
        """By handle, other brokers' events that confirmations track here, under the negative handle as publisher."""
        self.remarks: list[Remark] = []
        self.overlay = Overlay(
            me, settings, self, randomness, now, index, incarnation=incarnation, born=born, identity=identity
        )
        self.offering = AdvertisementGate(self.overlay, index, now)
        self._advertising: dict[int, list[Asked]] = {}
        """By advertisement that not all brokers have seen yet, the requests to answer then."""
        self._expected = expected
        self.joined = not expected
        """Whether events may be published here: other brokers' interest is known, or `join_by` has passed."""
        self.join_by = now + join_s
        self.early: dict[Connection, Hello] = {}
        """Clients that wait for that, each with its hello."""
        self._informed_since = 0.0
        self._revision = self.overlay.map.revision
        self._names: dict[int, str] = {}

    def look_joined(self, now: float) -> bool:
        """Return whether events may be accepted: other brokers' interest is known, or `join_by` has passed.

        A broker that has just started must not confirm an event as unmatched because it lacks their interest.
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
        """Return the clients that waited until this broker has joined, once it has."""
        if not self.early or not self.look_joined(now):
            return []
        early, self.early = self.early, {}
        return list(early.items())

    def next_deadline(self, now: float) -> float:
        """Return when `tick` or `take_early` is to be called."""
        deadline = self.overlay.next_deadline()
        return min(deadline, now + CALM_S / 2) if self.early else deadline

    def recall(self, memories: Iterable[bytes], now: float) -> None:
        """Load the documents of other brokers that were stored before a restart."""
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
        """Run the timers of the overlay that are due."""
        if now >= self.overlay.next_deadline():
            self.overlay.tick(now)
            self.offering.review(now)

    # --- for the broker -----------------------------------------------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0) -> None:
        """Flood a client's advertisement, with the rate of events that it expects."""
        self._advertising[number] = []
        self.offering.advertise(number, filter, rate)

    def withdraw(self, number: int) -> None:
        """Withdraw an advertisement."""
        self._advertising.pop(number, None)
        self.offering.withdraw(number)

    def answer_when_offered(self, number: int, asked: Asked) -> bool:
        """Return whether all brokers have seen an advertisement. If not, answer its request once they have."""
        waiting = self._advertising.get(number)
        if waiting is not None:
            waiting.append(asked)
        return waiting is None

    def want(
        self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False, within_us: int = 0
    ) -> None:
        """Announce the filter of a subscription. A changed filter is added before the former one is removed."""
        before = self._numbers.get(number)
        self._count += 1
        self._numbers[number] = self._count
        self._installing[self._count] = self._installing.pop(before, []) if before is not None else []
        self.overlay.want(self._count, filter, deposit, durable=durable, within_us=within_us)
        if before is not None:
            self.overlay.unwant(before)

    def unwant(self, number: int) -> None:
        """Remove a subscription."""
        known = self._numbers.pop(number)
        for asked in self._installing.pop(known, ()):
            self._stored.pop(asked, None)
        self.overlay.unwant(known)

    def answer_when_installed(self, number: int, asked: Asked, *, stored: bool = True) -> bool:
        """Return whether a subscription is installed. If not, answer its request once it is.

        A durable subscription (`stored` is false) must also be stored before: see `may_answer`.
        """
        waiting = self._installing.get(self._numbers[number])
        if waiting is None:
            return True
        waiting.append(asked)
        self._stored[asked] = stored
        return False

    def may_answer(self, asked: Asked) -> bool:
        """Note that a request's subscription is stored. Return whether it is installed, too, so that the request may be
        answered now."""
        if asked not in self._stored:
            return True
        self._stored[asked] = True
        return False

    def publish(
        self, frame: EventFrame, homes: list[int], delay_us: int, now: float, confirm: Confirm
    ) -> Iterable[Party]:
        """Send an event to these brokers. Return the parties whose confirmation its publisher waits for."""
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
        """Ack an event: this broker has charge of it."""
        self.overlay.dissemination.take(arrival.root, arrival.position, now)

    def answered(self, arrival: ReceivedEvent, matched: int, code: str) -> None:
        """Send the result of an event whose publisher waits for subscribers."""
        self.overlay.tell_outcome(arrival.root, arrival.position, matched, code)

    def wait_for(self, arrival: ReceivedEvent, parties: set[Party], matched: int, now: float) -> None:
        """Ack an event, once the log has stored it if it must, and send its result once all parties have it."""
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
        """Handle the outcome of a step of another broker's event: ack it, or send its result."""
        arrival = self._arrivals.pop(-outcome.publisher)
        if outcome.code or outcome.sequence == _ANSWERED:
            self.answered(arrival, outcome.matched, outcome.code)
        if outcome.sequence == _STORED:
            self.in_charge(arrival, now)

    def _begin(self, arrival: ReceivedEvent, step: int, matched: int, parties: set[Party], now: float) -> None:
        self._handles += 1
        self._arrivals[self._handles] = arrival
        self._confirmations.begin(-self._handles, step, matched, parties, now)

    def silent_broker(self, party: Party) -> SilentBroker:
        """Return the broker whose confirmation timed out."""
        home, position = -party[0], party[1]
        streams = self.overlay.dissemination.outgoing
        if home in streams:
            return self._silent(home, in_charge=position not in streams[home].kept)
        for broker, outgoing in streams.items():
            first = next(iter(outgoing.kept.values()), None)
            if first is not None and first.party is not None and first.party[0] == home:  # it has restarted since
                return self._silent(broker, in_charge=False)
        return self._silent(home, in_charge=False)

    def _silent(self, home: int, *, in_charge: bool) -> SilentBroker:
        return SilentBroker(self._name(home), in_charge, self.overlay.map.reaches(self.overlay.me, home))

    def forget(self, party: Party) -> None:
        """Forget a party whose result is not awaited any more."""
        self._awaited.pop(party, None)

    def pump(self, link: Connection) -> bool:
        """Write the copies that waited for a connection, which takes data again. Return whether some still wait."""
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
        """Return whether copies wait for a connection."""
        return link in self._held

    def link_gone(self, link: int) -> None:
        """Drop the copies that waited for a connection, which has ended."""
        self._held.pop(link, None)

    def names_changed(self) -> bool:
        """Return whether the names of known brokers have changed since the last call."""
        overlay_map = self.overlay.map
        if self._revision == overlay_map.revision:
            return False
        self._revision = overlay_map.revision
        before, self._names = self._names, {sheet.origin: sheet.name for sheet in overlay_map.link_states}
        return before != self._names

    def introduce(self, link: Connection | None) -> None:
        """Send a client the names of all brokers."""
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
        if held.bytes > HELD_BYTES_MAX:  # its publisher's broker still has it, and retransmits it
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
        """Return the remarks for the operator since the last call."""
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
    """Return the settings of the overlay from those of the broker."""
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

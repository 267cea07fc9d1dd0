"""All streams of events that begin or end at one broker.

The root numbers the events for each destination and keeps them until the destination acks them. `forwarder.py` sends
the copies. The destination puts events into order, acks them, and reports missing positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from plait_core.wire import Destination, EventFrame, Forward, Frame
from plait_core.wire.frame_types.envelope_frames import envelop_acks
from plait_core.wire.frame_types.overlay_frames import ACK_NOW, LOGGED, StreamAck, StreamSkip

from ..dissemination.strategy import Envelope, EnvelopeFields
from ..groups.group_branch import GROUP
from ..groups.stream_groups import StreamGroups
from ..outputs import Acked, LogRemark, Lost, Output
from ..security.identity import Forged
from ..security.message_auth import MessageAuth
from ..settings import OverlaySettings
from ..topology.link_state import LinkStateDatabase
from .control_unicast import ControlUnicast
from .forwarder import Forwarder
from .reliable_stream import (
    ACK_S,
    AGAIN_MAX_S,
    DOUBT_S,
    FULL,
    FULL_NO_MORE,
    USUAL_TRIES,
    ReceivedEvent,
    ReceiveStream,
    SendStream,
    Unacked,
    age_us,
    is_expired,
    received_event_of,
)

SILENT_TIMES: Final = 4.0
"""Detection times without an ack after which publishers do not wait for a destination: it may be stuck or hostile."""

ALONG_BYTES: Final = 16 << 10
"""Bytes of one stream that are retransmitted over a source route at once, besides one event. Relays forward them as
control frames, which pass by the lanes, so more of them would delay the pings of a full link until it is dead."""

SUSPICION_S: Final = 60.0
"""Least time between two remarks about events with a wrong MAC."""


class EventStreams:
    """The streams that begin or end at one broker."""

    def __init__(
        self,
        me: int,
        settings: OverlaySettings,
        map: LinkStateDatabase,
        forwarder: Forwarder,
        unicast: ControlUnicast,
        message_auth: MessageAuth,
        groups: StreamGroups,
        outputs: list[Output],
    ) -> None:
        self.me = me
        self.settings = settings
        self.counts = forwarder.counts
        self.outgoing = groups.streams.outgoing
        self.incoming = groups.streams.incoming
        self._map = map
        self._forwarder = forwarder
        self._unicast = unicast
        self._message_auth = message_auth
        self.groups = groups
        self._outputs = outputs
        self.sending: dict[int, None] = {}
        """Destinations with unacked events."""
        self.full: dict[int, None] = {}
        """Destinations whose publishers should wait: too many events wait for the window of the stream."""
        self.full_changes = 0
        """Counts how often a destination joined or left them."""
        self._full_group: set[int] = set()
        """The members of stream groups among them: a group is full, whatever their own streams are."""
        self._seen_members: tuple[int, ...] = ()
        """The membership of the groups for which these were computed."""
        self._again_at = math.inf
        """The time of the next retransmission, or an earlier one."""
        self.reporting: dict[int, None] = {}
        """Publishers' brokers to which an ack is due at some time."""
        self._ack_at = math.inf
        """The time of the next of these acks, or an earlier one."""
        self._filling: dict[int, None] = {}
        """Destinations whose next event asks for an ack, because the window of their stream fills."""
        self._detoured: dict[int, None] = {}
        """Destinations whose events take a source route at present."""
        self._suspicion_at = -math.inf

    def publish(self, frame: EventFrame, homes: list[int], delay_us: int, flags: int, now: float) -> list[Destination]:
        """Number an event in the stream of each destination, and send it. It waits where the window is full.

        Return the destinations with positions, or with the negative numbers of events that wait.
        """
        named: list[Destination] = []
        held: list[Destination] = []
        if self._filling and (asking := [home for home in homes if home in self._filling]):
            flags |= ACK_NOW
            for home in asking:
                del self._filling[home]
                self.outgoing[home].ask_later()
        kept: Unacked = (frame, flags, delay_us, now, None)
        grouped: list[Destination] = []
        if len(homes) > self.settings.destinations_max or self.groups.root is not None:
            homes, grouped = self._publish_to_group(kept, homes, now)
        for home in homes:
            outgoing = self.outgoing.get(home) or self._open(home, now)
            if not outgoing.waiting and outgoing.has_room:
                position = self._keep_one(home, outgoing, kept, now)
                named.append((home, position, self._message_auth.prove_event(home, position, flags, frame.block)))
            else:
                held.append((home, self._hold(home, outgoing, kept, now), 0))
        if named:
            self._send((frame, self.me, 0, delay_us, flags, ()), named, now)
        return [*named, *held, *grouped] if held or grouped else named

    def _publish_to_group(self, kept: Unacked, homes: list[int], now: float) -> tuple[list[int], list[Destination]]:
        """Send an event to the members of the stream group. Return the other destinations, and the members by name.
        Events of the broker itself, and those for which a strategy chooses other paths, take no group."""
        if kept[0].publisher == self.me or not self._forwarder.strategy.independent:
            return homes, []
        found = self.groups.publish(homes, kept, now)
        if self.groups.moved:
            self.send_moved(now)
        elif self.groups.filling >= FULL:
            self._push_back()
        return found

    def receive_all(self, frames: Sequence[Frame], at: int, now: float, sender: int, link_us: int | None) -> int:
        """Handle the run of Forward frames that starts at index `at`. Return the index after it.

        `link_us` is how long they were on the link from `sender`; None if that is no neighbour any more.
        """
        for frame in islice(frames, at, None):
            if type(frame) is not Forward:
                break
            at += 1
            if link_us is not None:
                self.receive(frame, now, sender, link_us)
        return at

    def receive(self, frame: Forward, now: float, sender: int, link_us: int) -> None:
        """Handle a copy from a neighbour: this broker may be one of its destinations."""
        delay_us, here, others = self._forwarder.accept(frame, sender, link_us)
        if here is not None:
            path = frame.path
            event = received_event_of((path[0], here[1], frame, frame.flags, delay_us, path, now))
            self._arrive(event, here[2], now)
        if others:
            self._forwarder.pass_on(frame, delay_us, others, now)

    def acknowledge(self, event: ReceivedEvent, now: float) -> None:
        """Ack a received event: this broker has charge of it."""
        root, position, _, flags, _, _, _ = event
        if position & GROUP:
            own = self.groups.acknowledge(root, position)
            if own is None:
                return
            position = own
        incoming = self.incoming.get(root)
        if incoming is not None and incoming.acknowledge(position, now, asked=flags & ACK_NOW):
            assert incoming.ack_at is not None, "it was set now"
            self.reporting[root] = None
            self._ack_at = min(self._ack_at, incoming.ack_at)

    def receive_ack(self, ack: StreamAck, now: float) -> None:
        """Take a destination's ack, and retransmit the events that it reports missing."""
        outgoing = self.outgoing.get(ack.source)
        if outgoing is None:
            return
        news = outgoing.receive_ack(ack.up_to, now, ack.window)
        if news:
            self._outputs.append(Acked(ack.source, news))
            if outgoing.detour_until > now:
                self._detoured[ack.source] = None
        missing = ack.missing and outgoing.missing(ack.missing, now, self._queueing_s(ack.source, outgoing))
        if outgoing.waiting or ack.source in self.full:
            self._send_waiting(ack.source, outgoing, now)
        if not outgoing.kept:
            self.sending.pop(ack.source, None)
        elif outgoing.again_at < self._again_at:  # the timeout was long, after several without an ack
            self._again_at = outgoing.again_at
        if ack.missing or ack.up_to < outgoing.first - 1:
            self._retransmit(ack.source, outgoing, missing, now, send_floor=True)

    def receive_skip(self, skip: StreamSkip, now: float) -> None:
        """Take a publisher's broker's notice that events up to a position will not come any more."""
        incoming = self._stream(skip.source)
        self._deliver(skip.source, incoming, incoming.skip(skip.up_to, now), now)
        self._await_report(skip.source, incoming)

    def retransmit_soon(self, now: float, home: int | None = None, *, lost: int = 0) -> None:
        """Ack at once what has arrived, and retransmit soon what is not acked then: a link has failed, or the broker
        `home` can be reached again.

        Streams whose last copy went to the `lost` neighbour retransmit at once what has hardly arrived.
        """
        for root, incoming in self.incoming.items():
            if home is None or root == home:
                incoming.ack_soon(now, now + DOUBT_S + self._path_s(root))
                self._await_report(root, incoming)
        for broker, outgoing in self.outgoing.items():
            if home is None or broker == home:
                outgoing.retransmit_soon(now)
                if lost and self._forwarder.last_hop.get(broker) == lost:
                    since = outgoing.suspect_since(now, self._path_s(broker))
                    self._retransmit(broker, outgoing, outgoing.doubtful(now, since), now)
                self._again_at = min(self._again_at, outgoing.again_at)

    def gone(self, broker: int, now: float) -> None:
        """Forget a broker: give up its unacked events, and deliver its events that are ahead of a hole."""
        self._leave_group(broker, now)
        held = self.groups.gone(broker)
        outgoing = self.outgoing.pop(broker, None)
        if outgoing is not None:
            for position in list(outgoing.kept):
                self._give_up(broker, outgoing, position, "unreachable", now)
            while outgoing.waiting:
                self._lose(broker, 0, outgoing.drop_oldest(), "unreachable", now)
        self.sending.pop(broker, None)
        self._unfill(broker)
        self._filling.pop(broker, None)
        self._detoured.pop(broker, None)
        self._forwarder.last_hop.pop(broker, None)
        incoming = self.incoming.pop(broker, None)
        self.reporting.pop(broker, None)
        if incoming is not None:
            self._outputs += incoming.rest()
        self._outputs += held

    def thin(self, broker: int, keep: Callable[[EventFrame], bool], now: float) -> None:
        """Give up a broker's unacked events, except those for which `keep` returns true."""
        self._leave_group(broker, now)
        outgoing = self.outgoing.get(broker)
        if outgoing is None:
            return
        for position, kept in list(outgoing.kept.items()):
            if not keep(kept[0]):
                self._give_up(broker, outgoing, position, "unreachable", now)
        for _ in range(len(outgoing.waiting)):
            held = outgoing.drop_oldest()
            if keep(held[0]):
                outgoing.hold(held, broker)
            else:
                self._lose(broker, 0, held, "unreachable", now)
        self._send_waiting(broker, outgoing, now)

    def succeed(self, before: int, broker: int, since: float, now: float) -> None:
        """Move a restarted destination's unacked events to its successor, for the durable subscriptions in its log.

        Events published `since` the successor's interest was complete are not moved: they were sent to the successor
        itself.
        """
        self._leave_group(before, now)
        outgoing = self.outgoing.pop(before, None)
        self.sending.pop(before, None)
        self._unfill(before)
        self._filling.pop(before, None)
        self._detoured.pop(before, None)
        if outgoing is None:
            return
        successor = self.outgoing.get(broker) or self._open(broker, now)
        for position, kept in [*outgoing.kept.items(), *((0, held) for held in outgoing.waiting)]:
            frame, flags, delay_us, published_at, party = kept
            if published_at >= since:
                self._outputs.append(Acked(before, [(position, kept)]))
            else:
                again = (frame, flags | LOGGED, delay_us, published_at, party or (before, position))
                self._hold(broker, successor, again, now)
        self._send_waiting(broker, successor, now)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """Send the acks that are due, and with them those that are due a little later, in one envelope."""
        if now < self._ack_at:
            return
        acks: list[StreamAck] = []
        for root in list(self.reporting):
            self._report(root, acks, now)
        if acks:
            envelope = self._message_auth.prove(envelop_acks(acks))
            self._unicast.send_envelope(envelope, now, (0,) * len(acks))
        deadlines = [self.incoming[root].next_deadline() for root in self.reporting]
        self._ack_at = min((at for at in deadlines if at is not None), default=math.inf)

    def tick(self, now: float) -> None:
        """Retransmit and ack what is due."""
        if now >= self._again_at:
            for home in list(self.sending):
                outgoing = self.outgoing[home]
                if now >= outgoing.again_at and (due := outgoing.due(now, self._patience_s(home, outgoing))):
                    self._retransmit(home, outgoing, due, now)
            sending = [(home, self.outgoing[home]) for home in self.sending]
            deadlines = [outgoing.again_at + self._patience_s(home, outgoing) for home, outgoing in sending]
            self._again_at = min(deadlines, default=math.inf)
        self.settle(now)

    def ack_all(self, now: float) -> None:
        """Send all acks that are not sent yet: this broker stops."""
        for incoming in self.incoming.values():
            incoming.ack_soon(now, now)
        self._ack_at = now
        self.settle(now)
        self.groups.send_all(now)

    def expire(self, now: float) -> None:
        """Give up expired events for destinations that cannot be reached."""
        for home in list(self.sending):
            outgoing = self.outgoing[home]
            if not self._map.reaches(self.me, home):
                self._unfill(home)  # publishers do not wait for a broker that may be away for a day
                for position in [position for position, kept in outgoing.kept.items() if is_expired(kept, now)]:
                    self._give_up(home, outgoing, position, "expired", now)
                while outgoing.waiting and is_expired(outgoing.waiting[0], now):
                    self._lose(home, 0, outgoing.drop_oldest(), "expired", now)
                self._send_waiting(home, outgoing, now)
            elif home in self.full and now - outgoing.silent_since > SILENT_TIMES * self.settings.detect_s:
                self._unfill(home)  # nor for one that acks nothing

    def next_deadline(self) -> float | None:
        """Return when to call `tick` at the latest, or None."""
        again_at = self._again_at if self.sending else math.inf
        ack_at = self._ack_at if self.reporting else math.inf
        at = min(again_at, ack_at)
        return at if at < math.inf else None

    # --- inside -------------------------------------------------------------------------------------------------------

    def _open(self, home: int, now: float) -> SendStream:
        first, settings = max(1, round(now * 1_000_000)), self.settings
        outgoing = self.outgoing[home] = SendStream(first, settings.stream_items_max, settings.stream_bytes_max)
        self._unicast.send(StreamSkip(home, self.me, outgoing.floor), now)
        return outgoing

    def _send(self, envelope: EnvelopeFields, named: list[Destination], now: float) -> None:
        """Send an event to destinations for the first time."""
        others = self._detour(Envelope(*envelope), named, now) if self._detoured else named
        if others:
            for home, position, _ in self._forwarder.disseminate(self._forwarder.strategy, envelope, others, now):
                self._give_up(home, self.outgoing[home], position, "forbidden", now)

    def _hold(self, home: int, outgoing: SendStream, kept: Unacked, now: float) -> int:
        """Let an event wait for the window. Return its number. The oldest are dropped while too many wait."""
        party = outgoing.hold(kept, home)[4]
        assert party is not None, "an event that waits has a name"
        while outgoing.filling > 1 and len(outgoing.waiting) > 1:
            self._lose(home, 0, outgoing.drop_oldest(), "overlay_full", now)
        if outgoing.filling >= FULL and home not in self.full and self._is_alive(home, outgoing, now):
            self.full[home] = None
            self.full_changes += 1
        return party[1]

    def _send_waiting(self, home: int, outgoing: SendStream, now: float) -> None:
        """Send the events that the window has room for now."""
        while outgoing.waiting and outgoing.has_room:
            held = outgoing.drop_oldest()
            if is_expired(held, now):
                self._lose(home, 0, held, "expired", now)
                continue
            frame, flags, delay_us, published_at, party = held
            if home in self._filling or not outgoing.waiting:
                flags |= ACK_NOW
                self._filling.pop(home, None)
                outgoing.ask_later()
            kept = (frame, flags, delay_us, published_at, party)
            position = self._keep_one(home, outgoing, kept, now)
            self._send(self._envelope(kept, now), [self._named(home, position, kept)], now)
        if outgoing.filling <= FULL_NO_MORE:
            self._unfill(home)

    def send_moved(self, now: float) -> None:
        """Send members that have left a stream group what they have not acked. Events keep the positions that name
        them."""
        moved = self.groups.moved[:]
        self.groups.moved.clear()
        for home, events in moved:
            outgoing = self.outgoing.get(home) or self._open(home, now)
            for position, (frame, flags, delay_us, published_at, party) in events:
                self._hold(home, outgoing, (frame, flags, delay_us, published_at, party or (home, position)), now)
            self._send_waiting(home, outgoing, now)
        if moved or self._full_group:
            self._push_back()

    def _push_back(self) -> None:
        """Let publishers wait for the members of a group that is full, as they do for a stream: until it has room."""
        filling, membership = self.groups.filling, self.groups.membership
        if FULL_NO_MORE < filling < FULL and not self._full_group:
            return
        if filling > FULL_NO_MORE and self._full_group and membership == self._seen_members:
            return
        self._seen_members = membership
        members = self.groups.members if filling > FULL_NO_MORE else set()
        left, self._full_group = self._full_group - members, members
        for home in left:
            outgoing = self.outgoing.get(home)
            if outgoing is None or outgoing.filling < FULL:
                self._unfill(home)
        for home in members - self.full.keys():
            self.full[home] = None
            self.full_changes += 1

    def is_pending(self, home: int, position: int) -> bool:
        """Return whether a member of a stream group has not acked an event: neither there nor by its own stream."""
        outgoing = self.outgoing.get(home)
        moved = () if outgoing is None else (*outgoing.kept.values(), *outgoing.waiting)
        return self.groups.is_pending(home, position) or any(kept[4] == (home, position) for kept in moved)

    def _leave_group(self, home: int, now: float) -> None:
        self.groups.leave(home, now)
        self.send_moved(now)

    def _is_alive(self, home: int, outgoing: SendStream, now: float) -> bool:
        """Return whether a destination can be reached and acks what it gets."""
        silent_s = now - outgoing.silent_since
        return self._map.reaches(self.me, home) and silent_s <= SILENT_TIMES * self.settings.detect_s

    def _unfill(self, home: int) -> None:
        if home in self.full and home not in self._full_group:
            del self.full[home]
            self.full_changes += 1

    def _keep_one(self, home: int, outgoing: SendStream, kept: Unacked, now: float) -> int:
        position = outgoing.add(kept, now)
        if home not in self.sending:
            self.sending[home] = None
            self._again_at = min(self._again_at, outgoing.again_at)
        if position >= outgoing.ask_at or outgoing.kept_bytes >= outgoing.ask_at_bytes:
            self._filling[home] = None
        return position

    def _arrive(self, arrival: ReceivedEvent, proof: int, now: float) -> None:
        root, position, frame, flags, _, _, _ = arrival
        try:
            self._message_auth.check_event(root, position, flags, frame.block, proof)
        except Forged:
            if len(arrival.path) == 1 and self._message_auth.key(root) is not None:  # it claims to be the root
                raise
            self.counts["forged"] += 1
            self._log_suspicion(arrival.path, now)
            return
        incoming = self.incoming.get(root) or self._stream(root)
        ready = incoming.receive(arrival, now)
        self._deliver(root, incoming, ready, now)
        if not ready or incoming.gap_since is not None:  # it is ahead of a hole, or came again
            self._await_report(root, incoming)

    def _deliver(self, root: int, incoming: ReceiveStream, events: list[ReceivedEvent], now: float) -> None:
        """Output events in order, without those that have come by a stream group."""
        if root in self.groups.branches:
            events, done = self.groups.own_events(root, events)
            for position in done:
                incoming.acknowledge(position, now)
            if done:
                self._await_report(root, incoming)
        self._outputs += events

    def _log_suspicion(self, path: tuple[int, ...], now: float) -> None:
        """Log the path of an event with a wrong MAC: one of the brokers on it made the event up or changed it."""
        if now >= self._suspicion_at:
            self._suspicion_at = now + SUSPICION_S
            way = " -> ".join(self._map.name(broker) or f"{broker:016x}" for broker in path)
            text = f"an event was made up or changed by one of those that it came by: {way}"
            self._outputs.append(LogRemark(f"{text} ({self.counts['forged']} such events so far)"))

    def _stream(self, root: int) -> ReceiveStream:
        return self.incoming.get(root) or self.incoming.setdefault(root, ReceiveStream())

    def _await_report(self, root: int, incoming: ReceiveStream) -> None:
        """Note when the next report of a stream is due."""
        at = incoming.next_deadline()
        if at is not None:
            self.reporting[root] = None
            self._ack_at = min(self._ack_at, at)

    def _report(self, root: int, acks: list[StreamAck], now: float) -> None:
        """Send the report of a stream if it is due, or append it to `acks`, which are sent together."""
        incoming = self.incoming[root]
        report = incoming.report(now)
        if report is not None:
            ack, tries = StreamAck(root, self.me, *report, incoming.window), max(0, incoming.vain - USUAL_TRIES)
            if ack.missing or tries:
                self._unicast.send(ack, now, (tries,))
            else:
                acks.append(ack)
        if incoming.next_deadline() is None:
            del self.reporting[root]

    def _retransmit(
        self, home: int, outgoing: SendStream, positions: Sequence[int], now: float, *, send_floor: bool = False
    ) -> None:
        if not self.settings.retransmit:  # in the laboratory
            return
        tries = max(0, outgoing.tries - USUAL_TRIES)
        if tries and positions:
            outgoing.choose_route(self._unicast.routes_to(home, outgoing.detour, now))
        for position in positions:  # before the floor is sent
            waiting = outgoing.kept.get(position)
            if waiting is not None and is_expired(waiting, now):
                self._give_up(home, outgoing, position, "expired", now)
        if positions or send_floor:
            self._unicast.send(StreamSkip(home, self.me, outgoing.floor), now, (tries,))
        room = ALONG_BYTES
        for position in positions:
            kept = outgoing.kept.get(position)
            if kept is None:
                continue
            self.counts["again"] += 1
            envelope, destination = self._envelope(kept, now), self._named(home, position, kept)
            self._forwarder.retransmit(envelope, destination, now)
            if room > 0 and (tries or home in self._detoured):
                room -= len(kept[0].block)
                route = outgoing.tried if tries else outgoing.detour
                self._unicast.send_along(route, self._copy(envelope, destination), now)
        if outgoing.waiting and not outgoing.kept:  # all that was on its way has expired, so no ack will come
            self._send_waiting(home, outgoing, now)

    def _envelope(self, kept: Unacked, now: float) -> Envelope:
        frame, flags, _, _, _ = kept
        return Envelope(frame, self.me, 0, age_us(kept, now), flags, ())

    def _named(self, home: int, position: int, kept: Unacked) -> Destination:
        frame, flags, _, _, _ = kept
        return home, position, self._message_auth.prove_event(home, position, flags, frame.block)

    def _detour(self, envelope: Envelope, named: list[Destination], now: float) -> list[Destination]:
        """Send copies over source routes to destinations whose normal path loses events.

        Return the destinations still to be sent normally.
        """
        others = []
        for destination in named:
            home = destination[0]
            if home in self._detoured and self.outgoing[home].detour_until <= now:
                del self._detoured[home]
            if home not in self._detoured or not self._unicast.send_along(
                self.outgoing[home].detour, self._copy(envelope, destination), now
            ):
                others.append(destination)
        return others

    def _copy(self, envelope: Envelope, destination: Destination) -> Forward:
        """Return a copy for one destination, to be sent along a source route."""
        return Forward(0, envelope.delay_us, envelope.flags, (self.me,), (destination,), envelope.frame.block)

    def _give_up(self, home: int, outgoing: SendStream, position: int, reason: str, now: float) -> None:
        kept = outgoing.give_up(position)
        if not outgoing.kept:
            self.sending.pop(home, None)
        self._lose(home, position, kept, reason, now)

    def _lose(self, home: int, position: int, kept: Unacked, reason: str, now: float) -> None:
        """Report an event that is given up. One that waited has no position; it is named by its `party`."""
        self.counts[reason] += 1
        frame, _, _, _, party = kept
        if party is not None and home in self.outgoing:
            self.outgoing[home].settle(kept)
        destination, first_position = party or (home, position)
        self._outputs.append(Lost(destination, first_position, frame, age_us(kept, now), reason))

    def _patience_s(self, home: int, outgoing: SendStream) -> float:
        """Return how long an ack may take beyond the retransmission timeout and the time that a destination delays it:
        the path's delay, or longer because of the queue in the first lane, or as late as acks were before. A neighbour
        that slows its lane down puts retransmissions off no longer than `AGAIN_MAX_S`."""
        return max(self._path_s(home), self._queueing_s(home, outgoing))

    def _queueing_s(self, home: int, outgoing: SendStream) -> float:
        """Return how much longer queues make the way of an event: by that in the first lane, or as late as acks were
        before. At most `AGAIN_MAX_S`."""
        neighbour = self._forwarder.neighbour_towards(home)
        queue_s = 0.0 if neighbour is None else neighbour.lane.drain_s
        return min(max(outgoing.ack_s - ACK_S, queue_s), AGAIN_MAX_S)

    def _path_s(self, home: int) -> float:
        """Return twice the round trip to a destination, by link state."""
        return 4e-6 * self._map.distances(self.me).get(home, 0)

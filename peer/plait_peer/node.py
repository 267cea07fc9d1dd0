"""The peers of one process: the routing of frames between them and the links to other processes. No I/O.

An outgoing frame: a peer's output -> `_route` -> a local peer, or the link to the remote peer's process, dialled if
necessary. An incoming frame: `received` -> `Link` -> the receiving peer. A link carries frames of the peers that were
first received over it, and of no others. When it breaks, all local peers lose these.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final, TypeAlias

from plait_core.errors import FrameError, FrameFault
from plait_core.ids import Randomness, new_id
from plait_core.limits import PEER_SAMPLE_MAX
from plait_core.space import DzSet
from plait_core.wire import EventFrame, Forward
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.peer_frames import LinkPair, Meeting, PeerEvent, PeerFrame, Profile
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frames import Frame

from .address_book import AddressBook
from .event_frames import event_of, first_destination, hops_of, plain_dz, runs_of
from .event_records import Arrival, PeerTelemetry, arrival_of, frames_of
from .group import Group
from .link import SAME_SECRET, Link, LinkRefused, Stage
from .link_cipher import NewCipher, new_noise_cipher
from .link_table import LinkId, LinkTable
from .protocol.outputs import Confirmed, Deliver, PeerId, Send
from .protocol.peer import Peer
from .protocol.settings import PeerSettings

Consumer: TypeAlias = Callable[[Deliver | Confirmed], None]
BatchConsumer: TypeAlias = Callable[[list[Forward], int], None]
"""Receives events that only need delivery, and the delay of the last link in microseconds."""

PEERS_MAX: Final = 256
"""Peers of one process: each subscription is one, and gossips once a period."""
BACKLOG_BYTES_MAX: Final = 16 << 20
"""Bytes queued for a link whose other end reads too slowly. Beyond it events are dropped and counted; control frames
are not."""


class Node:
    """All peers of one process."""

    def __init__(
        self,
        group: Group,
        address: str,
        randomness: Randomness,
        settings: PeerSettings,
        *,
        now: float,
        telemetry: PeerTelemetry | None = None,
        new_cipher: NewCipher = new_noise_cipher,
    ) -> None:
        """`new_cipher` makes the encryption of each link."""
        self.group = group
        self.now = now
        """The time of the present call."""
        self.telemetry = telemetry
        """The telemetry of the process, if it is enabled."""
        self.id = new_id(randomness)
        self.address = address
        self.settings = settings
        self.peers: dict[PeerId, Peer] = {}
        self.counts: Counter[str] = Counter()
        """Drops and refusals, by reason."""
        self.refusal: LinkRefused | None = None
        """The reason for which the last link was refused."""
        self.link_table = LinkTable(address, self.counts)
        self.links = self.link_table.links
        self._subscriptions = 0
        self._new_cipher = new_cipher
        self._rng = randomness
        self._consumers: dict[PeerId, Consumer] = {}
        self._batch_consumers: dict[PeerId, BatchConsumer] = {}
        self._addresses = AddressBook(self.peers)
        self._local: deque[tuple[PeerId, PeerId, PeerFrame]] = deque()
        self._next_check = now + 1.0
        self.presence = self.add(DzSet(), float("inf"), None, now)
        """A peer without interest. It gossips, so that new processes find the group here."""

    # --- peers --------------------------------------------------------------------------------------------------------

    def add(
        self,
        interest: DzSet,
        bound: float,
        consumer: Consumer | None,
        now: float,
        *,
        id: PeerId | None = None,
        batch_consumer: BatchConsumer | None = None,
    ) -> Peer:
        """Add a peer: a subscription, or with a bound of 0 a publisher."""
        assert len(self.peers) < PEERS_MAX, "the caller checks the limit"
        peer = Peer(
            id or new_id(self._rng),
            interest,
            bound,
            randomness=self._rng,
            settings=self.settings,
            address=self.address,
            now=now,
        )
        if self.telemetry is not None:
            peer.state.on_drop = self._dropped
        known = self.known_profiles()
        self.peers[peer.id] = peer
        if consumer is not None:
            self._consumers[peer.id] = consumer
        if batch_consumer is not None:
            self._batch_consumers[peer.id] = batch_consumer
        peer.join(known, now)
        for other in self.peers.values():
            other.join([peer.state.profile], now)
        return peer

    def remove(self, peer: Peer, now: float) -> None:
        """Disconnect a peer from its neighbours and remove it."""
        if self.peers.get(peer.id) is not peer:
            return
        peer.leave(now)
        self._drain(peer, now)
        del self.peers[peer.id]
        self._consumers.pop(peer.id, None)
        self._batch_consumers.pop(peer.id, None)
        for other in self.peers.values():
            other.lost(peer.id, now)
        self._deliver_local(now)

    def known_profiles(self) -> list[Profile]:
        """Return profiles for a new peer: those of local peers, and some that they know."""
        found = {peer.id: peer.state.profile for peer in self.peers.values()}
        for peer in self.peers.values():
            for seen in (peer.sampling.adverts, peer.sampling.view):
                found |= {id: profile for id, (profile, _) in seen.items() if id not in found}
        return list(found.values())[:PEER_SAMPLE_MAX]

    def new_number(self) -> int:
        """Return a number for a subscription in telemetry records."""
        self._subscriptions += 1
        return self._subscriptions

    def publish(self, peer: Peer, dz: str, frames: Sequence[EventFrame]) -> None:
        """Send unconfirmed events of a local publisher to all of its children."""
        destination = first_destination(dz)
        next_hops = peer.publish_batch([frame.sequence for frame in frames], dz)
        if self.telemetry is not None:
            self.telemetry.events_published(frames, self.group.cell(dz), len(next_hops), self.now)
        for to in next_hops:
            id = self.link_table.routes.get(to)
            link = self.links.get(id) if id is not None else None
            if id is None or link is None or link.stage is not Stage.OPEN:
                for frame in frames:
                    event = PeerEvent(peer.id, frame.sequence, dz, 0.0, 0, frame.block)
                    self._route(peer.id, Send(to, "", event), 0.0)
            else:
                self.link_table.writable[id] = None
                dropped = link.send_events(peer.id, to, frames, destination, BACKLOG_BYTES_MAX)
                if dropped:
                    self.counts["slow_link"] += dropped
                if self.telemetry is not None:
                    self.telemetry.written(frames, dropped, link.node, self.now)

    def publish_confirmed(self, peer: Peer, dz: str, frame: EventFrame, now: float) -> None:
        """Publish an event that all subscribers have to ack."""
        if self.telemetry is not None:
            self.telemetry.events_published((frame,), self.group.cell(dz), len(peer.next_hops(dz)), now)
        peer.publish(dz, frame.block, now, number=frame.sequence, confirm=True)

    def origin(self, publisher: PeerId) -> int:
        """Return the process of a publisher; 0 if it is unknown."""
        if publisher in self.peers:
            return self.id
        link = self.link_table.find(publisher)
        address = self._addresses.address(publisher)
        return link.node if link is not None else self.link_table.processes.get(address, 0)

    def drain(self, peer: Peer, now: float) -> None:
        """Process the outputs of a peer after a call from outside."""
        self._drain(peer, now)
        self._deliver_local(now)

    # --- links --------------------------------------------------------------------------------------------------------

    def connected(self, id: LinkId, dialled: str, now: float) -> None:
        """Start the handshake on a new connection, dialled or accepted."""
        dials = bool(dialled)
        cipher = self._new_cipher(self.group, self._rng, dials)
        link = Link(self.group, self.id, self.address, cipher, self.known_profiles, dials=dials)
        link.opened_at = link.last_used_at = now
        self.link_table.add(id, link, dialled)

    def unreachable(self, address: str, now: float) -> None:
        """Report the peers at an address as lost: the dial failed."""
        self.now = now
        self.counts["unreachable"] += 1
        for sender, send in self.link_table.take_waiting(address):
            self._record_undelivered(send, "unreachable")
            self._report_lost(send.to, now, by=sender)
        self._deliver_local(now)

    def received(self, id: LinkId, data: bytes, now: float) -> None:
        """Handle bytes received over a link."""
        link = self.links.get(id)
        if link is None:
            return
        link.last_used_at = self.now = now
        try:
            meeting, frames = link.receive(data)
            if meeting is not None:
                self._link_opened(id, link, meeting, now)
            if frames:
                self._handle_frames(id, link, frames, now)
            elif link.stage is Stage.OPEN:
                self._mark_link_alive(id, link, now)
        except LinkRefused as refused:
            self.refusal = refused
            self.link_table.refuse(id, refused)
        except FrameError as error:
            link.close(Code.UNKNOWN, error.message)
            self.link_table.refuse(id, LinkRefused(f"a link broke the protocol: {error.message}"))
        self.link_table.writable[id] = None
        self._deliver_local(now)

    def disconnected(self, id: LinkId, now: float) -> None:
        """Remove a closed connection and report its peers as lost."""
        self.now = now
        link = self.links.pop(id, None)
        if link is None:
            return
        addresses = self.link_table.addresses_of(id)
        if link.dials and link.stage is Stage.KEYS:
            self.counts["refused"] += 1
            self.refusal = LinkRefused(
                f"{', '.join(addresses)} closed the link during the key exchange", hint=SAME_SECRET
            )
        link.stage = Stage.CLOSED
        for address in addresses:
            self.link_table.forget_address(address)
            self.unreachable(address, now)
        for peer in self.link_table.peers_of(id):
            del self.link_table.routes[peer]
            if not link.closed_cleanly:
                self._report_lost(peer, now)
        self._deliver_local(now)

    # --- time and outputs ---------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Return the time of the next `tick`."""
        return min([self._next_check, *[peer.next_deadline() for peer in self.peers.values()]])

    def tick(self, now: float) -> None:
        """Run the peers whose deadline has passed, and once a second check the links."""
        self.now = now
        for peer in list(self.peers.values()):
            if peer.next_deadline() <= now:
                peer.tick(now)
                self._drain(peer, now)
        if now >= self._next_check:
            self._next_check = now + 1.0
            self.link_table.close_expired(now)
        self._deliver_local(now)

    def leave(self, now: float) -> None:
        """Remove all peers and close the links."""
        for peer in list(self.peers.values()):
            self.remove(peer, now)
        self.link_table.close_all()

    # --- received frames ----------------------------------------------------------------------------------------------

    def _link_opened(self, id: LinkId, link: Link, meeting: Meeting, now: float) -> None:
        for address in self.link_table.opened(id, link):
            for sender, send in self.link_table.take_waiting(address):
                self._send(id, sender, send)
        for profile in meeting.profiles:
            self._addresses.remember(profile)
        for peer in list(self.peers.values()):
            peer.join(meeting.profiles, now)
            self._drain(peer, now)

    def _mark_link_alive(self, id: LinkId, link: Link, now: float) -> None:
        """Note a part of a frame. The keepalives of all peers at the other end wait behind it, for seconds if it is a
        great event on a slow link."""
        if now - link.marked_alive_at < self.settings.period_s:
            return
        link.marked_alive_at = now
        for sender in self.link_table.peers_of(id):
            for peer in self.peers.values():
                peer.mark_alive(sender, now)

    def _handle_frames(self, id: LinkId, link: Link, frames: list[Frame], now: float) -> None:
        pairs = set() if isinstance(frames[0], LinkPair) else {(link.sender, link.receiver)}
        active: dict[PeerId, Peer] = {}
        peers = self.peers
        events: list[Forward] = []
        for frame in frames:
            if isinstance(frame, Forward):
                events.append(frame)
                continue
            if events:
                self._handle_events(link, events, now, active)
                events = []
            if isinstance(frame, LinkPair):
                link.sender, link.receiver = frame.sender, frame.receiver
                pairs.add((frame.sender, frame.receiver))
                self.link_table.learn_sender(id, link, peers)
                continue
            if isinstance(frame, Close):
                link.closed_cleanly = frame.code == Code.BYE
                break
            peer = peers.get(link.receiver)
            if peer is None:
                self.counts["gone"] += 1  # removed: the sender notices by its silence
                continue
            if isinstance(frame, PeerFrame) and not isinstance(frame, PeerEvent):
                self._addresses.remember_all(frame)
                peer.receive(link.sender, frame, now)
            else:
                raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} between peers")
            active[peer.id] = peer
        if events:
            self._handle_events(link, events, now, active)
        for sender, receiver in pairs:
            if receiver in peers:
                peers[receiver].mark_alive(sender, now)
        for peer in active.values():
            self._drain(peer, now)

    def _handle_events(self, link: Link, frames: list[Forward], now: float, active: dict[PeerId, Peer]) -> None:
        """Deliver events to a local peer, in order."""
        peer = self.peers.get(link.receiver)
        if peer is None:
            if self.telemetry is not None:
                self.telemetry.events_not_forwarded(frames, self.id, "gone", Arrival(0, 0, 1, now))
            return
        batch_consumer = self._batch_consumers.get(peer.id)
        for run in runs_of(frames):
            if peer.id in active:
                self._drain(active.pop(peer.id), now)  # keeps the order of frames
            if batch_consumer is None or not self._deliver_batch(link, peer, batch_consumer, run):
                for frame in run:
                    peer.receive(link.sender, event_of(frame), now)
                active[peer.id] = peer

    def _deliver_batch(self, link: Link, peer: Peer, batch_consumer: BatchConsumer, run: list[Forward]) -> bool:
        """Fast path: deliver a parent's events that end at a local peer. Return False if they need the slow path."""
        dz = plain_dz(run[0])
        if dz is None:
            return False
        latest_s = max([frame.delay_us for frame in run]) / 1_000_000
        result = peer.receive_batch(link.sender, run[0].publisher, [frame.sequence for frame in run], dz, latest_s)
        if result is None:
            return False
        link_s, new = result
        link_us = int(link_s * 1_000_000)
        batch_consumer(run if new is None else list(compress(run, new)), link_us)
        if new is not None and self.telemetry is not None:
            known = [frame for frame, is_new in zip(run, new, strict=True) if not is_new]
            self.telemetry.dropped_copies(known, "duplicate", Arrival(0, link_us, hops_of(run[0]), self.now))
        return True

    # --- sent frames --------------------------------------------------------------------------------------------------

    def _deliver_local(self, now: float) -> None:
        """Deliver frames between local peers, until there are none."""
        local = self._local
        while local:
            sender, receiver, frame = local.popleft()
            peer = self.peers.get(receiver)
            if peer is not None:
                peer.receive(sender, frame, now)
                self._drain(peer, now)

    def _drain(self, peer: Peer, now: float) -> None:
        consumer = self._consumers.get(peer.id)
        last: PeerEvent | None = None
        event: bytes | None = None
        for output in peer.take_output():
            if type(output) is not Send:
                assert not isinstance(output, Send), "type() decides as isinstance() does"
                if consumer is not None:
                    consumer(output)
                continue
            frame = output.frame
            if type(frame) is not PeerEvent:
                self._route(peer.id, output, now)
                continue
            if frame is not last:
                last, event = frame, None
            event = self._route(peer.id, output, now, event)

    def _route(self, sender: PeerId, send: Send, now: float, event: bytes | None = None) -> bytes | None:
        """Send a frame to a local or remote peer. Return an event's bytes, for its next receiver."""
        to = send.to
        if to in self.peers:
            self._local.append((sender, to, send.frame))
            return event
        id = self.link_table.routes.get(to)
        if id is None:
            address = self._addresses.address(to) or send.address
            id = self.link_table.at(address)
            if id is None and (not address or address == self.address):
                self._record_undelivered(send, "unreachable")
                self._report_lost(to, now, by=sender)
                return event
            if id is None or self.links[id].stage is not Stage.OPEN:
                if not self.link_table.wait(address, sender, send):
                    self._record_undelivered(send, "unreachable")
                return event
        return self._send(id, sender, send, event)

    def _send(self, id: LinkId, sender: PeerId, send: Send, event: bytes | None = None) -> bytes | None:
        link = self.links[id]
        if link.stage is not Stage.OPEN:
            self.counts["closed"] += 1
            self._record_undelivered(send, "unreachable", link.node)
            return event
        if link.size > BACKLOG_BYTES_MAX and type(send.frame) is PeerEvent:
            self.counts["slow_link"] += 1
            self._record_undelivered(send, "overlay_full", link.node)
            return event
        if type(send.frame) is PeerEvent and send.frame.round > 1 and link.holds(send.to, send.frame):
            return event  # retransmitted too early: on a full link this would leave less and less for other events
        self.link_table.writable[id] = None
        if self.telemetry is not None and type(send.frame) is PeerEvent:
            self.telemetry.events_forwarded(frames_of(send.frame), link.node, arrival_of(send.frame, self.now))
        return link.send(sender, send.to, send.frame, event)

    # --- telemetry and losses -----------------------------------------------------------------------------------------

    def _record_undelivered(self, send: Send, reason: str, neighbour: int = 0) -> None:
        """Record an event that was not sent."""
        if self.telemetry is not None and type(send.frame) is PeerEvent:
            self.telemetry.events_not_forwarded(
                frames_of(send.frame), neighbour, reason, arrival_of(send.frame, self.now)
            )

    def _dropped(self, event: PeerEvent, reason: str) -> None:
        """Record an event that a local peer dropped."""
        assert self.telemetry is not None, "drops are reported only with telemetry"
        arrival = arrival_of(event, self.now, self.origin(event.publisher))
        if reason == "unmatched":
            self.telemetry.events_received(frames_of(event), arrival, 0, 0, reason)
        else:
            self.telemetry.dropped_copies(frames_of(event), reason, arrival)

    def _report_lost(self, peer: PeerId, now: float, *, by: PeerId | None = None) -> None:
        """Report an unreachable peer to all local peers, or to one."""
        for ours in list(self.peers.values()) if by is None else [self.peers[by]] if by in self.peers else []:
            ours.lost(peer, now)

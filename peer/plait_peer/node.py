"""The peers of one process, and the links to those of others: whose frame goes where. No I/O.

Follow one frame out: a peer's output -> `_carry` -> a peer beside it, or the link to where it lives, dialled if need
be. Follow one in: `received` -> `Link` -> the peer that it is for. A link speaks for the peers that were first heard
over it, and for no others; when it breaks they are lost to all of ours.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, TypeAlias

from plait_core.errors import FrameError, FrameFault
from plait_core.ids import Randomness, new_id
from plait_core.limits import NONCE_BYTES, PEER_SAMPLE_MAX
from plait_core.space import DzSet
from plait_core.wire import EventFrame, Forward
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.peer_frames import Happening, LinkPair, Meeting, PeerFrame, Profile
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frames import Frame

from .event_frames import event_of, first_of, hops_of, plain_dz, runs_of
from .event_records import Came, PeerTelemetry, course_of, frames_of
from .group import Group
from .link import Link, LinkRefused, Stage
from .protocol.outputs import Confirmed, Deliver, PeerId, Send
from .protocol.peer import Peer
from .protocol.settings import PeerSettings

LinkId: TypeAlias = int
Consumer: TypeAlias = Callable[[Deliver | Confirmed], None]
Hearer: TypeAlias = Callable[[list[Forward], int], None]
"""Takes events that need nothing more than to be taken, and what the last link adds to their delay, in microseconds."""

PEERS_MAX: Final = 256
"""Peers of one process: each of its subscriptions is one, and gossips once a period."""
LINKS_MAX: Final = 512
"""Links of one process: a quarter of the file descriptors that it commonly has, for peers come in crowds."""
BOOK_MAX: Final = 8192
"""Peers whose address is remembered; whoever was heard of longest ago goes first."""
WAITING_BYTES_MAX: Final = 16 << 20
"""Bytes for a link whose other end reads nothing. Beyond events are dropped and counted; control frames are not."""
IDLE_S: Final = 20.0
"""Without a frame in either direction a link is closed: gossip opens many that are used once."""
PROVE_S: Final = 3.0
"""For the other end to say who it is."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection; `Node.connected` or `Node.unreachable` follows."""

    address: str


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
    ) -> None:
        self.group = group
        self.now = now
        """When what is being done was begun."""
        self.telemetry = telemetry
        """Records what happens, if that is wanted."""
        self.id = new_id(randomness)
        self.address = address
        self.settings = settings
        self.links: dict[LinkId, Link] = {}
        self.peers: dict[PeerId, Peer] = {}
        self.counts: Counter[str] = Counter()
        """What was dropped or refused, by reason."""
        self.refusal: LinkRefused | None = None
        """Why the last link was refused."""
        self.nodes: dict[str, int] = {}
        """Of processes that were met, by address, which they are."""
        self._subscriptions = 0
        self._rng = randomness
        self._consumers: dict[PeerId, Consumer] = {}
        self._hearers: dict[PeerId, Hearer] = {}
        self._book: dict[PeerId, str] = {}
        self._routes: dict[PeerId, LinkId] = {}
        self._by_address: dict[str, LinkId] = {}
        self._dialling: dict[str, list[Send | None]] = {}
        self._senders: dict[str, list[PeerId]] = {}
        self._near: deque[tuple[PeerId, PeerId, PeerFrame]] = deque()
        self._dials: list[Dial] = []
        self._cuts: list[LinkId] = []
        self._touched: dict[LinkId, None] = {}
        self._next_check = now + 1.0
        self.presence = self.add(DzSet(), float("inf"), None, now)
        """Wants nothing and publishes nothing: it gossips, so that whoever comes finds the group here."""

    # --- peers --------------------------------------------------------------------------------------------------------

    def add(
        self,
        wanted: DzSet,
        bound: float,
        consumer: Consumer | None,
        now: float,
        *,
        id: PeerId | None = None,
        hearer: Hearer | None = None,
    ) -> Peer:
        """One more peer lives here: a subscription, or with a bound of 0 a publisher."""
        assert len(self.peers) < PEERS_MAX, "whoever asks has looked"
        peer = Peer(
            id or new_id(self._rng),
            wanted,
            bound,
            randomness=self._rng,
            settings=self.settings,
            address=self.address,
            now=now,
        )
        if self.telemetry is not None:
            peer.me.dropped = self._dropped
        known = self.acquaintances()
        self.peers[peer.id] = peer
        if consumer is not None:
            self._consumers[peer.id] = consumer
        if hearer is not None:
            self._hearers[peer.id] = hearer
        peer.join(known, now)
        for other in self.peers.values():
            other.join([peer.me.profile], now)
        return peer

    def remove(self, peer: Peer, now: float) -> None:
        """It says goodbye."""
        if self.peers.get(peer.id) is not peer:
            return
        peer.leave(now)
        self._pump(peer, now)
        del self.peers[peer.id]
        self._consumers.pop(peer.id, None)
        self._hearers.pop(peer.id, None)
        for other in self.peers.values():
            other.lost(peer.id, now)
        self._settle(now)

    def acquaintances(self) -> list[Profile]:
        """Peers to tell a newcomer of: those who live here, and some that they know."""
        found = {peer.id: peer.me.profile for peer in self.peers.values()}
        for peer in self.peers.values():
            for seen in (peer.sampling.adverts, peer.sampling.view):
                found |= {id: profile for id, (profile, _) in seen.items() if id not in found}
        return list(found.values())[:PEER_SAMPLE_MAX]

    def new_number(self) -> int:
        """For one more subscription: what records call it."""
        self._subscriptions += 1
        return self._subscriptions

    def publish(self, peer: Peer, dz: str, frames: Sequence[EventFrame]) -> None:
        """Events of a publisher that lives here, which nobody need confirm, to all of its children."""
        between = first_of(dz)
        lane = peer.says([frame.sequence for frame in frames], dz)
        if self.telemetry is not None:
            self.telemetry.said(frames, self.group.cell(dz), len(lane), self.now)
        for to in lane:
            id = self._routes.get(to)
            link = self.links.get(id) if id is not None else None
            if id is None or link is None or link.stage is not Stage.OPEN:
                for frame in frames:
                    event = Happening(peer.id, frame.sequence, dz, 0.0, 0, frame.block)
                    self._carry(peer.id, Send(to, "", event), 0.0)
            else:
                self._touched[id] = None
                dropped = link.pass_on(peer.id, to, frames, between, WAITING_BYTES_MAX)
                if dropped:
                    self.counts["slow_link"] += dropped
                if self.telemetry is not None:
                    self.telemetry.written(frames, dropped, link.node, self.now)

    def entrust(self, peer: Peer, dz: str, frame: EventFrame, now: float) -> None:
        """An event of a publisher that lives here, which all of its subscribers are to confirm."""
        if self.telemetry is not None:
            self.telemetry.said((frame,), self.group.cell(dz), len(peer.lane(dz)), now)
        peer.publish(dz, frame.block, now, number=frame.sequence, confirm=True)

    def origin(self, publisher: PeerId) -> int:
        """The process that a publisher lives in; 0 when it was never met."""
        if publisher in self.peers:
            return self.id
        link = self.link_to(publisher)
        return link.node if link is not None else self.nodes.get(self._book.get(publisher, ""), 0)

    def link_to(self, peer: PeerId) -> Link | None:
        """Over which a peer was first heard."""
        return self.links.get(self._routes.get(peer, 0))

    def pump(self, peer: Peer, now: float) -> None:
        """Something was done to a peer from outside."""
        self._pump(peer, now)
        self._settle(now)

    # --- links --------------------------------------------------------------------------------------------------------

    def meet(self, address: str) -> None:
        """Get to know whoever lives there."""
        if address != self.address and address not in self._by_address:
            self._dial(address, None)

    def connected(self, id: LinkId, dialled: str, now: float) -> None:
        """A connection stands: one that was asked for, or one that has come."""
        nonce = self._rng.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES)
        profiles = tuple(self.acquaintances())
        link = self.links[id] = Link(self.group, self.id, self.address, nonce, profiles, dials=bool(dialled))
        link.made_at = link.used_at = now
        self._touched[id] = None
        if dialled:
            self._by_address[dialled] = id
        elif len(self.links) > LINKS_MAX:
            self._refuse(id, LinkRefused("too many links here"))

    def unreachable(self, address: str, now: float) -> None:
        """Nobody can be reached there."""
        self.now = now
        self.counts["unreachable"] += 1
        waiting = self._dialling.pop(address, [])
        senders = self._senders.pop(address, [])
        for send, sender in zip([each for each in waiting if each is not None], senders, strict=True):
            self._not_brought(send, "unreachable")
            self._lose(send.to, now, by=sender)
        self._settle(now)

    def received(self, id: LinkId, data: bytes, now: float) -> None:
        """Bytes came over a link."""
        link = self.links.get(id)
        if link is None:
            return
        link.used_at = self.now = now
        try:
            met, frames = link.receive(data)
            if met is not None:
                self._met(id, link, met, now)
            if frames:
                self._heard(id, link, frames, now)
        except LinkRefused as refused:
            self.refusal = refused
            self._refuse(id, refused)
        except FrameError as error:
            link.close(Code.UNKNOWN, error.message)
            self._refuse(id, LinkRefused(f"a link broke the protocol: {error.message}"))
        self._touched[id] = None
        self._settle(now)

    def disconnected(self, id: LinkId, now: float) -> None:
        """A connection is gone."""
        self.now = now
        link = self.links.pop(id, None)
        if link is None:
            return
        link.stage = Stage.CLOSED
        for address in [address for address, known in self._by_address.items() if known == id]:
            del self._by_address[address]
            self.unreachable(address, now)
        for peer in [peer for peer, known in self._routes.items() if known == id]:
            del self._routes[peer]
            if not link.goodbye:
                self._lose(peer, now)
        self._settle(now)

    # --- time and output ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When to tick."""
        return min(self._next_check, *[peer.next_deadline() for peer in self.peers.values()])

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        for peer in list(self.peers.values()):
            if peer.next_deadline() <= now:
                peer.tick(now)
                self._pump(peer, now)
        if now >= self._next_check:
            self._next_check = now + 1.0
            self._check_links(now)
        self._settle(now)

    def leave(self, now: float) -> None:
        """All peers say goodbye, and so do the links."""
        for peer in list(self.peers.values()):
            self.remove(peer, now)
        for id, link in self.links.items():
            link.close(Code.BYE)
            self._touched[id] = None

    def take_dials(self) -> list[Dial]:
        """Connections to open."""
        taken, self._dials = self._dials, []
        return taken

    def take_touched(self) -> dict[LinkId, None]:
        """Links with something to write."""
        taken, self._touched = self._touched, {}
        return taken

    def take_cuts(self) -> list[LinkId]:
        """Links to close once what they have is written."""
        taken, self._cuts = self._cuts, []
        return taken

    # --- what comes ---------------------------------------------------------------------------------------------------

    def _met(self, id: LinkId, link: Link, meeting: Meeting, now: float) -> None:
        link.met_after_s = now - link.made_at
        self._by_address.setdefault(link.address, id)
        self.nodes.pop(link.address, None)
        self.nodes[link.address] = link.node
        if len(self.nodes) > BOOK_MAX:
            del self.nodes[next(iter(self.nodes))]
        for address in {link.address, *[known for known, other in self._by_address.items() if other == id]}:
            waiting = self._dialling.pop(address, [])
            senders = iter(self._senders.pop(address, []))
            for send in waiting:
                if send is not None:
                    self._say(id, next(senders), send)
        for profile in meeting.profiles:
            self._note(profile)
        for peer in list(self.peers.values()):
            peer.join(meeting.profiles, now)
            self._pump(peer, now)

    def _heard(self, id: LinkId, link: Link, frames: list[Frame], now: float) -> None:
        spoken: dict[PeerId, Peer] = {}
        routes, peers = self._routes, self.peers
        events: list[Forward] = []
        for frame in frames:
            if isinstance(frame, Forward):
                events.append(frame)
                continue
            if events:
                self._heard_events(link, events, now, spoken)
                events = []
            if isinstance(frame, LinkPair):
                link.sender, link.receiver = frame.sender, frame.receiver
                if routes.setdefault(link.sender, id) != id:
                    self._claim(id, link, link.sender)
                continue
            if isinstance(frame, Close):
                link.goodbye = frame.code == Code.BYE
                break
            peer = peers.get(link.receiver)
            if peer is None:
                self.counts["gone"] += 1  # it was one of ours, and is no more; who asks hears nothing, and knows then
                continue
            if isinstance(frame, PeerFrame) and not isinstance(frame, Happening):
                self._note_all(frame)
                peer.receive(link.sender, frame, now)
            else:
                raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} between peers")
            spoken[peer.id] = peer
        if events:
            self._heard_events(link, events, now, spoken)
        last = peers.get(link.receiver)
        if last is not None:
            last.alive(link.sender, now)
        for peer in spoken.values():
            self._pump(peer, now)

    def _heard_events(self, link: Link, frames: list[Forward], now: float, spoken: dict[PeerId, Peer]) -> None:
        """Events for one of ours, in their order."""
        peer = self.peers.get(link.receiver)
        if peer is None:
            if self.telemetry is not None:
                self.telemetry.not_passed_on(frames, self.id, "gone", Came(0, 0, 1, now))
            return
        hearer = self._hearers.get(peer.id)
        for run in runs_of(frames):
            if peer.id in spoken:
                self._pump(spoken.pop(peer.id), now)  # what came before is handed on before
            if hearer is None or not self._takes(link, peer, hearer, run):
                for frame in run:
                    peer.receive(link.sender, event_of(frame), now)
                spoken[peer.id] = peer

    def _takes(self, link: Link, peer: Peer, hearer: Hearer, run: list[Forward]) -> bool:
        """The short way: events from a parent that are for one of ours, and for nobody else."""
        dz = plain_dz(run[0])
        if dz is None:
            return False
        latest_s = max([frame.delay_us for frame in run]) / 1_000_000
        arrived = peer.arrive(link.sender, run[0].publisher, [frame.sequence for frame in run], dz, latest_s)
        if arrived is None:
            return False
        link_s, new = arrived
        link_us = int(link_s * 1_000_000)
        hearer(run if new is None else list(compress(run, new)), link_us)
        if new is not None and self.telemetry is not None:
            known = [frame for frame, is_new in zip(run, new, strict=True) if not is_new]
            self.telemetry.dropped_copies(known, "duplicate", Came(0, link_us, hops_of(run[0]), self.now))
        return True

    def _claim(self, id: LinkId, link: Link, sender: PeerId) -> None:
        """A peer is heard over another link than before: of the same process, or it is somebody else's."""
        other = self.links.get(self._routes[sender])
        if sender in self.peers or (other is not None and other.node != link.node):
            raise FrameError(FrameFault.FIELD, "a peer that lives elsewhere")
        if other is None:
            self._routes[sender] = id

    def _note_all(self, frame: PeerFrame) -> None:
        for name in ("profiles", "adverts", "hints"):
            for profile in getattr(frame, name, ()):
                self._note(profile)
        profile = getattr(frame, "profile", None)
        if profile is not None:
            self._note(profile)

    def _note(self, profile: Profile) -> None:
        if profile.address and profile.peer not in self.peers:
            self._book.pop(profile.peer, None)
            self._book[profile.peer] = profile.address
            if len(self._book) > BOOK_MAX:
                del self._book[next(iter(self._book))]

    # --- what goes ----------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """Peers of one process hear each other at once; each in turn, until all is said."""
        near = self._near
        while near:
            sender, receiver, frame = near.popleft()
            peer = self.peers.get(receiver)
            if peer is not None:
                peer.receive(sender, frame, now)
                self._pump(peer, now)

    def _pump(self, peer: Peer, now: float) -> None:
        consumer = self._consumers.get(peer.id)
        last: Happening | None = None
        event: bytes | None = None
        for output in peer.take_output():
            if type(output) is not Send:
                assert not isinstance(output, Send), "only Send goes on"
                if consumer is not None:
                    consumer(output)
                continue
            frame = output.frame
            if type(frame) is not Happening:
                self._carry(peer.id, output, now)
                continue
            if frame is not last:
                last, event = frame, None
            event = self._carry(peer.id, output, now, event)

    def _carry(self, sender: PeerId, send: Send, now: float, event: bytes | None = None) -> bytes | None:
        """Bring a frame to its peer; the bytes of an event, for the next one that it is for."""
        to = send.to
        if to in self.peers:
            self._near.append((sender, to, send.frame))
            return event
        id = self._routes.get(to)
        if id is None:
            address = self._book.get(to, "") or send.address
            id = self._by_address.get(address)
            if id is None and (not address or address == self.address):
                self._not_brought(send, "unreachable")
                self._lose(to, now, by=sender)
                return event
            if id is None or self.links[id].stage is not Stage.OPEN:
                self._dial(address, send, sender)
                return event
        return self._say(id, sender, send, event)

    def _say(self, id: LinkId, sender: PeerId, send: Send, event: bytes | None = None) -> bytes | None:
        link = self.links[id]
        if link.stage is not Stage.OPEN:
            self.counts["closed"] += 1
            self._not_brought(send, "unreachable", link.node)
            return event
        if link.size > WAITING_BYTES_MAX and type(send.frame) is Happening:
            self.counts["slow_link"] += 1
            self._not_brought(send, "overlay_full", link.node)
            return event
        self._touched[id] = None
        if self.telemetry is not None and type(send.frame) is Happening:
            self.telemetry.passed_on(frames_of(send.frame), link.node, course_of(send.frame, self.now))
        return link.say(sender, send.to, send.frame, event)

    def _dial(self, address: str, send: Send | None, sender: PeerId = 0) -> None:
        waiting = self._dialling.get(address)
        if waiting is None:
            waiting = self._dialling[address] = []
            if address not in self._by_address:
                self._dials.append(Dial(address))
        if len(waiting) < PEERS_MAX:
            waiting.append(send)
            if send is not None:
                self._senders.setdefault(address, []).append(sender)
        elif send is not None:
            self._not_brought(send, "unreachable")

    # --- what is recorded ---------------------------------------------------------------------------------------------

    def _not_brought(self, send: Send, reason: str, neighbour: int = 0) -> None:
        """A frame does not go to where it is for; of events that is recorded."""
        if self.telemetry is not None and type(send.frame) is Happening:
            self.telemetry.not_passed_on(frames_of(send.frame), neighbour, reason, course_of(send.frame, self.now))

    def _dropped(self, event: Happening, reason: str) -> None:
        """One of ours takes no notice of an event."""
        assert self.telemetry is not None, "it is asked to say so only where it is recorded"
        came = course_of(event, self.now, self.origin(event.publisher))
        if reason == "unmatched":
            self.telemetry.heard(frames_of(event), came, 0, 0, reason)
        else:
            self.telemetry.dropped_copies(frames_of(event), reason, came)

    def _lose(self, peer: PeerId, now: float, *, by: PeerId | None = None) -> None:
        """It cannot be reached: by any of ours, or by one."""
        for ours in list(self.peers.values()) if by is None else [self.peers[by]] if by in self.peers else []:
            ours.lost(peer, now)

    def _refuse(self, id: LinkId, refused: LinkRefused) -> None:
        self.counts["refused"] += 1
        self.links[id].close(Code.NOT_ALLOWED, refused.message)
        self._cuts.append(id)

    def _check_links(self, now: float) -> None:
        for id, link in self.links.items():
            limit_s = IDLE_S if link.stage is Stage.OPEN else PROVE_S
            if now - link.used_at > limit_s and link.stage is not Stage.CLOSED:
                link.close(Code.BYE)
                self._touched[id] = None
                self._cuts.append(id)

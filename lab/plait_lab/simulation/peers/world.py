"""Virtual time for peers: one heap of frames in flight and periods to come, in a plane where distance is delay.

Frames are passed as objects, or encoded and encrypted (`links.py`); a property test shows that encoding preserves them.
Frames to a dead peer vanish silently, as when a host dies. Same seed, same run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from plait_core.wire.frame_types.peer_frames import PeerFrame, Profile
from plait_peer import Confirmed, Deliver, Peer, PeerId

from ..history import UNKNOWN, History, Kind, type_number
from .links import EncryptedLinks, ObjectLinks, Parcel, PeerLinks

DELAY_S: Final = 0.005
"""Delay between two peers at one place."""
DIAGONAL_S: Final = 0.1
"""Delay added from one corner of the plane to the opposite one."""

Blocked: TypeAlias = Callable[[PeerId, PeerId], bool]


class PeerWorld:
    """All peers, and the frames in flight between them."""

    def __init__(self, seed: int | str, *, encrypted: bool = False) -> None:
        """`encrypted`: whether links encode and encrypt frames."""
        self.links: PeerLinks = EncryptedLinks(seed) if encrypted else ObjectLinks()
        self.rng = Random(f"peers/{seed}")
        self.now = 0.0
        self.steps = 0
        self.history = History()
        self.peers: dict[PeerId, Peer] = {}
        self.paused: dict[PeerId, list[tuple[PeerId, PeerFrame]]] = {}
        self.blocked: Blocked | None = None
        self.loss = 0.0
        self.refusing: set[PeerId] = set()
        """Dead peers on live hosts: senders get a reset."""
        self.delivered: Callable[[PeerId, Deliver], None] | None = None
        self.confirmed: Callable[[PeerId, Confirmed], None] | None = None
        self.sent: Callable[[PeerId, PeerId, PeerFrame], PeerFrame | None] | None = None
        """A hook that sees each sent frame, and may change or drop it."""
        self._places: dict[PeerId, tuple[float, float]] = {}
        self._heap: list[tuple[float, int, PeerId, PeerId, Parcel | None]] = []
        self._order = 0

    # --- who is there -----------------------------------------------------------------------------------------------

    def add(self, peer: Peer, place: tuple[float, float] | None = None) -> None:
        """Add a peer."""
        assert peer.id not in self.peers, "ids are never used again"
        self.peers[peer.id] = peer
        self.history.add(Kind.STARTED, self.now, peer.id)
        self._places[peer.id] = place or (self.rng.random(), self.rng.random())
        self._push(peer.next_deadline(), peer.id, 0, None)

    def join(self, peer: Peer, contacts: int = 5, place: tuple[float, float] | None = None) -> None:
        """Add a peer that knows a few others."""
        others = list(self.peers.values())
        self.add(peer, place)
        known: list[Profile] = [each.state.profile for each in self.rng.sample(others, min(contacts, len(others)))]
        peer.join(known, self.now)

    def crash(self, peer: PeerId) -> None:
        """Remove a peer silently."""
        del self.peers[peer]
        self.history.add(Kind.STOPPED, self.now, peer)
        self.paused.pop(peer, None)

    def reset(self, one: PeerId, other: PeerId) -> None:
        """Break the connection of two peers: frames in flight are lost, and live ends learn of it."""
        self.history.add(Kind.LINK_DOWN, self.now, one, other)
        self.links.reset(one, other)
        in_flight = {(one, other), (other, one)}
        self._heap = [row for row in self._heap if row[4] is None or (row[3], row[2]) not in in_flight]
        heapq.heapify(self._heap)
        for peer, lost in ((one, other), (other, one)):
            if peer in self.peers and peer not in self.paused:
                self.peers[peer].lost(lost, self.now)
                self.flush(peer)

    def pause(self, peer: PeerId) -> None:
        """Pause a peer; frames for it wait."""
        self.history.add(Kind.PAUSED, self.now, peer)
        self.paused[peer] = []

    def resume(self, peer: PeerId) -> None:
        """Resume a peer with the frames that waited."""
        self.history.add(Kind.RESUMED, self.now, peer)
        for sender, frame in self.paused.pop(peer):
            self.peers[peer].receive(sender, frame, self.now)
        self._push(self.now, peer, 0, None)
        self.flush(peer)

    def delay_s(self, one: PeerId, other: PeerId) -> float:
        """Return the delay of a frame."""
        a, b = self._places[one], self._places[other]
        return DELAY_S + DIAGONAL_S * math.hypot(a[0] - b[0], a[1] - b[1]) / math.sqrt(2)

    # --- time -------------------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Execute everything that is due by a time."""
        heap, peers, paused, links = self._heap, self.peers, self.paused, self.links
        while heap and heap[0][0] <= until:
            now, _, to, sender, parcel = heapq.heappop(heap)
            self.now = now
            peer = peers.get(to)
            if peer is None:
                continue
            frame = None if parcel is None else links.receive(sender, to, parcel)
            if to in paused:
                if frame is not None:
                    paused[to].append((sender, frame))
                continue
            self.steps += 1
            if frame is None and sender:
                peer.lost(sender, now)
            elif frame is not None:
                peer.receive(sender, frame, now)
            elif peer.next_deadline() <= now:
                peer.tick(now)
                self._push(peer.next_deadline(), to, 0, None)
            if peer.state.out:
                self.flush(to)
        self.now = until

    def flush(self, sender: PeerId) -> None:
        """Carry out a peer's outputs."""
        for output in self.peers[sender].take_output():
            if isinstance(output, Deliver):
                event = (output.publisher, output.number, output.hops)
                self.history.add(Kind.RECEIVED, self.now, sender, *event)
                if self.delivered is not None:
                    self.delivered(sender, output)
                continue
            if isinstance(output, Confirmed):
                matched = UNKNOWN if output.matched is None else output.matched
                self.history.add(Kind.SETTLED, self.now, sender, output.number, matched)
                if self.confirmed is not None:
                    self.confirmed(sender, output)
                continue
            to, frame = output.to, output.frame
            if self.sent is not None:
                changed = self.sent(sender, to, frame)
                if changed is None:
                    continue
                frame = changed
            self.send(sender, to, frame)

    def send(self, sender: PeerId, to: PeerId, frame: PeerFrame) -> None:
        """Send a frame, unless it is blocked or lost."""
        self.history.add(Kind.FRAME, self.now, sender, to, type_number(frame))
        if to in self.refusing:
            self._push(self.now + 2 * DELAY_S, sender, to, None)
        if to not in self.peers or (self.blocked is not None and self.blocked(sender, to)):
            return
        if self.loss and self.rng.random() < self.loss:
            return
        self._push(self.now + self.delay_s(sender, to), to, sender, self.links.send(sender, to, frame))

    def publish(self, publisher: PeerId, dz: str, *, number: int = 0, confirm: bool = False) -> int:
        """Publish an event."""
        number = self.peers[publisher].publish(dz, b"", self.now, number=number, confirm=confirm)
        self.history.add(Kind.PUBLISHED, self.now, publisher, number)
        self.flush(publisher)
        return number

    def _push(self, when: float, to: PeerId, sender: PeerId, parcel: Parcel | None) -> None:
        self._order += 1
        heapq.heappush(self._heap, (when, self._order, to, sender, parcel))

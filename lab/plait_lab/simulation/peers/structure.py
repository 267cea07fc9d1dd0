"""The structure of a group, determined from the connections and not from the peers' own view.

A peer has *converged* when it has parents for its whole peer-level subscription. It is *notified* when the events of
all relevant publishers reach it within its bound (2.8.1). A connection counts only if both ends have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plait_peer import Peer, PeerId
from plait_peer.protocol.subspaces import covers, touches

_DEPTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Convergence:
    """The state of the group at one moment."""

    at_s: float
    subscribers: int
    converged: int
    notified: int
    in_degree: float
    """Mean number of parents of a converged peer."""
    twice: int
    """Sub-spaces received from two subscribers."""

    @property
    def converged_share(self) -> float:
        return self.converged / max(1, self.subscribers)

    @property
    def notified_share(self) -> float:
        return self.notified / max(1, self.subscribers)


class Structure:
    """The connections of a group at one moment."""

    def __init__(self, peers: Mapping[PeerId, Peer]) -> None:
        self._peers = peers
        self.publishers = [peer for peer in peers.values() if peer.state.publisher]
        self.subscribers = [peer for peer in peers.values() if not peer.state.publisher]
        self._delays: dict[tuple[PeerId, str, PeerId], float] = {}

    def state(self, now: float) -> Convergence:
        """Return the state in numbers."""
        converged = [peer for peer in self.subscribers if self.converged(peer)]
        notified = sum(self.notified(peer) for peer in converged)
        degrees = sum(len(peer.parents.by_id) for peer in converged)
        twice = sum(self.twice(peer) for peer in self.subscribers)
        mean = degrees / max(1, len(converged))
        return Convergence(now, len(self.subscribers), len(converged), notified, mean, twice)

    def linked(self, upper: PeerId, lower: Peer, dz: str) -> bool:
        """Return whether a connection forwards a sub-space, in the view of both ends."""
        above, parent = self._peers.get(upper), lower.parents.by_id.get(upper)
        if above is None or parent is None or not covers(parent.dz, dz):
            return False
        child = above.children.by_id.get(lower.id)
        return child is not None and covers(child.dz, dz)

    def uppers(self, peer: Peer, dz: str) -> list[PeerId]:
        """Return the subscribers that forward a sub-space to a peer."""
        found = []
        for upper in peer.parents.by_id:
            above = self._peers.get(upper)
            if above is not None and not above.state.publisher and self.linked(upper, peer, dz):
                found.append(upper)
        return found

    def relevant(self, dz: str) -> list[Peer]:
        """Return the publishers that may publish in a sub-space."""
        return [publisher for publisher in self.publishers if touches(publisher.state.dz, dz)]

    def converged(self, peer: Peer) -> bool:
        """Return whether a peer has parents for its whole subscription."""
        return all(self._settled(peer, dz) for dz in peer.dz)

    def _settled(self, peer: Peer, dz: str) -> bool:
        if self.uppers(peer, dz):
            return True
        relevant = self.relevant(dz)
        return bool(relevant) and all(self.linked(publisher.id, peer, dz) for publisher in relevant)

    def notified(self, peer: Peer) -> bool:
        """Return whether all relevant publishers reach a peer in time, for its whole user-level subscription."""
        for dz in peer.state.interest:
            for publisher in self.relevant(dz):
                if self.delay(peer, dz, publisher.id) > peer.state.bound:
                    return False
        return True

    def delay(self, peer: Peer, dz: str, publisher: PeerId) -> float:
        """Return the hops from a publisher to a peer; infinite without a path."""
        hops = 0
        path = []
        while hops < _DEPTH_MAX:
            key = (peer.id, dz, publisher)
            if key in self._delays:
                break
            path.append(key)
            if self.linked(publisher, peer, dz):
                self._delays[key] = 1.0
                path.pop()
                hops += 1
                break
            uppers = self.uppers(peer, dz)
            if not uppers:
                self._delays[key] = float("inf")
                break
            peer = self._peers[uppers[0]]
            hops += 1
        found = self._delays.get(key, float("inf"))
        for step in reversed(path):
            if step != key:
                found += 1.0
            self._delays[step] = found
        return self._delays[path[0]] if path else found

    def twice(self, peer: Peer) -> int:
        """Return the number of sub-spaces that more than one subscriber forwards to a peer."""
        return sum(len(self.uppers(peer, dz)) > 1 for dz in peer.dz)

    def cycles(self) -> list[tuple[PeerId, str]]:
        """Return the peers that are their own ancestors, with the sub-spaces."""
        return [(peer.id, dz) for peer in self.subscribers for dz in peer.dz if self._above_itself(peer, dz)]

    def _above_itself(self, peer: Peer, dz: str) -> bool:
        seen: set[PeerId] = set()
        above = self.uppers(peer, dz)
        while above:
            upper = above[0]
            if upper == peer.id:
                return True
            if upper in seen:
                return False
            seen.add(upper)
            above = self.uppers(self._peers[upper], dz)
        return False

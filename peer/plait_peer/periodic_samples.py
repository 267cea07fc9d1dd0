"""Samples of a process of peers, once a second: links, queues, members and routes.

Links and queues are recorded in each sample, members and routes when they have changed. Other processes are known by
the ids that they announced in their Meeting; a process without a Meeting is no member here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from plait_core.telemetry import PROBED, RETURNED, RecordKind

from .event_records import PeerTelemetry
from .link import Stage
from .node import Node
from .protocol.outputs import PeerId
from .protocol.peer import Peer
from .sdk.session import SdkSession

_US = 1_000_000


class _Measured(NamedTuple):
    """The measurements of a link by the local peers that have a parent at its other end."""

    delay_us: int
    jitter_us: int
    silent: int
    """Parents that have been silent for longer than usual."""


class Sampler:
    """The samples of one process."""

    def __init__(
        self, node: Node, name: str, telemetry: PeerTelemetry, sessions: Callable[[], list[SdkSession]]
    ) -> None:
        self._node = node
        self._telemetry = telemetry
        self._sessions = sessions
        self._members: set[int] = set()
        self._routes: dict[int, int] = {}
        self._lost = 0
        telemetry.name("broker", node.id, name=name)

    def sample(self, now: float, elapsed_s: float, lost: int) -> None:
        """Record one sample. `lost`: telemetry records that were made and not written, so far."""
        self._links(now)
        sessions = self._sessions()
        self._telemetry.state(
            RecordKind.QUEUE,
            sum(session.subscription_count for session in sessions),
            now,
            size=sum(session.size + session.client_bytes for session in sessions),
            expected=sum(session.client_bytes > 0 for session in sessions),
            delay_us=lost - self._lost,
        )
        self._lost = lost
        self._membership(now)
        self._routing(now)
        self._telemetry.adapt(elapsed_s)

    def _links(self, now: float) -> None:
        """Record each link. Without a parent at the other end, its delay is that of the handshake."""
        waiting: dict[int, int] = {}
        measured: dict[int, _Measured] = {}
        for link in self._node.links.values():
            if link.stage is Stage.OPEN:
                waiting[link.node] = waiting.get(link.node, 0) + link.size
                measured[link.node] = _Measured(round(link.round_trip_s / 2 * _US), 0, 0)
        measured |= self._measured(now)
        forwarded_counts = self._telemetry.forwarded_counts
        for node, size in waiting.items():
            delay_us, jitter_us, silent = measured[node]
            self._telemetry.state(
                RecordKind.LINK,
                node,
                now,
                delay_us=delay_us,
                bound_us=jitter_us,
                size=size,
                count=forwarded_counts[node],
                expected=silent,
                flags=PROBED,
            )
        forwarded_counts.clear()

    def _measured(self, now: float) -> dict[int, _Measured]:
        found: dict[int, _Measured] = {}
        for peer in self._node.peers.values():
            for id, parent in peer.parents.by_id.items():
                link = self._node.link_table.find(id)
                if link is None or parent.link_s is None:
                    continue
                silent = int(peer.parents.suspected(id, now))
                known = found.get(link.node)
                if known is not None:
                    found[link.node] = known._replace(silent=known.silent + silent)
                else:
                    found[link.node] = _Measured(round(parent.link_s * _US), round(parent.jitter_s * _US), silent)
        return found

    def _membership(self, now: float) -> None:
        node = self._node
        members = {link.node for link in node.links.values() if link.stage is Stage.OPEN}
        members |= {
            node.link_table.processes[address]
            for address in self._known_addresses()
            if address in node.link_table.processes
        }
        members.discard(node.id)
        for member in sorted(members - self._members):
            self._telemetry.state(RecordKind.MEMBERSHIP, member, now, flags=RETURNED)
        for member in sorted(self._members - members):
            self._telemetry.state(RecordKind.MEMBERSHIP, member, now)
        self._members = members

    def _known_addresses(self) -> set[str]:
        """Return the addresses of all peers that gossip has named."""
        return {
            profile.address
            for peer in self._node.peers.values()
            for seen in (
                peer.sampling.view,
                peer.sampling.adverts,
                peer.candidates.subscribers,
                peer.candidates.publishers,
            )
            for profile, _ in seen.values()
        }

    def _routing(self, now: float) -> None:
        """Record the neighbour through which events of each publisher's process arrive; of several, the one with the
        least delay."""
        found: dict[int, tuple[int, int]] = {}
        for peer in self._node.peers.values():
            for origin, delay_us, neighbour in self._sources(peer):
                if origin not in found or delay_us < found[origin][0]:
                    found[origin] = (delay_us, neighbour)
        for origin, (delay_us, neighbour) in found.items():
            if self._routes.get(origin) != neighbour:
                self._telemetry.state(RecordKind.ROUTING, origin, now, by=neighbour, delay_us=delay_us)
        for origin in self._routes:
            if origin not in found:
                self._telemetry.state(RecordKind.ROUTING, origin, now)
        self._routes = {origin: neighbour for origin, (_, neighbour) in found.items()}

    def _sources(self, peer: Peer) -> list[tuple[int, int, int]]:
        """Return process, delay and last neighbour of each remote publisher that reaches a peer."""
        found = []
        for id, parent in peer.parents.by_id.items():
            link = self._node.link_table.find(id)
            if link is None:
                continue
            sources: dict[PeerId, float] = {id: 0.0} if parent.profile.publisher else parent.sources
            for publisher, delay in sources.items():
                origin = self._node.origin(publisher)
                if origin and origin != self._node.id:
                    found.append((origin, round((delay + peer.parents.link_cost(parent)) * _US), link.node))
        return found

"""What a process of peers records once a second, not with events: links, queues, who is there, which way leads where.

Links and queues are samples; membership and ways are recorded when they have changed. Other processes are known by the
ids that they said when they were met, and who was never met is no member here.
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
from .sdk_session import SdkSession

_US = 1_000_000


class _Measured(NamedTuple):
    """What our peers know of a link by their parents at its other end."""

    delay_us: int
    jitter_us: int
    silent: int
    """Parents from whom nothing has come for longer than usual."""


class Sampler:
    """One process' samples."""

    def __init__(self, node: Node, name: str, telemetry: PeerTelemetry, homes: Callable[[], list[SdkSession]]) -> None:
        self._node = node
        self._telemetry = telemetry
        self._homes = homes
        self._members: set[int] = set()
        self._ways: dict[int, int] = {}
        self._lost = 0
        telemetry.name("broker", node.id, name=name)

    def sample(self, now: float, elapsed_s: float, lost: int) -> None:
        """Record how everything is. `lost`: records that were made, and never written, so far."""
        self._links(now)
        homes = self._homes()
        self._telemetry.state(
            RecordKind.QUEUE,
            sum(home.subscriptions for home in homes),
            now,
            size=sum(home.size + home.client_bytes for home in homes),
            expected=sum(home.client_bytes > 0 for home in homes),
            delay_us=lost - self._lost,
        )
        self._lost = lost
        self._membership(now)
        self._routing(now)
        self._telemetry.adapt(elapsed_s)

    def _links(self, now: float) -> None:
        """A link over which none of ours has a parent is as slow as it was when it was made."""
        waiting: dict[int, int] = {}
        measured: dict[int, _Measured] = {}
        for link in self._node.links.values():
            if link.stage is Stage.OPEN:
                waiting[link.node] = waiting.get(link.node, 0) + link.size
                measured[link.node] = _Measured(round(link.met_after_s / 2 * _US), 0, 0)
        measured |= self._measured(now)
        handed = self._telemetry.handed
        for node, size in waiting.items():
            delay_us, jitter_us, silent = measured[node]
            self._telemetry.state(
                RecordKind.LINK,
                node,
                now,
                delay_us=delay_us,
                bound_us=jitter_us,
                size=size,
                count=handed[node],
                expected=silent,
                flags=PROBED,
            )
        handed.clear()

    def _measured(self, now: float) -> dict[int, _Measured]:
        found: dict[int, _Measured] = {}
        for peer in self._node.peers.values():
            for id, parent in peer.incoming.parents.items():
                link = self._node.link_to(id)
                if link is None or parent.link_s is None:
                    continue
                silent = int(peer.incoming.suspect(id, now))
                known = found.get(link.node)
                if known is not None:
                    found[link.node] = known._replace(silent=known.silent + silent)
                else:
                    found[link.node] = _Measured(round(parent.link_s * _US), round(parent.jitter_s * _US), silent)
        return found

    def _membership(self, now: float) -> None:
        node = self._node
        members = {link.node for link in node.links.values() if link.stage is Stage.OPEN}
        members |= {node.nodes[address] for address in self._heard_of() if address in node.nodes}
        members.discard(node.id)
        for member in sorted(members - self._members):
            self._telemetry.state(RecordKind.MEMBERSHIP, member, now, flags=RETURNED)
        for member in sorted(self._members - members):
            self._telemetry.state(RecordKind.MEMBERSHIP, member, now)
        self._members = members

    def _heard_of(self) -> set[str]:
        """Where those live of whom gossip speaks."""
        return {
            profile.address
            for peer in self._node.peers.values()
            for seen in (peer.sampling.view, peer.sampling.adverts, peer.views.subscribers, peer.views.publishers)
            for profile, _ in seen.values()
        }

    def _routing(self, now: float) -> None:
        """By which neighbour events of a publisher's process come here; the shortest way, if they come by several."""
        found: dict[int, tuple[int, int]] = {}
        for peer in self._node.peers.values():
            for origin, delay_us, neighbour in self._sources(peer):
                if origin not in found or delay_us < found[origin][0]:
                    found[origin] = (delay_us, neighbour)
        for origin, (delay_us, neighbour) in found.items():
            if self._ways.get(origin) != neighbour:
                self._telemetry.state(RecordKind.ROUTING, origin, now, by=neighbour, delay_us=delay_us)
        for origin in self._ways:
            if origin not in found:
                self._telemetry.state(RecordKind.ROUTING, origin, now)
        self._ways = {origin: neighbour for origin, (_, neighbour) in found.items()}

    def _sources(self, peer: Peer) -> list[tuple[int, int, int]]:
        """Of each publisher that gets through to a peer from elsewhere its process, the delay, and the last process
        before this one."""
        found = []
        for id, parent in peer.incoming.parents.items():
            link = self._node.link_to(id)
            if link is None:
                continue
            sources: dict[PeerId, float] = {id: 0.0} if parent.profile.publisher else parent.sources
            for publisher, delay in sources.items():
                origin = self._node.origin(publisher)
                if origin and origin != self._node.id:
                    found.append((origin, round((delay + peer.incoming.link_of(parent)) * _US), link.node))
        return found

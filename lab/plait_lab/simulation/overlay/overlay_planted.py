"""Bugs planted in the overlay, one at a time, to show that its simulator detects them (SCORECARD H1).

Each replaces a method of a production object, with a change as small as a careless edit. `caught` plays a seed with one
of them: a complaint of the oracle or a failed assertion counts as detection.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from plait_broker.clients.connection import Connection
from plait_broker.overlay.dissemination.shortest_paths import ShortestPaths
from plait_broker.overlay.dissemination.strategy import EnvelopeFields
from plait_broker.overlay.documents import DocumentHandler
from plait_broker.overlay.groups.group_root import GroupRoot
from plait_broker.overlay.groups.stream_groups import StreamGroups
from plait_broker.overlay.interest.covering_set import CoveringSet
from plait_broker.overlay.interest.durable_interest import RemoteDurableInterest
from plait_broker.overlay.interest.durable_interest_store import DurableInterestStore
from plait_broker.overlay.interest.install_watch import InstallWatch
from plait_broker.overlay.interest.interest_sync import InterestSync
from plait_broker.overlay.interest.peer_interest import PeerInterest
from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.topology.flooding import Flooding, key_of
from plait_broker.overlay.topology.forwarding_table import ForwardingTable
from plait_broker.overlay.topology.link_monitor import LinkMonitor
from plait_broker.overlay.transport.forwarder import Forwarder
from plait_broker.overlay.transport.lane import Lane
from plait_broker.overlay.transport.reliable_stream import ReceivedEvent, ReceiveStream, SendStream
from plait_core.wire import Destination, EventFrame
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_core.wire.frame_types.group_frames import GroupAck
from plait_core.wire.frame_types.overlay_frames import Advertisement, Document, InterestUpdate, LinkState

from ..one_broker.planted_bugs import Planted
from .random_histories import play_overlay
from .worlds.absences import Absences, Returns
from .worlds.flux import Flux
from .worlds.full_relay import FullRelay
from .worlds.outages import Outages
from .worlds.ring import Ring
from .worlds.slow_disks import SlowDisks

Right = Callable[..., Any]

MANY_CHANGES: Final = 30
"""Revisions of the map after which the planted bug shows."""


def _all_in_every_copy(right: Right) -> Right:
    def disseminate(
        self: Forwarder, strategy: ShortestPaths, envelope: EnvelopeFields, to: Sequence[Destination], now: float
    ) -> Sequence[Destination]:
        _, _, tree, _, _, path = envelope
        hops = [strategy.next_hop(destination[0], path) for destination in to]
        for neighbour in dict.fromkeys(hop for hop in hops if hop is not None):
            self._send(neighbour, envelope, tree, to, now)
        return ()

    return disseminate


def _anyone_will_do(right: Right) -> Right:
    def feasible(self: ForwardingTable, to: int) -> list[Any]:
        found = [(one, round(one.delay_us)) for one in self._neighbours.values() if self._map.reaches(one.id, to)]
        return sorted(found, key=lambda one: (one[1], one[0].id))

    return feasible


def _who_cares_who_passed(right: Right) -> Right:
    return lambda self, to, passed=(): right(self, to)


def _whatever_it_covered(right: Right) -> Right:
    return lambda self, number: ([], right(self, number)[1])


def _as_last_time(kind: type[Document]) -> Callable[[Right], Right]:
    def patch(right: Right) -> Right:
        def originate(self: Flooding, document: Document) -> None:
            known = self.stored(key_of(envelop_document(document)))
            if isinstance(document, kind) and known is not None:
                document = replace(document, version=known.signed.version)
            right(self, document)

        return originate

    return patch


def _keep_what_was_offered(right: Right) -> Right:
    return lambda self, offer: right(self, offer) if offer.filter else None


def _charge_of_all_that_came(right: Right) -> Right:
    def receive(self: ReceiveStream, arrival: ReceivedEvent, now: float) -> list[ReceivedEvent]:
        ready: list[ReceivedEvent] = right(self, arrival, now)
        for one in ready:
            self.acknowledge(one.position, now)
        return ready

    return receive


def _nothing_is_missing(right: Right) -> Right:
    return lambda self: ()


def _never(right: Right) -> Right:
    def due(self: SendStream, now: float, path_s: float) -> list[int]:
        right(self, now, path_s)
        return []

    return due


def _first_come_first_out(right: Right) -> Right:
    def receive(self: ReceiveStream, arrival: ReceivedEvent, now: float) -> list[ReceivedEvent]:
        known = arrival.position in self._early
        ready: list[ReceivedEvent] = right(self, arrival, now)
        early = arrival.position in self._early and not known
        return [arrival] if early or arrival in ready else []

    return receive


def _once_more(right: Right) -> Right:
    def receive(self: ReceiveStream, arrival: ReceivedEvent, now: float) -> list[ReceivedEvent]:
        if self.expected is not None and arrival.position < self.expected:
            return [arrival]
        found: list[ReceivedEvent] = right(self, arrival, now)
        return found

    return receive


def _installed_when_told(right: Right) -> Right:
    return lambda self, keys, by: None


def _nothing(right: Right) -> Right:
    return lambda self, root: None


def _recall_nothing(right: Right) -> Right:
    return lambda self, documents: 0


def _nobody(right: Right) -> Right:
    return lambda self, frame: []


def _nobody_once_a_link_is_gone(right: Right) -> Right:
    def link_down(self: Overlay, broker: int, now: float, reason: str = "") -> None:
        right(self, broker, now, reason)
        for home in list(self.remote_interest.homes):
            self.remote_interest.gone(home)

    return link_down


def _one_in_a_few_misses_one(right: Right) -> Right:
    def destinations(self: Overlay, frame: EventFrame, *how: Any) -> list[int]:
        homes: list[int] = right(self, frame, *how)
        return homes[1:] if self.map.revision > MANY_CHANGES and frame.sequence % 5 == 0 else homes

    return destinations


def _delays_are_as_they_were(right: Right) -> Right:
    def learn(self: DocumentHandler, link_state: LinkState, now: float) -> None:
        state = self._state
        known = state.map.known.get(link_state.origin)
        if known is None or link_state.origin == state.me or known.neighbours != link_state.neighbours:
            right(self, link_state, now)

    return learn


def _last_first(right: Right) -> Right:
    def take_updates(
        self: InterestSync, now: float, distance_us: Callable[[int], int | None], *, hold: bool
    ) -> list[InterestUpdate]:
        updates: list[InterestUpdate] = right(self, now, distance_us, hold=hold)
        return updates[::-1]

    return take_updates


def _in_its_own_time(right: Right) -> Right:
    return lambda self, now: None


def _blank_peer(right: Right) -> Right:
    return lambda self, root: PeerInterest()


def _behind_the_lane(right: Right) -> Right:
    waiting: dict[Connection, list[bytes]] = {}

    def queue(self: Connection, data: bytes, *, behind: bool = False) -> None:
        if self.neighbour and self.lane.queue:
            waiting.setdefault(self, []).append(data)
            return
        for earlier in waiting.pop(self, ()):
            right(self, earlier)
        right(self, data, behind=behind)

    return queue


def _in_flight_for_ever(right: Right) -> Right:
    in_flight: dict[tuple[LinkMonitor, int], Lane] = {}

    def up(self: LinkMonitor, link: int, broker: int, name: str, now: float, delay_us: int = 0) -> Any:
        linked = right(self, link, broker, name, now, delay_us)
        if linked:
            lane = self._state.neighbours[broker].lane
            before = in_flight.get((self, broker))
            lane.in_flight = before.in_flight if before is not None else 0
            in_flight[self, broker] = lane
        return linked

    return up


def _forget_without_a_trace(right: Right) -> Right:
    def forget(self: Flooding, origin: int, **how: Any) -> Any:
        gone = right(self, origin, **how)
        self._forgotten.clear()
        return gone

    return forget


def _sets_as_they_were(right: Right) -> Right:
    def open(self: StreamGroups, now: float) -> None:
        before = dict(self._sets._kept)
        right(self, now)
        if self.root is not None:
            everyone = self.root.tree.everyone
            kept = {homes: (members & everyone, others) for homes, (members, others) in before.items()}
            self._sets._kept.update(kept)

    return open


def _all_below_have_it(right: Right) -> Right:
    def receive_ack(self: GroupRoot, child: int, ack: GroupAck, now: float) -> list[tuple[int, int]]:
        news: list[tuple[int, int]] = right(self, child, ack, now)
        subtree = self.links[child].subtree if child in self.links else None
        for index in range(subtree.start, subtree.start + subtree.size) if subtree is not None and news else ():
            self._acked[index] = max(self._acked[index], ack.up_to)
        self.settle()
        return news

    return receive_ack


PLANTED: Final[dict[str, Planted]] = {
    "forget_the_partition": Planted(Forwarder, "disseminate", _all_in_every_copy, "calm"),
    "infeasible_neighbour": Planted(ForwardingTable, "feasible", _anyone_will_do, "calm"),
    "ignore_who_passed": Planted(ForwardingTable, "next_hop", _who_cares_who_passed, "flux"),
    "skip_uncovering": Planted(CoveringSet, "remove", _whatever_it_covered),
    "reuse_a_sheets_version": Planted(Flooding, "originate", _as_last_time(LinkState)),
    "reuse_an_offers_version": Planted(Flooding, "originate", _as_last_time(Advertisement)),
    "lose_a_withdrawal": Planted(DocumentHandler, "_learn_advertisement", _keep_what_was_offered),
    "acknowledge_before_taken": Planted(ReceiveStream, "receive", _charge_of_all_that_came, "slow disks"),
    "ask_for_nothing_missing": Planted(ReceiveStream, "_missing", _nothing_is_missing, "ring"),
    "never_send_again": Planted(SendStream, "due", _never),
    "hand_out_what_came_early": Planted(ReceiveStream, "receive", _first_come_first_out),
    "take_repeats": Planted(ReceiveStream, "receive", _once_more),
    "installed_when_told": Planted(InstallWatch, "count", _installed_when_told),
    "trust_who_was_away": Planted(InterestSync, "back", _nothing, "absences"),
    "forget_what_was_told": Planted(InterestSync, "_open_peer", _blank_peer, "absences"),
    "remember_nothing": Planted(DurableInterestStore, "recall", _recall_nothing, "outages"),
    "forget_who_is_away": Planted(RemoteDurableInterest, "match", _nobody, "outages"),
    "forget_interest_with_a_link": Planted(Overlay, "link_down", _nobody_once_a_link_is_gone),
    "forget_one_now_and_then": Planted(Overlay, "destinations", _one_in_a_few_misses_one),
    "ignore_new_delays": Planted(DocumentHandler, "_learn_link_state", _delays_are_as_they_were),
    "tell_the_last_first": Planted(InterestSync, "take_updates", _last_first),
    "tell_in_its_own_time": Planted(InterestSync, "retransmit_soon", _in_its_own_time, "full relay"),
    "control_behind_data": Planted(Connection, "_queue", _behind_the_lane, "calm"),
    "credit_leaked_on_reconnect": Planted(LinkMonitor, "up", _in_flight_for_ever),
    "members_of_the_group_before": Planted(StreamGroups, "_open", _sets_as_they_were),
    "ack_for_members_behind": Planted(GroupRoot, "receive_ack", _all_below_have_it),
    "forget_without_a_trace": Planted(Flooding, "forget", _forget_without_a_trace, "returns"),
}
"""Every bug, by name."""

SCENARIOS: Final[dict[str, Callable[[int], list[str]]]] = {
    "any": lambda seed: play_overlay(seed).complaints,
    "calm": lambda seed: play_overlay(seed, faults=False).complaints,
    "outages": lambda seed: Outages(seed).play(),
    "slow disks": lambda seed: SlowDisks(seed).play(),
    "full relay": lambda seed: FullRelay(seed).play(),
    "ring": lambda seed: Ring(seed).play(),
    "flux": lambda seed: Flux(seed).play(),
    "absences": lambda seed: Absences(seed).play(),
    "returns": lambda seed: Returns(seed).play(),
}
"""Histories in which bugs show. Calm has no faults: then no link may carry an event twice."""


def caught(bug: str, seed: int) -> str:
    """Play a seed with a bug and return the first complaint, or an empty text."""
    with PLANTED[bug].plant():
        try:
            complaints = SCENARIOS[PLANTED[bug].scenario](seed)
        except AssertionError as error:
            return f"assertion: {error}"
    return complaints[0] if complaints else ""


def search(bug: str, seeds: int) -> tuple[int, str] | None:
    """Return the first seed that detects a bug, with its complaint."""
    return next(((seed, found) for seed in range(seeds) if (found := caught(bug, seed))), None)


if __name__ == "__main__":
    for name in sys.argv[1:] or PLANTED:
        print(f"{name:28} {search(name, 1000)}", flush=True)

"""The oracle of a simulated overlay: what clients must receive, and what all brokers must know at the end.

I1  An event that is owed to a subscription is delivered.
I2  Nothing is delivered twice.
I3  No honest broker is expelled, and no frame of one is malformed.
I4  Nothing is delivered that does not match.
I5  No event visits a broker twice.
I6  A publisher's events are delivered in its order.
I7  Soon after a change, all tables equal a fresh build.
I8  A confirmation keeps its promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from plait_broker.drop_reasons import DropReason
from plait_broker.overlay import Overlay
from plait_broker.overlay.outputs import CloseLink, Lost, Output, SendFrame
from plait_core.events import EventId
from plait_core.filters import Filter
from plait_core.wire import Confirm, Deliver, Delivery, Forward, Frame, Ping, Pong
from plait_core.wire.frame_types.session_frames import DURABLE, Code

from ..timeline import Timeline
from .broker_node import OverlayNode
from .frame_client import FrameClient, FrameSubscription, PublishedEvent
from .ground_truth import GroundTruth
from .network import Link, OverlayNetwork

OVERTAKEN_S: Final = 1.0
"""Time for which events that match a replaced filter may still arrive."""

INFERRED_S: Final = 4.0
"""Time in which other brokers send their interest in an inferred advertisement, over slow links."""

OVERSHOOT: Final = 3
PONG_S: Final = 0.2
"""A ping may take this multiple of its link's delay, and this much more: a lane's window doubles, once in some tens of
milliseconds, until a queue of a round trip shows that it is too large."""

SILENT: Final = ("is silent", "has acknowledged no event")
"""Parts of the reasons for which a broker closes a link that seems dead."""

MUTE_S: Final = 16.0
"""Time after a fault in which brokers may still close a link because of it."""


class DeliveryOracle:
    """Checks what clients receive."""

    def __init__(
        self, timeline: Timeline, truth: GroundTruth, clients: Sequence[FrameClient], complain: Callable[[str], None]
    ) -> None:
        self.due = 0
        """Number of owed deliveries."""
        self.is_dropped: Callable[[PublishedEvent, FrameSubscription], bool] = lambda event, subscription: False
        """Whether a broker has counted an event for a subscription as dropped."""
        self._timeline = timeline
        self._truth = truth
        self._clients = clients
        self._complain = complain
        self._outstanding: list[PublishedEvent] = []

    def published(self, event: PublishedEvent) -> None:
        """Compute which subscriptions are owed an event.

        One without an advertisement waits until other brokers know the advertisement that its broker infers. A broker
        that cannot be reached meanwhile keeps it waiting for a while only.
        """
        attributes, root = event.attributes, event.client.node
        own = event.client.advertisements.values()
        advertisements = [one for one in own if one.installed and one.filter.matches(attributes)]
        event.advertised = bool(advertisements)
        for client in self._clients:
            for subscription in client.subscriptions.values():
                if (
                    subscription.installed
                    and subscription.filter.matches(attributes)
                    and self._truth.owes(root, advertisements, subscription)
                ):
                    event.owed.append(subscription)
        self.due += len(event.owed)
        if event.owed:
            self._outstanding.append(event)

    def delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        """Check a delivery."""
        id, name = frame.id, subscription.client.name
        count = subscription.received[id] = subscription.received.get(id, 0) + 1
        if not self._matches(subscription, frame):
            self._complain(f"I4: {name} got {id}, which does not match {subscription.filter.text}")
        path = frame.path
        if len(path) != len(set(path)):
            self._complain(f"I5: {name} got {id} by way of {path}")
        if count > 1 and not delivery[1] & DURABLE:
            self._complain(f"I2: {name} got {id} again")
        latest = subscription.latest.get(id.publisher, 0)
        if id.sequence <= latest and not delivery[1] & DURABLE:
            self._complain(f"I6: {name} got {id} after {latest}")
        subscription.latest[id.publisher] = max(id.sequence, latest)

    def confirmed(self, event: PublishedEvent) -> None:
        """Check a receipt: of the level SUBSCRIBERS, all have the event."""
        if event.confirm is Confirm.SUBSCRIBERS:
            for subscription in self._undelivered(event):
                self._complain(f"I8: {event.id} is confirmed; {subscription.client.name} has not got it")

    @property
    def outstanding(self) -> bool:
        """Whether owed events have not been delivered yet."""
        self._outstanding = [event for event in self._outstanding if self._missing(event)]
        return bool(self._outstanding)

    def judge(self) -> None:
        """Check I1: complain of every owed event that was not delivered."""
        for event in self._outstanding:
            for subscription in self._missing(event):
                root, name = event.client.node, subscription.client.name
                confirmed = ", and confirmed" if event.confirmed else ""
                self._complain(
                    f"I1: {name} never got {event.id} of {root.name}, published at {event.at:.3f}{confirmed}"
                )

    def _missing(self, event: PublishedEvent) -> list[FrameSubscription]:
        """Return the subscriptions that are owed an event and have not got it, although no broker has dropped it."""
        return [one for one in self._undelivered(event) if not self.is_dropped(event, one)]

    def _undelivered(self, event: PublishedEvent) -> list[FrameSubscription]:
        """Return the subscriptions that are owed an event and have not got it."""
        root = event.client.node
        if root.lives != event.life and not event.confirmed:  # its broker may have died with it
            return []
        return [
            one
            for one in event.owed
            if event.id not in one.received
            and not one.ended
            and one.filter.matches(event.attributes)
            and all(filter.matches(event.attributes) for at, filter in one.filters if at >= event.at)
            and not (not event.advertised and self._truth.changed_within(event.at, INFERRED_S))
            and not (not one.durable and self._truth.may_have_forgotten(root, one.client.node, event.at))
        ]

    def _matches(self, subscription: FrameSubscription, frame: Deliver) -> bool:
        attributes = frame.attributes()
        if subscription.filter.matches(attributes):
            return True
        oldest = self._timeline.now - OVERTAKEN_S
        return any(at >= oldest and filter.matches(attributes) for at, filter in subscription.filters)


class CopyOracle:
    """Checks without any fault that no link carries an event twice for one destination."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._carried: set[tuple[int, int, int, int, int]] = set()

    def see(self, link: Link, sender: OverlayNode, copy: Forward) -> None:
        """Check a copy of an event."""
        for broker, _, _ in copy.destinations:
            key = (*copy.id, broker, link.number, sender.number)
            if key in self._carried:
                self._complain(f"wire: {copy.id} went twice from {sender.name} for one destination")
            self._carried.add(key)


class LinkOracle:
    """Checks links with a bandwidth.

    - No link is declared dead, nor closed as mute, because it is full.
    - Control frames overtake events, so a ping is answered soon.
    - Each event that is given up for a destination is counted under a reason.
    """

    def __init__(
        self, timeline: Timeline, nodes: Sequence[OverlayNode], complain: Callable[[str], None], *, faults: bool
    ) -> None:
        """Create it before the brokers start. `faults`: answers to pings are not checked, since buffers fill while a
        link is silent, and events take source routes."""
        self.pongs = 0
        """Answers to pings whose time was checked."""
        self.drops: Counter[str] = Counter()
        """Events that brokers have given up for a destination, by reason."""
        self._timeline = timeline
        self._nodes = nodes
        self._complain = complain
        self._faults = faults
        self._pings: dict[int, tuple[float, OverlayNode]] = {}
        """Unanswered pings."""
        self._dropped: set[tuple[EventId, int]] = set()
        """Events that were given up, with their destinations."""
        self._lost: Counter[tuple[OverlayNode, int, str]] = Counter()
        """How many, by broker, its life, and reason."""
        for node in nodes:
            node.on_output.append(self._see_output)

    def is_dropped(self, event: PublishedEvent, subscription: FrameSubscription) -> bool:
        """Return whether a broker has counted an event as dropped: its publisher's, or the home broker at which it
        expired."""
        home = subscription.client.node
        if home.broker is None:
            return False
        if (event.id, home.overlay.me) in self._dropped:
            return True
        return bool(event.lifetime_us) and home.broker.counters.dropped[DropReason.EXPIRED] > 0

    def judge(self) -> None:
        """Check that all drops are counted."""
        for (node, life, reason), lost in self._lost.items():
            if node.broker is not None and node.lives == life:
                counted = node.broker.counters.dropped[DropReason(reason)]
                if counted < lost:
                    self._complain(f"drops: {node.name} has given up {lost} events and counts {counted}: {reason}")

    def see_pong(self, link: Link, node: OverlayNode, frame: Frame) -> None:
        """Check when a broker answers a ping."""
        assert isinstance(frame, Pong)
        at, pinger = self._pings.pop(frame.nonce, (-inf, node))
        if pinger is node or self._faults:
            return
        self.pongs += 1
        took_s = self._timeline.now - at
        if took_s > OVERSHOOT * link.delay_s + link.control_wait_s + PONG_S:
            self._complain(f"control: a ping from {pinger.name} was answered by {node.name} after {took_s:.3f} s")

    def _see_output(self, node: OverlayNode, output: Output) -> None:
        if isinstance(output, SendFrame) and isinstance(output.frame, Ping):
            self._pings[output.frame.nonce] = self._timeline.now, node
        elif isinstance(output, Lost):
            self.drops[output.reason] += 1
            self._lost[node, node.lives, output.reason] += 1
            self._dropped.add((output.frame.id, output.destination))
        elif isinstance(output, CloseLink):
            self._see_close(node, output)

    def _see_close(self, node: OverlayNode, output: CloseLink) -> None:
        connection = node.connections.get(output.link)
        if connection is None:
            return
        link, now = connection.link, self._timeline.now
        changed_at = max(link.changed_at, *(end.changed_at for end in link.ends if isinstance(end, OverlayNode)))
        silent = not link.sound or now - changed_at < MUTE_S or not all(end.listens for end in link.ends)
        if not silent and any(text in output.reason for text in SILENT):
            self._complain(f"link: {node.name} closes a sound link: {output.reason}")


class TableOracle:
    """Checks what brokers know, against what their clients have asked for."""

    def __init__(
        self,
        nodes: Sequence[OverlayNode],
        clients: Sequence[FrameClient],
        network: OverlayNetwork,
        complain: Callable[[str], None],
        *,
        inferred: bool = False,
    ) -> None:
        """`inferred`: brokers also know advertisements that other brokers have inferred from events."""
        self._nodes = nodes
        self._inferred = inferred
        self._network = network
        self._complain = complain
        self._interest = {node: [client for client in clients if client.node is node] for node in nodes}

    def judge(self) -> None:
        """Check I2, I3, and I7: all maps are complete, and all know each other's advertisements and interest."""
        alive = {node.overlay.me: node for node in self._nodes}
        links = {frozenset(end.number for end in link.ends) for link in self._network.links}
        for node in self._nodes:
            self._judge_counters(node)
            overlay = node.overlay
            known = set(overlay.map.distances(overlay.me))
            if known != set(alive):
                self._complain(f"I7: {node.name} reaches {len(known)} of {len(alive)} brokers")
                continue
            drawn = {
                frozenset((alive[state.origin].number, alive[other].number))
                for state in overlay.map.link_states
                if state.origin in alive
                for other in state.neighbours
                if other in alive
            }
            if drawn != links:
                self._complain(f"I7: {node.name}'s map has {len(drawn)} links of {len(links)}")
            self.judge_knowledge(node, alive)
        for one in self._interest.values():
            for client in one:
                if not client.ready:
                    self._complain(f"I7: {client.name} waits for answers")

    def judge_knowledge(self, node: OverlayNode, others: Mapping[int, OverlayNode]) -> None:
        """Check I7: a broker knows the advertisements and the interest of others, given by their ids."""
        self._judge_advertisements(node, node.overlay, others)
        self._judge_interest(node, node.overlay, others)

    @property
    def delays_agree(self) -> bool:
        """Whether all maps have the same delays, by which brokers choose paths."""
        maps = set()
        for node in self._nodes:
            overlay = node.overlay
            alive = overlay.map.distances(overlay.me)
            known = (one for one in overlay.map.link_states if one.origin in alive)
            maps.add(frozenset((one.origin, one.version, one.delays_us) for one in known))
        return len(maps) == 1

    def _judge_counters(self, node: OverlayNode) -> None:
        assert node.broker is not None, "all brokers run"
        faults = node.broker.counters.faults
        for code in (Code.FORGED, Code.FLOOD):
            if faults[code]:
                self._complain(f"I3: {node.name} has expelled {faults[code]} honest brokers: {code}")
        duplicates = node.broker.counters.dropped[DropReason.DUPLICATE]
        if duplicates and node.disk is None:  # a log gets its predecessor's events, of which it may have some
            self._complain(f"I2: the streams of {node.name} have handed on {duplicates} events twice")
        for fault, count in faults.items():
            if fault not in (Code.FORGED, Code.FLOOD):
                self._complain(f"I3: {node.name} counts {count} faults of honest peers: {fault}")

    def _judge_advertisements(self, node: OverlayNode, overlay: Overlay, alive: Mapping[int, OverlayNode]) -> None:
        known = sorted(
            (origin, filter.text) for (origin, _), filter in overlay.remote_advertisements.items() if origin in alive
        )
        right = sorted(
            (me, one.filter.text)
            for me, other in alive.items()
            if other is not node
            for client in self._interest[other]
            for one in client.advertisements.values()
        )
        wrong = Counter(right) - Counter(known) if self._inferred else known != right
        if wrong:
            self._complain(f"I7: {node.name} knows {len(known)} advertisements of {len(right)}")

    def _judge_interest(self, node: OverlayNode, overlay: Overlay, alive: Mapping[int, OverlayNode]) -> None:
        own = [one.filter for client in self._interest[node] for one in client.advertisements.values()]
        for me, other in alive.items():
            if other is node:
                continue
            known = {filter for _, filter in overlay.remote_interest.filters(me)}
            right = {one.filter for client in self._interest[other] for one in client.subscriptions.values()}
            for filter in right:
                if _meets(own, filter) and not any(one.covers(filter) for one in known):
                    self._complain(f"I7: {node.name} does not know that {other.name} subscribes to {filter.text}")
            for filter in known - right:
                self._complain(f"I7: {node.name} believes that {other.name} subscribes to {filter.text}")


def _meets(advertisements: list[Filter], filter: Filter) -> bool:
    return any(one.intersects(filter) for one in advertisements)

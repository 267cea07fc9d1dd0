"""Stream groups of a few brokers without the rest of their overlays: frames wait on links until a test carries them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import TypeAlias, TypeVar

from copies import publish

from plait_broker.overlay.groups.group_root import GAP_S
from plait_broker.overlay.groups.group_tree import GroupTree
from plait_broker.overlay.groups.stream_groups import StreamGroups
from plait_broker.overlay.outputs import Output, RelayFrame, SendBatch, SendFrame
from plait_broker.overlay.security.identity import Identity
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology.link_state import LinkStateDatabase
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.overlay.transport.neighbour_sender import NeighbourSender
from plait_broker.overlay.transport.own_streams import OwnStreams
from plait_broker.overlay.transport.reliable_stream import ReceivedEvent, Unacked
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupFrame, GroupOpen, GroupRepair
from plait_core.wire.frame_types.overlay_frames import LinkState

_T = TypeVar("_T")

Carried: TypeAlias = tuple[int, int, GroupFrame]
"""A frame on a link: from, to, frame."""

CHAIN = GroupTree((1, 2, 3), (3, 2, 1), (1, 1, 2))
"""A root, a broker below it, and one below that."""

FORK = GroupTree((1, 2, 3, 4, 5), (5, 3, 1, 1, 1), (1, 1, 2, 2, 1))
"""A root with the children 2 and 5; 3 and 4 are below 2."""


def unacked(sequence: int = 1, *, flags: int = 0, payload: bytes = b"", at: float = 0.0) -> Unacked:
    """Return an event as its root keeps it. `at`: when it was published."""
    return publish(sequence, payload=payload), flags, 0, at, None


def identities(count: int) -> list[Identity]:
    """Return the keys of so many brokers."""
    return [Identity(Random(f"group/{seed}")) for seed in range(count)]


def acquainted(keys: Sequence[Identity]) -> list[MessageAuth]:
    """Return the authentication of brokers that know each other's public keys."""
    all_auth = [MessageAuth(each.id, each) for each in keys]
    for auth in all_auth:
        link_state = LinkState(auth.me, 1, "b", (), ())
        signed = auth.envelop(link_state)
        known = LinkState(auth.me, 1, "b", (), (), public_keys=keys[all_auth.index(auth)].public_keys)
        for other in all_auth:
            assert other is auth or other.check(signed, known)
    return all_auth


class GroupBroker:
    """The stream groups of one broker, with what they put out."""

    def __init__(self, auth: MessageAuth, map: LinkStateDatabase, destinations_max: int) -> None:
        self.id = auth.me
        self.auth = auth
        self.outputs: list[Output] = []
        self.counts: Counter[str] = Counter()
        self.neighbours: dict[int, Neighbour] = {}
        self.streams = OwnStreams()
        sender = NeighbourSender(self.neighbours, self.outputs, self.counts)
        self.groups = StreamGroups(auth.me, destinations_max, map, auth, self.streams, sender)
        self.events: list[ReceivedEvent] = []
        """The events that were delivered so far."""
        self.others: list[Output] = []
        """All other outputs that are no frames."""

    def link_up(self, broker: int) -> None:
        """Add a link. Its id is the id of the neighbour."""
        self.neighbours[broker] = Neighbour(broker, f"b{broker}", broker, 0.0)

    def take(self) -> list[Carried]:
        """Return the frames that were sent since the last call, and keep the other outputs."""
        frames: list[Carried] = []
        for output in self.outputs:
            match output:
                case SendFrame(link, frame) | RelayFrame(link, frame):
                    assert isinstance(frame, GroupOpen | GroupAck | GroupRepair)
                    frames.append((self.id, link, frame))
                case SendBatch(link, batch):
                    frames.append((self.id, link, batch))
                case ReceivedEvent():
                    self.events.append(output)
                case _:
                    self.others.append(output)
        self.outputs.clear()
        return frames

    def receive(self, sender: int, frame: GroupFrame, now: float) -> None:
        """Handle a frame of a neighbour, as `MessageHandler` does."""
        match frame:
            case GroupOpen():
                self.groups.receive_open(sender, frame, now)
            case GroupBatch():
                self.groups.receive_batch(sender, frame, 0, now)
            case GroupAck():
                self.groups.receive_ack(sender, frame, now)
            case GroupRepair():
                self.groups.receive_repair(sender, frame, now)

    @property
    def sequences(self) -> list[int]:
        """The sequence numbers of the events that were delivered so far."""
        return [event.frame.sequence for event in self.events]

    def acknowledge(self) -> None:
        """Take charge of all events that were delivered so far."""
        for event in self.events:
            self.groups.acknowledge(event.root, event.position)


class GroupNet:
    """Some brokers on virtual time. All of them know the same map."""

    def __init__(
        self, links: dict[tuple[int, int], int], *, destinations_max: int = 1, all_auth: Sequence[MessageAuth] = ()
    ) -> None:
        """`links`: their delays by the indexes of their ends. With `all_auth` the ids of brokers are those of keys."""
        count = max(max(ends) for ends in links)
        self.all_auth = all_auth or [MessageAuth(index + 1, None) for index in range(count)]
        ids = [auth.me for auth in self.all_auth]
        delays: dict[int, dict[int, int]] = {broker: {} for broker in ids}
        for (near, far), delay_us in links.items():
            delays[ids[near - 1]][ids[far - 1]] = delays[ids[far - 1]][ids[near - 1]] = delay_us
        self.map = LinkStateDatabase()
        for broker, to in delays.items():
            self.map.put(LinkState(broker, 1, f"b{broker}", tuple(to), tuple(to.values())))
        self.brokers = {auth.me: GroupBroker(auth, self.map, destinations_max) for auth in self.all_auth}
        for broker, to in delays.items():
            for other in to:
                self.brokers[broker].link_up(other)
        self.ids = ids
        self.now = 100.0
        self.waiting: deque[Carried] = deque()
        self.carried: list[Carried] = []

    def __getitem__(self, index: int) -> GroupBroker:
        return self.brokers[self.ids[index - 1]]

    def publish(self, sequence: int, *to: int, flags: int = 0, root: int = 1) -> list[int]:
        """Publish an event at a root for destinations by their indexes. Return those that its group does not serve."""
        homes = [self.ids[index - 1] for index in to]
        others, _ = self[root].groups.publish(homes, unacked(sequence, flags=flags, at=self.now), self.now)
        return others

    def settle(self) -> None:
        """End the turn of all brokers."""
        for broker in self.brokers.values():
            broker.groups.settle(self.now)
            self.waiting += broker.take()

    def end_gap(self) -> None:
        """Advance the clock until all batches may leave, and send them."""
        if any(broker.groups.pending for broker in self.brokers.values()):
            self.now += GAP_S
            for broker in self.brokers.values():
                if broker.groups.pending:
                    broker.groups.tick(self.now)
            self.settle()

    def carry(self, lost: type[GroupFrame] | None = None, over: tuple[int, int] = (0, 0)) -> None:
        """Carry frames until none is sent. Frames of the type `lost` are lost on the link `over`, by index."""
        ends = tuple(self.ids[at - 1] for at in over) if lost else (0, 0)
        self.settle()
        self.end_gap()
        while self.waiting:
            sender, to, frame = self.waiting.popleft()
            if lost is not None and type(frame) is lost and (sender, to) == ends:
                continue
            self.carried.append((sender, to, frame))
            self.brokers[to].receive(sender, frame, self.now)
            self.settle()

    def advance(self, seconds: float) -> None:
        """Advance the clock, run the timers, and carry what follows."""
        self.now += seconds
        for broker in self.brokers.values():
            if broker.groups.busy:
                broker.groups.tick(self.now)
        self.carry()

    def acknowledge(self) -> None:
        """Let all brokers take charge of their events."""
        for broker in self.brokers.values():
            broker.acknowledge()

    def frames(self, kind: type[_T]) -> list[_T]:
        """Return the frames of a type that were carried so far."""
        return [frame for _, _, frame in self.carried if isinstance(frame, kind)]

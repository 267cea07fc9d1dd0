"""Flooding: every broker gets the newest documents at two messages a link at most; summaries repair a cut."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

import pytest
from flooding_broker import FloodingBroker

from plait_core.limits import SUMMARY_DOCUMENTS_MAX
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT, Signed, envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, Document, LinkState


class Net:
    """Brokers that flood to each other, each direction of a link in order, directions in a random order."""

    def __init__(self, edges: set[tuple[int, int]], seed: int) -> None:
        self.rng = Random(seed)
        self.brokers = {end: FloodingBroker(end) for end in sorted({end for edge in edges for end in edge})}
        self.queues: dict[tuple[int, int], deque[ControlFrame]] = {}
        self.carried: Counter[frozenset[int]] = Counter()
        """By link, documents in both directions."""
        for near, far in sorted(edges):
            self.join(near, far)
        self.deliver_all()

    def originate(self, document: Document) -> None:
        self.brokers[document.origin].flooding.originate(document)
        self.collect(document.origin)

    def collect(self, near: int) -> None:
        """Put the frames that a broker has sent onto its links."""
        for far, frame in self.brokers[near].take_sent():
            if (near, far) in self.queues:
                self.queues[near, far].append(frame)

    def join(self, near: int, far: int) -> None:
        self.queues[near, far], self.queues[far, near] = deque(), deque()
        for one, other in ((near, far), (far, near)):
            self.brokers[one].link_up(other)
            self.collect(one)

    def cut(self, near: int, far: int) -> None:
        del self.queues[near, far], self.queues[far, near]
        self.brokers[near].link_down(far)
        self.brokers[far].link_down(near)

    def deliver_all(self) -> None:
        """Deliver frames until none is in flight."""
        while directions := [direction for direction, queue in self.queues.items() if queue]:
            near, far = self.rng.choice(directions)
            frame = self.queues[near, far].popleft()
            flooding = self.brokers[far].flooding
            if isinstance(frame, DatabaseSummary):
                flooding.receive_summary(frame, near)
            else:
                assert isinstance(frame, Signed)
                self.carried[frozenset((near, far))] += 1
                flooding.receive(frame, near)
            self.collect(far)

    def newest(self, broker: int, origin: int) -> list[Document]:
        return [document for document in self.brokers[broker].learned if document.origin == origin]


def graph(seed: int, brokers: int = 60) -> set[tuple[int, int]]:
    rng = Random(seed)
    edges = {(rng.randrange(node), node) for node in range(1, brokers)}
    while len(edges) < 2 * brokers:
        near, far = sorted(rng.sample(range(brokers), 2))
        edges.add((near, far))
    return edges


@pytest.mark.parametrize("seed", range(10))
def test_one_document_costs_at_most_two_messages_a_link(seed: int) -> None:
    net = Net(graph(seed), seed)
    advertisement = Advertisement(7, 1, 1, "x > 1")
    net.originate(advertisement)
    net.deliver_all()
    assert max(net.carried.values()) <= 2
    assert net.carried.total() <= 2 * 120 - 59, "no broker returns it to its sender"
    for broker in range(60):
        assert net.newest(broker, 7) == [advertisement], "each learns it once"


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_version_reaches_every_broker(seed: int) -> None:
    net = Net(graph(seed, 12), seed)
    for version in range(1, 6):
        net.originate(LinkState(3, version, f"v{version}", (), ()))
        if net.rng.random() < 0.5:
            net.deliver_all()
    net.deliver_all()
    for broker in set(range(12)) - {3}:
        versions = [document.version for document in net.newest(broker, 3)]
        assert versions == sorted(set(versions)), "never an older one after a newer"
        assert versions[-1] == 5


def test_an_old_version_is_answered_with_the_newest() -> None:
    broker = FloodingBroker(1, 2)
    new, old = Advertisement(5, 1, 4, "x > 4"), Advertisement(5, 1, 3, "x > 3")
    broker.flooding.receive(envelop_document(new), 2)
    broker.flooding.receive(envelop_document(old), 2)
    assert broker.sent == [(2, envelop_document(new))]
    broker.flooding.receive(envelop_document(new), 2)
    assert broker.sent == [(2, envelop_document(new))], "a neighbour with the newest version gets nothing"


def test_versions_are_learned_in_their_order() -> None:
    broker = FloodingBroker(1, 2)
    first, second = Advertisement(5, 1, 1, "x > 1"), Advertisement(5, 1, 2, "")
    for document in (first, second, first):
        broker.flooding.receive(envelop_document(document), 2)
    assert broker.learned == [first, second]


def test_after_a_partition_each_side_gets_only_what_it_lacks() -> None:
    net = Net({(0, 1), (1, 2), (2, 3)}, 1)
    for broker in range(4):
        net.originate(LinkState(broker, 1, "", (), ()))
    net.deliver_all()
    net.cut(1, 2)
    net.originate(Advertisement(0, 1, 1, "x > 0"))
    net.originate(LinkState(3, 2, "renamed", (), ()))
    net.deliver_all()
    net.carried.clear()
    net.join(1, 2)
    net.deliver_all()
    assert net.carried == {frozenset((1, 2)): 2, frozenset((0, 1)): 1, frozenset((2, 3)): 1}
    assert net.newest(3, 0)[-1] == Advertisement(0, 1, 1, "x > 0")
    assert net.newest(0, 3)[-1].version == 2


def test_a_summary_of_many_documents_has_several_parts() -> None:
    rich, poor = FloodingBroker(1), FloodingBroker(2)
    for number in range(1, SUMMARY_DOCUMENTS_MAX + 3):
        rich.flooding.originate(Advertisement(1, number, 1, "x > 1"))
    rich.link_up(2)
    poor.link_up(1)
    parts = [frame for _, frame in rich.take_sent() if isinstance(frame, DatabaseSummary)]
    assert [(part.first, part.last) for part in parts] == [(True, False), (False, True)]
    ((_, empty),) = poor.take_sent()
    assert isinstance(empty, DatabaseSummary)
    rich.flooding.receive_summary(empty, 2)
    assert len(rich.sent) == SUMMARY_DOCUMENTS_MAX + 2
    for part in parts:
        poor.flooding.receive_summary(part, 1)
    poor.flooding.receive_summary(parts[1], 1)  # a part without the first one is ignored
    assert poor.sent == [], "it has no documents to send"


def test_a_document_that_another_broker_made_in_our_name_is_outbid() -> None:
    broker = FloodingBroker(1, 2)
    broker.flooding.originate(LinkState(1, 3, "us", (2,), (10,)))
    broker.flooding.originate(Advertisement(1, 4, 1, "x > 4"))
    broker.clear()
    broker.flooding.receive(envelop_document(LinkState(1, 8, "them", (), ())), 2)
    broker.flooding.receive(envelop_document(Advertisement(1, 4, 6, "")), 2)
    broker.flooding.receive(envelop_document(Advertisement(1, 5, 6, "x > 5")), 2)
    ours = [
        LinkState(1, 9, "us", (2,), (10,)),
        Advertisement(1, 4, 7, "x > 4"),  # we still have it
        Advertisement(1, 5, 7, ""),  # we never had it
    ]
    assert broker.sent == [(2, envelop_document(document)) for document in ours]
    assert broker.learned[-3:] == ours, "this broker learns the versions that it floods"
    assert broker.flooding.next_version((1, ADVERTISEMENT, 4)) == 8


@pytest.mark.parametrize("document", [LinkState(1, 2**64 - 1, "", (), ()), Advertisement(1, 4, 2**64 - 1, "")])
def test_a_version_that_cannot_be_outbid_is_dropped(document: Document) -> None:
    broker = FloodingBroker(1, 2)
    broker.flooding.originate(LinkState(1, 1, "us", (), ()))
    broker.flooding.originate(Advertisement(1, 4, 1, "x > 4"))
    broker.clear()
    broker.flooding.receive(envelop_document(document), 2)
    assert broker.sent == []
    assert broker.flooding.next_version((1, ADVERTISEMENT, 4)) == 2


def test_a_forgotten_broker_that_returns_is_learned_with_all_its_documents() -> None:
    """Check that brokers that forgot a broker get its advertisements too, although only its link state is new."""
    net = Net({(0, 1), (1, 2), (2, 3)}, 1)
    net.originate(LinkState(0, 1, "", (), ()))
    net.originate(Advertisement(0, 1, 1, "x > 1"))
    net.deliver_all()
    for broker in (2, 3):
        assert len(net.brokers[broker].flooding.forget(0)) == 2
    net.originate(LinkState(0, 2, "", (), ()))
    net.deliver_all()
    for number, one in net.brokers.items():
        one.flooding.beat()
        net.collect(number)
    net.deliver_all()
    for broker in (2, 3):
        assert len(net.brokers[broker].flooding) == 2
        assert Advertisement(0, 1, 1, "x > 1") in net.brokers[broker].learned[2:]
    net.carried.clear()
    net.originate(LinkState(0, 3, "", (), ()))
    net.deliver_all()
    assert net.carried.total() == 3, "afterwards a new version costs one frame a link again"


def test_documents_of_a_dead_broker_are_dropped() -> None:
    """Check that they are not learned again from brokers that do not know of its death yet."""
    broker = FloodingBroker(1, 2)
    link_state, advertisement = LinkState(5, 1, "", (), ()), Advertisement(5, 1, 1, "x > 1")
    for document in (link_state, advertisement):
        broker.flooding.receive(envelop_document(document), 2)
    assert broker.flooding.forget(5, dead=True) == [link_state, advertisement]
    for document in (link_state, advertisement, LinkState(5, 2, "", (), ())):
        broker.flooding.receive(envelop_document(document), 2)
    assert broker.learned == [link_state, advertisement]
    assert len(broker.flooding) == 0


def test_a_forgotten_document_can_be_learned_again() -> None:
    broker = FloodingBroker(1, 2)
    link_state, advertisement = LinkState(5, 1, "", (), ()), Advertisement(5, 1, 1, "x > 1")
    for document in (link_state, advertisement):
        broker.flooding.receive(envelop_document(document), 2)
    assert broker.flooding.forget(5) == [link_state, advertisement]
    assert len(broker.flooding) == 0
    broker.flooding.receive(envelop_document(advertisement), 2)
    assert broker.learned == [link_state, advertisement, advertisement]


def test_held_documents_are_relayed_in_their_newest_version_to_those_that_lack_it() -> None:
    broker = FloodingBroker(1)
    for neighbour in (2, 3, 4):
        broker.link_up(neighbour)
    broker.take_sent()
    flooding = broker.flooding
    flooding.holds = True
    for version, neighbour in ((1, 2), (2, 2), (2, 3)):
        flooding.receive(envelop_document(LinkState(9, version, "b9", (), ())), neighbour)
    assert broker.take_sent() == [], "held"
    flooding.release()
    sent = broker.take_sent()
    assert [(neighbour, frame.version) for neighbour, frame in sent if isinstance(frame, Signed)] == [(4, 2)]
    flooding.receive(envelop_document(LinkState(9, 3, "b9", (), ())), 2)
    assert [neighbour for neighbour, _ in broker.take_sent()] == [3, 4], "not held any more"

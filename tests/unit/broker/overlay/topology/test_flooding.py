"""Flooding: every broker gets the newest documents at two messages a link at most; summaries repair a cut."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

import pytest

from plait_broker.overlay.topology.flooding import Flooding
from plait_core.limits import DIGEST_MAX
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT, Signed, envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, Document, LinkState


class Net:
    """Brokers that flood to each other, each direction of a link in order, directions in a random order."""

    def __init__(self, edges: set[tuple[int, int]], seed: int) -> None:
        self.rng = Random(seed)
        self.brokers: dict[int, Flooding] = {}
        self.learned: dict[int, list[tuple[Document, Document | None]]] = {}
        self.queues: dict[tuple[int, int], deque[ControlFrame]] = {}
        self.carried: Counter[frozenset[int]] = Counter()
        """By link, documents in both directions."""
        for broker in sorted({end for edge in edges for end in edge}):
            self._add(broker)
        for near, far in sorted(edges):
            self.join(near, far)
        self.quiet()

    def _add(self, me: int) -> None:
        self.learned[me] = []
        self.brokers[me] = Flooding(
            me,
            lambda to, frame: self._send(me, to, frame),
            lambda document, before: self.learned[me].append((document, before)),
        )

    def _send(self, near: int, far: int, frame: ControlFrame) -> None:
        if (near, far) in self.queues:
            self.queues[near, far].append(frame)

    def join(self, near: int, far: int) -> None:
        self.queues[near, far], self.queues[far, near] = deque(), deque()
        self.brokers[near].link_up(far)
        self.brokers[far].link_up(near)

    def cut(self, near: int, far: int) -> None:
        del self.queues[near, far], self.queues[far, near]
        self.brokers[near].link_down(far)
        self.brokers[far].link_down(near)

    def quiet(self) -> None:
        """Deliver everything."""
        while ways := [way for way, queue in self.queues.items() if queue]:
            near, far = self.rng.choice(ways)
            frame = self.queues[near, far].popleft()
            if isinstance(frame, DatabaseSummary):
                self.brokers[far].receive_summary(frame, near)
            else:
                assert isinstance(frame, Signed)
                self.carried[frozenset((near, far))] += 1
                self.brokers[far].receive(frame, near)

    def newest(self, broker: int, origin: int) -> list[Document]:
        return [document for document, _ in self.learned[broker] if document.origin == origin]


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
    offer = Advertisement(7, 1, 1, "x > 1")
    net.brokers[7].originate(offer)
    net.quiet()
    assert max(net.carried.values()) <= 2
    assert net.carried.total() <= 2 * 120 - 59, "nobody tells it to whom it has it from"
    for broker in range(60):
        assert net.newest(broker, 7) == ([] if broker == 7 else [offer]), "each learns it once"


@pytest.mark.parametrize("seed", range(5))
def test_newer_wins_wherever_they_meet(seed: int) -> None:
    net = Net(graph(seed, 12), seed)
    for version in range(1, 6):
        net.brokers[3].originate(LinkState(3, version, f"v{version}", (), ()))
        if net.rng.random() < 0.5:
            net.quiet()
    net.quiet()
    for broker in set(range(12)) - {3}:
        versions = [document.version for document in net.newest(broker, 3)]
        assert versions == sorted(set(versions)), "never an older one after a newer"
        assert versions[-1] == 5


def test_who_tells_what_is_old_hears_what_is_new() -> None:
    sent: list[tuple[int, ControlFrame]] = []
    flooding = Flooding(1, lambda to, frame: sent.append((to, frame)), lambda *_: None)
    new, old = Advertisement(5, 1, 4, "x > 4"), Advertisement(5, 1, 3, "x > 3")
    flooding.receive(envelop_document(new), 2)
    sent.clear()
    flooding.receive(envelop_document(old), 2)
    assert sent == [(2, envelop_document(new))]
    flooding.receive(envelop_document(new), 2)
    assert sent == [(2, envelop_document(new))], "and who knows it hears nothing"


def test_a_document_that_replaces_another_is_learned_with_it() -> None:
    learned: list[tuple[Document, Document | None]] = []
    flooding = Flooding(1, lambda *_: None, lambda *both: learned.append(both))
    first, second = Advertisement(5, 1, 1, "x > 1"), Advertisement(5, 1, 2, "")
    flooding.receive(envelop_document(first), 2)
    flooding.receive(envelop_document(second), 2)
    assert learned == [(first, None), (second, first)]


def test_after_a_cut_each_side_gets_what_it_does_not_have_and_no_more() -> None:
    net = Net({(0, 1), (1, 2), (2, 3)}, 1)
    for broker in range(4):
        net.brokers[broker].originate(LinkState(broker, 1, "", (), ()))
    net.quiet()
    net.cut(1, 2)
    net.brokers[0].originate(Advertisement(0, 1, 1, "x > 0"))
    net.brokers[3].originate(LinkState(3, 2, "renamed", (), ()))
    net.quiet()
    net.carried.clear()
    net.join(1, 2)
    net.quiet()
    assert net.carried == {frozenset((1, 2)): 2, frozenset((0, 1)): 1, frozenset((2, 3)): 1}
    assert net.newest(3, 0)[-1] == Advertisement(0, 1, 1, "x > 0")
    assert net.newest(0, 3)[-1].version == 2


def test_a_digest_of_many_comes_in_parts() -> None:
    near, far = [], []
    rich = Flooding(1, lambda _, frame: near.append(frame), lambda *_: None)
    poor = Flooding(2, lambda _, frame: far.append(frame), lambda *_: None)
    for number in range(1, DIGEST_MAX + 3):
        rich.originate(Advertisement(1, number, 1, "x > 1"))
    rich.link_up(2)
    poor.link_up(1)
    digests = [frame for frame in near if isinstance(frame, DatabaseSummary)]
    assert [(digest.first, digest.last) for digest in digests] == [(True, False), (False, True)]
    (empty,) = far
    near.clear()
    rich.receive_summary(empty, 2)
    assert len(near) == DIGEST_MAX + 2
    for digest in digests:
        poor.receive_summary(digest, 1)
    assert len(far) == 1, "it has nothing to give"
    poor.receive_summary(digests[1], 1)  # a part without the first one is ignored
    assert len(far) == 1


def test_what_others_say_in_our_name_is_contested() -> None:
    sent: list[ControlFrame] = []
    flooding = Flooding(1, lambda _, frame: sent.append(frame), lambda *_: None)
    flooding.link_up(2)
    flooding.originate(LinkState(1, 3, "us", (2,), (10,)))
    flooding.originate(Advertisement(1, 4, 1, "x > 4"))
    sent.clear()
    flooding.receive(envelop_document(LinkState(1, 8, "them", (), ())), 2)
    flooding.receive(envelop_document(Advertisement(1, 4, 6, "")), 2)
    flooding.receive(envelop_document(Advertisement(1, 5, 6, "x > 5")), 2)
    assert sent == [
        envelop_document(LinkState(1, 9, "us", (2,), (10,))),
        envelop_document(Advertisement(1, 4, 7, "x > 4")),  # we still have it
        envelop_document(Advertisement(1, 5, 7, "")),  # we never had it
    ]
    assert flooding.next_version((1, ADVERTISEMENT, 4)) == 8


@pytest.mark.parametrize("document", [LinkState(1, 2**64 - 1, "", (), ()), Advertisement(1, 4, 2**64 - 1, "")])
def test_a_version_that_cannot_be_surpassed_is_a_lie(document: Document) -> None:
    sent: list[ControlFrame] = []
    flooding = Flooding(1, lambda _, frame: sent.append(frame), lambda *_: None)
    flooding.link_up(2)
    flooding.originate(LinkState(1, 1, "us", (), ()))
    flooding.originate(Advertisement(1, 4, 1, "x > 4"))
    sent.clear()
    flooding.receive(envelop_document(document), 2)
    assert sent == []
    assert flooding.next_version((1, ADVERTISEMENT, 4)) == 2


def test_who_forgot_a_broker_that_its_neighbours_did_not_gets_all_its_documents() -> None:
    """Check that brokers that forgot a broker get its advertisements too, although only its link state is new."""
    net = Net({(0, 1), (1, 2), (2, 3)}, 1)
    net.brokers[0].originate(LinkState(0, 1, "", (), ()))
    net.brokers[0].originate(Advertisement(0, 1, 1, "x > 1"))
    net.quiet()
    for broker in (2, 3):
        assert len(net.brokers[broker].forget(0)) == 2
    net.brokers[0].originate(LinkState(0, 2, "", (), ()))
    net.quiet()
    for one in net.brokers.values():
        one.beat()
    net.quiet()
    for broker in (2, 3):
        assert len(net.brokers[broker]) == 2
        assert Advertisement(0, 1, 1, "x > 1") in [document for document, _ in net.learned[broker][2:]]
    net.carried.clear()
    net.brokers[0].originate(LinkState(0, 3, "", (), ()))
    net.quiet()
    assert net.carried.total() == 3, "and it is over"


def test_the_dead_stay_dead() -> None:
    """Check that documents of a dead broker are not learned again from brokers that do not know of its death yet."""
    learned: list[Document] = []
    flooding = Flooding(1, lambda *_: None, lambda document, _: learned.append(document))
    sheet, offer = LinkState(5, 1, "", (), ()), Advertisement(5, 1, 1, "x > 1")
    for document in (sheet, offer):
        flooding.receive(envelop_document(document), 2)
    assert flooding.forget(5, dead=True) == [sheet, offer]
    for document in (sheet, offer, LinkState(5, 2, "", (), ())):
        flooding.receive(envelop_document(document), 2)
    assert learned == [sheet, offer]
    assert len(flooding) == 0


def test_what_is_forgotten_can_be_learned_again() -> None:
    learned: list[Document] = []
    flooding = Flooding(1, lambda *_: None, lambda document, _: learned.append(document))
    sheet, offer = LinkState(5, 1, "", (), ()), Advertisement(5, 1, 1, "x > 1")
    for document in (sheet, offer):
        flooding.receive(envelop_document(document), 2)
    assert flooding.forget(5) == [sheet, offer]
    assert len(flooding) == 0
    flooding.receive(envelop_document(offer), 2)
    assert learned == [sheet, offer, offer]

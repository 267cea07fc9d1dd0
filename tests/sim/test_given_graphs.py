"""Production brokers in single situations: message costs, detection of dead links, and brokers after long absences."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_broker.overlay.transport.reliable_stream import DOUBT_S, SOON_ACK_S
from plait_core.wire import encode_frame
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement
from plait_lab.benchmarks.measurement.overlay.costs import measure_costs
from plait_lab.simulation.overlay.oracle import TableOracle
from plait_lab.simulation.overlay.world import FORGET_S
from plait_lab.simulation.overlay.worlds.given_graph import GivenGraph

DETECT_S = BrokerSettings().overlay_detect_s


def chain(brokers: int) -> GivenGraph:
    graph = GivenGraph({(near, near + 1): 0.002 for near in range(brokers - 1)})
    graph.start()
    return graph


@pytest.mark.parametrize(
    ("seed", "brokers"), [(1, 24), (2, 24), *(pytest.param(seed, 60, marks=pytest.mark.nightly) for seed in range(5))]
)
def test_an_advertisement_costs_two_messages_a_link_and_a_subscription_one_a_hop(seed: int, brokers: int) -> None:
    costs = measure_costs(seed, brokers=brokers, links=2 * brokers, publishers=6)
    assert costs.advertisement_frames_on_a_link <= 2
    assert costs.advertisement_frames == 2 * costs.links - (brokers - 1), "each broker tells all but who told it"
    assert costs.update_frames_beyond_trees == 0
    assert 0 < costs.update_frames < costs.tree_hops, "where trees share a link, so does the frame"
    assert costs.withdrawal_frames == costs.update_frames
    assert costs.ack_frames == costs.ack_hops


@pytest.mark.parametrize("phase", range(10))
def test_a_silent_link_is_dead_within_the_bound(phase: int) -> None:
    graph = chain(2)
    graph.run(0.07 * phase)
    graph.world.network.silence(graph.links[0])
    graph.run(DETECT_S + 0.05)
    for node in graph.nodes:
        assert node.links == 0
        assert node.overlay.neighbours == {}
        assert node.overlay.counts["links_dead"] <= 1


def test_what_is_not_silent_is_not_dead() -> None:
    graph = chain(3)
    graph.run(100.0)
    assert not any(node.overlay.counts["links_dead"] for node in graph.nodes)


class Sleeper:
    """Two brokers whose clients publish to each other over a third; one of them is stopped, and continues later."""

    def __init__(self) -> None:
        self.graph = chain(3)
        for number in (0, 2):
            self.graph.advertise(number, "x >= 0")
            self.graph.subscribe(number, "5 <= x < 10")
        self.graph.run(4.0)
        self.both_publish(7)

    def both_publish(self, x: int) -> None:
        before = self._counts()
        for number in (0, 2):
            self.graph.publish(number, {"x": x})
        self.graph.run(5.0)
        self.received = [now - then for then, now in zip(before, self._counts(), strict=True)]
        """New events at both ends, of other brokers."""

    def sleep(self, for_s: float) -> None:
        """Stop the process for a while, and wait until all is as it was."""
        self.graph.nodes[0].pause()
        self.graph.run(for_s)
        self.graph.nodes[0].resume()
        self.graph.run(20.0)

    def judge(self) -> list[str]:
        world = self.graph.world
        world.oracle.judge()
        TableOracle(world.nodes, world.clients, world.network, world.complain).judge()
        return world.complaints

    def _counts(self) -> list[int]:
        return [sum(len(one.path) > 1 for one in self.graph.receptions(number)) for number in (0, 2)]


@pytest.mark.parametrize("for_s", [1.0, DETECT_S + 1.0, FORGET_S - 1.0, FORGET_S + 20.0])
def test_who_was_away_is_back_with_all_its_subscriptions(for_s: float) -> None:
    sleeper = Sleeper()
    assert sleeper.received == [1, 1]
    sleeper.sleep(for_s)
    sleeper.both_publish(7)
    assert sleeper.received == [1, 1]
    assert not sleeper.judge()


def test_what_changed_meanwhile_is_known_afterwards() -> None:
    sleeper = Sleeper()
    far = sleeper.graph.client(2)

    def replace() -> None:
        (subscription,) = far.subscriptions.values()
        far.unsubscribe(subscription)
        far.subscribe("50 <= x < 60")

    sleeper.graph.world.timeline.after(FORGET_S + 10.0, replace)
    sleeper.sleep(FORGET_S + 20.0)
    sleeper.both_publish(7)
    assert sleeper.received == [1, 0]
    sleeper.both_publish(55)
    assert sleeper.received == [0, 1]
    assert not sleeper.judge()


def test_an_advertisement_that_another_broker_withdraws_in_our_name_stands() -> None:
    graph = chain(3)
    advertisement = graph.advertise(0, "x >= 0")
    graph.run(2.0)
    liar, other = graph.nodes[1:]
    (key,) = other.overlay.remote_advertisements
    withdrawal = encode_frame(envelop_document(Advertisement(*key, 50, "")))
    forgotten: list[float] = []
    for connection in liar.connections.values():
        graph.world.network.write(connection, connection.side(liar), withdrawal)
    for step in range(20):
        graph.run(0.001)
        forgotten += [graph.now] * (not other.overlay.remote_advertisements)
        assert step < 19 or forgotten, "the withdrawal arrived, or nothing is proved"
    graph.run(2.0)
    assert list(other.overlay.remote_advertisements) == [key]
    graph.client(0).withdraw(advertisement)
    graph.run(2.0)
    assert not other.overlay.remote_advertisements, "and its owner can still withdraw it"


@pytest.mark.parametrize(("cut", "most_s"), [((0, 1), 0.012), ((1, 3), 0.012 + 3 * DOUBT_S)], ids=["near", "far"])
def test_what_was_on_a_link_that_goes_comes_soon_by_another(cut: tuple[int, int], most_s: float) -> None:
    """The publisher's broker retransmits at once on its own link's failure, else when the new link state arrives."""
    delays_s = {(0, 1): 0.002, (1, 3): 0.002, (0, 2): 0.003, (2, 3): 0.003}
    graph = GivenGraph(delays_s)
    graph.start()
    graph.advertise(0, "x >= 0")
    graph.subscribe(3, "x >= 0")
    graph.run(1.0)
    for event in range(200):
        if event == 100:
            graph.cut(graph.links[list(delays_s).index(cut)])
        graph.publish(0, {"x": event})
        graph.run(0.001)
    graph.run(1.0)
    received = graph.receptions(3)
    assert [one.path[1] for one in received] == sorted(one.path[1] for one in received)
    assert [one.id for one in received] == [event.id for event in graph.events]
    assert received[0].path == (0, 1, 3)
    assert received[-1].path == (0, 2, 3)
    assert max(one.delay_s for one in received) < most_s


@pytest.mark.parametrize("failed", [(0, 1), (1, 2)])
def test_a_link_failure_retransmits_only_what_was_on_its_way(failed: tuple[int, int]) -> None:
    """Acks come five times a second, so far more events are unacked than were on their way."""
    per_s, path_s = 500, 0.004
    graph = GivenGraph({(0, 1): 0.002, (1, 2): 0.002, (0, 3): 0.01, (2, 3): 0.01})
    graph.start()
    graph.advertise(0, "x >= 0")
    graph.subscribe(2, "x >= 0")
    graph.run(1.0)

    def publish(count: int) -> None:
        for _ in range(count):
            graph.publish(0, {"x": 1})
            graph.run(1 / per_s)

    publish(per_s)
    unacked = max(len(stream.kept) for stream in graph.nodes[0].overlay.event_streams.outgoing.values())
    assert unacked > 0.1 * per_s
    graph.cut(graph.world.link_of(*failed))
    publish(per_s)
    graph.run(1.0)
    assert len(graph.receptions(2)) == len(graph.events)
    retransmitted = graph.nodes[0].overlay.event_streams.counts["again"]
    assert retransmitted <= per_s * (SOON_ACK_S + 4 * path_s) < unacked
    assert not graph.world.complaints

"""The last step to neighbours: copies wait in order for a full link, and frames of other brokers need room."""

from __future__ import annotations

import pytest
from copies import copy, publish, run_of

from plait_broker.adapter.link_writer import LinkWriter
from plait_broker.clients.connection import BURST_BYTES_MAX, CONTROL_BYTES_MAX
from plait_broker.overlay.outputs import CopyDropped, RelayFrame, SendBatch, SendFrame
from plait_broker.overlay.transport import lane_queue
from plait_broker.overlay.transport.lane_window import START_BYTES
from plait_core.wire import Forward, Ping
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.frame_types.overlay_frames import StreamAck
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.network import Link
from plait_lab.simulation.overlay.world import linked_world
from plait_telemetry.telemetry import TelemetrySettings

ACK = envelop_message(StreamAck(9, 1, 7))


class FullLink:
    """A link between two brokers, as the first writes to it."""

    def __init__(self) -> None:
        self.world = linked_world({(0, 1): 0.001})
        self.node, self.near = self.world.nodes[0], self.world.broker(0)
        self.writer: LinkWriter = self.near._adapter._links
        self.overlay = self.near.overlay
        (connection,) = self.near.broker_connections.links()
        self.number = connection.id
        self.connection = connection
        self._written: list[Forward] = []
        self.world.wire.on_copy(self._see_copy)

    @property
    def now(self) -> float:
        return self.world.now

    def sent(self) -> list[Forward]:
        """Return the copies that were written since the last call."""
        self.node.act()
        written, self._written = self._written, []
        return written

    def block(self) -> None:
        """Have the socket take no bytes."""
        self.near.set_writable(self.number, False, self.now)

    def unblock(self, after_s: float = 0.0) -> None:
        """Have it take bytes again after a while. Nothing else happens meanwhile."""
        self.near.set_writable(self.number, True, self.now + after_s)

    def _see_copy(self, link: Link, sender: OverlayNode, copy: Forward) -> None:
        if sender is self.node:
            self._written.append(copy)


@pytest.fixture
def link() -> FullLink:
    return FullLink()


def test_a_copy_is_written_at_once_while_the_link_takes_data(link: FullLink) -> None:
    link.writer.forward(run_of(link.number, copy(5, delay_us=70), at=link.now), link.now)
    (sent,) = link.sent()
    assert (sent.sequence, sent.delay_us, sent.path) == (5, 70, (1,))
    assert not link.connection.lane.queue
    assert link.near.counters.forwarded == 1


def test_copies_beyond_the_window_wait_for_an_echo(link: FullLink) -> None:
    payload = bytes(START_BYTES // 4)
    plain = [copy(sequence, payload=payload) for sequence in range(1, 11)]
    copies = [(frame, 0, 0, 0, (link.near.id,), to) for frame, _, _, _, _, to in plain]
    link.writer.forward(run_of(link.number, *copies, at=link.now), link.now)
    first = [sent.sequence for sent in link.sent()]
    assert first in ([1, 2, 3], [1, 2, 3, 4])
    link.writer.send(SendFrame(link.number, Ping(5)), link.now)
    link.world.run(1.0)
    assert [sent.sequence for sent in link.sent()] == list(range(1, 11))[len(first) :]
    assert not link.connection.lane.queue
    assert not link.connection.lane.in_flight


def test_the_copies_of_a_run_that_a_burst_has_no_room_for_wait_in_order(link: FullLink) -> None:
    copies = [copy(sequence, payload=bytes(BURST_BYTES_MAX // 4)) for sequence in range(1, 11)]
    link.writer.forward(run_of(link.number, *copies, at=link.now), link.now)
    first = len(link.sent())
    assert 0 < first < 10
    assert len(link.connection.lane.queue) == 10 - first
    assert link.near.counters.forwarded == 10


def test_copies_for_a_full_link_wait_in_order_and_their_wait_is_in_their_delay(link: FullLink) -> None:
    link.block()
    link.writer.forward(run_of(link.number, copy(1, delay_us=70), at=link.now), link.now)
    link.writer.forward(run_of(link.number, copy(2), at=link.now + 0.5), link.now + 0.5)
    assert link.sent() == []
    assert len(link.connection.lane.queue) == 2
    link.unblock(1.0)
    assert [(sent.sequence, sent.delay_us) for sent in link.sent()] == [(1, 1_000_070), (2, 500_000)]
    assert not link.connection.lane.queue


def test_batches_of_a_group_wait_in_order_and_their_wait_is_added_to_that_before(
    link: FullLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[GroupBatch] = []
    groups = link.world.broker(1).overlay.groups
    monkeypatch.setattr(groups, "receive_batch", lambda parent, batch, link_us, now: arrived.append(batch))
    batches = [GroupBatch(1, 5, last - 1, last, bytes(100), waited_us=70) for last in (5, 6, 7)]
    link.writer.send_batch(SendBatch(link.number, batches[0], link.now), link.now)
    link.world.run(0.1)
    link.block()
    for batch in batches[1:]:
        link.writer.send_batch(SendBatch(link.number, batch, link.now), link.now)
    assert len(link.connection.lane.queue) == 2
    link.unblock(1.0)
    assert link.sent() == []
    link.world.run(0.1)
    assert [(batch.last, batch.waited_us) for batch in arrived] == [(5, 70), (6, 1_000_070), (7, 1_000_070)]


def test_batches_for_a_full_queue_are_dropped_and_counted(link: FullLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queue, "QUEUE_BYTES_MAX", 1000)
    link.block()
    for last in range(5, 9):
        link.writer.send_batch(SendBatch(link.number, GroupBatch(1, 5, last - 1, last, bytes(600)), 0.0), link.now)
    assert len(link.connection.lane.queue) == 2
    assert link.overlay.counts["lane_full"] == 2


def test_a_later_copy_does_not_overtake_those_that_wait(link: FullLink) -> None:
    link.block()
    link.writer.forward(run_of(link.number, copy(1), at=link.now), link.now)
    link.connection.set_writable(True)
    link.writer.forward(run_of(link.number, copy(2), at=link.now), link.now)
    assert [sent.sequence for sent in link.sent()] == [1, 2]


def test_waiting_copies_are_written_burst_by_burst(link: FullLink) -> None:
    link.connection.lane.window.size = 1 << 30
    payload = bytes(BURST_BYTES_MAX // 4)
    for sequence in range(1, 11):
        link.writer.forward(run_of(link.number, copy(sequence, payload=payload), at=link.now), link.now)
    first = link.sent()
    assert 0 < len(first) < 10
    assert link.near.next_deadline() <= link.now, "the next burst is due"
    sequences = [sent.sequence for sent in first]
    for _ in range(5):
        link.near.tick(link.now)
        sequences += [sent.sequence for sent in link.sent()]
    assert sequences == list(range(1, 11))


def test_a_copy_beyond_the_queue_is_dropped_and_counted(link: FullLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queue, "QUEUE_BYTES_MAX", 0)
    link.block()
    for sequence in (1, 2):
        link.writer.forward(run_of(link.number, copy(sequence), at=link.now), link.now)
    assert link.overlay.counts["lane_full"] == 1
    link.unblock()
    assert [sent.sequence for sent in link.sent()] == [1]


def test_outputs_for_a_link_that_has_ended_are_dropped(link: FullLink) -> None:
    link.world.cut(0, 1)
    link.world.run(0.01)
    forwarded = link.near.counters.forwarded
    link.writer.forward(run_of(link.number, copy(), at=link.now), link.now)
    link.writer.send(SendFrame(link.number, Ping(5)), link.now)
    link.writer.relay(RelayFrame(link.number, ACK), link.now)
    assert link.near.counters.forwarded == forwarded
    assert link.overlay.counts["relays_refused"] == 1
    assert link.writer.connection(link.number) is None


def test_frames_of_other_brokers_leave_room_for_our_own(link: FullLink) -> None:
    link.block()
    relayed = 0
    while not link.overlay.counts["relays_refused"]:
        link.writer.relay(RelayFrame(link.number, ACK), link.now)
        relayed += 1
        assert relayed < CONTROL_BYTES_MAX, "there is a bound"
    assert not link.connection.overdue, "the neighbour is not closed because of frames of others"
    link.writer.send(SendFrame(link.number, Ping(5)), link.now)
    assert not link.connection.overdue
    assert link.overlay.counts["relays_refused"] == 1


def test_telemetry_records_written_and_dropped_copies(link: FullLink) -> None:
    telemetry = link.near.observe(TelemetrySettings())
    before = telemetry.ring.written
    link.block()
    link.writer.forward(run_of(link.number, copy(1), at=link.now), link.now)
    assert telemetry.ring.written == before, "it waits"
    link.unblock(1.0)
    written = telemetry.ring.written
    assert written > before
    forward = Forward(0, 0, 0, (9,), ((9, 1, 0),), publish().block)
    link.writer.dropped(CopyDropped(forward, 5, forward.destinations, "forbidden"), link.now)
    assert telemetry.ring.written > written

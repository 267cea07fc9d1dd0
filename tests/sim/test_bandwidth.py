"""Links with a bandwidth: bytes take time, buffers are bounded, and an end that writes too fast is asked to stop."""

from __future__ import annotations

from random import Random

import pytest

from plait.relay.shaping import SEGMENT_BYTES
from plait_broker.server.tcp_connection import FLUSH_S, WRITE_BUFFER_BYTES
from plait_lab.simulation.overlay.bandwidth import LOW_SHARE
from plait_lab.simulation.overlay.network import Endpoint, LinkConnection, OverlayNetwork
from plait_lab.simulation.timeline import Timeline

DELAY_S = 0.01
BYTES_PER_S = 100_000.0
QUEUE_BYTES = 20_000


class End(Endpoint):
    """An end that notes everything."""

    def __init__(self, number: int, timeline: Timeline) -> None:
        self.number = number
        self.timeline = timeline
        self.data = b""
        self.arrivals: list[tuple[float, int]] = []
        """Time and bytes of each read."""
        self.writable_at: list[tuple[float, bool]] = []
        self.ended_at: float | None = None

    def received(self, connection: LinkConnection, data: bytes) -> None:
        self.data += data
        self.arrivals.append((self.timeline.now, len(data)))

    def writable(self, connection: LinkConnection, writable: bool) -> None:
        self.writable_at.append((self.timeline.now, writable))

    def ended(self, connection: LinkConnection) -> None:
        self.ended_at = self.timeline.now


class Pair:
    """Two ends, and a link between them on which the first has opened a connection."""

    def __init__(self, bytes_per_s: float | None = BYTES_PER_S) -> None:
        self.timeline = Timeline()
        self.network = OverlayNetwork(self.timeline, Random(1))
        self.near, self.far = End(0, self.timeline), End(1, self.timeline)
        self.link = self.network.add_link(self.near, self.far, DELAY_S)
        if bytes_per_s is not None:
            self.network.limit_rate(self.link, bytes_per_s, queue_bytes=QUEUE_BYTES)
        self.connection = self.network.connect(self.link, self.near)

    def write(self, size: int, side: int = 0, connection: LinkConnection | None = None) -> bytes:
        data = Random(size).randbytes(size)
        self.network.write(connection or self.connection, side, data)
        return data

    def run(self, for_s: float = 1e6) -> None:
        self.timeline.run(self.timeline.now + for_s)

    @property
    def waiting_bytes(self) -> int:
        return self.link.bottlenecks[0].waiting_bytes


def test_bytes_arrive_at_the_rate_of_the_link_in_pieces_and_in_order() -> None:
    pair = Pair()
    written = b"".join(pair.write(size) for size in (50_000, 10, 3_000))
    pair.run()
    assert pair.far.data == written
    (first_at, first), *_, (last_at, _) = pair.far.arrivals
    assert first == SEGMENT_BYTES
    assert first_at == pytest.approx(DELAY_S + SEGMENT_BYTES / BYTES_PER_S)
    assert last_at == pytest.approx(DELAY_S + len(written) / BYTES_PER_S)


def test_directions_have_bandwidths_of_their_own() -> None:
    pair = Pair(None)
    pair.network.limit_rate(pair.link, BYTES_PER_S, pair.near)
    pair.write(10_000, side=0)
    pair.write(10_000, side=1)
    pair.run()
    assert pair.near.arrivals == [(DELAY_S, 10_000)]
    assert pair.far.arrivals[-1][0] == pytest.approx(DELAY_S + 10_000 / BYTES_PER_S)


def test_a_writer_is_asked_to_stop_above_the_high_mark_and_to_resume_at_the_low_mark() -> None:
    pair = Pair()
    pair.write(QUEUE_BYTES + WRITE_BUFFER_BYTES - SEGMENT_BYTES)
    assert not pair.near.writable_at
    pair.write(2 * SEGMENT_BYTES)
    assert pair.near.writable_at == [(0.0, False)]
    pair.write(SEGMENT_BYTES)
    waiting = pair.waiting_bytes
    pair.run()
    (_, stop), (resumed_at, resume) = pair.near.writable_at
    assert (stop, resume) == (False, True)
    left = waiting - QUEUE_BYTES - WRITE_BUFFER_BYTES // LOW_SHARE
    assert resumed_at == pytest.approx(left / BYTES_PER_S, abs=2 * SEGMENT_BYTES / BYTES_PER_S)


def test_a_resumed_writer_may_write_at_once() -> None:
    pair = Pair()
    written: list[bytes] = []

    def writable(connection: LinkConnection, writable: bool) -> None:
        End.writable(pair.near, connection, writable)
        if writable:
            written.append(pair.write(2 * WRITE_BUFFER_BYTES))

    pair.near.writable = writable  # type: ignore[method-assign]
    written.append(pair.write(2 * WRITE_BUFFER_BYTES))
    pair.run(10.0)
    assert [now for _, now in pair.near.writable_at] == [False, True, False, True, False]
    assert b"".join(written).startswith(pair.far.data)
    assert len(pair.far.data) == pytest.approx(10.0 * BYTES_PER_S, rel=0.01)


def test_the_write_limit_may_change_while_bytes_wait() -> None:
    pair = Pair()
    pair.write(QUEUE_BYTES + 40_000)
    pair.network.set_write_limit(pair.connection, 0, 30_000)
    assert pair.near.writable_at == [(0.0, False)]
    pair.network.set_write_limit(pair.connection, 0, 80_000)
    pair.run()
    assert [now for _, now in pair.near.writable_at] == [False, True]
    resumed_at = pair.near.writable_at[1][0]
    assert resumed_at == pytest.approx((40_000 - 80_000 // LOW_SHARE) / BYTES_PER_S, abs=0.05)


def test_connections_share_the_bandwidth_of_their_link() -> None:
    pair = Pair()
    other = pair.network.connect(pair.link, pair.near)
    pair.write(100_000)
    pair.write(100_000, connection=other)
    pair.run(1.0 + DELAY_S)
    assert len(pair.far.data) == pytest.approx(BYTES_PER_S, rel=0.02)
    pair.run()
    assert pair.far.arrivals[-1][0] == pytest.approx(DELAY_S + 200_000 / BYTES_PER_S)


def test_a_bandwidth_may_change_and_end() -> None:
    pair = Pair()
    written = pair.write(40_000)
    pair.run(0.1)
    pair.network.limit_rate(pair.link, BYTES_PER_S / 10)
    pair.run(0.5)
    assert len(pair.far.data) == pytest.approx(0.1 * BYTES_PER_S + 0.5 * BYTES_PER_S / 10, abs=2 * SEGMENT_BYTES)
    pair.network.limit_rate(pair.link, None)
    pair.run(0.5)
    assert pair.far.data == written


def test_nothing_leaves_a_silent_link_and_its_writer_is_asked_to_stop() -> None:
    pair = Pair()
    pair.network.silence(pair.link)
    written = pair.write(QUEUE_BYTES + 2 * WRITE_BUFFER_BYTES)
    pair.run(100.0)
    assert not pair.far.data
    assert pair.waiting_bytes == len(written)
    assert pair.near.writable_at == [(0.0, False)]
    pair.network.mend(pair.link)
    pair.run()
    assert pair.far.data == written
    assert pair.near.writable_at[-1][1]


@pytest.mark.parametrize("silent", [False, True])
def test_a_closed_connection_has_some_time_to_write_the_rest(silent: bool) -> None:
    pair = Pair()
    written = pair.write(QUEUE_BYTES + int((FLUSH_S + 5.0) * BYTES_PER_S))
    if silent:
        pair.network.silence(pair.link)
    pair.network.close(pair.connection, 0)
    pair.run(2 * FLUSH_S)
    assert (pair.far.ended_at is None) is silent
    pair.network.mend(pair.link)
    pair.run()
    assert pair.far.ended_at is not None
    assert written.startswith(pair.far.data)
    flushed = 0.0 if silent else FLUSH_S * BYTES_PER_S
    assert len(pair.far.data) == pytest.approx(QUEUE_BYTES + flushed, abs=2 * SEGMENT_BYTES)


def test_of_a_killed_process_only_the_queue_arrives() -> None:
    pair = Pair()
    pair.write(3 * QUEUE_BYTES)
    pair.network.close(pair.connection, 0, killed=True)
    pair.run()
    assert len(pair.far.data) == pytest.approx(QUEUE_BYTES, abs=2 * SEGMENT_BYTES)
    assert pair.far.ended_at == pytest.approx(pair.far.arrivals[-1][0])


def test_nothing_of_a_reset_connection_arrives() -> None:
    pair = Pair()
    pair.write(3 * QUEUE_BYTES)
    pair.network.reset(pair.connection)
    pair.run()
    assert not pair.far.data
    assert not pair.waiting_bytes


def test_an_end_that_reads_rarely_gets_what_has_arrived_meanwhile_as_one_read() -> None:
    pair = Pair(None)
    pair.network.read_s = 0.05
    first = pair.write(10)
    pair.run(0.02)
    second = pair.write(20)
    pair.run(0.04)
    third = pair.write(30)
    pair.run(1.0)
    assert pair.far.data == first + second + third
    assert [size for _, size in pair.far.arrivals] == [30, 30]

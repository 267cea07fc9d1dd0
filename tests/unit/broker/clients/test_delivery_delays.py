"""Check that a broker counts the delay of each delivery once, as the frame states it, whether direct or queued."""

from __future__ import annotations

from plait_broker.histograms import DelayHistogram
from plait_core.wire import Deliver
from plait_lab.simulation.one_broker.network import Path
from plait_lab.simulation.one_broker.stage import Stage


def test_delay_histograms_agree_with_the_delays_in_frames() -> None:
    stage = Stage(path=Path(delay_s=0.01, jitter_s=0.005))
    near = stage.raw("near", path=Path(delay_s=0.0001))
    far, slow, quick = stage.raw("far"), stage.raw("slow", path=Path(bytes_per_s=20_000.0, buffer_bytes=2_000)), near
    stage.run(2)
    slow.subscribe(1)
    quick.subscribe(1)
    quick.subscribe(2)
    stage.run(1)
    for n in range(200):
        (near if n % 3 else far).publish(payload=bytes(50), n=n)
        stage.run(0.001)
    stage.run(20)
    expected = DelayHistogram()
    for client in (slow, quick):
        for frame in client.of(Deliver):
            expected.observe(frame.delay_us, len(frame.deliveries))
    counters = stage.broker.counters
    assert len(expected) == 600
    assert counters.delivered == 600
    assert counters.delivery_delays.counts == expected.counts
    assert counters.delivery_delays.sum_us == expected.sum_us
    assert sum(count > 0 for count in expected.counts) > 3, "some of them have waited"

"""A durable subscription that starts while events are being stored: they are neither logged yet nor new."""

from __future__ import annotations

import pytest

from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Start
from plait_lab.simulation.one_broker.disks import DiskTerms
from plait_lab.simulation.one_broker.stage import Stage


@pytest.mark.parametrize("logged", [0, 5])
@pytest.mark.parametrize(
    ("start", "start_at", "begins"), [(Start.ALL, 0, 1), (Start.POSITION, 3, 3), (Start.TIME, 0, 1), (Start.NEW, 0, 11)]
)
def test_events_that_the_disk_is_still_busy_with_belong_to_its_start(
    logged: int, start: Start, start_at: int, begins: int
) -> None:
    stage = Stage(disk=DiskTerms(sync_s=0.0, slow_s=1.0))
    publisher, first, second = (stage.raw(name) for name in ("publisher", "first", "second"))
    first.subscribe(1, "n > 0", durable="first")
    stage.run(5)
    for n in range(1, logged + 1):
        publisher.publish(Confirm.BROKER, n=n)
    stage.run(5)
    for n in range(logged + 1, 11):
        publisher.publish(Confirm.BROKER, n=n)
    stage.run(0.1)
    assert len(publisher.confirmed()) == logged, "the disk is still busy with the others"
    second.subscribe(1, "n > 0 and n != 7", durable="second", start=start, start_at=start_at)
    stage.run(5)
    publisher.publish(Confirm.BROKER, n=11)
    stage.run(5)
    assert publisher.confirmed() == list(range(1, 12))
    assert first.sequences(1) == list(range(1, 12))
    assert second.sequences(1) == [n for n in range(begins, 12) if n != 7]

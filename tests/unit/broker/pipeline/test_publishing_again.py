"""A publisher without a confirmation repeats an event at another broker, which knows it. No other client may do so."""

from __future__ import annotations

import pytest

from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Receipt
from plait_lab.simulation.overlay.world import World, linked_world

FAR_S = 0.2
"""Delay of the link to the far broker. The sending broker dies before the copy arrives there."""


@pytest.fixture
def triangle() -> World:
    return linked_world({(0, 1): 0.001, (0, 2): FAR_S, (1, 2): 1.5 * FAR_S})


def test_who_had_not_got_it_gets_it_before_it_is_confirmed(triangle: World) -> None:
    near, far = triangle.connected_client(1, "near"), triangle.connected_client(2, "far")
    publisher = triangle.connected_client(0)
    publisher.advertise("n >= 0")
    for subscriber in (near, far):
        subscriber.subscribe("n >= 0")
    triangle.run(4 * FAR_S)
    assert publisher.publish({"n": 1}, Confirm.BROKER)
    triangle.run(FAR_S / 4)
    assert near.delivered == [{"n": 1}]
    triangle.cut(0, 1)
    triangle.cut(0, 2)  # its broker is gone, with the copy for the far one
    triangle.nodes[0].kill()
    publisher.leave()
    triangle.run(20 * FAR_S)
    assert far.delivered == []
    again = triangle.connected_client(1, publisher=publisher.publisher)
    again.advertise("n >= 0")
    assert triangle.run_until(lambda: again.ready, 20 * FAR_S)
    again.publish({"n": 1}, Confirm.BROKER, sequence=publisher.sequence)
    assert triangle.run_until(lambda: bool(again.heard(Receipt)), 20 * FAR_S, step_s=0.01)
    assert far.delivered, "it is confirmed once all have it"
    triangle.run(4 * FAR_S)
    assert far.delivered == near.delivered == [{"n": 1}], "and nobody has it twice"

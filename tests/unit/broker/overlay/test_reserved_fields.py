"""Optional fields for later features: they reach other brokers, follow changes, and influence no decision."""

from __future__ import annotations

import pytest

from plait_broker.status import describe_topology
from plait_core.limits import SEGMENTS_MAX, VALUES_SKETCH_BYTES_MAX
from plait_core.wire.frame_types.overlay_frames import Advertisement, InterestUpdate, LinkState
from plait_lab.simulation.overlay.world import World, linked_world


@pytest.fixture
def world() -> World:
    return linked_world({(0, 1): 0.001, (1, 2): 0.001})


def test_the_delay_bound_of_each_filter_reaches_publishers_brokers(world: World) -> None:
    publisher, subscriber = world.connected_client(0), world.connected_client(2)
    publisher.advertise("x >= 0")
    bounded = subscriber.subscribe("x > 10", within_us=50_000)
    subscriber.subscribe("x < 5")
    world.run(1.0)

    def bounds() -> dict[str, float | None]:
        interest = describe_topology(world.broker(0))["interest"]
        return {filter["filter"]: filter["within_ms"] for filter in interest}

    assert bounds() == {"x > 10": 50.0, "x < 5": None}
    bounded.terms["within_us"] = 20_000
    subscriber.change(bounded, bounded.filter)
    world.run(1.0)
    assert bounds() == {"x > 10": 20.0, "x < 5": None}, "another bound is announced like another filter"
    publisher.publish({"x": 11})
    world.run(1.0)
    assert subscriber.delivered == [{"x": 11}]


def test_a_sketch_of_values_reaches_all_brokers(world: World) -> None:
    near, far = world.broker(0), world.broker(2)
    near.overlay.flooding.originate(Advertisement(near.id, 900, 1, "x > 1", 12.5, b"a histogram"))
    world.nodes[0].act()
    world.run(1.0)
    known = far.overlay.flooding.advertisement(near.id, 900)
    assert known is not None
    assert (known.filter, known.rate, known.values) == ("x > 1", 12.5, b"a histogram")
    (shown,) = describe_topology(far)["advertisements"]
    assert shown["values"] == b"a histogram".hex()


def test_what_reserved_fields_may_be() -> None:
    assert LinkState(1, 1, "b", (2,), (5,), capacities=(0,)).problem() == ""
    assert "capacity" in LinkState(1, 1, "b", (2,), (5,), capacities=(0, 1)).problem()
    update = InterestUpdate((1,), 2, (1,), (0,), True, (1, 2), ("x > 1", "x < 0"), (), within_us=(5,))
    assert "terms" in update.problem()
    assert Advertisement(1, 1, 1, "x > 1", values=bytes(VALUES_SKETCH_BYTES_MAX)).problem() == ""
    assert SEGMENTS_MAX >= 64

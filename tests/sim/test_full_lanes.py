"""A lane that is offered more than it carries stays alive, wastes nothing, and delays neither control nor others."""

from __future__ import annotations

import pytest

from plait_lab.simulation.overlay.worlds.full_lanes import (
    BESIDE_RATIO,
    CONTROL_RATIO,
    CONTROL_S,
    COPIES_MAX,
    GOODPUT_MIN,
    LOADS,
    FullLane,
    LaneReport,
    LanesBeside,
)


def missed(full: LaneReport, bare: LaneReport) -> list[str]:
    """Return the targets that a full lane has missed."""
    ping_max_s = CONTROL_RATIO * bare.ping_s + CONTROL_S
    subscribe_max_s = CONTROL_RATIO * bare.subscribe_s + CONTROL_S
    targets = {
        f"{full.links_dead} links were declared dead": full.links_dead == 0,
        f"{full.copies:.2f} copies of an event, at most {COPIES_MAX}": full.copies <= COPIES_MAX,
        f"{full.goodput:.2f} of the capacity used, at least {GOODPUT_MIN}": full.goodput >= GOODPUT_MIN,
        f"{full.delivered} of {full.published} events delivered": full.delivered == full.published,
        f"a ping took {full.ping_s:.3f} s, at most {ping_max_s:.3f}": full.ping_s <= ping_max_s,
        f"a subscription took {full.subscribe_s:.3f} s, at most {subscribe_max_s:.3f}": (
            full.subscribe_s <= subscribe_max_s
        ),
    }
    return [target for target, kept in targets.items() if not kept]


def test_a_lane_below_its_capacity_carries_everything_once() -> None:
    report = FullLane().measure(0.8)
    assert report.links_dead == 0
    assert report.delivered == report.published
    assert report.copies == 1.0
    assert report.goodput == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize("load", LOADS)
def test_a_full_lane_stays_alive_and_delays_no_control_frame(load: float) -> None:
    found = missed(FullLane().measure(load), bare=FullLane().measure(0.0))
    assert not found, "; ".join(found)


@pytest.mark.parametrize("load", LOADS)
def test_a_full_lane_delays_no_event_on_other_lanes(load: float) -> None:
    assert LanesBeside().measure(load) <= BESIDE_RATIO * LanesBeside().measure(0.0)

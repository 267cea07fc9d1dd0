"""A link of real brokers that fails in one direction is removed, and all events take another path."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from plait_lab.benchmarks.measurement.overlay.healing import SQUARE
from plait_lab.benchmarks.measurement.overlay.running import linked_overlay, traffic


@pytest.mark.parametrize("flow", ["lost", "frozen"])
@pytest.mark.parametrize("direction", ["forth", "back"])
async def test_events_leave_a_link_that_is_dead_in_one_direction(
    direction: Literal["forth", "back"], flow: Literal["lost", "frozen"], tmp_path: Path
) -> None:
    async with linked_overlay(SQUARE, tmp_path, relayed=SQUARE.named_links[:2]) as overlay:
        [fast] = overlay.relays["a", "b"]
        overlay.shape(("a", "c"), delay_s=0.010)
        async with traffic(overlay, "a", "d") as going:
            await going.settle("abd")
            fast.shape(direction, flow=flow)
            await going.settle("acd")
            await going.stop()
            assert going.missing_or_wrong == 0

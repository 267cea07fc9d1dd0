"""Events that nobody has advertised reach all subscribers, under faults: brokers infer advertisements from them.

`make test` plays 50 seeds, `make nightly` 2,000. `Unadvertised(seed).play()` replays one.
"""

from __future__ import annotations

import pytest
from processes import NIGHTLY

from plait_broker.pipeline.advertisement_gate import AdvertisementGate
from plait_core.filters import Filter
from plait_lab.simulation.overlay.worlds.unadvertised import Unadvertised

SEEDS = 2_000 if NIGHTLY else 50
SHARE = 10

CATCHES = 10
"""Seeds within which a planted bug is found."""


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_seed_loses_or_repeats_an_event(first: int) -> None:
    due = inferred = 0
    for seed in range(first, first + SHARE):
        unadvertised = Unadvertised(seed)
        complaints = unadvertised.play()
        assert not complaints, f"seed {seed}: {complaints[0]}"
        due += unadvertised.world.oracle.due
        inferred += unadvertised.inferred
    assert due > 500
    assert inferred > 20, "brokers have inferred advertisements, or nothing is proved"


def lost() -> bool:
    return any(" I1: " in text for seed in range(CATCHES) for text in Unadvertised(seed).play())


def test_without_the_gate_events_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdvertisementGate, "holds", lambda *_: False)
    assert lost()


def test_without_waiting_for_the_others_events_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    advertise = AdvertisementGate.advertise

    def advertise_and_go_on(gate: AdvertisementGate, number: int, filter: Filter, rate: float = 0.0) -> None:
        advertise(gate, number, filter, rate)
        gate.known(number)

    monkeypatch.setattr(AdvertisementGate, "advertise", advertise_and_go_on)
    assert lost()

"""Filters of other brokers that parse but have no normal form within the limits: counted, and harmless."""

from __future__ import annotations

from random import Random

import pytest

from plait_broker.overlay import Incarnation, Overlay, OverlaySettings
from plait_core.errors import FilterTooComplex
from plait_core.filters import parse
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import envelop_document, envelop_message
from plait_core.wire.frame_types.overlay_frames import Advertisement, DurableInterest, InterestUpdate, LinkState

ME, OTHER = 1, 2
COMPLEX = " and ".join(f"(a{number} == 1 or b{number} == 2)" for number in range(20))

FRAMES = {
    "advertisement": envelop_document(Advertisement(OTHER, 1, 1, COMPLEX)),
    "durable interest": envelop_document(DurableInterest(OTHER, 1, 1, COMPLEX)),
    "interest update": envelop_message(InterestUpdate((ME,), OTHER, (1,), (0,), True, (1, 2), ("x > 1", COMPLEX), ())),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_filter_without_a_normal_form_is_counted_and_changes_nothing(kind: str) -> None:
    with pytest.raises(FilterTooComplex):
        assert parse(COMPLEX).normal
    overlay = Overlay(ME, OverlaySettings(), Incarnation(), None, Random(1), 0.0)
    overlay.link_up(7, OTHER, "other", 0.0, delay_us=1000)
    overlay.receive(OTHER, envelop_document(LinkState(OTHER, 1, "other", (ME,), (1000,))), 0.0)
    frame: ControlFrame = FRAMES[kind]
    overlay.receive(OTHER, frame, 0.0)
    assert overlay.take_outputs(0.0)
    assert overlay.counts["bad_filters"] == 1
    assert not overlay.meets(parse("x == 2")), "an update with one such filter is not applied in part"
    assert OTHER in overlay.neighbours, "a broker that relays it is not to blame"

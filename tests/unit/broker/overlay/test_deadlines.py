"""The overlay's deadline lies ahead once all outputs are taken, or the next tick makes progress."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.overlay.overlay import INSTALL_TIMES
from plait_core.filters import parse
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.overlay_frames import InterestAck, InterestUpdate

ME, NEAR = 1, 2
UNKNOWN_FINGERPRINT = 12345
TICKS_MAX = 5
"""Ticks at one instant: some timers set others."""


def test_a_filter_that_is_withdrawn_while_it_waits_leaves_no_deadline() -> None:
    """It waits for a broker that has acked everything, but names advertisements that are not known here."""
    one = OneOverlay(ME)
    one.link_up(NEAR)
    (version,) = one.messages(InterestUpdate)[-1].versions
    one.receive(NEAR, envelop_message(InterestAck(ME, NEAR, version, UNKNOWN_FINGERPRINT, version)))
    one.overlay.announce_filter(7, parse("x > 1"))
    one.take()
    assert 7 in one.overlay.interest_sync.installing
    one.overlay.withdraw_filter(7)
    one.take()
    late = INSTALL_TIMES * one.overlay.settings.detect_s + 1.0
    for _ in range(TICKS_MAX):
        one.tick(late)
    assert one.overlay.due_at > late

"""F13: half of the brokers are newer, no broker is expelled, no event is lost, and newer documents reach newer brokers.

`make test` plays 24 histories, `make nightly` 400. Before documents and messages were carried as bytes, every such
history failed at once. A link state with one more field was `Forged: a signature that is not this broker's` at the next
broker, which expelled the honest neighbour that relayed it. A document, message or frame of a new type was `FrameError:
frame type 0x7e does not exist`, which closed the link.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from plait_broker.overlay.topology import flooding
from plait_core.errors import FrameError
from plait_core.wire import FrameDecoder
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_lab.simulation.overlay import overlay_nodes
from plait_lab.simulation.overlay.mixed_versions import MixedNode, MixedVersions

SEEDS = 400 if os.environ.get("PLAIT_NIGHTLY") else 24
SHARE = 4


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_brokers_of_two_versions_are_one_overlay(first: int) -> None:
    unknown_frames = unknown_messages = detours = came = restarts = joins = 0
    for seed in range(first, first + SHARE):
        world = MixedVersions(seed)
        complaints = world.play()
        assert not complaints, f"seed {seed}: {complaints[0]}"
        assert world.reached > 0
        assert 0 < len(world.newer) <= len(world.nodes)
        for node in world.nodes:
            assert isinstance(node, MixedNode)
            unknown_frames += node.unknown_frames
            unknown_messages += node.unknown_messages
            detours += node.detours
            came += node.came_before
            restarts += node.lives > 1
            joins += node.joins_at > 0
    assert unknown_frames > 100 * SHARE, "frames of a newer type came, and were ignored"
    assert unknown_messages > 10 * SHARE
    assert came > 10 * SHARE, "newer brokers read what others do not know"
    assert detours > SHARE, "source routes were taken"
    assert joins, "some joined late"


def complaints_of(seeds: int = 3) -> list[str]:
    return [complaint for seed in range(seeds) for complaint in MixedVersions(seed, faults=False).play()]


def test_a_relay_that_encodes_documents_anew_is_expelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the earlier behaviour of relays: encoding drops the unknown field, so the origin's signature no longer
    fits."""
    right = flooding.Flooding._store

    def encode_anew(self: flooding.Flooding, stored: flooding.KnownDocument) -> Any:
        if stored.document is not None and stored.signed.origin != self._me:
            signed = replace(envelop_document(stored.document), signature=stored.signed.signature)
            stored = flooding.KnownDocument(signed, stored.document)
        return right(self, stored)

    monkeypatch.setattr(flooding.Flooding, "_store", encode_anew)
    assert any("expels" in complaint for complaint in complaints_of())


def test_a_decoder_that_refuses_unknown_frames_ends_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_nodes, "FrameDecoder", lambda version, keep_unknown: FrameDecoder(version=version))
    with pytest.raises(FrameError, match="does not exist"):
        complaints_of(1)

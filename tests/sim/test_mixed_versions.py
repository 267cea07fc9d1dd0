"""F13: half of the brokers are newer, no broker is expelled, no event is lost, and newer documents reach newer brokers.

`make test` plays 24 histories, `make nightly` 400. Before documents and messages were carried as bytes, every such
history failed at once. A link state with one more field was `Forged: a signature that is not this broker's` at the next
broker, which expelled the honest neighbour that relayed it. A document, message or frame of a new type was `FrameError:
frame type 0x7e does not exist`, which closed the link.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from plait_broker.overlay.topology import flooding
from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_core.wire import FrameDecoder
from plait_core.wire.frame_types.envelope_frames import MESSAGE_KINDS, EndToEnd, envelop_document
from plait_lab.simulation.overlay.mixed_versions import MixedVersions

SEEDS = 400 if os.environ.get("PLAIT_NIGHTLY") else 24
SHARE = 4


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_brokers_of_two_versions_are_one_overlay(first: int) -> None:
    counts: Counter[str] = Counter()
    due = reached = read = restarts = joins = 0
    for seed in range(first, first + SHARE):
        history = MixedVersions(seed)
        complaints = history.play()
        assert not complaints, f"seed {seed}: {complaints[0]}"
        assert 0 < len(history.newer) <= len(history.brokers)
        due += history.world.oracle.due
        reached += history.reached
        for broker in history.brokers:
            counts += broker.overlay.counts
            read += len(broker.messages) + broker.later_fields
            restarts += broker.node.lives > 1
            joins += broker.joins_at > 1.0
    assert due > 10 * SHARE, "events were due"
    assert reached > 10 * SHARE, "newer documents and messages had to reach newer brokers"
    assert counts["unknown_frames"] > 50 * SHARE, "frames of a newer type came, and were ignored"
    assert counts["unknown_messages"] > 5 * SHARE
    assert counts["unknown_documents"] > 10 * SHARE
    assert read > 10 * SHARE, "newer brokers read what others do not know"
    assert counts["detours"] > SHARE, "source routes were taken"
    assert joins + restarts, "some joined late, or came back as the other version"


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
    right = FrameDecoder.establish
    monkeypatch.setattr(FrameDecoder, "establish", lambda self, version, *, keep_unknown=False: right(self, version))
    assert any("does not exist" in complaint for complaint in complaints_of(1)), "honest brokers are expelled"


def test_a_relay_that_drops_unknown_documents_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding.Flooding, "_has_room", lambda *_: False)
    assert any("lacks document" in complaint for complaint in complaints_of())


def test_a_relay_that_drops_unknown_messages_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ControlUnicast.pass_on

    def pass_on(self: ControlUnicast, envelope: EndToEnd, *given: Any) -> None:
        if envelope.kind in MESSAGE_KINDS:
            right(self, envelope, *given)

    monkeypatch.setattr(ControlUnicast, "pass_on", pass_on)
    assert any("never got newer message" in complaint for complaint in complaints_of())

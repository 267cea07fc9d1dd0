"""The documents of one origin are bounded in number and bytes. Beyond, new ones are refused, counted and named once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flooding_broker import FloodingBroker
from one_overlay import OneOverlay

from plait_broker.overlay.outputs import LogRemark
from plait_broker.overlay.topology import flooding
from plait_core.filters import parse
from plait_core.wire.frame_types.envelope_frames import envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, LinkState

ME, NEAR, FAR, ORIGIN = 1, 2, 3, 9


def advertisement(number: int, version: int = 1, text: str = "x > 1", origin: int = ORIGIN) -> Advertisement:
    return Advertisement(origin, number, version, text)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> FloodingBroker:
    """A broker that stores three documents of one origin, and has them."""
    monkeypatch.setattr(flooding, "ORIGIN_DOCUMENTS_MAX", 3)
    broker = FloodingBroker(ME, NEAR, FAR)
    for number in range(3):
        broker.flooding.receive(envelop_document(advertisement(number)), NEAR)
    assert len(broker.flooding) == 3
    broker.clear()
    return broker


def test_a_further_document_of_an_origin_is_refused_and_not_relayed(three: FloodingBroker) -> None:
    for number in (7, 8):
        three.flooding.receive(envelop_document(advertisement(number)), NEAR)
    assert len(three.flooding) == 3
    assert three.sent == []
    assert three.counts["origin_refused"] == 2
    assert list(three.flooding.exceeded) == [ORIGIN], "it is named once"
    three.flooding.receive(envelop_document(advertisement(7, origin=NEAR)), NEAR)
    assert len(three.flooding) == 4, "each origin has its own bound"


def test_changes_withdrawals_and_the_link_state_pass(three: FloodingBroker) -> None:
    three.flooding.receive(envelop_document(advertisement(1, 2, "x > 2")), NEAR)
    three.flooding.receive(envelop_document(advertisement(2, 2, "")), NEAR)
    three.flooding.receive(envelop_document(LinkState(ORIGIN, 1, "b9", (), ())), NEAR)
    assert len(three.sent) == 3
    assert three.counts["origin_refused"] == 0


def test_the_bytes_of_an_origin_are_bounded_and_withdrawn_ones_free_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding, "ORIGIN_BYTES_MAX", 250)
    broker = FloodingBroker(ME, NEAR, FAR)
    document = replace(envelop_document(advertisement(1)), body=bytes(100), kind=0x1234)
    for number in (1, 2, 3):
        broker.flooding.receive(replace(document, number=number), NEAR)
    broker.flooding.receive(replace(document, version=2, body=bytes(180)), NEAR)
    assert len(broker.flooding) == 2
    assert broker.counts["origin_refused"] == 2
    broker.flooding.receive(replace(document, number=2, version=2, body=b""), NEAR)
    broker.flooding.receive(replace(document, version=2, body=bytes(180)), NEAR)
    assert broker.counts["origin_refused"] == 2


def test_an_origin_beyond_its_bound_is_named_in_the_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding, "ORIGIN_DOCUMENTS_MAX", 3)
    one = OneOverlay(ME)
    one.link_up(NEAR)
    for number in range(1, 9):
        one.learn(advertisement(number, origin=NEAR), NEAR)
    assert [remark.text for remark in one.of(LogRemark)] == [
        "b2 floods more documents than one broker may: further ones are refused"
    ]
    for number in range(1, 9):
        one.overlay.advertise(number, parse("x > 1"))
    (_, own) = one.of(LogRemark)
    assert own.text.startswith("this broker floods more")

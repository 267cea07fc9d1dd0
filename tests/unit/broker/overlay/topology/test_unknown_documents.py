"""Documents that a broker cannot read: verified, stored within bounds and relayed unchanged. The neighbour that relays
them is not blamed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from flooding_broker import FloodingBroker

from plait_broker.overlay.security.identity import Forged, Identity
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology import flooding
from plait_broker.overlay.topology.flooding import key_of
from plait_core.errors import FrameError
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT, LINK_STATE, Signed, envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, LinkState
from plait_core.wire.msgpack_codec import pack

ME, NEAR, FAR, ORIGIN = 1, 2, 3, 9
LATER = Signed(0x1234, ORIGIN, 7, 1, b"the format of a later version")


def test_a_document_of_an_unknown_kind_is_relayed_unchanged() -> None:
    broker = FloodingBroker(ME, NEAR, FAR)
    broker.flooding.receive(LATER, NEAR)
    assert broker.sent == [(FAR, LATER)]
    assert broker.learned == []
    assert broker.counts["unknown_documents"] == 1
    broker.flooding.receive(LATER, FAR)
    assert len(broker.sent) == 1, "and only once"
    newer = replace(LATER, version=2, body=b"")
    broker.flooding.receive(newer, NEAR)
    broker.flooding.receive(LATER, FAR)
    assert broker.sent[1:] == [(FAR, newer), (FAR, newer)], "an older version is answered by the newer"


def test_a_summary_names_it_and_a_neighbour_that_lacks_it_gets_it() -> None:
    broker = FloodingBroker(ME, NEAR, FAR)
    broker.flooding.receive(LATER, NEAR)
    broker.clear()
    broker.link_up(5)
    ((_, summary),) = broker.sent
    assert summary == DatabaseSummary(True, True, (ORIGIN,), (0x1234,), (7,), (1,))
    broker.flooding.receive_summary(DatabaseSummary(True, True, (), (), (), ()), 5)
    assert broker.sent[1:] == [(5, LATER)]


def test_documents_of_different_kinds_may_have_the_same_number() -> None:
    broker = FloodingBroker(ME, NEAR, FAR)
    same = envelop_document(Advertisement(ORIGIN, 7, 1, "x > 1"))
    for signed in (LATER, same):
        broker.flooding.receive(signed, NEAR)
    assert [frame for _, frame in broker.sent] == [LATER, same]
    assert broker.flooding.keys == [(ORIGIN, ADVERTISEMENT, 7), (ORIGIN, 0x1234, 7)]


def test_unknown_fields_are_relayed() -> None:
    broker = FloodingBroker(ME, NEAR, FAR)
    body = bytes(pack({"filter": "x > 1", "later": {"deep": [1, None]}}))
    signed = Signed(ADVERTISEMENT, ORIGIN, 1, 1, body)
    broker.flooding.receive(signed, NEAR)
    assert broker.learned == [Advertisement(ORIGIN, 1, 1, "x > 1")]
    assert broker.sent == [(FAR, signed)]


def test_an_unreadable_document_of_a_known_kind_is_its_origins_fault() -> None:
    """Check that it is relayed: a newer version may have changed its format, and relays may not know its kind."""
    broker = FloodingBroker(ME, NEAR, FAR)
    for number, body in enumerate((b"no map", bytes(pack({"filter": 5})), b"\xc1")):
        signed = Signed(ADVERTISEMENT, ORIGIN, number, 1, body)
        broker.flooding.receive(signed, NEAR)
        assert broker.sent[-1] == (FAR, signed)
    assert broker.learned == []


@pytest.mark.parametrize("body", [b"", b"no map", bytes(pack({"name": "b"}))])
def test_an_unreadable_link_state_is_its_neighbours_fault(body: bytes) -> None:
    """The neighbour is at fault: the keys are in the body, so it cannot have verified the document."""
    broker = FloodingBroker(ME, NEAR, FAR)
    with pytest.raises(FrameError):
        broker.flooding.receive(Signed(LINK_STATE, ORIGIN, 0, 1, body), NEAR)
    assert broker.sent == []


def test_unreadable_documents_are_stored_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding, "UNREAD_MAX", 3)
    monkeypatch.setattr(flooding, "UNREAD_BYTES_MAX", 100)
    broker = FloodingBroker(ME, NEAR, FAR)
    for number in range(5):
        broker.flooding.receive(replace(LATER, number=number, body=bytes(20)), NEAR)
    assert len(broker.flooding) == 3
    assert len(broker.sent) == 3, "no more is relayed than is stored"
    assert broker.counts["documents_refused"] == 2
    broker.flooding.receive(replace(LATER, number=0, version=2, body=bytes(90)), NEAR)
    assert broker.counts["documents_refused"] == 3, "nor does a new version go beyond the bytes"
    broker.flooding.receive(replace(LATER, number=0, version=2, body=bytes(60)), NEAR)
    assert len(broker.sent) == 4
    broker.flooding.receive(envelop_document(Advertisement(ORIGIN, 1, 1, "x > 1")), NEAR)
    assert len(broker.learned) == 1, "readable documents have room of their own"
    broker.flooding.forget(ORIGIN)
    broker.flooding.receive(replace(LATER, origin=8), NEAR)
    assert key_of(replace(LATER, origin=8)) in broker.flooding.keys, "and the room is free again"


def test_it_is_relayed_only_once_its_signature_is_verified() -> None:
    mine, theirs = (Identity(Random(f"unknown/{name}")) for name in "ab")
    broker = FloodingBroker(mine.id, NEAR, FAR, auth=MessageAuth(mine.id, mine))
    origin = MessageAuth(theirs.id, theirs)
    signed = origin.sign(Signed(0x1234, theirs.id, 7, 1, b"later"))
    broker.flooding.receive(signed, NEAR)
    assert broker.sent == [], "its keys are not known yet"
    link_state = origin.envelop(LinkState(theirs.id, 1, "b", (), ()))
    broker.flooding.receive(link_state, NEAR)
    broker.flooding.receive(signed, NEAR)
    assert [frame for _, frame in broker.sent] == [link_state, signed]
    with pytest.raises(Forged):
        broker.flooding.receive(replace(signed, version=2), NEAR)


def test_an_unreadable_document_in_our_name_is_outbid() -> None:
    broker = FloodingBroker(ME, NEAR, FAR)
    broker.flooding.receive(replace(LATER, origin=ME, version=5), NEAR)
    assert broker.sent == [(to, replace(LATER, origin=ME, version=6, body=b"")) for to in (NEAR, FAR)]
    broker.clear()
    broker.flooding.originate_raw(replace(LATER, origin=ME, version=8))
    broker.flooding.receive(replace(LATER, origin=ME, version=9, body=b"of somebody else"), NEAR)
    assert broker.sent[-1] == (FAR, replace(LATER, origin=ME, version=10)), "our own body replaces the false one"

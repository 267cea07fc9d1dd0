"""Documents that a broker cannot read: verified, stored within bounds and relayed unchanged. The neighbour that relays
them is not blamed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from plait_broker.overlay.security.identity import Forged, Identity
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology import flooding
from plait_broker.overlay.topology.flooding import Flooding, key_of
from plait_core.errors import FrameError
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import ADVERTISEMENT, LINK_STATE, Signed, envelop_document
from plait_core.wire.frame_types.overlay_frames import Advertisement, DatabaseSummary, Document, LinkState
from plait_core.wire.msgpack_codec import pack

ME, NEAR, FAR, ORIGIN = 1, 2, 3, 9
LATER = Signed(0x1234, ORIGIN, 7, 1, b"whatever a later version writes")


class One:
    """One broker's flooding between two neighbours."""

    def __init__(self, auth: MessageAuth | None = None) -> None:
        self.sent: list[tuple[int, ControlFrame]] = []
        self.learned: list[Document] = []
        self.counts: Counter[str] = Counter()
        self.flooding = Flooding(
            ME,
            lambda to, frame: self.sent.append((to, frame)),
            lambda document, _: self.learned.append(document),
            auth,
            self.counts,
        )
        for neighbour in (NEAR, FAR):
            self.flooding.link_up(neighbour)
        self.sent.clear()


def test_a_kind_that_is_not_known_is_relayed_as_it_came() -> None:
    one = One()
    one.flooding.receive(LATER, NEAR)
    assert one.sent == [(FAR, LATER)]
    assert one.learned == []
    assert one.counts["unknown_documents"] == 1
    one.flooding.receive(LATER, FAR)
    assert len(one.sent) == 1, "and once"
    newer = replace(LATER, version=2, body=b"")
    one.flooding.receive(newer, NEAR)
    one.flooding.receive(LATER, FAR)
    assert one.sent[1:] == [(FAR, newer), (FAR, newer)], "an older version is answered by the newer"


def test_a_summary_names_it_and_a_neighbour_that_lacks_it_gets_it() -> None:
    one = One()
    one.flooding.receive(LATER, NEAR)
    one.sent.clear()
    one.flooding.link_up(5)
    ((_, summary),) = one.sent
    assert summary == DatabaseSummary(True, True, (ORIGIN,), (0x1234,), (7,), (1,))
    one.flooding.receive_summary(DatabaseSummary(True, True, (), (), (), ()), 5)
    assert one.sent[1:] == [(5, LATER)]


def test_kinds_have_numbers_of_their_own() -> None:
    one = One()
    same = envelop_document(Advertisement(ORIGIN, 7, 1, "x > 1"))
    for signed in (LATER, same):
        one.flooding.receive(signed, NEAR)
    assert [frame for _, frame in one.sent] == [LATER, same]
    assert one.flooding.keys == [(ORIGIN, ADVERTISEMENT, 7), (ORIGIN, 0x1234, 7)]


def test_fields_that_are_not_known_stay_in_what_is_relayed() -> None:
    one = One()
    body = bytes(pack({"filter": "x > 1", "later": {"deep": [1, None]}}))
    signed = Signed(ADVERTISEMENT, ORIGIN, 1, 1, body)
    one.flooding.receive(signed, NEAR)
    assert one.learned == [Advertisement(ORIGIN, 1, 1, "x > 1")]
    assert one.sent == [(FAR, signed)]


def test_a_known_kind_that_cannot_be_read_is_its_origins_fault() -> None:
    """Check that it is relayed: a newer version may have changed its format, and relays may not know its kind."""
    one = One()
    for number, body in enumerate((b"no map", bytes(pack({"filter": 5})), b"\xc1")):
        signed = Signed(ADVERTISEMENT, ORIGIN, number, 1, body)
        one.flooding.receive(signed, NEAR)
        assert one.sent[-1] == (FAR, signed)
    assert one.learned == []


@pytest.mark.parametrize("body", [b"", b"no map", bytes(pack({"name": "b"}))])
def test_a_link_state_that_cannot_be_read_is_its_neighbours_fault(body: bytes) -> None:
    """The neighbour is at fault: the keys are in the body, so it cannot have verified the document."""
    one = One()
    with pytest.raises(FrameError):
        one.flooding.receive(Signed(LINK_STATE, ORIGIN, 0, 1, body), NEAR)
    assert one.sent == []


def test_what_cannot_be_read_is_stored_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flooding, "UNREAD_MAX", 3)
    monkeypatch.setattr(flooding, "UNREAD_BYTES_MAX", 100)
    one = One()
    for number in range(5):
        one.flooding.receive(replace(LATER, number=number, body=bytes(20)), NEAR)
    assert len(one.flooding) == 3
    assert len(one.sent) == 3, "no more is relayed than is stored"
    assert one.counts["documents_refused"] == 2
    one.flooding.receive(replace(LATER, number=0, version=2, body=bytes(90)), NEAR)
    assert one.counts["documents_refused"] == 3, "nor does a new version go beyond the bytes"
    one.flooding.receive(replace(LATER, number=0, version=2, body=bytes(60)), NEAR)
    assert len(one.sent) == 4
    one.flooding.receive(envelop_document(Advertisement(ORIGIN, 1, 1, "x > 1")), NEAR)
    assert len(one.learned) == 1, "what can be read has room of its own"
    one.flooding.forget(ORIGIN)
    one.flooding.receive(replace(LATER, origin=8), NEAR)
    assert key_of(replace(LATER, origin=8)) in one.flooding.keys, "and room comes back"


def test_it_is_relayed_only_once_its_signature_is_verified() -> None:
    mine, theirs = (Identity(Random(f"unknown/{name}")) for name in "ab")
    one = One(MessageAuth(mine.id, mine))
    origin = MessageAuth(theirs.id, theirs)
    signed = origin.sign(Signed(0x1234, theirs.id, 7, 1, b"later"))
    one.flooding.receive(signed, NEAR)
    assert one.sent == [], "its keys are not known yet"
    link_state = origin.envelop(LinkState(theirs.id, 1, "b", (), ()))
    one.flooding.receive(link_state, NEAR)
    one.flooding.receive(signed, NEAR)
    assert [frame for _, frame in one.sent] == [link_state, signed]
    with pytest.raises(Forged):
        one.flooding.receive(replace(signed, version=2), NEAR)


def test_a_document_in_our_name_is_withdrawn() -> None:
    one = One()
    one.flooding.receive(replace(LATER, origin=ME, version=5), NEAR)
    assert one.sent == [(to, replace(LATER, origin=ME, version=6, body=b"")) for to in (NEAR, FAR)]
    one.sent.clear()
    one.flooding.originate_raw(replace(LATER, origin=ME, version=8))
    one.flooding.receive(replace(LATER, origin=ME, version=9, body=b"of somebody else"), NEAR)
    assert one.sent[-1] == (FAR, replace(LATER, origin=ME, version=10)), "and what is ours stands"

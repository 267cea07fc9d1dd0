"""Envelopes: fixed bytes under any class name, and round trips of their content.

`envelope_vectors.toml` has the bytes of one document and message of each kind, with their signatures and MACs. A change
of one of them is a change of the wire.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any, Final

import pytest

from plait_broker.overlay.security.identity import Identity
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_core.errors import FrameError, FrameFault
from plait_core.events import U64_MAX
from plait_core.limits import (
    BROKERS_MAX,
    DOCUMENT_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGE_PART_BYTES_MAX,
    PROOF_BYTES,
)
from plait_core.wire import VERSION_MAX, ControlFrame, FrameDecoder, Ping, encode_frame
from plait_core.wire.frame_header import PREFIX, PREFIX_BYTES
from plait_core.wire.frame_types.envelope_frames import (
    DOCUMENT_KINDS,
    END_TO_END,
    LINK_STATE,
    MESSAGE_KINDS,
    SIGNED,
    EndToEnd,
    Signed,
    SourceRouted,
    envelop_acks,
    envelop_document,
    envelop_message,
    narrowed,
    read_document,
    read_message,
)
from plait_core.wire.frame_types.frame_schema import (
    BODY_SCHEMAS,
    FRAME_SCHEMAS,
    REPEATED_BYTES_MAX,
    Body,
    UnknownFrame,
    body,
    decode_control,
    encode_body,
    kind_number,
)
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    DeliveryOutcome,
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep
from plait_core.wire.msgpack_codec import pack

VECTORS: Final = Path(__file__).with_name("envelope_vectors.toml")
ALICE, BOB = (Identity(Random(f"vectors/{name}"), bytes(range(32))) for name in ("alice", "bob"))

DOCUMENTS: Final = {
    "LinkState": LinkState(ALICE.id, 3, "alice", (7, BOB.id), (20, 30), 5, 6, address="a:1", segments=("s",)),
    "Advertisement": Advertisement(ALICE.id, 4, 2, "x > 1", 12.5, b"sketch"),
    "withdrawn Advertisement": Advertisement(ALICE.id, 4, 3),
    "DurableInterest": DurableInterest(ALICE.id, 4, 2, "x > 1"),
}
MESSAGES: Final = {
    "InterestUpdate": InterestUpdate(
        (BOB.id, 9), ALICE.id, (1, 2), (3, 4), True, (5, 6), ("x > 1", "y < 2"), (7,), True, (b"", b"key"), (0, 50)
    ),
    "InterestAck": InterestAck(BOB.id, ALICE.id, 1, 2, 3),
    "StreamAck": StreamAck(BOB.id, ALICE.id, 7, (9, 11), 65_536),
    "StreamSkip": StreamSkip(BOB.id, ALICE.id, 7),
    "DeliveryOutcome": DeliveryOutcome(BOB.id, ALICE.id, 7, 3, "late"),
    "TraceStep": TraceStep(BOB.id, ALICE.id, 1, 2, "delivered", 3, 4, 5, 6, 7, (8,), "why"),
    "Query": Query(BOB.id, ALICE.id, 1, "why", "{}"),
    "QueryResult": QueryResult(BOB.id, ALICE.id, 1, '{"x": 1}'),
}


def auth() -> MessageAuth:
    """Return Alice's authentication, which knows Bob's keys."""
    alice, bob = MessageAuth(ALICE.id, ALICE), MessageAuth(BOB.id, BOB)
    signed = bob.envelop(LinkState(BOB.id, 1, "bob", (), ()))
    document = read_document(signed)
    assert isinstance(document, LinkState)
    assert alice.check(signed, document)
    return alice


def current() -> dict[str, str]:
    """The frames of today, with Alice's signatures and MACs, as hexadecimal digits."""
    alice = auth()
    frames: dict[str, ControlFrame] = {name: alice.envelop(document) for name, document in DOCUMENTS.items()}
    frames |= {name: alice.envelop_message(message) for name, message in MESSAGES.items()}
    frames["SourceRouted"] = alice.prove_route(SourceRouted((ALICE.id, 9, BOB.id), 1, 20, encode_frame(Ping(1)), 3))
    return {name: encode_frame(frame).hex() for name, frame in frames.items()}


def test_the_bytes_of_each_kind_never_change() -> None:
    """Check that bytes, signatures and MACs equal the recorded ones, so that renaming a class changes none of them."""
    assert current() == tomllib.loads(VECTORS.read_text())


def test_there_is_a_vector_of_each_kind() -> None:
    kinds = {kind_number(type(one)) for one in (*DOCUMENTS.values(), *MESSAGES.values())}
    assert kinds == DOCUMENT_KINDS | MESSAGE_KINDS == set(BODY_SCHEMAS)


def test_the_name_of_a_class_is_in_no_byte() -> None:
    schema = BODY_SCHEMAS[kind_number(StreamSkip)]
    written = current()
    before, schema.frame.__name__ = schema.frame.__name__, "AnythingElse"
    try:
        assert current() == written
    finally:
        schema.frame.__name__ = before


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents_there_and_back(document: Any) -> None:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(encode_frame(envelop_document(document)))
    (signed,) = decoder.take()
    assert isinstance(signed, Signed)
    assert read_document(signed) == document
    assert bool(signed.body) == (document != DOCUMENTS["withdrawn Advertisement"]), "an empty body withdraws"


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_messages_there_and_back(message: Any) -> None:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(encode_frame(envelop_message(message)))
    (envelope,) = decoder.take()
    assert isinstance(envelope, EndToEnd)
    if isinstance(message, InterestUpdate):
        for at in range(2):
            own = {"to": (message.to[at],), "versions": (message.versions[at],), "offers": (message.offers[at],)}
            assert read_message(envelope, at) == replace(message, **own)
            assert read_message(narrowed(envelope, [at]), 0) == replace(message, **own)
    else:
        assert read_message(envelope, 0) == message


def test_a_part_may_grow() -> None:
    envelope = envelop_message(MESSAGES["InterestUpdate"])
    longer = replace(envelope, parts=tuple(part + b"later" for part in envelope.parts))
    assert read_message(longer, 0) == read_message(envelope, 0)
    for parts in ((), (b"short", b"short")):
        with pytest.raises(FrameError, match="version"):
            read_message(replace(envelope, parts=parts), 0)


def test_acks_without_missing_events_share_an_envelope() -> None:
    acks = [StreamAck(to, ALICE.id, up_to) for to, up_to in ((BOB.id, 7), (9, 2**64 - 1))]
    envelope = envelop_acks(acks)
    assert [read_message(envelope, at) for at in range(2)] == acks
    assert read_message(narrowed(envelope, [1]), 0) == acks[1]
    for parts in ((), (b"short", b"short")):
        with pytest.raises(FrameError, match="position"):
            read_message(replace(envelope, parts=parts), 0)
    with pytest.raises(AssertionError):
        envelop_acks([*acks, StreamAck(10, ALICE.id, 1, (2,))])


def test_fields_and_kinds_of_a_later_version_are_ignored() -> None:
    signed = envelop_document(DOCUMENTS["Advertisement"])
    later = replace(signed, body=bytes(pack({"filter": "x > 1", "rate": 12.5, "values": b"sketch", "later": [None]})))
    assert read_document(later) == DOCUMENTS["Advertisement"]
    assert read_document(replace(signed, kind=0xFFFF)) is None
    assert read_message(replace(envelop_message(MESSAGES["Query"]), kind=0xFFFF), 0) is None
    assert read_document(replace(signed, kind=kind_number(Query))) is None, "a message is no document"
    assert read_message(replace(envelop_message(MESSAGES["Query"]), kind=kind_number(Advertisement)), 0) is None


@pytest.mark.parametrize("name", ["LinkState", "Advertisement", "DurableInterest"])
@pytest.mark.parametrize("body", [b"\xc1", b"\x80extra", b"\x91\x01", bytes(pack({"filter": 5, "name": 5})), b"\x81"])
def test_a_malformed_document_is_one_frame_error(name: str, body: bytes) -> None:
    with pytest.raises(FrameError):
        read_document(replace(envelop_document(DOCUMENTS[name]), body=body))


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"\x91\x01"])
def test_a_malformed_message_is_one_frame_error(name: str, body: bytes) -> None:
    if name == "StreamAck" and body in (b"", b"\x80"):  # its position is in its part
        expected = StreamAck(BOB.id, ALICE.id, 7, (), 65_536)
        assert read_message(replace(envelop_message(MESSAGES[name]), body=body), 0) == expected
        return
    with pytest.raises(FrameError):
        read_message(replace(envelop_message(MESSAGES[name]), body=body), 0)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (EndToEnd(0x44, 1, (2, 2), b""), "each broker once"),
        (EndToEnd(0x44, 1, (2, 3), b"", (b"",)), "a part and a proof"),
        (EndToEnd(0x44, 1, (2, 3), b"", (), (b"",)), "a part and a proof"),
        (EndToEnd(0x44, 1, (2,), bytes(MESSAGE_BYTES_MAX + 1)), "at most"),
        (EndToEnd(1 << 16, 1, (2,), b""), "between"),
        (Signed(LINK_STATE, 1, 1, 1, b"x"), "number 0"),
        (Signed(0x41, 1, 1, 1, bytes(DOCUMENT_BYTES_MAX + 1)), "at most"),
        (SourceRouted((1, 2, 1), 1, 0, b""), "circle"),
    ],
)
def test_invalid_envelopes_are_refused(frame: ControlFrame, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encode_frame(frame)
    if isinstance(frame, EndToEnd):
        return  # test_malformed_end_to_end_bytes_are_one_frame_error
    fields = {name: getattr(frame, name) for name in FRAME_SCHEMAS[number_of(frame)].checks}
    with pytest.raises(FrameError) as caught:
        received(number_of(frame), bytes(pack(fields)))
    assert caught.value.fault is FrameFault.FIELD


def received(number: int, body: bytes) -> ControlFrame:
    """Return the frame of a body, as a decoder reads it."""
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(PREFIX.pack(len(body), VERSION_MAX, number, 0) + body)
    (frame,) = decoder.take()
    assert isinstance(frame, ControlFrame)
    return frame


@pytest.mark.parametrize(
    "envelope",
    [
        EndToEnd(0, 0, (), b""),
        EndToEnd(0xFFFF, U64_MAX, (0,), b"body", hops=255),
        EndToEnd(0x45, 1, (U64_MAX,), b"", (bytes(MESSAGE_PART_BYTES_MAX),), (bytes(PROOF_BYTES),)),
        EndToEnd(0x45, 1, (2,), b"", (b"",), (b"",), 1),
        EndToEnd(0x45, 1, (2,), b"x", (b"part",)),
        EndToEnd(0x43, 1, (2, 3), b"x", (), (b"", b"proof")),
        EndToEnd(0x43, 1, tuple(range(BROKERS_MAX)), bytes(MESSAGE_BYTES_MAX), (b"p",) * BROKERS_MAX),
    ],
)
def test_end_to_end_envelopes_there_and_back(envelope: EndToEnd) -> None:
    assert received(END_TO_END, encode_frame(envelope)[PREFIX.size :]) == envelope


HEAD: Final = Struct(">HQBBH")
TO: Final = Struct(">QBB")
MALFORMED: Final = {
    "nothing": b"",
    "numbers cut": HEAD.pack(0x45, 1, 0, 3, 1)[:-1],
    "destinations cut": HEAD.pack(0x45, 1, 0, 3, 2) + TO.pack(2, 0, 0),
    "part cut": HEAD.pack(0x45, 1, 0, 3, 1) + TO.pack(2, 3, 0) + b"xx",
    "proof cut": HEAD.pack(0x45, 1, 0, 3, 1) + TO.pack(2, 2, 2) + b"xxx",
    "long part": HEAD.pack(0x45, 1, 0, 3, 1) + TO.pack(2, MESSAGE_PART_BYTES_MAX + 1, 0) + bytes(99),
    "long proof": HEAD.pack(0x45, 1, 0, 3, 1) + TO.pack(2, 0, PROOF_BYTES + 1) + bytes(99),
    "unknown mark": HEAD.pack(0x45, 1, 0, 4, 1) + TO.pack(2, 0, 0),
    "a part without the mark": HEAD.pack(0x45, 1, 0, 2, 1) + TO.pack(2, 1, 0) + b"x",
    "a proof without the mark": HEAD.pack(0x45, 1, 0, 1, 1) + TO.pack(2, 0, 1) + b"x",
    "parts of nobody": HEAD.pack(0x45, 1, 0, 1, 0),
    "a destination twice": HEAD.pack(0x45, 1, 0, 0, 2) + TO.pack(2, 0, 0) * 2,
    "too many destinations": HEAD.pack(0x45, 1, 0, 0, BROKERS_MAX + 1)
    + b"".join(TO.pack(to, 0, 0) for to in range(BROKERS_MAX + 1)),
    "long body": HEAD.pack(0x45, 1, 0, 3, 1) + TO.pack(2, 0, 0) + bytes(MESSAGE_BYTES_MAX + 1),
    "long body for none": HEAD.pack(0x45, 1, 0, 0, 0) + bytes(MESSAGE_BYTES_MAX + 1),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_end_to_end_bytes_are_one_frame_error(name: str) -> None:
    with pytest.raises(FrameError) as caught:
        received(END_TO_END, MALFORMED[name])
    assert caught.value.fault is FrameFault.FIELD


@pytest.mark.parametrize(
    "envelope",
    [
        EndToEnd(0x45, -1, (2,), b""),
        EndToEnd(0x45, 1, (1 << 64,), b""),
        EndToEnd(0x45, 1, (2,), b"", hops=256),
        EndToEnd(0x45, 1, (2,), b"", (bytes(MESSAGE_PART_BYTES_MAX + 1),)),
        EndToEnd(0x45, 1, (2,), b"", (), (bytes(PROOF_BYTES + 1),)),
        EndToEnd(0x45, 1, tuple(range(BROKERS_MAX + 1)), b""),
    ],
)
def test_numbers_and_lengths_that_do_not_fit_are_not_sent(envelope: EndToEnd) -> None:
    with pytest.raises(ValueError, match="EndToEnd: "):
        encode_frame(envelope)


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_are_an_envelope_or_a_frame_error(seed: int) -> None:
    """Change or cut the bytes of envelopes. What is still one encodes to the same bytes again."""
    rng = Random(f"envelopes/{seed}")
    envelope = rng.choice([envelop_message(MESSAGES["StreamAck"]), auth().envelop_message(MESSAGES["InterestUpdate"])])
    data = bytearray(encode_frame(envelope)[PREFIX.size :])
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 16, 64, 255, rng.randrange(256)))
    data = data[: rng.choice((len(data), rng.randrange(len(data)) + 1))]
    try:
        frame = received(END_TO_END, bytes(data))
    except FrameError as error:
        assert error.fault is FrameFault.FIELD
    else:
        assert encode_frame(frame)[PREFIX.size :] == bytes(data)


def number_of(frame: ControlFrame) -> int:
    return next(number for number, schema in FRAME_SCHEMAS.items() if schema.frame is type(frame))


def test_the_longest_filter_fits_a_document() -> None:
    filter = "\U0001f4a9" * (16 * 1024)
    assert len(encode_body(Advertisement(1, 1, 1, filter, 1.0, bytes(16 * 1024)))) < DOCUMENT_BYTES_MAX


def test_a_number_means_one_type() -> None:
    for number in (kind_number(StreamAck), 0x13):  # a body's, and a frame's
        with pytest.raises(TypeError):
            body(number)(type("Other", (Body,), {}))


def test_a_frame_of_an_unknown_type_is_skipped_where_that_is_allowed() -> None:
    data = PREFIX.pack(5, VERSION_MAX, 0x7E, 0) + b"later" + encode_frame(Ping(1))
    for native in (True, False):
        decoder = FrameDecoder(version=VERSION_MAX, native=native, keep_unknown=True)
        for at in range(len(data)):
            decoder.feed(data[at : at + 1])
        assert decoder.take() == [UnknownFrame(0x7E), Ping(1)]
        decoder.feed(PREFIX.pack(1 << 31, VERSION_MAX, 0x7E, 0))
        with pytest.raises(FrameError) as caught:
            decoder.take()
        assert caught.value.fault is FrameFault.OVERSIZE, "the bound of a frame holds for it, too"


def test_a_document_that_comes_over_several_links_is_decoded_and_encoded_once() -> None:
    signed = envelop_document(LinkState(5, 3, "b5", (6,), (10,)))
    data = encode_frame(signed)
    body = data[PREFIX_BYTES:]
    schema = FRAME_SCHEMAS[SIGNED]
    assert decode_control(schema, body) is decode_control(schema, bytes(bytearray(body)))
    assert encode_frame(signed) is data
    assert read_document(signed) is read_document(signed)


def test_long_documents_are_not_kept() -> None:
    signed = Signed(LINK_STATE, 5, 0, 1, b"x" * (REPEATED_BYTES_MAX + 1))
    data = encode_frame(signed)
    schema = FRAME_SCHEMAS[SIGNED]
    assert decode_control(schema, data[PREFIX_BYTES:]) is not decode_control(schema, data[PREFIX_BYTES:])
    assert encode_frame(signed) is not data

"""Envelopes: frames that carry the bytes of a body which other brokers relay as they are.

`Signed` floods a document from its origin to all brokers. `EndToEnd` carries a message from one broker to one other, or
to a few. `SourceRouted` carries a whole frame along a route that its sender chose. Signatures and MACs cover the
numbers of an envelope and the bytes of its body. So a relay needs to know neither the fields nor the kind of a body,
and keeps those that it does not know. An envelope itself never gains fields: nothing would sign them.

The number of the envelope's frame type begins all signed bytes, so no signature serves for another type.

`EndToEnd` has a fixed layout: a publisher's broker gets an ack from each destination five times a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any, Final, TypeAlias, cast

from ...errors import FrameError, FrameFault
from ...limits import (
    BROKERS_MAX,
    DOCUMENT_BYTES_MAX,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGE_PART_BYTES_MAX,
    PROOF_BYTES,
)
from .frame_schema import (
    BODY_SCHEMAS,
    REPEATED_BYTES_MAX,
    REPEATED_KEPT,
    U64,
    AtMost,
    Between,
    ControlFrame,
    Layout,
    control,
    decode_body,
    encode_body,
    kind_number,
)
from .overlay_frames import (
    Advertisement,
    DeliveryOutcome,
    Document,
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
    OverlayMessage,
    StreamAck,
    StreamSkip,
)
from .trace_frames import Query, QueryResult, TraceMessage, TraceStep

Kind: TypeAlias = Annotated[int, Between(0, 65_535)]
Proof: TypeAlias = Annotated[bytes, AtMost(PROOF_BYTES)]
Message: TypeAlias = OverlayMessage | TraceMessage

SIGNED: Final = 0x4D
END_TO_END: Final = 0x4E
SOURCE_ROUTED: Final = 0x4A

LINK_STATE: Final = kind_number(LinkState)
ADVERTISEMENT: Final = kind_number(Advertisement)
DURABLE_INTEREST: Final = kind_number(DurableInterest)
DOCUMENT_KINDS: Final = frozenset((LINK_STATE, ADVERTISEMENT, DURABLE_INTEREST))
MESSAGE_KINDS: Final = frozenset(
    map(
        kind_number,
        (InterestUpdate, InterestAck, StreamAck, StreamSkip, DeliveryOutcome, TraceStep, Query, QueryResult),
    )
)

_STREAM_ACK: Final = kind_number(StreamAck)

ROUTE_MAX: Final = 64
"""Brokers on a source route."""

_SIGNED_NUMBERS: Final = Struct(">BHQQQ")
_END_TO_END_NUMBERS: Final = Struct(">BHQQH")
_SOURCE_ROUTED_NUMBERS: Final = Struct(">BHQ")
_INTEREST_PART: Final = Struct(">QQ")
"""The part of an interest update for one destination: the version and the fingerprint. More may follow."""
_ACK_PART: Final = Struct(">QQ")
"""The part of a stream's ack for one destination: the position and the window. The body is empty when no event is
missing."""


@control(SIGNED, repeats=True)
@dataclass(frozen=True, slots=True)
class Signed(ControlFrame):
    """A document that floods, as its origin signed it."""

    kind: Kind
    origin: U64
    number: U64
    """Distinguishes the documents of one kind and origin; 0 for the link state."""
    version: U64
    body: Annotated[bytes, AtMost(DOCUMENT_BYTES_MAX)]
    """The fields of the document. Empty: the origin has withdrawn it."""
    signature: Annotated[bytes, AtMost(64)] = b""

    def problem(self) -> str:
        return "a broker has one link state, with number 0" if self.kind == LINK_STATE and self.number else ""

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that the signature covers."""
        return _SIGNED_NUMBERS.pack(SIGNED, self.kind, self.origin, self.number, self.version) + self.body


_ENVELOPE: Final = Struct(">HQBBH")
"""Kind, source, hops, `_PARTS` and `_PROOFS`, and how many destinations follow."""
_DESTINATION: Final = Struct(">QBB")
"""A destination, the bytes of its part and those of its proof."""
_ENVELOPE_FOR_ONE: Final = Struct(">HQBBHQBB")
"""Both, for one destination: acks have one."""
_PARTS: Final = 1
"""Each destination has a part, be it an empty one."""
_PROOFS: Final = 2


def _encode_end_to_end(envelope: EndToEnd) -> bytes:
    """Return the numbers of an envelope, its destinations, the part and the proof of each, and the body."""
    to, parts, proofs, body = envelope.to, envelope.parts, envelope.proofs, envelope.body
    if problem := envelope.problem():
        raise ValueError(problem)
    if len(to) > BROKERS_MAX or len(body) > MESSAGE_BYTES_MAX:
        raise ValueError(f"at most {BROKERS_MAX} destinations and a body of at most {MESSAGE_BYTES_MAX} bytes")
    if any(len(part) > MESSAGE_PART_BYTES_MAX for part in parts) or any(len(proof) > PROOF_BYTES for proof in proofs):
        raise ValueError(f"parts of at most {MESSAGE_PART_BYTES_MAX} bytes, and proofs of at most {PROOF_BYTES}")
    marks = (_PARTS if parts else 0) | (_PROOFS if proofs else 0)
    ends: list[bytes] = []
    try:
        pieces = [_ENVELOPE.pack(envelope.kind, envelope.source, envelope.hops, marks, len(to))]
        for at, broker in enumerate(to):
            part, proof = parts[at] if parts else b"", proofs[at] if proofs else b""
            pieces.append(_DESTINATION.pack(broker, len(part), len(proof)))
            ends += (part, proof)
        return b"".join((*pieces, *ends, body))
    except (StructError, TypeError):
        raise ValueError("numbers are between 0 and what their bytes hold, and all else is bytes") from None


def _decode_end_to_end(data: bytes) -> EndToEnd:
    """Return the envelope. `_decode_for_many` has all checks: the common case must be as cheap as can be."""
    if len(data) >= _ENVELOPE_FOR_ONE.size:
        kind, source, hops, marks, count, to, part_bytes, proof_bytes = _ENVELOPE_FOR_ONE.unpack_from(data)
        proof_at = _ENVELOPE_FOR_ONE.size + part_bytes
        body_at = proof_at + proof_bytes
        if (
            count == 1
            and marks == _PARTS | _PROOFS
            and part_bytes <= MESSAGE_PART_BYTES_MAX
            and proof_bytes <= PROOF_BYTES
            and body_at <= len(data) <= MESSAGE_BYTES_MAX
        ):
            part, proof = data[_ENVELOPE_FOR_ONE.size : proof_at], data[proof_at:body_at]
            return EndToEnd(kind, source, (to,), data[body_at:], (part,), (proof,), hops)
    return _decode_for_many(data)


def _decode_for_many(data: bytes) -> EndToEnd:
    if len(data) < _ENVELOPE.size:
        raise FrameError(FrameFault.FIELD, "it ends within its numbers")
    kind, source, hops, marks, count = _ENVELOPE.unpack_from(data)
    at = _ENVELOPE.size + count * _DESTINATION.size
    if marks > _PARTS | _PROOFS or count > BROKERS_MAX or at > len(data):
        raise FrameError(FrameFault.FIELD, f"at most {BROKERS_MAX} destinations, with parts and proofs or without")
    to: list[int] = []
    parts: list[bytes] = []
    proofs: list[bytes] = []
    for broker, part_bytes, proof_bytes in _DESTINATION.iter_unpack(data[_ENVELOPE.size : at]):
        if part_bytes > (MESSAGE_PART_BYTES_MAX if marks & _PARTS else 0):
            raise FrameError(FrameFault.FIELD, f"parts of at most {MESSAGE_PART_BYTES_MAX} bytes")
        if proof_bytes > (PROOF_BYTES if marks & _PROOFS else 0):
            raise FrameError(FrameFault.FIELD, f"proofs of at most {PROOF_BYTES} bytes")
        to.append(broker)
        parts.append(data[at : at + part_bytes])
        at += part_bytes
        proofs.append(data[at : at + proof_bytes])
        at += proof_bytes
    if not at <= len(data) <= at + MESSAGE_BYTES_MAX:
        raise FrameError(FrameFault.FIELD, f"a body of at most {MESSAGE_BYTES_MAX} bytes after the parts and proofs")
    if not count and marks:
        raise FrameError(FrameFault.FIELD, "parts and proofs of no destinations")
    given = tuple(parts) if marks & _PARTS else (), tuple(proofs) if marks & _PROOFS else ()
    envelope = EndToEnd(kind, source, tuple(to), data[at:], *given, hops)
    if problem := envelope.problem():
        raise FrameError(FrameFault.FIELD, problem)
    return envelope


@control(END_TO_END, layout=Layout(_encode_end_to_end, _decode_end_to_end))
@dataclass(frozen=True, slots=True)
class EndToEnd(ControlFrame):
    """A message from one broker to one other, or to several that get the same body. Each link carries one copy."""

    kind: Kind
    source: U64
    to: Annotated[tuple[U64, ...], AtMost(BROKERS_MAX)]
    body: Annotated[bytes, AtMost(MESSAGE_BYTES_MAX)]
    parts: Annotated[tuple[Annotated[bytes, AtMost(MESSAGE_PART_BYTES_MAX)], ...], AtMost(BROKERS_MAX)] = ()
    """For each of `to`, the bytes that are for it alone; () when there are none."""
    proofs: Annotated[tuple[Proof, ...], AtMost(BROKERS_MAX)] = ()
    """For each of `to`, a MAC with the key that its source shares with it."""
    hops: Annotated[int, Between(0, 255)] = 0
    """Counted by relays. No MAC covers it."""

    def problem(self) -> str:
        count = len(self.to)
        if count > 1 and len(set(self.to)) != count:
            return "each broker once"
        if len(self.parts) not in (0, count) or len(self.proofs) not in (0, count):
            return "a part and a proof for each broker, or none"
        return ""

    def proved_bytes(self, at: int) -> bytes:
        """Return the bytes that a destination's proof covers."""
        part = self.parts[at] if self.parts else b""
        numbers = _END_TO_END_NUMBERS.pack(END_TO_END, self.kind, self.source, self.to[at], len(part))
        return numbers + part + self.body


@control(SOURCE_ROUTED)
@dataclass(frozen=True, slots=True)
class SourceRouted(ControlFrame):
    """A frame along a route that its source chose in full, around a broker that seems to lose what it gets. The answer
    takes the reverse route, too."""

    route: Annotated[tuple[U64, ...], AtMost(ROUTE_MAX)]
    at: Annotated[int, Between(0, ROUTE_MAX)]
    """The place on the route where it is."""
    delay_us: Annotated[int, Between(0, 2**32 - 1)]
    """The time under way so far."""
    frame: Annotated[bytes, AtMost(FRAME_BYTES_MAX)]
    number: U64 = 0
    """Rises with every frame from the same source to the same destination; 0 for an answer, which is not answered."""
    proof: Proof = b""

    def problem(self) -> str:
        if len(set(self.route)) != len(self.route) or self.at >= len(self.route):
            return "a place on a route without a circle"
        return ""

    @property
    def proved_bytes(self) -> bytes:
        """The bytes that the proof covers: all but the place and the delay, which change on the way."""
        numbers = _SOURCE_ROUTED_NUMBERS.pack(SOURCE_ROUTED, len(self.route), self.number)
        return numbers + b"".join(broker.to_bytes(8, "big") for broker in self.route) + self.frame


# --- documents and messages, to and from their envelopes --------------------------------------------------------------


def envelop_document(document: Document) -> Signed:
    """Return a document in its envelope, not signed yet. A withdrawn one has an empty body."""
    number = 0 if isinstance(document, LinkState) else document.number
    withdrawn = not isinstance(document, LinkState) and not document.filter
    body = b"" if withdrawn else encode_body(document)
    return Signed(kind_number(type(document)), document.origin, number, document.version, body)


def read_document(signed: Signed) -> Document | None:
    """Return the document of an envelope, or None when this version does not know its kind. FrameError when it is
    malformed."""
    if signed.kind == LINK_STATE and len(signed.body) <= REPEATED_BYTES_MAX:
        return _read_link_state(signed)
    return _read_document(signed)


@lru_cache(maxsize=REPEATED_KEPT)
def _read_link_state(signed: Signed) -> Document | None:
    """Return the link state of an envelope. Brokers of one process, as in simulations, share those that they keep."""
    return _read_document(signed)


def _read_document(signed: Signed) -> Document | None:
    if signed.kind not in DOCUMENT_KINDS:
        return None
    given: dict[str, Any] = {"origin": signed.origin, "version": signed.version}
    if signed.kind != LINK_STATE:
        given["number"] = signed.number
        if not signed.body:
            return cast(Document, BODY_SCHEMAS[signed.kind].frame(**given))
    return cast(Document, decode_body(BODY_SCHEMAS[signed.kind], signed.body, given))


def envelop_message(message: Message) -> EndToEnd:
    """Return a message in its envelope, not proved yet."""
    if isinstance(message, StreamAck):
        return envelop_acks((message,))
    body = encode_body(message)
    if not isinstance(message, InterestUpdate):
        return EndToEnd(kind_number(type(message)), message.source, (message.to,), body)
    parts = tuple(map(_INTEREST_PART.pack, message.versions, message.offers))
    return EndToEnd(kind_number(type(message)), message.source, message.to, body, parts)


def envelop_acks(acks: Sequence[StreamAck]) -> EndToEnd:
    """Return the acks of one destination to several roots in one envelope. Either there is one, or none of them reports
    missing events."""
    assert len(acks) == 1 or not any(ack.missing for ack in acks), "all get the same body"
    body = encode_body(acks[0]) if acks[0].missing else b""
    parts = tuple([_ACK_PART.pack(ack.up_to, ack.window) for ack in acks])
    return EndToEnd(_STREAM_ACK, acks[0].source, tuple([ack.to for ack in acks]), body, parts)


def read_message(envelope: EndToEnd, at: int) -> Message | None:
    """Return the message for one destination of an envelope, or None when this version does not know its kind.
    FrameError when it is malformed."""
    if envelope.kind == _STREAM_ACK:
        return _read_ack(envelope, at)
    if envelope.kind not in MESSAGE_KINDS:
        return None
    schema = BODY_SCHEMAS[envelope.kind]
    given: dict[str, Any] = {"to": envelope.to[at], "source": envelope.source}
    if schema.frame is InterestUpdate:
        part = envelope.parts[at] if envelope.parts else b""
        if len(part) < _INTEREST_PART.size:
            raise FrameError(FrameFault.FIELD, "an interest update without a version for its destination")
        version, offers = _INTEREST_PART.unpack_from(part)
        given |= {"to": (envelope.to[at],), "versions": (version,), "offers": (offers,)}
    return cast(Message, decode_body(schema, envelope.body, given))


def _read_ack(envelope: EndToEnd, at: int) -> StreamAck:
    part = envelope.parts[at] if envelope.parts else b""
    if len(part) < _ACK_PART.size:
        raise FrameError(FrameFault.FIELD, "an ack without a position for its destination")
    up_to, window = _ACK_PART.unpack_from(part)
    to, source = envelope.to[at], envelope.source
    if not envelope.body:
        return StreamAck(to, source, up_to, (), window)
    given = {"to": to, "source": source, "up_to": up_to, "window": window}
    return cast(StreamAck, decode_body(BODY_SCHEMAS[_STREAM_ACK], envelope.body, given))


def narrowed(envelope: EndToEnd, among: Sequence[int]) -> EndToEnd:
    """Return the envelope for some of its destinations, one hop further."""
    if len(among) == len(envelope.to):
        to, parts, proofs = envelope.to, envelope.parts, envelope.proofs
    else:
        to = tuple(envelope.to[at] for at in among)
        parts = tuple(envelope.parts[at] for at in among) if envelope.parts else ()
        proofs = tuple(envelope.proofs[at] for at in among) if envelope.proofs else ()
    return EndToEnd(envelope.kind, envelope.source, to, envelope.body, parts, proofs, envelope.hops + 1)


def frame_name(frame: ControlFrame) -> str:
    """Return what counters call a frame: the type of what an envelope carries, else its own."""
    if isinstance(frame, Signed | EndToEnd):
        known = DOCUMENT_KINDS if isinstance(frame, Signed) else MESSAGE_KINDS
        return BODY_SCHEMAS[frame.kind].frame.__name__ if frame.kind in known else "unknown"
    return type(frame).__name__

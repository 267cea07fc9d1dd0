"""Wire frames under arbitrary input.

Encoded frames are decoded alike for every way of cutting the bytes. Mutated bytes give frames, or exactly one
FrameError at bounded cost.
"""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import pairwise
from struct import pack
from types import FrameType
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_core.errors import FrameError, FrameFault
from plait_core.events import I64_MAX, U64_MAX, Event
from plait_core.limits import WIRE_LIMITS, WireLimits
from plait_core.wire import (
    VERSION_MAX,
    Close,
    Confirm,
    ControlFrame,
    Deliver,
    EventFrame,
    Forward,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Publish,
    Role,
    Welcome,
    encode_block,
    encode_frame,
)
from plait_core.wire.attributes import pack_attributes, reader_for
from plait_core.wire.msgpack_depth import check_nesting

# --- frames to send ---------------------------------------------------------------------------------------------------

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, U64_MAX)
names = st.from_regex(r"\$?[A-Za-z_][A-Za-z0-9_]{0,6}(\.[A-Za-z_][A-Za-z0-9_]{0,6}){0,2}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
integers = (
    st.integers(-(2**70), 2**70) | st.integers(-(2**256) + 1, 2**256 - 1) | st.sampled_from([2**64, -(2**63) - 1])
)
scalars = st.none() | st.booleans() | integers | st.floats() | texts
attributes = st.dictionaries(names, scalars | st.lists(scalars, max_size=5), max_size=8)
events = st.builds(
    Event,
    attributes,
    st.binary(max_size=200),
    u64,
    u64,
    st.integers(-I64_MAX, I64_MAX),
    st.integers(0, I64_MAX),
    st.integers(0, 9),
    st.dictionaries(names.map(lambda name: name.replace("_", "-")), texts, max_size=3),
)
blocks = events.map(encode_block)
paths = st.lists(u64, max_size=6).map(tuple)
bytes_ = st.integers(0, 255)
event_frames: st.SearchStrategy[Frame] = (
    st.builds(Publish, st.sampled_from(Confirm), blocks)
    | st.builds(Forward, u64, u64, bytes_, paths, st.lists(st.tuples(u64, u64, u64), max_size=4).map(tuple), blocks)
    | st.builds(Deliver, u64, bytes_, paths, st.lists(st.tuples(u32, u32, u64), max_size=4).map(tuple), blocks)
)
capabilities = st.lists(texts, max_size=4).map(tuple)
versions = st.tuples(st.integers(1, 255), st.integers(1, 255)).map(sorted)
opening_frames: st.SearchStrategy[Frame] = st.builds(
    lambda between, *rest: Hello(*between, *rest),
    versions, st.sampled_from(Role), texts, u64, capabilities, st.none() | texts, st.none() | u64,
) | st.builds(
    Welcome, st.integers(1, 255), capabilities, texts, u64, u64, st.floats(0.001, 86_400), st.booleans()
)  # fmt: skip
control_frames: st.SearchStrategy[Frame] = (
    st.builds(Close, texts, texts, st.booleans()) | st.builds(Ping, u64) | st.builds(Pong, u64)
)
frames = event_frames | control_frames


# --- the results of a decoder -----------------------------------------------------------------------------------------


def contents(frame: Frame) -> list[str]:
    """Return all readable parts of a frame, and the faults of others. As text, because NaN is not equal to itself."""
    if isinstance(frame, ControlFrame):
        return [repr(frame)]
    read: list[Callable[[], object]] = [frame.attributes, frame.headers, lambda: frame.payload, frame.event]
    return [repr(frame), *map(attempt, read)]


def attempt(read: Callable[[], object]) -> str:
    try:
        return repr(read())
    except FrameError as error:
        return f"refused: {error}"


def outcome(pieces: Iterable[bytes], limits: WireLimits = WIRE_LIMITS, *, opening: bool = False) -> tuple[Any, ...]:
    """Return the result of feeding bytes piece by piece. An opening decoder is established once it has a frame."""
    decoder = FrameDecoder(limits, version=None if opening else VERSION_MAX)
    seen: list[list[str]] = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while taken := decoder.take():
                if opening and not seen:
                    decoder.establish(VERSION_MAX)
                seen += map(contents, taken)
            assert decoder.held_bytes < limits.frame_bytes_max
    except FrameError as error:
        assert decoder.held_bytes == 0
        return seen, error.fault, str(error)
    return seen, None, decoder.held_bytes


def outcome_ahead(pieces: list[bytes]) -> tuple[Any, ...]:
    """Return the result of feeding everything before taking anything."""
    decoder = FrameDecoder(version=VERSION_MAX)
    for piece in pieces:
        decoder.feed(piece)
    seen: list[list[str]] = []
    try:
        while taken := decoder.take():
            seen += map(contents, taken)
    except FrameError as error:
        return seen, error.fault, str(error)
    return seen, None, decoder.held_bytes


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


cuts = st.lists(st.integers(0, 5000), max_size=6)
changes_of_bytes = st.lists(st.tuples(st.integers(0, 1000), bytes_), min_size=1, max_size=4)


# --- encoding and decoding --------------------------------------------------------------------------------------------


@given(frames)
def test_encoded_frames_decode_to_themselves(frame: Frame) -> None:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(encode_frame(frame))
    (again,) = decoder.take()
    assert again == frame
    assert contents(again) == contents(frame)
    assert encode_frame(again) == encode_frame(frame)


@given(opening_frames)
def test_handshake_frames_are_read_back(frame: Frame) -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(frame))
    assert decoder.take() == [frame]


@given(events)
def test_an_event_is_read_back(event: Event) -> None:
    block = encode_block(event)
    assert encode_block(event) == block
    again = EventFrame(block).event()
    assert repr(again) == repr(event)
    assert encode_block(again) == block


@given(attributes)
def test_attributes_keep_value_type_and_order(given_attributes: dict[str, Any]) -> None:
    limits = WIRE_LIMITS.event
    again = reader_for(limits).attributes(pack_attributes(given_attributes, limits))
    assert repr(again) == repr(given_attributes)


# --- any way of cutting the bytes -------------------------------------------------------------------------------------


@given(st.lists(frames, max_size=5), st.binary(max_size=12), cuts)
def test_the_same_however_it_is_cut(said: list[Frame], rubbish: bytes, places: list[int]) -> None:
    data = b"".join(map(encode_frame, said)) + rubbish
    whole = outcome([data])
    assert whole[0][: len(said)] == list(map(contents, said))
    assert outcome(cut(data, places)) == whole
    assert outcome_ahead(cut(data, places)) == whole
    assert outcome(bytewise(data)) == whole


@given(opening_frames, st.lists(frames, max_size=3), st.binary(max_size=12), cuts)
def test_the_same_from_the_handshake_on(hello: Frame, said: list[Frame], rubbish: bytes, places: list[int]) -> None:
    data = b"".join(map(encode_frame, [hello, *said])) + rubbish
    whole = outcome([data], opening=True)
    assert len(whole[0]) >= 1 + len(said)
    assert outcome(cut(data, places), opening=True) == whole
    assert outcome(bytewise(data), opening=True) == whole


@given(st.lists(frames, max_size=5), st.binary(max_size=12))
def test_one_by_one_is_the_same_as_all_at_once(said: list[Frame], rubbish: bytes) -> None:
    data = b"".join(map(encode_frame, said)) + rubbish
    one_by_one, at_once = FrameDecoder(version=VERSION_MAX), FrameDecoder(version=VERSION_MAX)
    one_by_one.feed(data)
    at_once.feed(data)
    seen: list[Frame] = []

    def take_one_by_one() -> None:
        while (frame := one_by_one.next_frame()) is not None:
            seen.append(frame)

    end = attempt(take_one_by_one)
    if seen:
        assert at_once.take() == seen
    assert attempt(at_once.take).startswith("refused" if end.startswith("refused") else "[]")


# --- any mutation of the bytes ----------------------------------------------------------------------------------------


@given(st.lists(frames, min_size=1, max_size=3), changes_of_bytes, cuts)
def test_a_few_bytes_changed(said: list[Frame], changes: list[tuple[int, int]], places: list[int]) -> None:
    data = bytearray(b"".join(map(encode_frame, said)))
    for place, byte in changes:
        data[place % len(data)] = byte
    whole = outcome([bytes(data)])
    assert outcome(cut(bytes(data), places)) == whole
    assert outcome(bytewise(bytes(data))) == whole


@given(opening_frames, changes_of_bytes)
def test_a_few_bytes_of_the_handshake_changed(hello: Frame, changes: list[tuple[int, int]]) -> None:
    data = bytearray(encode_frame(hello))
    for place, byte in changes:
        data[place % len(data)] = byte
    assert outcome([bytes(data)], opening=True) == outcome(bytewise(bytes(data)), opening=True)


@given(event_frames, st.sampled_from([(0, 4), (6, 2)]), st.integers(0, 2**32 - 1))
def test_prefixes_that_lie(frame: Frame, field: tuple[int, int], lie: int) -> None:
    start, width = field
    data = bytearray(encode_frame(frame))
    data[start : start + width] = (lie % 256**width).to_bytes(width)
    assert outcome([bytes(data)]) == outcome(bytewise(bytes(data)))


@given(blocks, st.integers(0, 2**16 - 1) | st.integers(0, 60), st.integers(0, 2**32 - 1) | st.integers(0, 60))
def test_blocks_that_lie(block: bytes, headers_bytes: int, attributes_bytes: int) -> None:
    lying = block[:34] + pack(">HI", headers_bytes, attributes_bytes) + block[40:]
    fits = 40 + headers_bytes + attributes_bytes <= len(block)
    if fits:
        frame = EventFrame(lying)
        assert len(frame.payload) == len(block) - 40 - headers_bytes - attributes_bytes
        attempt(frame.event)
    else:
        with pytest.raises(FrameError, match=r"^(truncated|oversize)"):
            EventFrame(lying)


@given(st.binary(max_size=400), st.booleans(), cuts)
def test_rubbish(data: bytes, opening: bool, places: list[int]) -> None:
    assert outcome(cut(data, places), opening=opening) == outcome([data], opening=opening)


# --- msgpack ----------------------------------------------------------------------------------------------------------

msgpack_values = st.recursive(
    scalars.filter(lambda value: type(value) is not int or -(2**63) <= value < 2**64)
    | st.binary(max_size=8)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=40)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | texts, inner, max_size=4),
    max_leaves=12,
)


def refused(packed: bytes) -> FrameFault | None:
    try:
        reader_for(WIRE_LIMITS.event).attributes(packed)
    except FrameError as error:
        return error.fault
    return None


@given(st.dictionaries(names | texts | st.binary(max_size=3), msgpack_values, max_size=4))
def test_attributes_of_any_msgpack(anything: dict[Any, Any]) -> None:
    packed = msgpack.packb(anything)
    if refused(packed) is None:
        found = reader_for(WIRE_LIMITS.event).attributes(packed)
        assert repr(Event.checked(found).attributes) == repr(found)
    block = pack(">QQqqBBHI", 1, 2, 3, 4, 0, 0, 0, len(packed)) + packed
    attempt(EventFrame(block).event)


@given(st.dictionaries(names | texts, msgpack_values, max_size=4), st.sampled_from([Close("x"), Ping(1)]))
def test_control_frames_of_any_msgpack(anything: dict[str, Any], frame: Frame) -> None:
    number = encode_frame(frame)[5]
    body = msgpack.packb(anything)
    data = pack(">IBBH", len(body), VERSION_MAX, number, 0) + body
    assert outcome([data]) == outcome(bytewise(data))


@given(msgpack_values, st.binary(max_size=3))
def test_the_walk_and_the_decoder_agree(value: Any, tail: bytes) -> None:
    body = msgpack.packb(value) + tail
    said = attempt(lambda: check_nesting(body, 32, 1 << 20))
    assert said.startswith("refused: body") if tail else said == "None"


@given(st.sampled_from([b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdc\x04\x00", b"\xdd\x00\x00\x00\x01"]),
       st.integers(33, 20_000))  # fmt: skip
def test_deep_msgpack(opening: bytes, depth: int) -> None:
    deep = b"\x81\xa1a" + opening * min(depth, 60_000 // len(opening))
    assert refused(deep) is not None
    assert refused(deep + b"\x01") is not None
    body = b"\x82\xa5nonce\x01" + deep[1:] + b"\x01"
    assert outcome([pack(">IBBH", len(body), VERSION_MAX, 0x13, 0) + body])[1] in (FrameFault.BODY, FrameFault.OVERSIZE)


@given(st.lists(names, min_size=1, max_size=20), st.sampled_from([b"\xdf", b"\xde", b""]), st.data())
def test_duplicate_names(given_names: list[str], form: bytes, data: st.DataObject) -> None:
    given_names.insert(data.draw(st.integers(0, len(given_names))), data.draw(st.sampled_from(given_names)))
    count = len(given_names)
    head = form + count.to_bytes(4 if form == b"\xdf" else 2) if form or count > 15 else bytes([0x80 | count])
    if not form and count > 15:
        head = b"\xde" + count.to_bytes(2)
    assert refused(head + b"".join(msgpack.packb(name) + b"\x01" for name in given_names)) is FrameFault.BODY


@given(st.binary(max_size=40), st.sampled_from([1, 1, 1, 2, 127, -1, -128]))
def test_big_integers_have_one_form(data: bytes, code: int) -> None:
    packed = b"\x81\xa1a\xc7" + bytes([len(data), code % 256]) + data
    if refused(packed) is None:
        found = reader_for(WIRE_LIMITS.event).attributes(packed)
        assert code == 1
        assert pack_attributes(found, WIRE_LIMITS.event) == packed or len(data) in (1, 2, 4, 8, 16)
        assert not -(2**63) <= found["a"] < 2**64  # type: ignore[operator]
        assert found["a"].bit_length() <= 256  # type: ignore[union-attr]


@given(st.sampled_from([math.nan, math.inf, -math.inf]), st.binary(min_size=6, max_size=6))
def test_every_float_is_legal(value: float, fraction: bytes) -> None:
    assert refused(msgpack.packb({"a": value})) is None
    assert refused(b"\x81\xa1a\xcb\x7f\xf8" + fraction) is None


@given(st.binary(min_size=1, max_size=30))
def test_text_is_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        assert refused(b"\x81\xa1a\xd9" + bytes([len(data)]) + data) is FrameFault.BODY
    else:
        assert refused(b"\x81\xa1a\xd9" + bytes([len(data)]) + data) is None


# --- cost -------------------------------------------------------------------------------------------------------------


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that `work` runs: a measure that does not depend on the machine's load."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class CountingDecoder(FrameDecoder):
    """Count the bytes that the decoder copies: joined and partial ones."""

    __slots__ = ("copied",)
    copied: int

    def _refill(self) -> bool:
        before = self._read
        found = super()._refill()
        self.copied += len(self._read) if self._read is not before else 0
        return found

    def _keep_partial(self, need: int) -> None:
        self.copied += len(self._read) - self._at + len(self._pending)
        super()._keep_partial(need)


def big_frame(size: int) -> bytes:
    return encode_frame(Publish(Confirm.NONE, encode_block(Event({}, b"x" * size))))


def copied_bytewise(data: bytes) -> int:
    decoder = CountingDecoder(version=VERSION_MAX)
    decoder.copied = 0
    taken = 0
    for piece in bytewise(data):
        decoder.feed(piece)
        taken += len(decoder.take())
    assert taken > 0
    return decoder.copied


def small_frames(count: int) -> bytes:
    return encode_frame(Ping(7)) * count


@pytest.mark.parametrize("make", [big_frame, small_frames])
def test_bytes_one_at_a_time_are_copied_a_few_times_each(make: Callable[[int], bytes]) -> None:
    for size in (500, 1000, 20_000):
        data = make(size)
        assert copied_bytewise(data) <= 3 * len(data)


def deep(n: int) -> bytes:
    return b"\x91" * 30 + b"\x9f" + b"\x91\x01" * 15 + b"\x01" * n


@pytest.mark.parametrize(
    "work",
    [
        lambda n: outcome(bytewise(big_frame(n))),
        lambda n: outcome([small_frames(n)]),
        lambda n: outcome([b"\x00\x00\x00\x01" * n]),
        lambda n: refused(b"\x81\xa1a" + b"\xdc\x00\x01" * n),
        lambda n: refused(b"\x81\xa1a\xdc" + n.to_bytes(2) + b"\xa0" * n),
        lambda n: attempt(lambda: check_nesting(b"\xdd" + n.to_bytes(4) + b"\x91\x01" * n, 32, 1 << 20)),
        lambda n: attempt(lambda: check_nesting(b"\x91" * n, n, 1 << 20)),
    ],
)
def test_twice_the_input_is_at_most_twice_the_work(work: Callable[[int], object]) -> None:
    work(400)  # fills the caches
    once, twice = lines_run(lambda: work(400)), lines_run(lambda: work(800))
    assert twice <= 2.1 * once + 50


@pytest.mark.parametrize("piece_bytes", [1000, 64 * 1024])
def test_memory_held_is_one_frame_and_what_was_fed(piece_bytes: int) -> None:
    data = big_frame(1_000_000)
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    decoder = FrameDecoder(version=VERSION_MAX)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for piece in pieces[:-1]:
            decoder.feed(piece)
            assert decoder.take() == []
        held = tracemalloc.get_traced_memory()[0] - before
        assert held < 1.2 * len(data) + piece_bytes
        decoder.feed(pieces[-1])
        (frame,) = decoder.take()
        assert tracemalloc.get_traced_memory()[0] - before < 1.1 * len(data)
        del frame
        assert tracemalloc.get_traced_memory()[0] - before < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "packed",
    [
        b"\x81\xa1a" + b"\xdc\x04\x00" * 1000,
        b"\x81\xa1a" + b"\xdc\x04\x00" * 4 + b"\x91" * 20_000,
        b"\x81\xa1a" + b"\xdd\x00\x00\x04\x00" * 1000,
        b"\xde\x01\x00" + b"".join(b"\xa3a%02x\x9f" % number for number in range(256)),
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_lists_that_lie_about_their_length_cost_little(packed: bytes) -> None:
    refused(packed)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        assert refused(packed) is not None
        assert tracemalloc.get_traced_memory()[1] - before < 256 * 1024
    finally:
        tracemalloc.stop()

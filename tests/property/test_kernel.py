"""The native kernel compared with the reference: filters and relations, histories with merges, and mutated frames.

The shared suite of the index (test_index.py) runs on the kernel, too. This suite covers the kernel's own risks: its
reading of normal forms, parts that are being merged, and bytes that never become Python objects.
"""

from __future__ import annotations

import os
import random
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

kernel = pytest.importorskip("plait_kernel")

from strategies import NAMES, random_attributes, random_tree, random_value, render  # noqa: E402

from plait_core.errors import FilterTooComplex, FrameError  # noqa: E402
from plait_core.events import Event  # noqa: E402
from plait_core.filters import Filter, parse  # noqa: E402
from plait_core.limits import WIRE_LIMITS, WireLimits  # noqa: E402
from plait_core.wire import (  # noqa: E402
    Confirm,
    FrameDecoder,
    Ping,
    deliver_head,
    encode_block,
    encode_frame,
    forward_head,
    publish_head,
)
from plait_core.wire.event_block import EventFrame  # noqa: E402 - the one in Python
from plait_core.wire.event_frames import EventFrame as NativeFrame  # noqa: E402

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))
PAIRS = 10_000_000 if NIGHTLY else 100_000
STEPS = 100_000 if NIGHTLY else 1_000
FRAMES = 200_000 if NIGHTLY else 4_000
VERSION = 1


def random_filter(rng: random.Random) -> Filter:
    while True:
        try:
            filter = parse(render(random_tree(rng, rng.choice([1, 2, 3, 5])), rng))
            filter.normal  # noqa: B018 - raises what an index would
        except FilterTooComplex:
            continue
        return filter


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(7200)
def test_many_pairs_of_filter_and_event() -> None:
    rng = random.Random(0x9A17)
    size = 2_000 if NIGHTLY else 500
    for _ in range(max(1, PAIRS // (size * 100))):
        filters = [random_filter(rng) for _ in range(size)]
        index = kernel.Index()
        for id, filter in enumerate(filters):
            index.add(id, filter)
        for turn in range(100):
            if turn == 50:
                index.settle()
            attributes = random_attributes(rng)
            assert index.match(attributes) == [id for id, f in enumerate(filters) if f.matches(attributes)]


@pytest.mark.timeout(7200)
def test_relations_are_those_of_the_reference() -> None:
    rng = random.Random(0x9A18)
    for _ in range(40 if NIGHTLY else 2):
        filters = [random_filter(rng) for _ in range(300)]
        index = kernel.Index()
        for id, filter in enumerate(filters):
            index.add(id, filter)
        for turn in range(40):
            if turn == 20:
                index.settle()
            asked = rng.choice([random_filter(rng), rng.choice(filters)])
            assert index.covering(asked) == [id for id, f in enumerate(filters) if f.covers(asked)]
            assert index.covered(asked) == [id for id, f in enumerate(filters) if asked.covers(f)]
            assert index.intersecting(asked) == [id for id, f in enumerate(filters) if f.intersects(asked)]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("shape", ["ranges", "equalities", "sparse", "any"])
def test_histories_while_merging(shape: str) -> None:
    """Add and remove in bulk, so that merges are always in progress, with queries in between."""
    rng = random.Random(shape)
    index, filters, next_id = kernel.Index(), {}, 0
    for step in range(STEPS):
        grow = len(filters) < 2_000 or rng.random() < 0.5
        for _ in range(rng.randrange(60)):
            if grow:
                filters[next_id] = shaped_filter(rng, shape)
                index.add(next_id, filters[next_id])
                next_id += 1
            elif filters:
                gone = rng.choice(list(filters))
                index.remove(gone)
                del filters[gone]
        if step % 97 == 0:
            index.settle()
        if step % 5 == 0:
            attributes = shaped_event(rng, shape)
            assert index.match(attributes) == [id for id, f in filters.items() if f.matches(attributes)]
        if len(filters) > 6_000:
            for gone in rng.sample(sorted(filters), 4_000):
                index.remove(gone)
                del filters[gone]
    assert index.stats()["merges"] > 0
    assert len(index) == len(filters)


def shaped_filter(rng: random.Random, shape: str) -> Filter:
    if shape == "any":
        return random_filter(rng)
    if shape == "ranges":
        names = rng.sample("abcdef", 3)
        bounds = [(name, low := rng.randrange(1000), low + rng.randrange(1, 200)) for name in names]
        return parse(" and ".join(f"{low} <= {name} < {high}" for name, low, high in bounds))
    if shape == "equalities":
        atoms = [f"s == 't{min(rng.randrange(1, 400) for _ in range(3))}'"]
        atoms += [f"p > {rng.randrange(100)}"] * (rng.random() < 0.7)
        atoms += [f"e in ['x', 'y', 'z{rng.randrange(9)}']"] * (rng.random() < 0.3)
        atoms += [rng.choice(["q is null", "has(q)", "q", "n endswith 'o'"])] * (rng.random() < 0.3)
        return parse(" and ".join(rng.sample(atoms, rng.randint(1, len(atoms)))))
    names = rng.sample(range(300), 2)
    return parse(f"n{names[0]} <= {rng.randrange(50)} and n{names[1]} != {rng.randrange(5)}")


def shaped_event(rng: random.Random, shape: str) -> dict[str, Any]:
    if shape == "any":
        return random_attributes(rng)
    if shape == "ranges":
        return {name: rng.randrange(1200) for name in "abcdef" if rng.random() < 0.9}
    if shape == "equalities":
        names = {"s": f"t{rng.randrange(1, 300)}", "p": rng.randrange(120), "e": rng.choice(["x", "z1"]), "n": "no"}
        return {
            name: value for name, value in {**names, "q": rng.choice([True, None, 1])}.items() if rng.random() < 0.9
        }
    return {f"n{number}": rng.randrange(60) for number in rng.sample(range(320), 120)}


@given(st.randoms(use_true_random=False))
def test_one_filter_on_one_event(rng: random.Random) -> None:
    filter, attributes = random_filter(rng), random_attributes(rng)
    index = kernel.Index()
    index.add(7, filter)
    assert index.match(attributes) == [7] * filter.matches(attributes)


# --- frames -----------------------------------------------------------------------------------------------------------


def random_block(rng: random.Random) -> bytes:
    attributes = {name: random_value(rng) for name in rng.sample(NAMES, rng.randrange(len(NAMES)))}
    headers = {"content-type": "text/plain"} if rng.random() < 0.2 else {}
    event = Event(attributes, rng.randbytes(rng.choice([0, 3, 60])), 1, 2, 3, 4, rng.randrange(10), headers)
    return encode_block(event)


def random_frame(rng: random.Random) -> bytes:
    block = random_block(rng)
    path, some = [1, 2, 3][: rng.randrange(4)], [9, 8][: rng.randrange(3)]
    match rng.randrange(8):
        case 0:
            return encode_frame(Ping(7))
        case 1:
            return forward_head(block, 5, 6, 0, path, [(n, n, n) for n in some]) + block
        case 2:
            return deliver_head(block, 6, 0, path, [(1, 0, n) for n in some]) + block
        case _:
            return publish_head(block, Confirm.NONE) + block


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with some changed, removed, repeated or moved; often none."""
    out = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        at = rng.randrange(len(out))
        match rng.randrange(6):
            case 0:
                out[at] = rng.randrange(256)
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at] = rng.choice([0x80, 0x90, 0xC0, 0xC1, 0xC4, 0xC7, 0xD4, 0xD9, 0xDC, 0xDD, 0xDE, 0xFF, 0, 1])
            case 3:
                del out[at : at + rng.randrange(1, 4)]
            case 4:
                out[at:at] = out[at : at + rng.randrange(1, 9)]
            case _:
                out[at : at + 4] = struct.pack(">I", rng.choice([0, 1, 2**16, 2**20, 2**31, 2**32 - 1]))
        if not out:
            return bytes(data)
    return bytes(out)


def reference_split(data: bytes, limits: WireLimits = WIRE_LIMITS) -> tuple[list[Any], FrameError | None]:
    decoder = FrameDecoder(limits, version=VERSION, native=False)
    decoder.feed(data)
    frames: list[Any] = []
    try:
        while taken := decoder.take():
            frames += taken
    except FrameError as error:
        return frames, error
    return frames, None


def reference_attributes(frame: EventFrame) -> tuple[str | None, dict[str, Any]]:
    try:
        return None, frame.attributes()
    except FrameError as error:
        return error.fault, {}


def is_fault_of_a_control_body(error: FrameError | None, data: bytes, at: int) -> bool:
    """Return whether the splitter leaves this fault to the receiver of the body."""
    return error is not None and len(data) > at + 5 and data[at + 5] >= 0x10


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_frames_are_those_of_the_reference(wrap: Any) -> None:
    rng = random.Random(0x9A19)
    for _ in range(FRAMES):
        whole = b"".join(random_frame(rng) for _ in range(rng.randrange(1, 5)))
        data = mutated(rng, whole)
        expected, error = reference_split(data)
        frames, taken, refusal = kernel.split_frames(wrap(data))
        if is_fault_of_a_control_body(error, data, frames[len(expected)][1] if len(frames) > len(expected) else taken):
            continue
        blocks = [frame.block for frame in expected if isinstance(frame, EventFrame)]
        assert [data[body:end] for kind, _, body, end in frames if kind < 0x10] == blocks, data
        assert len(frames) == len(expected)
        assert (refusal and refusal.fault) == (error and error.fault), data
        assert taken == (frames[-1][3] if frames else 0)


@pytest.mark.timeout(7200)
def test_attributes_are_read_as_the_reference_reads_them() -> None:
    """Mutated bytes are accepted alike, refused for the same fault, and matched alike."""
    rng = random.Random(0x9A20)
    filters = [random_filter(rng) for _ in range(200)]
    index = kernel.Index()
    for id, filter in enumerate(filters):
        index.add(id, filter)
    index.settle()
    refused = 0
    for _ in range(FRAMES):
        block = random_block(rng)
        (attributes_bytes,) = struct.unpack(">I", block[36:40])
        packed = mutated(rng, block[40 : 40 + attributes_bytes])
        block = block[:36] + struct.pack(">I", len(packed)) + packed + block[40 + attributes_bytes :]
        block = block[:34] + b"\0\0" + block[36:]
        data = publish_head(block, Confirm.NONE) + block
        rows, taken, refusal = index.match_many(data, kernel.splitter_for())
        (frame,), _ = reference_split(data)
        fault, attributes = reference_attributes(frame)
        assert (refusal and refusal[0]) == fault, (packed, refusal)
        if fault is None:
            assert rows == [(1, 0, 10, len(data), index.match(attributes))], packed
            assert taken == len(data)
        else:
            assert rows == []
            refused += 1
    assert FRAMES // 10 < refused < FRAMES * 9 // 10


@pytest.mark.timeout(7200)
def test_names_that_begin_with_a_dollar_are_found_alike() -> None:
    """The answer depends on the names alone, and is the same of mutated attributes."""
    rng = random.Random(0x9A24)
    names = [*NAMES, "$reply", "$x", "dollars"]
    texts = ["$", "US$", "$x", "\xa2$x", ""]
    found: dict[bool, int] = {False: 0, True: 0}
    for _ in range(FRAMES):
        chosen = rng.sample(names, rng.randrange(5))
        attributes = {name: rng.choice([rng.choice(texts), random_value(rng)]) for name in chosen}
        payload = b"$" * rng.randrange(3) + rng.randbytes(20)
        plain = encode_block(Event(attributes, payload, int.from_bytes(b"$" * 8), 0x24, 0x24, 0x24))
        expected = any(name.startswith("$") for name in attributes)
        assert EventFrame(plain).has_dollar_name == NativeFrame(plain).has_dollar_name == expected, plain
        found[expected] += 1
        (attributes_bytes,) = struct.unpack(">I", plain[36:40])
        packed = mutated(rng, plain[40 : 40 + attributes_bytes])
        block = plain[:36] + struct.pack(">I", len(packed)) + packed + payload
        frame, native = EventFrame(block), NativeFrame(block)
        assert frame.has_dollar_name == native.has_dollar_name, packed
        fault, decoded = reference_attributes(frame)
        if fault is None:
            assert native.has_dollar_name == any(name.startswith("$") for name in decoded), packed
    assert min(found.values()) > FRAMES // 5


def test_deep_and_lying_msgpack() -> None:
    index = kernel.Index()
    index.add(1, parse("a == 1"))
    for packed in [
        b"\x81\xa1a" + b"\x91" * 1030 + b"\x01",
        b"\x81\xa1a" + b"\x91" * 900 + b"\x01",
        b"\x81\xa1a" + b"\x91" * 1022 + b"\x01",
        b"\x81\xa1a" + b"\x91" * 1023 + b"\x01",
        b"\x81\xa1a" + b"\x91" * 1024 + b"\x01",
        b"\x81\xa1a" + b"\xdd\xff\xff\xff\xff" * 9,
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xc4\x00\x01",
        b"\x82\xc4\x00\x01\xc4\x00\x01",
        b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",
        b"\x81\xa1a\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\xa1a\xc7\x09\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\xa1a\xc7\x09\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x81\xa1a\xc7\x09\x01\xff\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x81\xa1a\xc7\x21\x01\xff" + b"\0" * 32,
        b"\x81\xa1a\xc7\x21\x01\xff" + b"\0" * 31 + b"\1",
        b"\x81\xa1a\xc7\x21\x01\x01" + b"\0" * 32,
        b"\x81\xa1a\xc7\x21\x01\x00" + b"\xff" * 32,
        b"\x81\xa1a\xc7\x22\x01\x01" + b"\xff" * 33,
        b"\x81\xa2a.\x01",
        b"\x81\xa3a.b\x91\x81\xa1a\x01",
        b"\x01",
        b"",
    ]:
        block = bytes(34) + b"\0\0" + struct.pack(">I", len(packed)) + packed
        data = publish_head(block, Confirm.NONE) + block
        _, _, refusal = index.match_many(data, kernel.splitter_for())
        (frame,), _ = reference_split(data)
        assert (refusal and refusal[0]) == reference_attributes(frame)[0], (packed[:40], refusal)


def test_limits_are_parameters() -> None:
    rng = random.Random(1)
    event = replace(WIRE_LIMITS.event, payload_bytes_max=20)
    limits = replace(WIRE_LIMITS, frame_bytes_max=150, path_max=1, event=event)
    refused = 0
    for _ in range(500):
        data = random_frame(rng)
        expected, error = reference_split(data, limits)
        frames, _, refusal = kernel.split_frames(data, limits)
        assert len(frames) == len(expected)
        assert (refusal and refusal.fault) == (error and error.fault)
        refused += refusal is not None
    assert 0 < refused < 500

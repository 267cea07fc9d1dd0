"""The messages of the tree tables: encoding and decoding, the bounds of each field, and what a hostile body raises."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from plait_broker.overlay.dissemination.tree_messages import (
    TreeAdvertised,
    TreeMessage,
    TreeSubscribed,
    decode_message,
    encode_message,
    tree_id,
)
from plait_core.errors import FrameError
from plait_core.events import U64_MAX
from plait_core.filters import parse
from plait_core.limits import FILTER_TEXT_MAX
from plait_core.wire import VERSION_MAX, FrameDecoder, encode_frame
from plait_core.wire.frame_types.strategy_frames import StrategyMessage

FILTER = parse("x >= 1 and y == 'ü'")
ADVERTISED = TreeAdvertised(7, 1, 3, FILTER)
SUBSCRIBED = TreeSubscribed(tree_id(7, 1), 3, 9, 2, FILTER)
BODIES: dict[str, dict[str, Any]] = {
    "advertised": {"root": 7, "number": 1, "round": 3, "filter": "x >= 1"},
    "subscribed": {"tree": 5, "round": 3, "home": 9, "number": 2, "filter": "x >= 1"},
}


def packed(kind: str, **changed: Any) -> bytes:
    return bytes(msgpack.packb(BODIES[kind] | changed))


@pytest.mark.parametrize(
    "message",
    [
        ADVERTISED,
        SUBSCRIBED,
        ADVERTISED._replace(filter=None),
        SUBSCRIBED._replace(filter=None),
        TreeAdvertised(0, 0, 0, parse("true")),
        TreeAdvertised(U64_MAX, U64_MAX, U64_MAX, FILTER),
        TreeSubscribed(1, 0, 0, 0, FILTER),
        TreeSubscribed(U64_MAX, U64_MAX, U64_MAX, U64_MAX, None),
    ],
)
def test_there_and_back(message: TreeMessage) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize("kind", BODIES)
def test_the_example_bodies_are_valid(kind: str) -> None:
    assert decode_message(packed(kind)).filter == parse("x >= 1")
    assert decode_message(packed(kind, later=[1, {"a": 2}])) == decode_message(packed(kind)), (
        "unknown fields are ignored"
    )


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, body in BODIES.items() for field in body if field != "filter"]
)
@pytest.mark.parametrize("value", [-1, U64_MAX + 0.0, 1.0, "1", b"1", None, True, [1], {}], ids=repr)
def test_a_number_out_of_its_bounds(kind: str, field: str, value: Any) -> None:
    with pytest.raises(FrameError, match="64-bit number"):
        decode_message(packed(kind, **{field: value}))


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, body in BODIES.items() for field in body])
def test_a_field_that_is_missing(kind: str, field: str) -> None:
    body = {name: value for name, value in BODIES[kind].items() if name != field}
    with pytest.raises(FrameError):
        decode_message(bytes(msgpack.packb(body)))


def test_tree_0_has_no_tables() -> None:
    with pytest.raises(FrameError, match="tree 0"):
        decode_message(packed("subscribed", tree=0))


@pytest.mark.parametrize(
    "text",
    [1, None, b"x >= 1", ["x"], " ", "x >=", "x" * (FILTER_TEXT_MAX + 1), "(" * 100 + "x" + ")" * 100],
    ids=["number", "null", "bytes", "list", "blank", "unfinished", "long", "deep"],
)
@pytest.mark.parametrize("kind", BODIES)
def test_a_filter_that_cannot_be_read(kind: str, text: Any) -> None:
    with pytest.raises(FrameError):
        decode_message(packed(kind, filter=text))


@pytest.mark.parametrize("kind", BODIES)
def test_a_filter_without_a_normal_form(kind: str) -> None:
    """Check that it is refused here: a comparison with another filter would raise what no caller expects."""
    text = " and ".join(f"(a{i} == 1 or b{i} == 2)" for i in range(12))
    with pytest.raises(FrameError, match="alternatives"):
        decode_message(packed(kind, filter=text))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x80",
        b"\x90",
        b"\xc0",
        b"\x81\x90\x01",
        b"\x82\xa4root\x01\xa4root\x01",
        b"\x81\xa4root\xd9\xff",
        b"\x91" * 5000,
        b"\xdf\xff\xff\xff\xff",
        encode_message(ADVERTISED) + b"\x00",
        encode_message(ADVERTISED)[:-1],
        b"\x81\xa6filter\xa2\xed\xa0",
    ],
    ids=[
        "empty", "never used", "empty map", "list", "null", "list as key", "key twice", "text lies", "deep", "map lies",
        "more after", "cut", "bad utf-8",
    ],
)  # fmt: skip
def test_a_body_that_is_no_map_of_fields(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_message(body)


@pytest.mark.parametrize("character", ["x", "ü", "\U0001f600"])
def test_the_longest_filter_fits_a_frame(character: str) -> None:
    """Check it for one to four bytes a character, of a filter that a client may use."""
    filter = parse(f"x == '{character * (FILTER_TEXT_MAX - 7)}'")
    assert len(filter.text) == FILTER_TEXT_MAX
    decoder = FrameDecoder(version=VERSION_MAX)
    for message in (
        TreeAdvertised(U64_MAX, U64_MAX, U64_MAX, filter),
        TreeSubscribed(U64_MAX, U64_MAX, U64_MAX, U64_MAX, filter),
    ):
        decoder.feed(encode_frame(StrategyMessage("tree-tables", encode_message(message))))
        (frame,) = decoder.take()
        assert isinstance(frame, StrategyMessage)
        assert decode_message(frame.body) == message


def test_a_tree_belongs_to_one_root_and_number() -> None:
    trees = {tree_id(root, number) for root in range(50) for number in range(50)}
    assert len(trees) == 2500
    assert 0 not in trees
    assert ADVERTISED.tree == tree_id(7, 1)

"""Valid attributes, and the kinds that filters compare."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest

from plait_core.errors import EventInvalid
from plait_core.limits import ATTRIBUTES_MAX, INT_BITS_MAX, LIST_ITEMS_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX, EventLimits
from plait_core.values import ValueKind, check_attributes, is_name, is_text, kind_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ValueKind.NUMBER),
        (2**200, ValueKind.NUMBER),
        (0.1, ValueKind.NUMBER),
        (math.inf, ValueKind.NUMBER),
        (math.nan, None),
        ("", ValueKind.TEXT),
        (True, ValueKind.BOOL),
        (None, None),
        ([], None),
        ([1], None),
        (b"", None),
    ],
)
def test_kind(value: object, kind: ValueKind | None) -> None:
    assert kind_of(value) is kind


@pytest.mark.parametrize("name", ["a", "_", "A9", "a.b.c", "$hops", "$a.b", "in", "true", "a" * NAME_BYTES_MAX])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "a.", ".a", "a..b", "9a", "a.9", "a b", "a-b", "$", "$$a", "a$", "a.$b", "é", "a\n", "a\0", "a١"),
        "a" * (NAME_BYTES_MAX + 1),
    ],
)
def test_no_names(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(EventInvalid, match="no attribute name"):
        check_attributes({name: 1})


def test_texts_have_no_lone_surrogates() -> None:
    assert is_text("a😀\U0010ffff\0")
    assert not is_text("a\ud800")
    assert not is_text("\udc00\ud800")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Metres(float):
    pass


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (1, 1),
        (True, True),
        (-0.0, -0.0),
        (math.inf, math.inf),
        (None, None),
        ("", ""),
        (2**INT_BITS_MAX - 1, 2**INT_BITS_MAX - 1),
        (-(2**INT_BITS_MAX) + 1, -(2**INT_BITS_MAX) + 1),
        ("é" * (VALUE_BYTES_MAX // 2), "é" * (VALUE_BYTES_MAX // 2)),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Metres(1.5), 1.5),
        ([], []),
        ((1, "a", None, True), [1, "a", None, True]),
        ([Level.HIGH] * LIST_ITEMS_MAX, [3] * LIST_ITEMS_MAX),
    ],
)
def test_values_become_plain(given: Any, plain: Any) -> None:
    found = check_attributes({"x": given})["x"]
    assert found == plain
    assert type(found) is type(plain)
    if isinstance(found, list):
        assert [type(item) for item in found] == [type(item) for item in plain]


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        object(),
        {"a": 1},
        {1},
        1j,
        [[1]],
        [b""],
        "\ud800",
        ["\udfff"],
        2**INT_BITS_MAX,
        [-(2**INT_BITS_MAX)],
        "a" * (VALUE_BYTES_MAX + 1),
        "é" * (VALUE_BYTES_MAX // 2 + 1),
        [0] * (LIST_ITEMS_MAX + 1),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_invalid_values_are_refused_with_their_name(value: object) -> None:
    with pytest.raises(EventInvalid, match=r"^size\.x: "):
        check_attributes({"ok": 1, "size.x": value})


def test_there_may_be_so_many_attributes() -> None:
    attributes = {f"a{i}": i for i in range(ATTRIBUTES_MAX)}
    assert check_attributes(attributes) == attributes
    with pytest.raises(EventInvalid, match="257 attributes"):
        check_attributes({**attributes, "one": 1})


def test_a_name_must_be_a_text() -> None:
    with pytest.raises(EventInvalid, match="no attribute name"):
        check_attributes({5: 1})  # type: ignore[dict-item]


def test_the_given_mapping_is_copied() -> None:
    given: dict[str, Any] = {"x": [1]}
    found = check_attributes(given)
    given["x"].append(2)
    given["y"] = 1
    assert found == {"x": [1]}


def test_limits_are_a_parameter() -> None:
    small = EventLimits(attributes_max=1, name_bytes_max=2, value_bytes_max=2, int_bits_max=4, list_items_max=1)
    assert check_attributes({"ab": "ab"}, small)
    for attributes in ({"a": 1, "b": 1}, {"abc": 1}, {"a": "abc"}, {"a": 16}, {"a": [1, 2]}):
        with pytest.raises(EventInvalid):
            check_attributes(attributes, small)

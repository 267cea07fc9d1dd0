"""Schemas and domains: the cells of values and intervals, and the encoding of schemas."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from plait_core.errors import SpaceInvalid
from plait_core.limits import DZ_BITS_MAX
from plait_core.space import (
    ANY,
    NONE,
    AllOf,
    AnyOf,
    Domain,
    Dz,
    Enumeration,
    FloatRange,
    Interval,
    IntRange,
    Prefix,
    Schema,
    TextPrefix,
    ValueRange,
)
from plait_core.space.domains import side_of

MARKET = Schema.of(
    {
        "symbol": TextPrefix(4),
        "price": FloatRange(0, 1000.0, bits=16),
        "volume": IntRange(0, 10**9),
        "side": Enumeration(("buy", "sell", True, 1)),
    }
)


def runs(domain: Domain, constraint: ValueRange) -> list[tuple[int, int]]:
    return list(side_of(domain, constraint).runs)


def test_all_integers_are_distinguished() -> None:
    assert [IntRange(-3, 4).cell(value) for value in range(-3, 5)] == list(range(8))
    assert IntRange(5, 5).bits == 0
    cells = [IntRange(1, 5).cell(value) for value in range(1, 6)]
    assert cells == [0, 1, 3, 4, 6]
    assert runs(IntRange(1, 5), Interval(2, 3)) == [(1, 4)], "cells between belong to the value below"
    assert runs(IntRange(1, 5), ANY) == [(0, 8)]


def test_integers_of_any_size_are_exact() -> None:
    domain = IntRange(-(2**255), 2**255)
    assert domain.cell(-(2**255)) == 0
    assert all(domain.cell(k) < domain.cell(k + 1) for k in (0, 2**100, 2**254, 2**255 - 1))


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (Interval(2.5, 4.0), [(3, 5)]),
        (Interval(2, 4, lo_open=True, hi_open=True), [(3, 4)]),
        (Interval(2, 3, lo_open=True, hi_open=True), []),
        (Interval(float("-inf"), 1), [(0, 2)]),
        (Interval(lo=float("inf")), []),
        (Interval(hi=0, hi_open=True), []),
        (Interval(5, 2), []),
        (Interval(-9, 99), [(0, 8)]),
        (Interval("a", "b"), []),
        (Interval(False, True), []),
        (Prefix("1"), []),
        (NONE, []),
        (AnyOf((Interval.point(1), Interval.point(2), Interval.point(6))), [(1, 3), (6, 7)]),
        (AllOf((Interval(lo=2), AnyOf((Interval(hi=3), Interval(lo=6))), Interval(hi=6))), [(2, 4), (6, 7)]),
        (AllOf(()), [(0, 8)]),
    ],
)
def test_constraints_on_integers(interval: ValueRange, expected: list[tuple[int, int]]) -> None:
    assert runs(IntRange(0, 7), interval) == expected


@pytest.mark.parametrize(
    ("interval", "expected", "exact"),
    [
        (Interval(25, 50), [(1, 3)], False),
        (Interval(25, 50, hi_open=True), [(1, 2)], True),
        (Interval(25, 50, lo_open=True, hi_open=True), [(1, 2)], False),
        (Interval(26, 49), [(1, 2)], False),
        (Interval(hi=100), [(0, 4)], True),
        (Interval(99.9999), [(3, 4)], False),
        (Interval(100), [], True),
        (Interval(0, 0), [(0, 1)], False),
        (Interval(30, 30, hi_open=True), [], True),
        (Interval(40, 30), [], True),
        (Interval(hi=-1), [], True),
    ],
)
def test_intervals_of_numbers(interval: Interval, expected: list[tuple[int, int]], exact: bool) -> None:
    side = side_of(FloatRange(0, 100, bits=2), interval)
    assert (list(side.runs), side.exact) == (expected, exact)


def test_floats_are_not_rounded() -> None:
    """0.1 + 0.2 > 0.3: with floats, the cell of a number next to a boundary would depend on the order of divisions."""
    domain = FloatRange(0.3, 0.1 + 0.2, bits=0)
    assert domain.cell(0.3) == 0
    with pytest.raises(SpaceInvalid):
        domain.cell(0.1 + 0.2)
    thirds = FloatRange(0, 3, bits=60)
    assert thirds.cell(1) == 2**60 // 3
    wide = FloatRange(-1e300, 1e300, bits=4)
    assert (wide.cell(0), wide.cell(-1)) == (8, 7)


def test_enumerations_go_by_value_and_not_by_position() -> None:
    sizes = Enumeration(("S", "M", "L", "XL"))
    assert [sizes.cell(value) for value in sizes.values] == [0, 1, 2, 3]
    assert runs(sizes, Interval(lo="M")) == [(0, 2), (3, 4)], "filters know that 'S' > 'M' and 'L' < 'M'"
    assert runs(sizes, Prefix("X")) == [(3, 4)]
    assert runs(Enumeration((True, 1)), Interval.point(True)) == [(0, 1)]
    assert Enumeration((True,)) != Enumeration((1,)) == Enumeration((1.0,))


def test_texts_are_distinguished_by_their_first_bytes() -> None:
    domain = TextPrefix(2)
    ordered = ["", "A", "AA", "AB", "B", "z", "é", "€", "\U0001f600"]
    cells = [domain.cell(text) for text in ordered]
    assert all(a < b for a, b in pairwise(cells))
    assert domain.cell("ABC") == domain.cell("ABD")
    assert runs(domain, Prefix("A")) == [(0x4100, 0x4200)]
    assert runs(domain, Prefix("é")) == [(0xC3A9, 0xC3AA)]
    assert runs(domain, Interval(hi="B", hi_open=True)) == [(0, 0x4200)]
    assert runs(domain, Interval("A", "B")) == [(0x4100, 0x4201)]
    assert runs(domain, Interval("B", "A")) == []
    assert runs(domain, Interval(lo=1)) == []
    assert runs(domain, ANY) == [(0, 0x10000)]


@pytest.mark.parametrize(
    ("constraint", "exact"),
    [
        (Prefix("AB"), True),
        (Prefix("ABC"), False),
        (Prefix("A\0"), False),
        (Interval("A", "B", hi_open=True), True),
        (Interval("A", "B"), False),
        (Interval("A", lo_open=True), False),
        (Interval("ABC"), False),
        (Interval(hi="B\0", hi_open=True), False),
    ],
)
def test_exactness_of_prefix_domains(constraint: ValueRange, exact: bool) -> None:
    assert side_of(TextPrefix(2), constraint).exact is exact


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price", 1000),
        ("price", -0.001),
        ("price", float("nan")),
        ("price", float("inf")),
        ("price", True),
        ("price", "5"),
        ("price", None),
        ("volume", 2.5),
        ("volume", -1),
        ("volume", float("nan")),
        ("symbol", 7),
        ("side", "hold"),
        ("side", False),
        ("side", [1]),
        ("side", None),
    ],
)
def test_a_value_outside_its_domain_is_refused_by_name(name: str, value: object) -> None:
    event = {"symbol": "IBM", "price": 3, "volume": 5, "side": "buy"}
    assert MARKET.locate(event).depth == MARKET.depth == 32 + 16 + 30 + 2
    with pytest.raises(SpaceInvalid, match=name):
        MARKET.locate(event | {name: value})


def test_an_event_needs_every_attribute() -> None:
    with pytest.raises(SpaceInvalid, match="without side"):
        MARKET.locate({"symbol": "IBM", "price": 3, "volume": 5})


def test_a_coarser_sub_space_is_a_prefix() -> None:
    event = {"symbol": "IBM", "price": 3.0, "volume": 5.0, "side": 1, "more": "is ignored"}
    finest = MARKET.locate(event)
    assert all(MARKET.locate(event, depth) == Dz(finest.text[:depth]) for depth in range(MARKET.depth + 1))
    for depth in (-1, MARKET.depth + 1):
        with pytest.raises(SpaceInvalid, match="depth"):
            MARKET.locate(event, depth)


def test_a_dimension_without_bits_left_is_passed_over() -> None:
    schema = Schema.of({"flag": Enumeration((False, True)), "price": IntRange(0, 7)})
    assert schema.locate({"flag": True, "price": 0b011}) == Dz("1011")


def test_one_attribute_s_own_tree() -> None:
    assert MARKET.only("price") == Schema.of({"price": FloatRange(0, 1000, bits=16)})
    with pytest.raises(SpaceInvalid, match="colour"):
        MARKET.only("colour")


def test_a_schema_travels() -> None:
    again = Schema.from_json(MARKET.to_json())
    assert again == MARKET
    assert hash(again) == hash(MARKET)
    assert again.to_json() == MARKET.to_json()
    assert Schema.from_dict(MARKET.to_dict()) == MARKET
    assert json.loads(MARKET.to_json())["attributes"][1] == {
        "name": "price",
        "type": "float",
        "lo": 0,
        "hi": 1000,
        "bits": 16,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "1" * 5000,
        "{}",
        '{"attributes": []}',
        '{"attributes": [7]}',
        '{"attributes": [{"type": "text"}]}',
        '{"attributes": [{"name": "a"}]}',
        '{"attributes": [{"name": "a", "type": []}]}',
        '{"attributes": [{"name": "a", "type": "blob"}]}',
        '{"attributes": [{"name": "a b", "type": "text"}]}',
        '{"attributes": [{"name": "a", "type": "text", "more": 1}]}',
        '{"attributes": [{"name": "a", "type": "text", "prefix_bytes": true}]}',
        '{"attributes": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]}',
        '{"attributes": [{"name": "a", "type": "int", "lo": 0, "hi": 1.5}]}',
        '{"attributes": [{"name": "a", "type": "int", "lo": 1, "hi": 0}]}',
        '{"attributes": [{"name": "a", "type": "float", "lo": 0, "hi": NaN}]}',
        '{"attributes": [{"name": "a", "type": "float", "lo": 0, "hi": Infinity}]}',
        '{"attributes": [{"name": "a", "type": "float", "lo": 0, "hi": "1"}]}',
        '{"attributes": [{"name": "a", "type": "float", "lo": 1, "hi": 1}]}',
        '{"attributes": [{"name": "a", "type": "float", "lo": 0, "hi": 1, "bits": -1}]}',
        '{"attributes": [{"name": "a", "type": "enum", "values": []}]}',
        '{"attributes": [{"name": "a", "type": "enum", "values": "abc"}]}',
        '{"attributes": [{"name": "a", "type": "enum", "values": [1, 1.0]}]}',
        '{"attributes": [{"name": "a", "type": "enum", "values": [null]}]}',
        '{"attributes": [{"name": "a", "type": "enum", "values": [[1]]}]}',
    ],
)
def test_invalid_schemas_are_refused(text: str) -> None:
    with pytest.raises(SpaceInvalid):
        Schema.from_json(text)


def test_a_schema_s_depth_is_bounded() -> None:
    assert Schema.of({f"a{i}": FloatRange(0, 1, bits=64) for i in range(16)}).depth == DZ_BITS_MAX
    with pytest.raises(SpaceInvalid, match="DZ_BITS_MAX"):
        Schema.of({"hash": TextPrefix(128), "flag": Enumeration((0, 1))})


@pytest.mark.parametrize(("lo", "hi"), [(1, "a"), (True, 2), (float("nan"), None), (None, float("nan"))])
def test_an_interval_is_of_one_kind(lo: int, hi: int) -> None:
    with pytest.raises(SpaceInvalid):
        Interval(lo, hi)

"""Filters made in Python: F, its operators, its errors, and EventBridge patterns."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import pytest

from plait_core.errors import FilterError, FilterSyntax, FilterTooComplex
from plait_core.filters import F, Filter, from_pattern, parse
from plait_core.limits import FILTER_SET_MAX


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


BUILT: list[tuple[Callable[[], Any], str]] = [
    (lambda: (F.symbol == "IBM") & F.price.between(100, 130) & ~F.halted,
     "symbol == 'IBM' and price >= 100 and price <= 130 and not halted"),  # DESIGN.md's example
    (lambda: F.x == 1, "x == 1"),
    (lambda: F.x != 1.0, "x != 1"),
    (lambda: F.x < 0.5, "x < 0.5"),
    (lambda: F.x <= "a", "x <= 'a'"),
    (lambda: F.x > -1, "x > -1"),
    (lambda: F.x >= 2**200, f"x >= {2**200}"),
    (lambda: 3 < F.x, "x > 3"),  # noqa: SIM300
    (lambda: "a" == F.x, "x == 'a'"),  # noqa: SIM300
    (lambda: F.x == True, "x"),  # noqa: E712
    (lambda: F.x != True, "not x"),  # noqa: E712
    (lambda: F.a.b.c == 1, "a.b.c == 1"),
    (lambda: F["a.b"].c == 1, "a.b.c == 1"),
    (lambda: F["$hops"] < 3, "$hops < 3"),
    (lambda: F["not.x"] == 1, "not.x == 1"),
    (lambda: F.x.is_in([3, 1, "a", 1.0]), "x in [1, 3, 'a']"),
    (lambda: F.x.is_in({7}), "x == 7"),
    (lambda: F.x.not_in([1, 2]), "x not in [1, 2]"),
    (lambda: F.x.startswith("a") | F.x.endswith("b"), "x startswith 'a' or x endswith 'b'"),
    (lambda: ~F.x.contains("it's"), "x not contains 'it\\'s'"),
    (lambda: F.x.like("a%"), "x startswith 'a'"),
    (lambda: F.x.like("a_"), "x like 'a_'"),
    (lambda: F.x.exists() & F.y.is_null(), "has(x) and y is null"),
    (lambda: ~F.x.exists(), "x is null"),
    (lambda: F.x & F.y | ~F.z, "x and y or not z"),
    (lambda: ~(F.x & F.y), "not (x and y)"),
    (lambda: ~~(F.x & F.y), "x and y"),
    (lambda: F.x & "y or z", "x and (y or z)"),
    (lambda: F.x == Colour.RED, "x == 'red'"),
    (lambda: F.x == Level.HIGH, "x == 3"),
    (lambda: F.from_text("a=1"), "a == 1"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), BUILT, ids=[text for _, text in BUILT])
def test_a_built_filter_is_the_written_one(build: Callable[[], Any], text: str) -> None:
    built = build()
    assert isinstance(built, Filter)
    assert str(built) == text
    assert built == parse(text)
    assert built.expr == parse(text).expr


REFUSED: list[Callable[[], object]] = [
    lambda: F.x == None,  # noqa: E711
    lambda: F.x == F.y,
    lambda: F.x == [1],
    lambda: F.x == object(),
    lambda: F.x == math.nan,
    lambda: F.x < math.inf,
    lambda: F.x < True,
    lambda: F.x == "\ud800",
    lambda: F.x == 2**256,
    lambda: F.x.is_in([]),
    lambda: F.x.is_in([None]),
    lambda: F.x.between(1, "a"),
    lambda: F.x.between(False, True),
    lambda: F.x.startswith(1),  # type: ignore[arg-type]
    lambda: F["x y"],
    lambda: F[""],
    lambda: F["a."],
    lambda: F["in"],
    lambda: F["NOT"],
    lambda: F["a" * 129],
    lambda: F.é,
]


@pytest.mark.parametrize("build", REFUSED)
def test_filters_that_no_text_can_express_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(FilterSyntax) as caught:
        build()
    assert caught.value.column == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(F.x),
        lambda: bool(F.x == 1),
        lambda: (F.x == 1) and (F.y == 2),
        lambda: not F.x,
        lambda: 1 < F.x < 3,  # type: ignore[operator]
        lambda: F.x in [1, 2],
        lambda: list(F.x),
        lambda: hash(F.x),
        lambda: (F.x == 1) & 5,
    ],
)
def test_python_logic_raises(use: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        use()


def test_python_protocols_are_no_attributes() -> None:
    for thing in (F, F.x):
        assert not hasattr(thing, "__wrapped__")
    assert repr(F.a.b) == "F['a.b']"


def test_limits_hold_for_built_filters() -> None:
    with pytest.raises(FilterTooComplex, match="literals"):
        F.x.is_in(range(FILTER_SET_MAX + 1))
    with pytest.raises(FilterTooComplex, match="canonical text"):
        F.x.is_in(["a" * 10_000, "b" * 10_000])
    with pytest.raises(FilterTooComplex, match="characters"):
        F.x == "a" * 20_000  # noqa: B015
    many = F.x == 0
    with pytest.raises(FilterTooComplex, match="conditions"):
        for i in range(1000):
            many |= F.x == i
    deep = F.x == 0
    with pytest.raises(FilterTooComplex, match="nest"):
        for _ in range(1000):
            deep = (deep & F.a) | F.b
            deep = ~deep


PATTERNS: list[tuple[dict[str, Any], str]] = [
    ({}, "true"),
    ({"state": ["open"]}, "state == 'open'"),
    ({"state": ["open", "new"], "code": [5]}, "state in ['new', 'open'] and code == 5"),
    ({"detail": {"state": ["open"], "a": {"b": [True]}}}, "detail.state == 'open' and detail.a.b"),
    ({"x": [None]}, "x is null"),
    ({"x": [1, None]}, "x == 1 or x is null"),
    ({"x": [{"exists": True}]}, "has(x)"),
    ({"x": [{"exists": False}]}, "x is null"),
    ({"x": [{"prefix": "a"}, {"suffix": "b"}]}, "x startswith 'a' or x endswith 'b'"),
    ({"x": [{"anything-but": 1}]}, "x != 1"),
    ({"x": [{"anything-but": ["a", "b"]}]}, "x not in ['a', 'b']"),
    ({"x": [{"anything-but": {"prefix": "a"}}]}, "x not startswith 'a'"),
    ({"x": [{"numeric": [">", 0, "<=", 5]}]}, "x > 0 and x <= 5"),
    ({"x": [{"numeric": ["=", 3]}]}, "x == 3"),
    ({"x": [{"wildcard": "a*b*"}]}, "x like 'a%b%'"),
    ({"x": [{"wildcard": "a*"}]}, "x startswith 'a'"),
    ({"x": [{"wildcard": "100%_\\**"}]}, "x startswith '100%_*'"),
    ({"x": [{"wildcard": "a\\\\*"}]}, "x startswith 'a\\\\'"),  # an escaped backslash, then any text
    ({"x": [{"wildcard": "a\\b\0*"}]}, "x startswith 'a\\\\b\\x00'"),
    ({"$or": [{"x": [1]}, {"y": [2]}], "z": [3]}, "(x == 1 or y == 2) and z == 3"),
    ({"a": {"$or": [{"x": [1]}, {"y": [2]}]}}, "a.x == 1 or a.y == 2"),
]


@pytest.mark.parametrize(("pattern", "text"), PATTERNS, ids=[text for _, text in PATTERNS])
def test_a_pattern_means_its_filter(pattern: dict[str, Any], text: str) -> None:
    assert str(from_pattern(pattern)) == text
    assert F.from_pattern(pattern) == parse(text)


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ({"x": 5}, "pattern at x"),
        ({"x": {"y": "a"}}, "pattern at x.y"),
        ({"x": []}, "pattern at x"),
        ({"x": [[1]]}, "pattern at x"),
        ({"x": [{}]}, "pattern at x"),
        ({"x": [{"prefix": "a", "suffix": "b"}]}, "one operator"),
        ({"x": [{"cidr": "10.0.0.0/8"}]}, "unknown operator 'cidr'"),
        ({"x": [{"prefix": 5}]}, "needs a text"),
        ({"x": [{"wildcard": 5}]}, "needs a text"),
        ({"x": [{"exists": "yes"}]}, "true or false"),
        ({"x": [{"numeric": []}]}, "numeric"),
        ({"x": [{"numeric": [">"]}]}, "numeric"),
        ({"x": [{"numeric": ["~", 1]}]}, "numeric"),
        ({"x": [{"numeric": [">", "1"]}]}, "numeric"),
        ({"x": [{"anything-but": []}]}, "empty list"),
        ({"x": [math.nan]}, "nan"),
        ({"x y": [1]}, "'x y'"),
        ({"in": [1]}, "word of the filter language"),
        ({"$or": []}, "\\$or"),
        ({"$or": {"x": [1]}}, "\\$or"),
    ],
)
def test_a_wrong_pattern_names_its_field(pattern: dict[str, Any], part: str) -> None:
    with pytest.raises(FilterSyntax, match=part):
        from_pattern(pattern)


def test_a_huge_pattern_is_too_complex() -> None:
    deep: dict[str, Any] = {"x": [1]}
    for _ in range(100):
        deep = {"$or": [deep]}
    for pattern in (deep, {"x": list(range(2000))}, {f"a{i}": [1] for i in range(1000)}):
        with pytest.raises(FilterTooComplex):
            from_pattern(pattern)
    negations: dict[str, Any] = {"prefix": "a"}
    for _ in range(10_000):
        negations = {"anything-but": negations}
    with pytest.raises(FilterError):
        from_pattern({"x": [negations]})

"""The normal form: alternatives in text order, no contradictions, at most 256, and the offending part named."""

from __future__ import annotations

import pytest

from plait_core.errors import FilterTooComplex
from plait_core.filters import Constraint, F, ValueSet, parse, satisfies
from plait_core.limits import CONJUNCTIONS_MAX, FilterLimits


def one(constraint: Constraint, attr: str = "x") -> tuple[dict[str, Constraint], ...]:
    return ({attr: constraint},)


def numbers(**parts: object) -> Constraint:
    return Constraint(numbers=ValueSet(**parts))


def texts(**parts: object) -> Constraint:
    return Constraint(texts=ValueSet(**parts))


ONE_ALTERNATIVE = [
    ("x == 1", numbers(points={1})),
    ("x != 1", numbers(holes={1})),
    ("x < 1", numbers(high=1, high_open=True)),
    ("x >= 1", numbers(low=1)),
    ("1 < x <= 3", numbers(low=1, low_open=True, high=3)),
    ("x > 1 and x > 2 and x >= 2", numbers(low=2, low_open=True)),
    ("x between 2 and 2", numbers(points={2})),
    ("x in [1, 2, 3] and x >= 2", numbers(points={2, 3})),
    ("x in [1, 2, 3] and x != 2", numbers(points={1, 3})),
    ("x == 1 or x == 2 or x in [2, 3]", numbers(points={1, 2, 3})),
    ("x", Constraint(bools=frozenset({True}))),
    ("x or not x", Constraint(bools=frozenset({True, False}))),
    ("x in [1, 'a', true]", Constraint(ValueSet(points={1}), ValueSet(points={"a"}), frozenset({True}))),
    ("x == 1 or x == 'a' or x", Constraint(ValueSet(points={1}), ValueSet(points={"a"}), frozenset({True}))),
    ("x not in [1, 'a']", Constraint(ValueSet(holes={1}), ValueSet(holes={"a"}))),
    ("x not in [true, 1]", Constraint(ValueSet(holes={1}), None, frozenset({False}))),
    ("x startswith 'ab'", texts(low="ab", high="ac", high_open=True)),
    ("x startswith 'a\U0010ffff'", texts(low="a\U0010ffff", high="b", high_open=True)),
    ("x startswith '\U0010ffff'", texts(low="\U0010ffff", high_open=True)),
    ("x startswith '\ud7ff'", texts(low="\ud7ff", high="\ue000", high_open=True)),
    ("x startswith ''", texts()),
    ("x contains ''", texts()),
    ("x >= ''", texts()),
    ("x <= ''", texts(points={""})),
    ("x endswith 'a'", texts(shapes={("endswith", "a", False)})),
    ("has(x)", Constraint(ValueSet(), ValueSet(), frozenset({True, False}), others=True)),
    ("x is null", Constraint(absent=True)),
    ("has(x) and x > 1", numbers(low=1, low_open=True)),
    ("not (x != 1 or x != 1)", numbers(points={1})),
]


@pytest.mark.parametrize(("text", "constraint"), ONE_ALTERNATIVE)
def test_one_attribute_has_one_constraint(text: str, constraint: Constraint) -> None:
    assert parse(text).normal == one(constraint)


CONTRADICTIONS = [
    "false",
    "x == 1 and x == 2",
    "x == 1 and x == '1'",
    "x == 1 and x",
    "x and not x",
    "x > 2 and x < 2",
    "x > 2 and x <= 2",
    "5 < x < 1",
    "x between 'b' and 'a'",
    "x == 1 and x is null",
    "has(x) and x is null",
    "x > 5 and x < 'a'",
    "x in [1, 2] and x in [3, 4]",
    "x in [1, 2] and x not in [1, 2]",
    "x == 1 and x != 1",
    "x between 1 and 1 and x != 1",
    "x startswith 'a' and x startswith 'b'",
    "x startswith 'a' and x > 'b'",
    "x endswith 'a' and x endswith 'b'",
    "x endswith 'a' and x contains 'c' and x endswith 'b'",
    "x contains 'a' and x not contains 'a'",
    "x like 'a_' and x not like 'a_'",
    "x == 'abc' and x not contains 'b'",
    "x < ''",
    "x not startswith ''",
    "x not contains ''",
    "x not endswith ''",
    "x not in [true, false]",
    "x < '' and y == 1",
    "y == 1 and x < ''",
    "x == 1 and (x == 2 or x == 3)",
    "(x == 1 or x == 2) and (x == 3 or x == 4)",
    "not (x != 1 or x == 1)",
    "not true",
]


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_an_unsatisfiable_filter_has_no_alternative(text: str) -> None:
    assert parse(text).normal == ()
    assert parse(f"y == 5 or {text}").normal == one(numbers(points={5}), "y")


def test_alternatives_come_in_the_order_they_are_written() -> None:
    found = parse("b == 1 and c == 1 or a == 1 or (d == 1 or e == 1) and f == 1").normal
    assert [sorted(conjunction) for conjunction in found] == [["b", "c"], ["a"], ["d", "f"], ["e", "f"]]
    found = parse("(a == 1 or b == 1) and (c == 1 or d == 1)").normal
    assert [sorted(conjunction) for conjunction in found] == [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]


def test_true_swallows_the_other_alternatives() -> None:
    assert parse("true").normal == ({},)
    assert parse("a == 1 or true").normal == ({},)
    assert parse("a == 1 and (b == 1 or true)").normal == one(numbers(points={1}), "a")


def test_alternatives_do_not_share_what_is_narrowed_later() -> None:
    found = parse("(a > 1 or b > 1) and (a < 9 or b < 9) and a != 5").normal
    again = parse("(a > 1 or b > 1) and (a < 9 or b < 9) and a != 5").normal
    assert found == again
    for value in range(11):
        event = {"a": value, "b": 0}
        expected = value not in (0, 1, 5)
        assert any(satisfies(event, conjunction) for conjunction in found) is expected


def _pairs(count: int) -> str:
    return " and ".join(f"(a{i} == 1 or b{i} == 1)" for i in range(count))


def test_the_cap_itself_is_allowed() -> None:
    assert len(parse(_pairs(8)).normal) == CONJUNCTIONS_MAX == 256
    assert len(parse(" or ".join(f"a{i} == 1" for i in range(256))).normal) == 256


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        (_pairs(9), _pairs(9)),
        (f"x == 1 or y == 2 and ({_pairs(9)})", "y == 2"),  # parentheses in an and are flattened
        (f"x == 1 or not not (z == 1 or {_pairs(9)})", _pairs(9)),
        (" or ".join(f"a{i} == 1" for i in range(257)), "a0"),
        (f"x == 1 and ({' or '.join(f'a{i} == 1' for i in range(257))})", "a0"),
        (f"x == 1 and not ({' and '.join(f'a{i} == 1' for i in range(257))})", "a0"),
    ],
)
def test_beyond_the_cap_the_part_to_blame_is_named(text: str, blamed: str) -> None:
    found = parse(text)  # parsing, printing and matching it works
    assert parse(found.text) == found
    assert found.matches({}) is False
    with pytest.raises(FilterTooComplex, match="comes to over 256 alternatives") as caught:
        found.normal  # noqa: B018
    error = caught.value
    assert error.column == text.index(blamed) + 1
    assert error.text == text
    assert blamed[:40] in error.message
    assert error.hint
    for relation in (found.covers, found.intersects):
        with pytest.raises(FilterTooComplex):
            relation(parse("true"))


def test_a_filter_without_text_is_blamed_without_column() -> None:
    made = F.x == 1
    for i in range(9):
        made &= (F[f"a{i}"] == 1) | (F[f"b{i}"] == 1)
    with pytest.raises(FilterTooComplex) as caught:
        made.normal  # noqa: B018
    assert (caught.value.column, caught.value.text) == (0, "")


def test_many_literals_are_one_alternative() -> None:
    for text in (" or ".join(f"x == {i}" for i in range(500)), " and ".join(f"x != {i}" for i in range(500))):
        assert len(parse(text).normal) == 1
    assert len(parse(f"x not in [{', '.join(map(str, range(1000)))}]").normal) == 1


def test_contradictions_thin_a_product_out() -> None:
    several = " and ".join("(x == 1 and y > 1 or x == 2 and y > 2 or x == 3 and y > 3)" for _ in range(12))
    assert len(parse(several).normal) == 3  # of 3 ** 12


def test_the_cap_is_a_parameter() -> None:
    with pytest.raises(FilterTooComplex, match="over 3 alternatives"):
        parse(_pairs(2), FilterLimits(conjunctions_max=3)).normal  # noqa: B018

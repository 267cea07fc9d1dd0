"""Covering and intersection, by tables of pairs that cover one way, both ways or not at all."""

from __future__ import annotations

import pytest

from plait_core.filters import EVERYTHING, parse

COVERS = [  # wide, narrow: and not vice versa
    ("true", "x == 1"),
    ("true", "x is null"),
    ("x == 1", "x == 1 and y == 2"),
    ("x == 1 or y == 2", "x == 1"),
    # ranges
    ("x > 1", "x > 2"),
    ("x >= 1", "x > 1"),
    ("x < 3", "x <= 2.5"),
    ("x > 0", "1 < x < 3"),
    ("1 <= x <= 3", "1 < x < 3"),
    ("x between 1 and 3", "x == 2"),
    (f"x >= {2**53}", f"x >= {2**53 + 1}"),
    (f"x > {2**53}.0", f"x > {2**53 + 1}"),
    ("x > 1 and y > 1", "x > 2 and y > 2"),
    ("x != 5", "x > 5"),
    ("x != 5", "x in [1, 2]"),
    ("x != 1", "x != 1 and x != 2"),
    ("x > 1 and x != 5", "x > 5"),
    # sets
    ("x in [1, 2, 3]", "x in [1, 3]"),
    ("x in [1, 2, 3]", "x == 2"),
    ("x in [1, 'a', true]", "x in ['a', true]"),
    ("x in [1, 'a', true]", "x"),
    ("x == 1 or x == 2", "x == 1"),
    ("x > 0", "x in [1, 2, 3]"),
    ("x not in [1, 2]", "x in [3, 4]"),
    ("x not in [1]", "x not in [1, 2]"),
    ("x not in [1, 'a']", "x > 1"),
    # texts and prefixes
    ("x startswith 'a'", "x startswith 'ab'"),
    ("x startswith 'a'", "x == 'abc'"),
    ("x startswith 'a'", "x in ['a', 'ab']"),
    ("x startswith 'a'", "x between 'ab' and 'ac'"),
    ("x startswith ''", "x startswith 'a'"),
    ("x startswith ''", "x < 'b'"),
    ("x like '%'", "x endswith 'q'"),
    ("x >= ''", "x contains 'a'"),
    ("x >= 'a'", "x startswith 'a'"),
    ("x < 'b'", "x startswith 'a'"),
    ("x startswith 'a\U0010ffff'", "x == 'a\U0010ffffz'"),
    ("x startswith '\U0010ffff'", "x startswith '\U0010ffffa'"),
    ("x startswith '\ud7ff'", "x startswith '\ud7ff\ud7ff'"),
    ("x not startswith 'a'", "x startswith 'b'"),
    ("x not startswith 'ab'", "x not startswith 'a'"),
    ("x not startswith 'a'", "x == 'b'"),
    # suffixes, infixes and other shapes
    ("x endswith 'c'", "x endswith 'bc'"),
    ("x endswith 'c'", "x == 'abc'"),
    ("x not endswith 'bc'", "x not endswith 'c'"),
    ("x contains 'b'", "x contains 'abc'"),
    ("x contains 'b'", "x endswith 'bc'"),
    ("x contains 'b'", "x startswith 'abc'"),
    ("x contains 'b'", "x == 'abc'"),
    ("x contains 'bc'", "'abcd' <= x < 'abd'"),  # all of the range starts with 'abc'
    ("x contains 'b'", "x between 'abc' and 'abd'"),
    ("x not contains 'abc'", "x not contains 'b'"),
    ("x contains 'b'", "x contains 'b' and x contains 'c'"),
    ("x like 'a_c'", "x like 'a_c' and y == 1"),
    ("x like 'a_c'", "x == 'abc'"),
    ("x not like 'a_c'", "x == 'abd'"),
    # presence
    ("has(x)", "x == 1"),
    ("has(x)", "x"),
    ("has(x)", "x startswith 'a'"),
    ("has(x)", "x not in [1, 'a']"),
    ("has(x)", "has(x) and has(y)"),
    ("x is null", "x is null and y == 1"),
    # several alternatives
    ("x > 5 or x < 1", "x > 7 or x < 0"),
    ("x > 5 or y > 5", "x > 5 and y > 5"),
    ("(a == 1 or b == 1) and c == 1", "a == 1 and c == 1"),
    ("has(x)", "x == 1 or x == 'a' or not x"),
    # unsatisfiable filters
    ("x == 1", "false"),
    ("x == 1", "y > 2 and y < 2"),
    ("x == 1", "x < ''"),
    ("x == 1", "z == 1 and y not in [true, false]"),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERS)
def test_covers_one_way(wide: str, narrow: str) -> None:
    a, b = parse(wide), parse(narrow)
    assert a.covers(b)
    assert not b.covers(a)
    assert a.covers(a)
    assert b.covers(b)


EQUAL = [
    ("x == 1", "x in [1]"),
    ("x == 1", "x between 1 and 1"),
    ("x == 1", "x == 1.0"),
    ("x == 1 or x == 2", "x in [2, 1]"),
    ("x startswith 'a'", "x >= 'a' and x < 'b'"),
    ("x startswith ''", "x contains ''"),
    ("x startswith ''", "x >= ''"),
    ("x == ''", "x <= ''"),
    ("true", "true or x == 1"),
    ("false", "x == 1 and x == 2"),
    ("not (a and b)", "not a or not b"),
    ("a and (b or c)", "a and b or a and c"),
    ("x or not x", "x in [true, false]"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_covers_both_ways(one: str, other: str) -> None:
    assert parse(one).covers(parse(other))
    assert parse(other).covers(parse(one))


APART = [  # neither covers the other, and nothing matches both
    ("x == 1", "x == 2"),
    ("x == 1", "x == '1'"),
    ("x == 1", "x"),
    ("x", "not x"),
    ("x < 1", "x >= 1"),
    ("x < 1", "x < 'a'"),
    ("x != 1", "x != 'a'"),
    ("x in [1, 2]", "x in [3, 4]"),
    ("x in [1, 2]", "x not in [1, 2, 3]"),
    ("x in [1, true]", "x in [2, false]"),
    ("x startswith 'a'", "x startswith 'b'"),
    ("x startswith 'ab'", "x startswith 'aa'"),
    ("x startswith 'a'", "x >= 'b'"),
    ("x endswith 'a'", "x endswith 'b'"),
    ("x endswith 'a'", "x not endswith 'a'"),
    ("x contains 'a'", "x not contains 'a'"),
    ("x like 'a_'", "x not like 'a_'"),
    ("x == 'abc'", "x not contains 'b'"),
    ("has(x)", "x is null"),
    ("x == 1", "x is null"),
    ("x == 1 and y == 1", "x == 1 and y == 2"),
    ("x == 1 or x == 2", "x == 3 or x == 4"),
    (f"x <= {2**53}", f"x >= {2**53 + 1}"),
    (f"x == {2**53}.0", f"x == {2**53 + 1}"),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_apart(one: str, other: str) -> None:
    a, b = parse(one), parse(other)
    assert not a.intersects(b)
    assert not b.intersects(a)
    assert not a.covers(b)
    assert not b.covers(a)


OVERLAP = [  # neither covers the other, and something matches both
    ("x contains 'bc'", "x between 'abc' and 'abd'"),  # 'abd' has no 'bc'
    ("x contains 'a'", "x between 'a' and 'b'"),
    ("x > 1", "x < 2"),
    ("x >= 1", "x <= 1"),
    ("x == 1", "y == 1"),  # an attribute that one side does not constrain is free
    ("x in [1, 2]", "x in [2, 3]"),
    ("x in [1, 'a']", "x in ['a', true]"),
    ("x not in [1, 'a']", "x != 2"),
    ("x startswith 'a'", "x endswith 'b'"),
    ("x startswith 'a'", "x contains 'b'"),
    ("x contains 'a'", "x contains 'b'"),
    ("x endswith 'a'", "x not endswith 'ba'"),
    ("x like 'a_'", "x like '_b'"),
    ("has(x)", "y is null"),
    ("x == 1 or y == 1", "x == 2 or y == 1"),
]


@pytest.mark.parametrize(("one", "other"), OVERLAP)
def test_overlap(one: str, other: str) -> None:
    a, b = parse(one), parse(other)
    assert a.intersects(b)
    assert b.intersects(a)
    assert not a.covers(b)
    assert not b.covers(a)


def test_undecided_relations_err_on_the_safe_side() -> None:
    """Covering answers no, intersection answers yes. That costs a forwarded subscription, never a lost event."""
    assert not parse("x <= 5 or x >= 5").covers(parse("has(y) and 0 < x < 9"))  # needs two alternatives at once
    assert not parse("x like 'a%'  or x like 'b_'").covers(parse("x like 'b_' and x like '_c' or x == 1"))
    assert not parse("x like '%a_%'").covers(parse("x startswith 'ab'"))
    assert parse("x startswith 'a'").intersects(parse("x not startswith 'a'"))
    assert parse("x like 'a_'").intersects(parse("x like 'b_'"))
    assert parse("x > 'a' and x < 'a\\x00'").intersects(EVERYTHING)  # no text lies between


def test_an_advertisement_leaves_what_it_does_not_name_free() -> None:
    advertisement = parse("symbol in ['IBM', 'SAP'] and price > 0")
    assert advertisement.intersects(parse("symbol == 'IBM' and volume > 1000"))
    assert advertisement.intersects(parse("volume is null"))
    assert not advertisement.intersects(parse("symbol == 'DAI'"))
    assert not advertisement.intersects(parse("symbol is null"))
    assert not advertisement.intersects(parse("price <= 0 or price > 5 and symbol == 'X'"))


def test_an_unsatisfiable_filter_intersects_nothing() -> None:
    for text in ("false", "x < ''", "x == 1 and x == 2"):
        assert not EVERYTHING.intersects(parse(text))
        assert EVERYTHING.covers(parse(text))
        assert parse(text).covers(parse("false"))

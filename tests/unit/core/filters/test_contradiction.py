"""Filters that no event can match: refused with the conditions that exclude each other."""

from __future__ import annotations

import pytest

from plait_core.errors import FilterNeverTrue
from plait_core.filters import parse

NEVER = [
    ("price < 3 and price > 5", "`price < 3` and `price > 5` exclude each other", 15),
    ("5 < price < 3", "`price > 5` and `price < 3` exclude each other", 5),
    ("halted and not halted and banana", "`halted` and `not halted` exclude each other", 12),
    ("x == 1 and (y > 2 or y < 1) and x == 2", "`x == 1` and `x == 2` exclude each other", 33),
    ("(a < 3 or b < 3) and a > 5 and b > 5", "`a < 3` and `a > 5` exclude each other", 22),
    ("not (x >= 1 or x < 1)", "`x < 1` and `x >= 1` exclude each other", 6),
    ("x >= 3 and x <= 3 and x != 3", "`x >= 3` and `x <= 3` and `x != 3` exclude each other", 23),
    ("has(x) and y == 1 and x is null", "`has(x)` and `x is null` exclude each other", 23),
    ("s == 'a' and s == 1", "`s == 'a'` and `s == 1` exclude each other", 14),
    ("s startswith 'a' and s startswith 'b'", "`s startswith 'a'` and `s startswith 'b'` exclude", 22),
    ("(x < 1 and x > 2) or (y < 1 and y > 2)", "`x < 1` and `x > 2` exclude each other", 12),
    ("x in [1, 2] and x in [2, 3] and x in [3, 1]", "`x in [1, 2]` and `x in [2, 3]` and `x in [1, 3]`", 0),
    ("x < ''", "`x < ''` is never true", 1),
    ("false", "`false` is never true", 1),
    ("price > 1 and false", "`false` is never true", 15),
    ("not true", "`false` is never true", 0),
]


@pytest.mark.parametrize(("text", "reason", "column"), NEVER, ids=[text for text, _, _ in NEVER])
def test_the_conditions_that_exclude_each_other_are_named(text: str, reason: str, column: int) -> None:
    with pytest.raises(FilterNeverTrue) as refused:
        parse(text).check_satisfiable()
    assert refused.value.message.startswith(f"no event can match: {reason}")
    assert refused.value.column == column
    assert refused.value.hint
    if column:
        assert refused.value.caret().splitlines()[0] == text


@pytest.mark.parametrize("text", ["true", "x == 1", "x < 1 or x > 2", "false or x == 1", "x > 'a' and x < 'b'"])
def test_a_filter_that_some_event_matches_is_accepted(text: str) -> None:
    parse(text).check_satisfiable()

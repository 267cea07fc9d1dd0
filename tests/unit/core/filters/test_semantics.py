"""The results of filters: true, false or unknown. One table for each rule of DESIGN.md's filter language."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

from plait_core.filters import EVERYTHING, F, Filter, as_filter, parse
from plait_core.limits import FilterLimits

Case = tuple[str, dict[str, Any], bool | None]
NAN, INF = math.nan, math.inf

UNKNOWN: list[Case] = [
    (f"{atom}", attributes, None)
    for atom in ["x == 3", "x != 3", "x < 3", "not x >= 3", "x in [1, 2]", "x not in [1, 2]", "x not between 1 and 2"]
    for attributes in [{}, {"y": 3}, {"x": None}, {"x": "3"}, {"x": True}, {"x": [3]}, {"x": []}, {"x": NAN}]
] + [
    (atom, attributes, None)
    for atom in ["x == 'a'", "x != 'a'", "x >= ''", "x startswith ''", "x not like '%'", "x not in ['a', 'b']"]
    for attributes in [{}, {"x": None}, {"x": 3}, {"x": False}, {"x": ["a"]}, {"x": NAN}]
]

PRESENCE: list[Case] = [
    ("has(x)", {"x": 0}, True),
    ("has(x)", {"x": ""}, True),
    ("has(x)", {"x": False}, True),
    ("has(x)", {"x": []}, True),
    ("has(x)", {"x": NAN}, True),
    ("has(x)", {"x": None}, False),
    ("has(x)", {}, False),
    ("x is null", {"x": None}, True),
    ("x is null", {}, True),
    ("x is null", {"x": 0}, False),
    ("x is not null", {"x": 0}, True),
    ("x is not null", {}, False),
    ("not has(x)", {}, True),
    ("not x is null", {}, False),
    ("has(a.b)", {"a.b": 1}, True),
    ("has(a.b)", {"a": 1}, False),
]

CONNECTIVES: list[Case] = [  # t is true, f is false, u is unknown: Kleene's tables
    *[(f"{a} and {b}", {"t": True, "f": False}, {"t": {"t": True, "f": False, "u": None}[b], "f": False}.get(
        a, False if b == "f" else None)) for a in "tfu" for b in "tfu"],
    *[(f"{a} or {b}", {"t": True, "f": False}, {"f": {"t": True, "f": False, "u": None}[b], "t": True}.get(
        a, True if b == "t" else None)) for a in "tfu" for b in "tfu"],
    ("not t", {"t": True}, False),
    ("not f", {"f": False}, True),
    ("not u", {}, None),
    ("not (t and u)", {"t": True}, None),
    ("not (f and u)", {"f": False}, True),
    ("not (t or u)", {"t": True}, False),
    ("u or not u", {}, None),
    ("true", {}, True),
    ("false", {}, False),
    ("not false", {}, True),
    ("u and false", {}, False),
    ("u or true", {}, True),
]  # fmt: skip

NUMBERS: list[Case] = [
    ("x == 1", {"x": 1.0}, True),
    ("x == 1.0", {"x": 1}, True),
    ("x == 1", {"x": True}, None),
    ("x == 0", {"x": False}, None),
    ("x == 0", {"x": -0.0}, True),
    ("x in [0, 1]", {"x": True}, None),
    ("x not in [0, 1]", {"x": True}, None),
    ("x < 1", {"x": False}, None),
    (f"x == {2**53 + 1}", {"x": 2.0**53}, False),
    (f"x == {2**53 + 1}", {"x": 2**53 + 1}, True),
    (f"x > {2**53}", {"x": 2**53 + 1}, True),
    (f"x < {2**53 + 1}", {"x": 2.0**53}, True),
    (f"x in [{2**53 + 1}, 5]", {"x": 2.0**53}, False),
    (f"x == {2**63}", {"x": 2.0**63}, True),
    (f"x < {2**63}", {"x": 2**63 - 1}, True),
    (f"x >= {2**200}", {"x": 2**200 - 1}, False),
    (f"x == {2**200}", {"x": 2.0**200}, True),
    (f"x > {-(2**255)}", {"x": -INF}, False),
    ("x < 1e308", {"x": INF}, False),
    ("x > 1e308", {"x": INF}, True),
    ("x != 3", {"x": INF}, True),
    ("x == 0.1", {"x": 0.1}, True),
    ("x == 0.1", {"x": 1}, False),
    ("x > 0.1", {"x": 0}, False),
]

NOT_A_NUMBER: list[Case] = [
    (text, {"x": NAN}, None)
    for text in ["x == 1", "x != 1", "x < 1", "x >= 1", "x in [1, 2]", "x not in [1, 2]", "x", "not x", "x > -1e308"]
]

TEXTS: list[Case] = [
    ("x == 'IBM'", {"x": "IBM"}, True),
    ("x == 'IBM'", {"x": "ibm"}, False),
    ("x < 'a'", {"x": "Z"}, True),
    ("x < 'b'", {"x": "a\U0010ffff"}, True),
    ("x > '\uffff'", {"x": "\U00010000"}, True),  # code points, not UTF-16 units
    ("x > '\uffff'", {"x": "\U0010ffff"}, True),
    ("x > 'z'", {"x": "é"}, True),
    ("x == 'é'", {"x": "e\u0301"}, False),  # as written: no normalisation
    ("x between 'a' and 'b'", {"x": "abc"}, True),
    ("x between 'a' and 'b'", {"x": "ba"}, False),
    ("x between 'b' and 'a'", {"x": "ab"}, False),
    ("x startswith 'ab'", {"x": "abc"}, True),
    ("x startswith 'ab'", {"x": "a"}, False),
    ("x not startswith 'ab'", {"x": "a"}, True),
    ("x endswith '😀'", {"x": "a😀"}, True),
    ("x contains ''", {"x": ""}, True),
    ("x contains 'bc'", {"x": "abcd"}, True),
    ("x not contains 'bc'", {"x": "abcd"}, False),
    ("x < ''", {"x": ""}, False),
    ("x >= ''", {"x": ""}, True),
]

LIKE: list[Case] = [
    ("x like 'a%c'", {"x": "abc"}, True),
    ("x like 'a%c'", {"x": "ac"}, True),
    ("x like 'a%c'", {"x": "acb"}, False),
    ("x like 'a_c'", {"x": "ac"}, False),
    ("x like 'a_c'", {"x": "a😀c"}, True),
    ("x like '_'", {"x": "\n"}, True),
    ("x like '%a%b%'", {"x": "xaxbx"}, True),
    ("x like '%a%b%'", {"x": "ba"}, False),
    ("x like '%ab%ab'", {"x": "ab"}, False),
    ("x like '%ab%ab'", {"x": "abab"}, True),
    ("x like '%a_b%c_d%'", {"x": "..a.b.a-bc.c_d"}, True),
    ("x like '%a_b%c_d%'", {"x": "c_da_b"}, False),
    ("x like '%_a_%'", {"x": "xa"}, False),
    ("x like '%a_a%'", {"x": "aa"}, False),
    ("x like '%_a_b_%'", {"x": "0a1a2b3"}, True),
    ("x like 'a%b_'", {"x": "ab"}, False),
    ("x like '50\\%_'", {"x": "50%!"}, True),
    ("x like '50\\%_'", {"x": "500!"}, False),
    ("x like 'a\\__'", {"x": "a_b"}, True),
    ("x not like 'a%c'", {"x": "abd"}, True),
    ("x like '%%'", {"x": ""}, True),
]

BOOLEANS: list[Case] = [
    ("x", {"x": True}, True),
    ("x", {"x": False}, False),
    ("x", {"x": 1}, None),
    ("x", {"x": "true"}, None),
    ("x", {}, None),
    ("not x", {"x": False}, True),
    ("not x", {"x": 0}, None),
    ("x == true", {"x": True}, True),
    ("x != true", {"x": False}, True),
    ("x != true", {"x": 5}, None),
    ("x in [true, false]", {"x": False}, True),
    ("x not in [true, false]", {"x": False}, False),
    ("x not in [true, false]", {"x": 0}, None),
]

CHAINS: list[Case] = [
    ("100 < price <= 130", {"price": 100}, False),
    ("100 < price <= 130", {"price": 130.0}, True),
    ("100 < price <= 130", {"price": "110"}, None),
    ("130 >= price > 100", {"price": 101}, True),
    ("1 < x < 2 < y", {"x": 1.5, "y": 3}, True),
    ("1 < x < 2 < y", {"x": 1.5}, None),
    ("1 < x < 2 < y", {"x": 5}, False),
    ("not 1 < x < 3", {"x": 3}, True),
    ("not 1 < x < 3", {}, None),
    ("x < 1 < y", {"x": 0, "y": 2}, True),
    ("x between 1 and 3", {"x": 3}, True),
    ("x not between 1 and 3", {"x": 4}, True),
    ("x not between 1 and 3", {"x": 2}, False),
    ("5 < x < 1", {"x": 3}, False),
]

LISTS: list[Case] = [  # an `in` list decides values of any kind that its literals have
    ("x in [1, 'a']", {"x": "a"}, True),
    ("x in [1, 'a']", {"x": "b"}, False),
    ("x in [1, 'a']", {"x": 2}, False),
    ("x in [1, 'a']", {"x": True}, None),
    ("x not in [1, 'a']", {"x": 2}, True),
    ("x not in [1, 'a']", {"x": "b"}, True),
    ("x not in [1, 'a']", {"x": "a"}, False),
    ("x not in [1, 'a']", {"x": False}, None),
    ("x not in [1, 'a']", {"x": None}, None),
    ("x in [true, 1]", {"x": True}, True),
    ("x in [true, 2]", {"x": 1}, False),
    ("x in [false, 2]", {"x": 0}, False),
    ("x not in [true, 2]", {"x": False}, True),
    ("x in ['1', '2']", {"x": 1}, None),
]

# The introduction's example, papers/nonfunctional-requirements-thesis.txt line 334, section 1:
# the event {stock = "NASDAQ", company = "IBM", price = 300$, volume = 10,0000} and the subscription
# {stock = "NASDAQ" and price < 400$}.
NASDAQ = {"stock": "NASDAQ", "company": "IBM", "price": 300, "volume": 100_000}
STOCK: list[Case] = [
    ('stock = "NASDAQ" AND price < 400', NASDAQ, True),
    ('stock = "NASDAQ" AND price < 400', {**NASDAQ, "price": 400}, False),
    ('stock = "NASDAQ" AND price < 400', {**NASDAQ, "stock": "NYSE"}, False),
    ('stock = "NASDAQ" AND price < 400', {"stock": "NASDAQ"}, None),
]


@pytest.mark.parametrize(
    ("text", "attributes", "result"),
    [*UNKNOWN, *PRESENCE, *CONNECTIVES, *NUMBERS, *NOT_A_NUMBER, *TEXTS, *LIKE, *BOOLEANS, *CHAINS, *LISTS, *STOCK],
)
def test_table(text: str, attributes: dict[str, Any], result: bool | None) -> None:
    found = parse(text)
    assert found.evaluate(attributes) is result
    assert found.matches(attributes) is (result is True)
    assert found.explain(attributes).result is result
    assert (~found).evaluate(attributes) is (None if result is None else not result)


def test_everything_matches_everything() -> None:
    assert EVERYTHING.matches({})
    assert parse("true") == EVERYTHING


def test_a_pattern_never_makes_a_text_slow() -> None:
    """These patterns took seconds each when runs with _ were tried position by position."""
    for pattern in ["%_" + "a" * 8000 + "b%", "%" + "a_" * 4000 + "b%", "%a" * 4000 + "b", "%_a" * 4000 + "b"]:
        assert parse(f"x like '{pattern}'").matches({"x": "a" * 16_000}) is False


def test_filters_are_values() -> None:
    one, same, other = parse("a=1"), parse("1 == a"), parse("a == 2")
    assert one == same
    assert one != other
    assert one != "a == 1"
    assert hash(one) == hash(same)
    assert {one, same, other} == {one, other}
    assert repr(one) == "Filter('a == 1')"
    for twin in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert twin == one
        assert twin.matches({"a": 1})


def test_pickling_keeps_the_limits() -> None:
    wide = FilterLimits(set_max=5000, text_max=100_000)
    found = parse(f"a in [{','.join(map(str, range(3000)))}]", wide)
    assert pickle.loads(pickle.dumps(found)) == found


def test_filters_combine_with_filters_texts_and_attributes() -> None:
    assert str(parse("a") & "b or c") == "a and (b or c)"
    assert str("a" | parse("b") & F.c) == "a or b and c"
    assert str(~parse("a and b") & "c") == "not (a and b) and c"
    with pytest.raises(TypeError, match="no filter"):
        parse("a") & 5
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(parse("a"))


def test_as_filter_takes_what_means_one() -> None:
    made = parse("a")
    assert as_filter(made) is made
    assert as_filter("a") == as_filter(F.a) == made
    with pytest.raises(TypeError, match="int is no filter"):
        as_filter(3)


def test_a_filter_names_its_attributes() -> None:
    assert parse("b == 1 and (a.x or not has(c)) and b < 3").attributes() == ["a.x", "b", "c"]
    assert Filter(parse("true").expr).attributes() == []

"""From text to syntax tree: every spelling has one canonical text; every mistake has one error with a column."""

from __future__ import annotations

import gc
import weakref

import pytest

from plait_core.errors import FilterError, FilterSyntax, FilterTooComplex
from plait_core.filters import parse
from plait_core.limits import FILTER_ATOMS_MAX, FILTER_DEPTH_MAX, FILTER_SET_MAX, FILTER_TEXT_MAX, FilterLimits

SPELLINGS = [
    # or, and, not
    ("a or b || c", "a or b or c"),
    ("a AND b && c & d", "a and b and c and d"),
    ("a or b and c", "a or b and c"),
    ("(a or b) and c", "(a or b) and c"),
    ("a and (b and (c))", "a and b and c"),
    ("a or (b or c)", "a or b or c"),
    ("not a", "not a"),
    ("!a", "not a"),
    ("not not a", "a"),
    ("!!!a", "not a"),
    ("not (a and b)", "not (a and b)"),
    ("not not (a and b)", "a and b"),
    ("not (not (a or b))", "a or b"),
    ("not a == 1 and b", "a != 1 and b"),
    ("Not TRUE", "false"),
    # constants
    ("true and a > 1 and true", "a > 1"),
    ("true and (a or b)", "a or b"),
    ("(true and a) or false or b", "a or b"),
    ("true and true", "true"),
    ("false or false", "false"),
    ("false and a", "false and a"),
    ("a or true", "a or true"),
    ("not (true and a)", "not a"),
    # presence
    ("has(a.b.c)", "has(a.b.c)"),
    ("HAS ( a )", "has(a)"),
    ("not has(a)", "a is null"),
    ("a is null", "a is null"),
    ("a IS NOT NULL", "has(a)"),
    ("not a is null", "has(a)"),
    # comparisons
    ("a = 1", "a == 1"),
    ("a <> 1", "a != 1"),
    ("1 = a", "a == 1"),
    ("1 < a", "a > 1"),
    ("1 >= a", "a <= 1"),
    ("not a < 1", "a >= 1"),
    ("not a >= 'x'", "a < 'x'"),
    ("a == true", "a"),
    ("a != TRUE", "not a"),
    ("a == False", "not a"),
    ("false <> a", "a"),
    ("100 < price <= 130", "price > 100 and price <= 130"),
    ("1 < a < 2 < b < 3", "a > 1 and a < 2 and b > 2 and b < 3"),
    ("not 1 < a < 2", "not (a > 1 and a < 2)"),
    ("a == 1 == b", "a == 1 and b == 1"),
    # lists
    ("a in [3, 1, 2, 1]", "a in [1, 2, 3]"),
    ("a IN (1.0, 'b', true)", "a in [true, 1, 'b']"),
    ("a not in [1, 2]", "a not in [1, 2]"),
    ("not a in [1, 2]", "a not in [1, 2]"),
    ("not a not in [1, 2]", "a in [1, 2]"),
    ("a in [1]", "a == 1"),
    ("a not in ('x')", "a != 'x'"),
    ("a in (true)", "a"),
    ("a in [1, 1.0, 1e0]", "a == 1"),
    ("a in [0, false]", "a in [false, 0]"),
    # between
    ("a between 1 and 2", "a >= 1 and a <= 2"),
    ("a BETWEEN 'x' AND 'y' and b", "a >= 'x' and a <= 'y' and b"),
    ("a not between 1 and 2", "not (a >= 1 and a <= 2)"),
    # texts
    ("a startsWith 'x'", "a startswith 'x'"),
    ("a not ENDSWITH 'x'", "a not endswith 'x'"),
    ("not a contains 'x'", "a not contains 'x'"),
    ("a like 'x%y'", "a like 'x%y'"),
    ("a like 'x%'", "a startswith 'x'"),
    ("a like '%x'", "a endswith 'x'"),
    ("a like '%x%'", "a contains 'x'"),
    ("a like 'x'", "a == 'x'"),
    ("a not like 'x'", "a != 'x'"),
    ("a like ''", "a == ''"),
    ("a like '%'", "a startswith ''"),
    ("a like '100\\%'", "a == '100%'"),
    ("a like '100\\%%'", "a startswith '100%'"),
    ("a like 'a_'", "a like 'a_'"),
    ("a like 'a\\_'", "a == 'a_'"),
    # numbers
    ("a == +1", "a == 1"),
    ("a == -0.0", "a == 0"),
    ("a == 007", "a == 7"),
    ("a == 1.", "a == 1"),
    ("a == .5", "a == 0.5"),
    ("a == 1e3", "a == 1000"),
    ("a == 1E+16", "a == 10000000000000000"),
    ("a in [9007199254740992.0, 9007199254740992]", "a == 9007199254740992"),
    ("a == 1.5E+300", "a == 1.5e+300"),
    ("a == 9007199254740993", "a == 9007199254740993"),
    (f"a == {2**200}", f"a == {2**200}"),
    ("a<-1", "a < -1"),
    # texts and their escapes
    ('a == "x"', "a == 'x'"),
    ("a == 'it''s'", "a == 'it\\'s'"),
    ("a == 'it\\'s'", "a == 'it\\'s'"),
    ('a == "say ""so"""', "a == 'say \"so\"'"),
    ("a == 'a\"\"b'", "a == 'a\"\"b'"),
    ("a == 'x\\n\\t\\r\\\\y'", "a == 'x\\n\\t\\r\\\\y'"),
    ("a == 'x\ny'", "a == 'x\\ny'"),
    ("a == '\\x41\\u00e9\\U0001F600'", "a == 'Aé😀'"),
    ("a == '\\d'", "a == '\\\\d'"),
    ("a == '\0\u202e\U0010ffff'", "a == '\\x00\\u202e\\U0010ffff'"),
    # names
    ("Symbol and symbol", "Symbol and symbol"),
    ("$hops < 3", "$hops < 3"),
    ("in.x and not.y", "in.x and not.y"),
    ("android or notable", "android or notable"),
    # spacing
    ("a==1and b==2", "a == 1 and b == 2"),
    ("\t a\r\n", "a"),
    ("a in(1,2)", "a in [1, 2]"),
    ("not(a)", "not a"),
]


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_a_spelling_has_its_canonical_text(text: str, canonical: str) -> None:
    found = parse(text)
    assert str(found) == canonical
    assert parse(canonical) == found
    assert parse(canonical).expr == found.expr


MISTAKES = [
    ("", 1, "empty"),
    ("   ", 4, "empty"),
    ("a and", 6, "the end"),
    ("and a", 1, "'and'"),
    ("a b", 3, "'b'"),
    ("a == 1 2", 8, "'2'"),
    ("(a", 3, "')'"),
    ("a)", 2, "')'"),
    ("()", 2, "')'"),
    ("a == b", 3, "two attributes"),
    ("1 == 2", 3, "two literals"),
    ("1 < a < b", 7, "two attributes"),
    ("1", 1, "alone"),
    ("'a' and b", 1, "alone"),
    ("a < true", 3, "no order"),
    ("a == null", 6, "is null"),
    ("a in []", 7, "literal"),
    ("a in 1", 6, "'['"),
    ("a in [1", 8, "']'"),
    ("a in [1)", 8, "']'"),
    ("a in [1,]", 9, "literal"),
    ("a in [b]", 7, "literal"),
    ("a not == 1", 7, "in, between"),
    ("a between 1", 12, "'and'"),
    ("a between 1 and 'x'", 3, "kinds"),
    ("a between false and true", 3, "kinds"),
    ("a like 5", 9, "needs a text"),
    ("a startswith b", 14, "literal"),
    ("a is 1", 6, "'null'"),
    ("has a", 5, "'('"),
    ("has(1)", 5, "attribute"),
    ("has(in)", 5, "word of the language"),
    ("a == 'x", 6, "never ends"),
    ("a == \"x'", 6, "never ends"),
    ("a === 1", 5, "'='"),
    ("a == 1e999", 6, "inf"),
    (f"a == {2**256}", 6, "bits"),
    (f"a == {'9' * 5000}", 6, "bits"),
    ("a == '\\ud800'", 6, "surrogate"),
    ("a == '\ud800'", 6, "surrogate"),
    ("a == '\\U00110000'", 6, "no character"),
    ("a | b", 3, "`||`"),
    ("a; b", 2, "';'"),
    ("é == 1", 1, "'é'"),
    ("a == ١", 6, "unexpected"),
    ("a\u00a0== 1", 2, "unexpected"),
    ("a. == 1", 2, "'.'"),
    ("a == 0x10", 7, "'x10'"),
    ("name.startsWith('x')", 16, "name startswith"),
    ("f(1)", 2, "'('"),
    (f"{'a' * 129} == 1", 1, "name of over"),
]


@pytest.mark.parametrize(("text", "column", "part"), MISTAKES, ids=[repr(text[:30]) for text, _, _ in MISTAKES])
def test_a_mistake_has_a_column_and_a_reason(text: str, column: int, part: str) -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse(text)
    assert part in str(caught.value)
    assert (caught.value.column, caught.value.text) == (column, text)


LIMITS = [
    ("x" * (FILTER_TEXT_MAX + 1), "characters"),
    ("(" * (FILTER_DEPTH_MAX + 1) + "a" + ")" * (FILTER_DEPTH_MAX + 1), "nested"),
    ("(" * 10_000, "nested"),
    (" or ".join(["a"] * (FILTER_ATOMS_MAX + 1)), "conditions"),
    ("0" + "<a<0" * 300, "conditions"),
    (" and ".join(["a between 1 and 2"] * 300), "conditions"),
    (f"a in [{','.join(['1'] * (FILTER_SET_MAX + 1))}]", "literals"),
]


@pytest.mark.parametrize(("text", "part"), LIMITS, ids=[part for _, part in LIMITS])
def test_beyond_a_limit_is_too_complex(text: str, part: str) -> None:
    with pytest.raises(FilterTooComplex, match=part) as caught:
        parse(text)
    assert 1 <= caught.value.column <= len(text) + 1


def test_the_limits_themselves_are_allowed() -> None:
    depth = FILTER_DEPTH_MAX
    assert str(parse("(" * depth + "a" + ")" * depth)) == "a"
    assert len(parse(" or ".join(["a"] * FILTER_ATOMS_MAX)).normal) == 1
    assert parse(f"a in [{','.join(map(str, range(FILTER_SET_MAX)))}]").matches({"a": FILTER_SET_MAX - 1})
    text = "a == '" + "x" * (FILTER_TEXT_MAX - 7) + "'"
    assert len(text) == FILTER_TEXT_MAX
    assert parse(text).text == text


def test_deep_filters_can_be_printed_compiled_and_normalised() -> None:
    text = "a"
    for _ in range(FILTER_DEPTH_MAX):
        text = f"b and ({text} or c)"
    found = parse(text)
    assert parse(found.text) == found
    assert found.evaluate({}) is None
    assert found.matches({"a": True, "b": True})
    assert found.evaluate({"b": False}) is False
    with pytest.raises(FilterTooComplex, match="nest over"):
        ~found  # noqa: B018
    assert len(found.normal) == FILTER_DEPTH_MAX + 1
    assert found.explain({"a": True, "b": True}).result is True


def test_a_filter_whose_canonical_text_is_over_the_limits_is_refused_at_once() -> None:
    """The canonical text is sent, so a broker must be able to parse every filter that a client can make."""
    deep = "a not between 1 and 2"  # its canonical text has one parenthesis more
    for _ in range(FILTER_DEPTH_MAX):
        deep = f"b and (c or {deep})"
    long = "a == '" + "\U0010ffff" * 2000 + "'"  # each is written \U0010ffff
    for text in (deep, long):
        with pytest.raises(FilterTooComplex, match="canonical text") as caught:
            parse(text)
        assert caught.value.column == 1


def test_not_takes_a_run_of_any_length() -> None:
    assert str(parse("not " * 4001 + "a")) == "not a"
    assert str(parse("!" * 4000 + "a")) == "a"


def test_many_quotes_are_read_in_one_go() -> None:
    assert parse("a == " + "'" * 10_000).text == "a == '" + "\\'" * 4999 + "'"
    with pytest.raises(FilterSyntax, match="never ends"):
        parse("a == " + "'" * 9_999)


def test_limits_are_a_parameter() -> None:
    small = FilterLimits(text_max=20, depth_max=1, atoms_max=2, set_max=2, conjunctions_max=2)
    for text in ("a == 'long long long'", "((a))", "a or b or c", "a in [1, 2, 3]"):
        assert parse(text).text
        with pytest.raises(FilterTooComplex):
            parse(text, small)


def test_errors_are_of_one_family() -> None:
    assert issubclass(FilterSyntax, FilterError)
    assert issubclass(FilterTooComplex, FilterError)


def test_equal_texts_share_one_filter_while_somebody_holds_it() -> None:
    held = parse("shared == 1 and b")
    assert parse("shared == 1 and b") is held
    assert parse("shared == 1  and b") is not held, "the columns of its errors differ"
    assert parse("shared == 1 and b", FilterLimits(atoms_max=2)) is not held, "other limits may refuse it later"
    with pytest.raises(FilterTooComplex):
        parse("shared == 1 and b", FilterLimits(atoms_max=1))


def test_a_filter_that_nobody_holds_is_forgotten() -> None:
    filter = parse("forgotten == 1 or (a and b)")
    assert filter.matches({"forgotten": 1})
    assert filter.normal
    watched = weakref.ref(filter)
    del filter
    gc.collect()
    assert watched() is None

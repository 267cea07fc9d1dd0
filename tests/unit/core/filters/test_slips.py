"""Likely slips: each error says what was meant, and a filter that parses but is doubtful is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from plait_core.errors import FilterSyntax
from plait_core.filters import F, parse

TOPICS = ["sensors/+/t", "sensors/kitchen/t", ">", "*", "#", "+", "orders.*", "orders.>", "*.eu", "$SYS/uptime", "a/**"]
HINTS = [
    ("symbol == IBM", "'IBM' in quotes?"),
    ("symbol in 'IBM'", "like [1, 2] or ['a', 'b']"),
    ("price => 3", "write >="),
    ("price =< 3", "write <="),
    ("price === 3", "write =="),
    ("price ≥ 3", "write >="),
    ("symbol = 'IBM' adn price < 3", "did you mean `and`?"),
    ("name starts_with 'x'", "did you mean `startswith`?"),
    ("name.starts_with('x')", "write `name startswith 'text'`"),
    ("name matches 'x'", "did you mean `like`?"),
    ("price eq 3", "did you mean `==`?"),
    ("symbol 'IBM'", "is `==` missing?"),
    ("symbol == ‘IBM’", "quotes are"),
    ("symbol ~ 'I.*'", "like, startswith"),
    ('{"symbol": ["IBM"]}', "F.from_pattern"),
    ("price / 2 > 3", "without arithmetic"),
    ("my-name == 1", "letters, digits, _ and dots"),
]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_answered_with_what_plait_has_instead(topic: str) -> None:
    with pytest.raises(FilterSyntax, match="no topics") as refused:
        parse(f" {topic}")
    assert "docs/coming-from.md" in refused.value.hint
    assert "`true` matches every event" in refused.value.hint
    assert refused.value.column


@pytest.mark.parametrize("text", ["price / 2 > 3", "price>", "a>b", "x == 'a/b", "price > 1 and *", "a/b == 1"])
def test_other_mistakes_are_no_topics(text: str) -> None:
    with pytest.raises(FilterSyntax) as refused:
        parse(text)
    assert "topics" not in refused.value.message


@pytest.mark.parametrize(("text", "hint"), HINTS, ids=[text for text, _ in HINTS])
def test_a_slip_is_answered_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(FilterSyntax) as refused:
        parse(text)
    assert hint in refused.value.hint


def test_a_doubtful_condition_is_named() -> None:
    assert parse("price < 3 and symbol.IBM").doubts() == [
        "`symbol.IBM` tests a boolean attribute named symbol.IBM; did you mean `symbol == 'IBM'`?"
    ]
    assert "`city != 'Berlin'`" in parse("not city.Berlin").doubts()[0]
    assert "did you mean `price < 100`?" in parse("price < '100'").doubts()[0]
    assert "did you mean `halted == true`?" in parse("halted == 'true'").doubts()[0]
    assert "Plait has no topics" in parse("orders.created").doubts()[0]
    assert not parse("state.halted and x > 1").doubts()
    for fine in ("not state.halted", "halted", "zip == '0815'", "name < 'm'", "symbol == 'IBM'"):
        assert not parse(fine).doubts()


@pytest.mark.parametrize(
    ("build", "meant"),
    [
        (lambda: F.symbol.in_(["IBM"]), "F.symbol.is_in(...)"),
        (lambda: F.symbol.isin(["IBM"]), "F.symbol.is_in(...)"),
        (lambda: F.symbol.one_of("IBM", "SUN"), "F.symbol.is_in(...)"),
        (lambda: F.a.b.starts_with("x"), "F.a.b.startswith(...)"),
        (lambda: F.symbol.startsWith("x"), "F.symbol.startswith(...)"),
        (lambda: F.symbol.betwen(1, 2), "F.symbol.between(...)"),
        (lambda: F.symbol.isnull(), "F.symbol.is_null(...)"),
        (lambda: F.price.gt(3), "write F.price > ..."),
        (lambda: F.price.squared(), "its methods are between, is_in"),
        (lambda: F.price == None, "F['price'].is_null()"),  # noqa: E711 - the slip itself
        (lambda: F.price == F.limit, "one side must be a literal"),
        (lambda: F.symbol.is_in("IBM"), "is_in(['IBM'])"),
    ],
)
def test_a_near_miss_of_the_builder_says_what_was_meant(build: Callable[[], object], meant: str) -> None:
    with pytest.raises(FilterSyntax) as refused:
        build()
    assert meant in refused.value.hint


@pytest.mark.parametrize("build", [lambda: 1 < F.x < 3, lambda: F.x in [1, 2], lambda: bool(F.x)])
def test_python_operators_that_cannot_work_say_what_to_write(build: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="is_in"):
        build()

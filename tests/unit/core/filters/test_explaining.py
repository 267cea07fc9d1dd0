"""Explanations: the result, and exactly the deciding atoms with their values."""

from __future__ import annotations

from typing import Any

import pytest

from plait_core.errors import EventInvalid
from plait_core.filters import Reason, parse

EVENT = {"symbol": "IBM", "price": 121.5, "halted": False, "note": None, "tags": ["a"]}

EXPLAINED: list[tuple[str, str]] = [
    ("symbol == 'IBM'", "true\n  symbol == 'IBM' is true: symbol is 'IBM'"),
    ("symbol == 'SAP'", "false\n  symbol == 'SAP' is false: symbol is 'IBM'"),
    ("symbol > 3", "unknown\n  symbol > 3 is unknown: symbol is 'IBM'"),
    ("volume > 3", "unknown\n  volume > 3 is unknown: volume is missing"),
    ("note == 'x'", "unknown\n  note == 'x' is unknown: note is None"),
    ("tags == 'a'", "unknown\n  tags == 'a' is unknown: tags is ['a']"),
    ("has(note)", "false\n  has(note) is false: note is None"),
    # a conjunction: all parts when true, the first false one, else the unknown ones
    (
        "symbol == 'IBM' and price > 1",
        "true\n  symbol == 'IBM' is true: symbol is 'IBM'\n  price > 1 is true: price is 121.5",
    ),
    ("volume > 3 and price > 1 and halted", "false\n  halted is false: halted is False"),
    ("volume > 3 and price > 1", "unknown\n  volume > 3 is unknown: volume is missing"),
    # a disjunction: the first true one, all when false, else the unknown ones
    ("volume > 3 or price > 1 or not halted", "true\n  price > 1 is true: price is 121.5"),
    (
        "halted or price < 1",
        "false\n  halted is false: halted is False\n  price < 1 is false: price is 121.5",
    ),
    ("halted or volume > 3", "unknown\n  volume > 3 is unknown: volume is missing"),
    # negations are explained by the atoms of the normal form
    ("not (symbol == 'IBM' and halted)", "true\n  not halted is true: halted is False"),
    (
        "not (price between 1 and 200)",
        "false\n  price < 1 is false: price is 121.5\n  price > 200 is false: price is 121.5",
    ),
    ("true", "true"),
    ("false", "false"),
]


@pytest.mark.parametrize(("text", "explained"), EXPLAINED)
def test_explanation(text: str, explained: str) -> None:
    assert str(parse(text).explain(EVENT)) == explained


def test_reasons_are_data() -> None:
    found = parse("price > 1 and volume > 3 and note > 1").explain(EVENT)
    assert found.result is None
    assert found.reasons == (
        Reason("volume > 3", None, "volume", False, None),
        Reason("note > 1", None, "note", True, None),
    )


def test_a_long_value_is_cut() -> None:
    assert len(str(parse("x == 'a'").explain({"x": "b" * 10_000}))) < 300


@pytest.mark.parametrize("attributes", [{"x y": 1}, {"x": object()}, {"x": b"bytes"}])
def test_invalid_attributes_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(EventInvalid):
        parse("x == 1").explain(attributes)

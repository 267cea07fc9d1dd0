"""Filters in the event space: no event is ever missed, and mappings that include others are marked."""

from __future__ import annotations

import random

import pytest

from plait_core.filters import parse
from plait_core.space import IntRange, Region, Schema, TextPrefix, boxes_of

SCHEMA = Schema.of({"x": IntRange(0, 15), "y": IntRange(0, 15)})


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("3 <= x <= 7", True),
        ("x == 3 or y in [1, 5, 9]", True),
        ("x != 3", True),
        ("not (x < 4 or y >= 8)", True),
        ("has(x)", True),
        ("x is null", True),
        ("x in [1, 'a', true]", True),
        ("name contains 'a'", False),
        ("x not in [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", False),
        ("true", True),
        ("false", True),
    ],
)
def test_exactness_is_reported(text: str, exact: bool) -> None:
    assert boxes_of(parse(text))[1] is exact


@pytest.mark.parametrize(
    "text",
    [
        "3 <= x <= 7",
        "x == 3 or y in [1, 5, 9]",
        "x != 3 and y > 2",
        "not (x < 4 or y >= 8)",
        "has(x)",
        "x is null",
        "true",
    ],
)
def test_mapping_is_what_the_filter_matches(text: str) -> None:
    filter = parse(text)
    boxes, exact = boxes_of(filter)
    assert exact
    mapped = Region.of(SCHEMA, boxes).exact()
    for x in range(16):
        for y in range(16):
            event = {"x": x, "y": y}
            assert mapped.covers(SCHEMA.locate(event)) is filter.matches(dict(event)), event


def test_no_event_is_missed_where_the_mapping_is_not_exact() -> None:
    schema = Schema.of({"name": TextPrefix(2), "x": IntRange(0, 15)})
    filter = parse("name contains 'b' and not name startswith 'ab' and x != 7")
    boxes, exact = boxes_of(filter)
    mapped = Region.of(schema, boxes).exact()
    rng = random.Random(7)
    events = [{"name": "".join(rng.choices("abc", k=4)), "x": rng.randrange(16)} for _ in range(500)]
    matched = [event for event in events if filter.matches(dict(event))]
    assert not exact
    assert len(matched) > 50
    assert all(mapped.covers(schema.locate(event)) for event in matched)

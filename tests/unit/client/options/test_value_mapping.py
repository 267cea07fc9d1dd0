"""The mapping of Python values to attributes: lossless, canonical, and in the order of the values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait import F
from plait.options.conversion import plain_attributes
from plait.options.limits import NESTING_MAX
from plait.testing import Network, run
from plait_core.value_mapping import plain_value, restore

NOON = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
ID = UUID("12345678-9abc-def0-1234-56789abcdef0")


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Due(enum.Enum):
    TODAY = date(2026, 1, 31)


MAPPED: list[tuple[object, object]] = [
    (NOON, "2026-01-31T12:00:00.000005Z"),
    (NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), "2026-01-31T12:00:00.000005Z"),
    (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    (date(2026, 1, 31), "2026-01-31"),
    (Decimal("121.50"), 121.5),
    (Decimal("0.1"), 0.1),
    (Decimal("1E+30"), 10**30),
    (Decimal("-0"), 0),
    (Side.BUY, "buy"),
    (Due.TODAY, "2026-01-31"),
    (ID, "12345678-9abc-def0-1234-56789abcdef0"),
    (b"\x00\xff", "00ff"),
    (bytearray(b"a"), "61"),
    (numpy.int64(7), 7),
    (numpy.uint64(2**64 - 1), 2**64 - 1),
    (numpy.float32(0.5), 0.5),
    (numpy.float64(0.1), 0.1),
    (numpy.bool_(True), True),
    (numpy.str_("x"), "x"),
    ((NOON, Side.SELL), ["2026-01-31T12:00:00.000005Z", "sell"]),
]


@pytest.mark.parametrize(("value", "attribute"), MAPPED, ids=[repr(value) for value, _ in MAPPED])
def test_a_value_has_one_attribute_value(value: object, attribute: object) -> None:
    (mapped,) = plain_attributes({"x": value}).values()
    assert mapped == attribute
    assert type(mapped) is type(attribute)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (datetime(2026, 1, 31), "no time zone"),
        (numpy.datetime64("2026-01-31T12:00"), "no time zone"),
        (Decimal("0.12345678901234567890"), "no number that a filter compares exactly"),
        (Decimal("1E+1000000"), "no number that a filter compares exactly"),
        (Decimal("NaN"), "no number that a filter compares exactly"),
        (Decimal("Infinity"), "no number that a filter compares exactly"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "out of range in UTC"),
        ({1, 2}, "type set"),
        (object(), "type object"),
        (numpy.array([1, 2]), "type ndarray"),
        ([{"a": 1}], "type dict"),
        ({1: 2}, "1 is no attribute name"),
    ],
)
def test_a_value_without_an_exact_mapping_is_refused_by_name(value: object, reason: str) -> None:
    with pytest.raises(plait.EventInvalid, match=f"x.*{reason}") as refused:
        plain_attributes({"x": value})
    assert refused.value.hint


moments = st.datetimes(timezones=st.timezones()).filter(lambda at: 1 < at.year < 9999)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9)


@given(st.one_of(*[st.tuples(each, each) for each in (moments, st.dates(), decimals, st.uuids(), st.binary())]))
def test_the_mapping_keeps_values_and_their_order(pair: tuple[Any, Any]) -> None:
    one, other = pair
    kind = type(one)
    mapped: tuple[Any, Any] = (plain_value(one), plain_value(other))
    assert restore(kind, mapped[0]) == one
    assert (mapped[0] == mapped[1]) is (one == other)
    assert (mapped[0] < mapped[1]) is (one < other)
    assert (F.x >= one).matches({"x": mapped[1]}) is (other >= one)


def test_a_range_of_moments_is_written_as_text_or_built() -> None:
    at = plain_attributes({"at": NOON})
    assert plait.parse("at >= '2026-01-31T12' and at < '2026-02'").matches(at)
    assert F.at.between(NOON - timedelta(seconds=1), NOON).matches(at)
    assert not (F.at > NOON).matches(at)
    assert F.side.is_in([Side.BUY]).matches(plain_attributes({"side": Side.BUY}))
    with pytest.raises(plait.FilterSyntax, match="no time zone"):
        _ = F.at > datetime(2026, 1, 31)


# --- shapes -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Place:
    city: str
    floor: int | None = None


@dataclasses.dataclass
class Reading:
    at: datetime
    day: date
    side: Side
    price: Decimal
    sensor: UUID
    key: bytes
    place: Place
    labels: dict[str, Any] = dataclasses.field(default_factory=dict)
    home: Place | None = None
    until: datetime | None = None
    payload: bytes = b""


READING = Reading(
    NOON,
    date(2026, 1, 31),
    Side.SELL,
    Decimal("1.5"),
    ID,
    b"\x01\x02",
    Place("Oslo", 3),
    {"a": 1, "b": {"c": "x"}},
    payload=b"raw",
)


def received(shape: type[Any], *published: object) -> tuple[list[Any], plait.SubscriptionStats]:
    """Publish the events, and return what a subscription with `as_=shape` makes of them."""

    async def story() -> tuple[list[Any], plait.SubscriptionStats]:
        async with Network() as network:
            client = await network.connect()
            async with client.subscribe("true", as_=shape) as made:
                for event in published:
                    await client.publish(event)
                await client.flush()
                found = []
                while made.stats.pending:
                    try:
                        found.append(await made.next("1s"))
                    except plait.Timeout:
                        break
                return found, made.stats

    return run(story())


def test_nested_objects_become_dotted_names() -> None:
    attributes = plain_attributes({"place": Place("Oslo"), "a.b": 1, "a": {"c": {"d": Side.BUY}}, "empty": {}})
    assert attributes == {"place.city": "Oslo", "place.floor": None, "a.b": 1, "a.c.d": "buy"}


def test_a_dataclass_comes_back_as_it_was_published() -> None:
    found, stats = received(Reading, READING)
    assert found == [READING]
    assert stats.dropped == 0


def test_what_does_not_fit_is_a_gap() -> None:
    good: Mapping[str, Any] = {**dataclasses.asdict(READING), "payload": None}
    del good["payload"]  # type: ignore[attr-defined]
    wrong = [{"at": "yesterday"}, {"side": "hold"}, {"price": "1.5"}, {"sensor": "x"}, {"key": "xyz"}, {"place": 5}]
    found, stats = received(Reading, *[{**good, **each} for each in wrong], good)
    assert [each.sensor for each in found] == [ID]
    assert stats.dropped == len(wrong)


def test_nesting_is_bounded_and_names_are_unique() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(NESTING_MAX - 1):
        deep = {"x": deep}
    assert list(plain_attributes(deep)) == [".".join("x" * NESTING_MAX)]
    with pytest.raises(plait.EventInvalid, match=f"over {NESTING_MAX} deep"):
        plain_attributes({"x": deep})
    cycle: dict[str, Any] = {}
    cycle["x"] = cycle
    with pytest.raises(plait.EventInvalid, match="deep"):
        plain_attributes(cycle)
    with pytest.raises(plait.EventInvalid, match=r"a\.b occurs twice"):
        plain_attributes({"a.b": 1, "a": {"b": 2}})


def test_models_come_back_as_they_were_published() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", city=(str, ...), key=(bytes, b""))
    model = pydantic.create_model(
        "Model",
        at=(datetime, ...),
        price=(Decimal, ...),
        side=(Side, ...),
        sensor=(UUID, ...),
        key=(bytes, ...),
        place=(inner, ...),
        other=(inner | None, None),
    )
    given = model(
        at=NOON, price=Decimal("1.5"), side=Side.BUY, sensor=ID, key=b"\x01", place=inner(city="Oslo", key=b"\xff")
    )
    found, stats = received(model, given)
    assert found == [given]
    assert stats.dropped == 0

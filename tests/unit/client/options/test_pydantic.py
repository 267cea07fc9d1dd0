"""Conversion of events with the real pydantic, where it is installed, and with dataclasses, which differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest

import plait
from plait.testing import Network, run

if TYPE_CHECKING:
    import pydantic
else:
    pydantic = pytest.importorskip("pydantic")


class Quote(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    symbol: Annotated[str, pydantic.StringConstraints(pattern="^[A-Z]+$")]
    price: float = pydantic.Field(gt=0)
    size: int | None = None
    payload: bytes = b""


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    n: int


class Renamed(pydantic.BaseModel):
    amount: int = pydantic.Field(alias="n")


@pydantic.dataclasses.dataclass
class Checked:
    n: int = pydantic.Field(gt=0)


@dataclasses.dataclass
class Plain:
    n: int


def received(shape: type[Any], *published: object) -> tuple[list[Any], list[object]]:
    """Publish the events and return those that a subscriber with `as_=shape` receives, with its notices. The last
    event must convert."""
    assert not isinstance(published[-1], Misfit), "reading the last event passes the misfits before it"
    fitting = sum(not isinstance(event, Misfit) for event in published)

    async def main() -> tuple[list[Any], list[object]]:
        async with Network() as net:
            client = await net.connect()
            async with client.subscribe("true", as_=shape) as made:
                for event in published:
                    await client.publish(event)
                found = [await made.next(5) for _ in range(fitting)]
                assert made.stats.dropped == len(published) - fitting
                if fitting == len(published):
                    return found, []
                async for notice in made.notices():
                    return found, [notice]
                raise AssertionError("nothing was told")

    return run(main())


class Misfit(dict[str, Any]):
    """Attributes whose conversion fails."""


def test_models_both_ways() -> None:
    quote = Quote(symbol="IBM", price=3, payload=b"\x00raw")
    found, told = received(Quote, quote, {"symbol": "IBM", "price": 2, "other": True})
    assert found == [quote, Quote(symbol="IBM", price=2.0)]
    assert type(found[0]) is Quote
    assert found[0].payload == b"\x00raw"
    assert told == []


@pytest.mark.parametrize("wrong", [{"symbol": "ibm", "price": 1}, {"symbol": "IBM", "price": -1}, {"price": 1}])
def test_an_event_that_a_model_refuses_is_a_gap(wrong: dict[str, Any]) -> None:
    found, told = received(Quote, Misfit(wrong), Quote(symbol="IBM", price=1))
    assert found == [Quote(symbol="IBM", price=1)]
    (gap,) = told
    assert isinstance(gap, plait.Gap)
    assert (gap.reason, gap.count) == ("not_convertible", 1)


def test_a_strict_model_is_strict() -> None:
    assert received(Strict, Misfit(n="1"), Misfit(n=1, other=2), {"n": 1})[0] == [Strict(n=1)]


def test_a_field_with_an_alias_is_read_by_it() -> None:
    assert received(Renamed, {"n": 1}, Misfit(amount=1), {"n": 2})[0] == [Renamed(n=1), Renamed(n=2)]


def test_a_field_with_an_alias_is_published_by_it() -> None:
    assert received(dict, Renamed(n=1))[0] == [{"n": 1}]
    assert received(Renamed, Renamed(n=1))[0] == [Renamed(n=1)]


@pytest.mark.parametrize("shape", [Plain, Checked, Strict])
def test_dataclasses_and_models_of_one_field_are_alike(shape: Callable[..., Any]) -> None:
    assert isinstance(shape, type)
    found, _ = received(shape, shape(n=7), Misfit(n="text"), {"n": 8})
    assert found == [shape(n=7), shape(n=8)]


def test_only_the_constraints_of_a_checked_dataclass_are_pydantics() -> None:
    assert received(Checked, Misfit(n=0), {"n": 1})[0] == [Checked(n=1)]
    assert received(Plain, {"n": 0}, {"n": 1})[0] == [Plain(0), Plain(1)]


def test_a_model_that_holds_what_no_event_may_is_yours_to_mend() -> None:
    class Nested(pydantic.BaseModel):
        inner: set[int]

    async def main() -> None:
        async with Network() as net:
            client = await net.connect()
            with pytest.raises(plait.EventInvalid, match="inner"):
                await client.publish(Nested(inner={1}))

    run(main())

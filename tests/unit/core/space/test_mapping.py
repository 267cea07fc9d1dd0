"""Regions: filters mapped to dz-expressions, and the limits that keep mapping cheap."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from plait_core.errors import SpaceInvalid
from plait_core.limits import CONJUNCTIONS_MAX, DZ_SET_MAX
from plait_core.space import (
    AnyOf,
    Box,
    Dz,
    DzSet,
    Enumeration,
    FloatRange,
    Interval,
    IntRange,
    Prefix,
    Region,
    Schema,
    Strategy,
    TextPrefix,
)
from plait_core.space.grid import SubSpace

GRID = Schema.of({"x": IntRange(0, 15), "y": IntRange(0, 15)})


def test_nothing_and_everything() -> None:
    for boxes in ([], [{"x": Interval(7, 3)}], [{"x": Interval("a")}]):
        nothing = Region.of(GRID, boxes)
        assert nothing.exact() == nothing.at_most(3) == nothing.finer(Dz("0")) == DzSet()
        assert nothing.wildcards() == ()
        assert nothing.volume() == nothing.count() == 0
    everything = Region.of(GRID, [{}])
    assert everything.exact() == everything.at_most(3) == DzSet.of([""])
    assert everything.wildcards() == (Dz(""),)
    assert everything.volume() == 1
    assert everything.faithful


def test_depth_zero_knows_only_the_whole() -> None:
    assert Region.of(GRID, [{"x": Interval(3, 4)}], depth=0).exact() == DzSet.of([""])


def test_attributes_that_the_schema_lacks_widen_the_region() -> None:
    boxes: list[Box] = [{"x": Interval(0, 7), "colour": Interval.point("red")}]
    region = Region.of(GRID, boxes)
    assert region.exact() == DzSet.of(["0"])
    assert not region.faithful
    assert Region.of(GRID, [{"x": Interval(0, 7)}]).faithful
    assert not Region.of(GRID, [{"x": Interval(0, 6)}], depth=2).faithful, "the interval ends within a cell"


def test_boxes_that_touch_merge() -> None:
    left, right = {"x": Interval(hi=4)}, {"x": Interval(lo=5)}
    region = Region.of(GRID, [left, right])
    assert region.exact() == DzSet.of([""])
    assert region.count() > 1
    assert region.volume() == 1


def test_several_intervals_of_one_attribute() -> None:
    other_than_5 = AnyOf((Interval(hi=5, hi_open=True), Interval(lo=5, lo_open=True)))
    region = Region.of(GRID.only("x"), [{"x": other_than_5}])
    assert region.exact() == DzSet.of([""]).difference(DzSet.of(["0101"]))
    assert region.false_volume(DzSet.of([""])) == Fraction(1, 16)


def test_a_mapping_across_all_kinds_of_domain() -> None:
    schema = Schema.of(
        {
            "symbol": TextPrefix(2),
            "side": Enumeration(("buy", "sell")),
            "price": FloatRange(0, 100, bits=4),
            "lots": IntRange(1, 3),
        }
    )
    box: Box = {"symbol": Prefix("IB"), "side": Interval.point("sell"), "price": Interval(lo=50), "lots": Interval(2)}
    region = Region.of(schema, [box])
    event = {"symbol": "IBM", "side": "sell", "price": 99.9, "lots": 3}
    assert region.faithful
    assert region.exact().covers(schema.locate(event))
    for name, value in {"symbol": "IC", "side": "buy", "price": 49.9, "lots": 1}.items():
        assert not region.exact().covers(schema.locate(event | {name: value}))


def test_the_exact_mapping_is_refused_before_any_work() -> None:
    schema = Schema.of({f"x{i}": FloatRange(0, 1, bits=64) for i in range(16)})
    region = Region.of(schema, [{name: Interval(0.1, 0.9) for name in schema.names}])
    with pytest.raises(SpaceInvalid, match="DZ_SET_MAX") as refused:
        region.exact()
    assert "at_most" in refused.value.hint
    with pytest.raises(SpaceInvalid, match="DZ_SET_MAX"):
        region.wildcards()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_coarsening_needs_no_exact_mapping(strategy: Strategy) -> None:
    schema = Schema.of({f"x{i}": FloatRange(0, 1, bits=64) for i in range(16)})
    box: Box = {name: Interval(0.1, 0.101) for name in schema.names}
    coarse = Region.of(schema, [box] * 8).at_most(64, strategy)
    assert len(coarse) <= 64
    assert coarse.covers(schema.locate(dict.fromkeys(schema.names, 0.1005)))


def test_the_limit_is_exact() -> None:
    region = Region.of(GRID, [{"x": Interval(1, 14), "y": Interval(1, 14)}])
    assert len(region.exact(set_max=region.count())) == region.count()
    with pytest.raises(SpaceInvalid, match=str(region.count())):
        region.exact(set_max=region.count() - 1)
    with pytest.raises(SpaceInvalid, match="36"):
        region.wildcards(set_max=35)
    assert len(region.wildcards()) == 36


def test_the_number_of_boxes_is_bounded() -> None:
    with pytest.raises(SpaceInvalid, match="CONJUNCTIONS_MAX"):
        Region.of(GRID, [{}] * (CONJUNCTIONS_MAX + 1))


@pytest.mark.parametrize("theta", [-1, 0, DZ_SET_MAX + 1])
def test_theta_is_bounded(theta: int) -> None:
    with pytest.raises(SpaceInvalid, match="theta"):
        Region.of(GRID, [{"x": Interval(3, 9)}]).at_most(theta)


def test_one_step_finer_ends_at_the_finest() -> None:
    region = Region.of(GRID, [{"x": Interval(3, 3), "y": Interval(5, 6)}])
    finest = Dz("00011011")
    assert region.exact().covers(finest)
    assert region.finer(finest) == DzSet.of([finest])
    assert region.finer(Dz("1")) == DzSet(), "the region does not intersect it"
    assert region.coarser(finest) == Dz("000110")
    assert region.coarser(Dz("0")) == region.coarser(Dz("")) == Dz("")
    for foreign in (Dz("0*"), Dz("0" * 9)):
        with pytest.raises(SpaceInvalid):
            region.finer(foreign)


def test_a_round_is_shorter_where_dimensions_have_run_out() -> None:
    schema = Schema.of({"flag": Enumeration((False, True)), "price": IntRange(0, 7)})
    region = Region.of(schema, [{"price": Interval.point(0)}])
    assert region.finer(Dz("00")) == DzSet.of(["000"])
    assert region.coarser(Dz("000")) == Dz("00")
    assert region.coarser(Dz("00")) == Dz("")


def test_one_box_that_fills_a_sub_space_ends_its_division() -> None:
    region = Region.of(GRID, [{"x": Interval(3, 9)}, {}, {"y": Interval(5, 6)}])
    assert SubSpace.root(region.grid, region.boxes).whole


def test_ours_lets_in_clearly_less_than_breadth_first() -> None:
    """Compare the false volume on random boxes of a space too large to explore completely."""
    rng = random.Random(7)
    schema = Schema.of({"x": IntRange(0, 1023), "y": IntRange(0, 1023)})
    totals = dict.fromkeys(Strategy, Fraction(0))
    for _ in range(30):
        lows = {name: rng.randrange(512) for name in schema.names}
        region = Region.of(schema, [{name: Interval(low, low + rng.randrange(512)) for name, low in lows.items()}])
        for strategy in Strategy:
            totals[strategy] += region.false_volume(region.at_most(12, strategy))
    assert totals[Strategy.LEAST_FALSE] < Fraction(8, 10) * totals[Strategy.BREADTH_FIRST]

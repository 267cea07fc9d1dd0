"""The event space by the thesis: every example on dz-expressions, in its order, with its place."""

from __future__ import annotations

from collections import deque
from fractions import Fraction

import pytest

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

PLANE = Schema.of({"pressure": FloatRange(0, 100, bits=8), "area": FloatRange(0, 100, bits=8)})

F2: list[Box] = [{"pressure": Interval(25, 50, hi_open=True), "area": Interval(0, 100)}]
"""Figure 2.2's f2, Pressure = [25, 50] and Area = [0, 100].

The figure is lost. f2 -> {001, 011} puts Pressure first, in the second quarter of its domain, so the domain is [0,
100]. Area fills its whole domain and so is unbounded.
"""

FIGURE_2_6: list[Box] = [{"area": Interval(0, 25, hi_open=True)}]
"""Figure 2.6's subscription.

The figure is lost. {0000, 0010, 1000, 1010} means that the first dimension is unbounded and the second is in its lowest
quarter.
"""

BOTH = pytest.mark.parametrize("strategy", list(Strategy))


def dz_set(*texts: str) -> DzSet:
    return DzSet.of(texts)


def test_introduction_stock_example() -> None:
    """Chapter 1: an event of four attributes and the filter stock = "NASDAQ" and price < 400 that it matches.

    The volume is printed as 10,0000. It is read as 100,000, which makes no difference.
    """
    schema = Schema.of(
        {
            "stock": Enumeration(("NASDAQ", "NYSE")),
            "company": TextPrefix(2),
            "price": FloatRange(0, 1000, bits=10),
            "volume": IntRange(0, 2**20 - 1),
        }
    )
    region = Region.of(schema, [{"stock": Interval.point("NASDAQ"), "price": Interval(hi=400, hi_open=True)}], depth=24)
    event = {"stock": "NASDAQ", "company": "IBM", "price": 300, "volume": 100_000}
    assert region.at_most(8).covers(schema.locate(event))
    assert not region.at_most(8).covers(schema.locate(event | {"stock": "NYSE"}))
    assert not region.exact().covers(schema.locate(event | {"price": 500}))


def test_2_3_1_the_domains_are_halved_in_turn() -> None:
    """The first bit halves the first dimension at (L + U) / 2, the second bit the second, and so on in turn."""
    assert PLANE.locate({"pressure": 49.99, "area": 50}, depth=2) == Dz("01")
    assert PLANE.locate({"pressure": 50, "area": 49.99}, depth=2) == Dz("10")
    assert PLANE.locate({"pressure": 25, "area": 99}, depth=3) == Dz("011")


def test_2_3_1_shorter_is_bigger() -> None:
    assert [Dz(text).volume for text in ("", "0", "01", "011")] == [Fraction(1, 2**k) for k in range(4)]


@pytest.mark.parametrize(
    ("big", "small", "covered"),
    [
        ("", "0", True),
        ("0", "0", True),
        ("0", "010", True),
        ("010", "0", False),
        ("00", "010", False),
        ("1", "01", False),
    ],
)
def test_2_3_1_covering_is_being_a_prefix(big: str, small: str, covered: bool) -> None:
    assert Dz(big).covers(Dz(small)) is covered


def test_2_3_1_overlapping_sub_spaces_contain_one_another() -> None:
    texts = [format(number, "b")[1:] for number in range(1, 32)]
    for a in map(Dz, texts):
        for b in map(Dz, texts):
            assert a.overlaps(b) == (a.covers(b) or b.covers(a))


def test_figure_2_2_maps_f2_exactly() -> None:
    """f2 -> {001, 011}. Its upper end is read as open: [25, 50] as printed touches the sub-space above at one point."""
    region = Region.of(PLANE, F2, depth=3)
    assert region.exact() == dz_set("001", "011")
    assert region.faithful
    assert Region.of(PLANE, F2).exact() == region.exact(), "more depth changes nothing"


def test_figure_2_2_in_integers() -> None:
    """Boundaries of the thesis belong to the lower half, [L, X] and (X, U]: over integers, f2 is 26..50 of 1..100."""
    schema = Schema.of({"pressure": IntRange(1, 100), "area": IntRange(1, 100)})
    assert Region.of(schema, [{"pressure": Interval(25, 50, lo_open=True)}], depth=3).exact() == dz_set("001", "011")


def test_figure_2_2_with_both_ends_as_printed_loses_no_event() -> None:
    """An event at 50 exactly is in [25, 50], though not in {001, 011}: Plait also maps the touching sub-spaces."""
    box: Box = {"pressure": Interval(25, 50), "area": Interval(0, 100)}
    at_the_end = {"pressure": 50, "area": 7}
    assert not dz_set("001", "011").covers(PLANE.locate(at_the_end))
    assert Region.of(PLANE, [box], depth=3).exact() == dz_set("001", "011", "100", "110")
    assert Region.of(PLANE, [box]).exact().covers(PLANE.locate(at_the_end))


@BOTH
def test_figure_2_2_coarsens_f2_to_one_half(strategy: Strategy) -> None:
    """f2 can be coarsened to {0}: half of the space, twice its volume."""
    region = Region.of(PLANE, F2)
    assert region.at_most(1, strategy) == dz_set("0")
    assert region.at_most(2, strategy) == dz_set("001", "011")
    assert region.false_volume(region.at_most(1, strategy)) == Fraction(1, 4)


@BOTH
@pytest.mark.parametrize(
    ("theta", "mapped"), [(1, {""}), (2, {"00", "10"}), (4, {"0000", "0010", "1000", "1010"}), (5, None)]
)
def test_figure_2_6_mappings(strategy: Strategy, theta: int, mapped: set[str] | None) -> None:
    """Algorithm 4 gives the figure's coarser, current and finer mapping for theta = 1, 2 and 4."""
    region = Region.of(PLANE, FIGURE_2_6)
    assert region.at_most(theta, strategy) == (DzSet.of(mapped) if mapped else region.exact())


def test_figure_2_6_one_step_coarser_and_finer() -> None:
    """From {00, 10}: DZ-1 = {ε} and DZ+1 = {0000, 0010, 1000, 1010}.

    So "divided once" means once in each dimension, that is, two bits here. Of the finer ones, only those that f
    intersects remain.
    """
    region = Region.of(PLANE, FIGURE_2_6)
    current = dz_set("00", "10")
    assert {region.coarser(dz) for dz in current} == {Dz("")}
    assert DzSet().union(*map(region.finer, current)) == dz_set("0000", "0010", "1000", "1010")


def test_2_5_1_a_member_is_exchanged_for_its_finer_sub_spaces() -> None:
    region = Region.of(PLANE, FIGURE_2_6)
    refined = dz_set("00", "10").difference(dz_set("00")).union(region.finer(Dz("00")))
    assert refined == dz_set("0000", "0010", "10")
    assert refined.covers(region.exact())


def algorithm_4(low: list[int], high: list[int], top: int, theta: int, *, printed: bool) -> list[str]:
    """Run the thesis' lines 1-19 over [0, top] in each dimension.

    Two misprints are corrected: line 11 tests f.L_i < x < f.U_i, not subSpace's; lines 14 and 16 compare in dimension
    i, with <= at the midpoint. `printed` keeps line 11's count as printed.
    """
    done: list[str] = []
    queue = deque([("", [0] * len(low), [top] * len(low))])
    while queue:
        dz, lo, up = queue.popleft()
        i = len(dz) % len(low)
        x = (lo[i] + up[i]) // 2
        below, above = (dz + "0", lo, [*up[:i], x, *up[i + 1 :]]), (dz + "1", [*lo[:i], x, *lo[i + 1 :]], up)
        held = len(queue) + len(done) + (0 if printed else 1)
        if all(a <= b and c >= d for a, b, c, d in zip(low, lo, high, up, strict=True)):
            done.append(dz)
        elif low[i] < x < high[i] and held < theta:
            queue += [below, above]
        elif high[i] <= x:
            queue.append(below)
        elif low[i] >= x:
            queue.append(above)
        else:
            done.append(dz)
    return done


def test_algorithm_4_as_printed_breaks_its_first_property() -> None:
    """With theta = 1, line 11 splits the only sub-space, which it does not count, and gives two for f2."""
    assert algorithm_4([25, 0], [50, 100], 100, 1, printed=True) == ["001", "011"]
    assert algorithm_4([25, 0], [50, 100], 100, 1, printed=False) == ["0"]


@pytest.mark.parametrize("theta", range(1, 40))
def test_algorithm_4_line_by_line(theta: int) -> None:
    schema = Schema.of({"x": IntRange(0, 15), "y": IntRange(0, 15)})
    for x0, x1, y0, y1 in ((0, 16, 3, 5), (1, 15, 1, 15), (7, 9, 0, 9), (5, 6, 11, 12), (2, 16, 0, 13)):
        box: Box = {"x": Interval(x0, x1, hi_open=True), "y": Interval(y0, y1, hi_open=True)}
        by_the_book = DzSet.of(algorithm_4([x0, y0], [x1, y1], 16, theta, printed=False))
        assert Region.of(schema, [box]).at_most(theta, Strategy.BREADTH_FIRST) == by_the_book


@BOTH
@pytest.mark.parametrize("theta", [1, 2, 3, 5, 8, 13, 64])
def test_2_5_1_properties_of_the_initial_coarse_mapping(theta: int, strategy: Strategy) -> None:
    """1. |DZ^C| <= theta. 2. Each dz_a of DZ^A is covered by a dz_c of DZ^C."""
    region = Region.of(PLANE, [{"pressure": Interval(13, 71), "area": Interval(40, 55)}], depth=10)
    coarse = region.at_most(theta, strategy)
    assert len(coarse) <= theta
    assert all(any(c.covers(a) for c in coarse) for a in region.exact())


def test_2_6_two_that_differ_in_one_place_combine() -> None:
    pairs = [("0000", "0010", "00*0"), ("1000", "1010", "10*0"), ("00*0", "10*0", "*0*0")]
    for a, b, both in pairs:
        assert Dz(a).merged(Dz(b)) == Dz(both)
    assert Dz("00").merged(Dz("11")) is None
    assert Dz("0").merged(Dz("01")) is None
    assert Dz("0*").merged(Dz("01")) is None, "one covers the other, so they cannot be merged"


def test_2_6_wildcards_map_figure_2_6_to_one() -> None:
    region = Region.of(PLANE, FIGURE_2_6)
    assert region.wildcards() == (Dz("*0*0"),)
    assert DzSet.of(region.wildcards()) == region.exact()
    assert Dz("*0*0").volume == region.volume() == Fraction(1, 4)


def test_2_6_wildcards_allow_constraints_on_few_of_many_attributes() -> None:
    """The exact mapping of one narrow interval among ten attributes is too large; with wildcards it is short."""
    schema = Schema.of({f"a{i}": IntRange(1, 128) for i in range(10)})
    region = Region.of(schema, [{"a9": Interval(33, 48)}])
    assert region.count() == 2**27
    assert region.wildcards() == (Dz("*********0*********1*********0"),)


def test_2_8_1_the_evaluation_s_space() -> None:
    """Up to ten integer attributes of [1, 128]: seven halvings each."""
    assert Schema.of({f"a{i}": IntRange(1, 128) for i in range(10)}).depth == 70


def test_5_4_1_an_event_of_depth_n_matches_n_plus_1_credentials() -> None:
    """0010 is matched by 0010, 001, 00, 0 and ε: |dz_e| + 1, not log2 of the number of sub-spaces."""
    assert set(Dz("0010").prefixes()) == {Dz("0010"), Dz("001"), Dz("00"), Dz("0"), Dz("")}
    own = Schema.of({"temperature": IntRange(0, 255), "area": IntRange(0, 9)}).only("temperature")
    assert len(list(own.locate({"temperature": 99}).prefixes())) == own.depth + 1 == 9


def test_5_4_1_repeats_f2_with_another_mapping() -> None:
    """There f2 is "originally mapped to {000, 010}", not {001, 011} as in 2.3.1: Pressure in its first quarter.

    Plait follows 2.3.1. Both coarsen to 0, the only property that 5.4.1 uses.
    """
    lower = Region.of(PLANE, [{"pressure": Interval(0, 25, hi_open=True)}])
    assert lower.exact() == dz_set("000", "010")
    assert lower.at_most(1) == dz_set("0")


def test_5_4_1_granularity_bounds_what_can_be_said() -> None:
    """With cells of 8 values, a range such as [1, 5] is not possible: it becomes [0, 8)."""
    schema = Schema.of({"area": FloatRange(0, 64, bits=3)})
    region = Region.of(schema, [{"area": Interval(1, 5)}])
    assert region.exact() == dz_set("000")
    assert not region.faithful


def test_5_4_1_the_finest_sub_spaces_are_the_product_of_the_granularities() -> None:
    """Of 8 and 128 values: 2**10 sub-spaces. Equal turns for all dimensions would give 2**14, most of them empty."""
    schema = Schema.of({"level": IntRange(0, 7), "area": IntRange(1, 128)})
    assert schema.depth == 3 + 7


def test_5_4_1_credentials_of_one_attribute() -> None:
    """Show that the bound log2 Z for a range is too low: [1, 6] of eight values takes 4, the worst 2 log2 Z - 2."""
    own = Schema.of({"area": IntRange(0, 7)})
    assert Region.of(own, [{"area": Interval(1, 6)}]).exact() == dz_set("001", "01", "10", "110")
    for bits in range(2, 7):
        tree = Schema.of({"area": IntRange(0, 2**bits - 1)})
        most = max(
            Region.of(tree, [{"area": Interval(a, b)}]).count() for a in range(2**bits) for b in range(a, 2**bits)
        )
        assert most == 2 * bits - 2


def test_5_4_2_a_string_prefix_is_one_credential() -> None:
    """A node of the trie of figure 5.3 is one dz-expression of the attribute's own tree, and covers all below it."""
    own = Schema.of({"city": TextPrefix(9)})
    node, below = (Region.of(own, [{"city": Prefix(text)}]).exact().members for text in ("Stut", "Stuttg"))
    assert len(node) == len(below) == 1
    assert node[0].covers(below[0])
    assert below[0].covers(own.locate({"city": "Stuttgart"}))
    assert not node[0].covers(own.locate({"city": "London"}))


def test_5_4_3_credentials_on_separate_trees_also_fit_the_mixed_subscriptions() -> None:
    """f1 and f2 on their own trees have all that f3 needs. So the keys of a subscription are bound together."""
    schema = Schema.of({"area": IntRange(0, 127), "location": TextPrefix(9)})
    stuttgart, london = Interval.point("Stuttgart"), Interval.point("London")
    area, location = schema.only("area"), schema.only("location")
    held = Region.of(area, [{"area": AnyOf((Interval(10, 20), Interval(40, 80)))}]).exact()
    places = Region.of(location, [{"location": AnyOf((stuttgart, london))}]).exact()
    f3_area = Region.of(area, [{"area": Interval(10, 20)}]).exact()
    f3_place = Region.of(location, [{"location": london}]).exact()
    assert held.covers(f3_area)
    assert places.covers(f3_place)
    both: list[Box] = [
        {"area": Interval(10, 20), "location": stuttgart},
        {"area": Interval(40, 80), "location": london},
    ]
    mixed = schema.locate({"area": 15, "location": "London"})
    assert not Region.of(schema, both).exact().covers(mixed), "the common tree separates them"

"""The event space compared with brute force: every point of small spaces, every cell, every sub-space."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from plait_core.errors import SpaceInvalid
from plait_core.space import (
    AllOf,
    AnyOf,
    Box,
    Domain,
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
    ValueRange,
)
from plait_core.space.domains import side_of

Literal = int | float | str | bool

TEXTS = ["", "a", "a\0", "aa", "ab", "abc", "b", "é", "ê", "€", "\uffff", "\U0001f600"]
EIGHTHS = [k / 8 for k in range(17)]
ENDS = {
    IntRange: st.one_of(st.integers(-4, 12), st.sampled_from([0.5, 2.5, float("inf"), float("-inf")])),
    FloatRange: st.sampled_from([*EIGHTHS, -1, 3, 1, 0.3, float("inf")]),
    TextPrefix: st.sampled_from(TEXTS),
}
PLACES = 5


def points(domain: Domain) -> list[Literal]:
    """Return all values of a domain, or enough of them to include every boundary and every end."""
    if isinstance(domain, IntRange):
        return list(range(domain.lo, domain.hi + 1))
    if isinstance(domain, Enumeration):
        return list(domain.values)
    return [*TEXTS] if isinstance(domain, TextPrefix) else [value for value in [*EIGHTHS, 0.3] if value < 2]


domains = st.one_of(
    st.builds(lambda lo, size: IntRange(lo, lo + size), st.integers(-2, 2), st.integers(0, 6)),
    st.builds(lambda bits: FloatRange(0, 2, bits), st.integers(0, 3)),
    st.builds(lambda values: Enumeration(tuple(values)), st.permutations([1, 2, "a", "b", True])),
)
texts_or_other = st.one_of(domains, st.just(TextPrefix(1)), st.just(TextPrefix(2)))


@st.composite
def schemas(draw: st.DrawFn, kinds: st.SearchStrategy[Domain] = domains, most: int = 3) -> Schema:
    chosen = draw(st.lists(kinds, min_size=1, max_size=most))
    return Schema.of({f"a{i}": domain for i, domain in enumerate(chosen)})


@st.composite
def intervals(draw: st.DrawFn, domain: Domain) -> Interval:
    if isinstance(domain, Enumeration):
        ends: st.SearchStrategy[Literal] = draw(
            st.sampled_from([ENDS[IntRange], st.sampled_from("abc"), st.booleans()])
        )
    else:
        ends = ENDS[type(domain)]
    lo, hi = draw(st.none() | ends), draw(st.none() | ends)
    return Interval(lo, hi, draw(st.booleans()), draw(st.booleans()))


def constraints(domain: Domain) -> st.SearchStrategy[ValueRange]:
    atoms: st.SearchStrategy[ValueRange] = intervals(domain) | st.builds(Prefix, st.sampled_from(TEXTS))
    some = st.lists(atoms, max_size=3).map(tuple)
    return atoms | st.builds(AnyOf, some) | st.builds(AllOf, some)


@st.composite
def filters(draw: st.DrawFn, schema: Schema, most: int = 3) -> list[Box]:
    named = list(zip(schema.names, schema.domains, strict=True))
    boxes: list[Box] = []
    for _ in range(draw(st.integers(0, most))):
        tested = draw(st.sets(st.sampled_from(schema.names)))
        boxes.append({name: draw(constraints(domain)) for name, domain in named if name in tested})
    return boxes


def kind(value: object) -> str:
    return {bool: "bool", str: "text"}.get(type(value), "number")


def admits(constraint: ValueRange, value: Literal) -> bool:
    """Evaluate a range independently of the implementation."""
    if isinstance(constraint, AnyOf):
        return any(admits(each, value) for each in constraint.ranges)
    if isinstance(constraint, AllOf):
        return all(admits(each, value) for each in constraint.ranges)
    if isinstance(constraint, Prefix):
        return isinstance(value, str) and value[: len(constraint.text)] == constraint.text
    for end, is_open, sign in ((constraint.lo, constraint.lo_open, 1), (constraint.hi, constraint.hi_open, -1)):
        if end is None:
            continue
        if kind(end) != kind(value):
            return False
        order = (value > end) - (value < end)  # type: ignore[operator]
        if order * sign < 0 or (is_open and not order):
            return False
    return True


def matches(boxes: Iterable[Box], event: dict[str, Literal]) -> bool:
    return any(all(admits(constraint, event[name]) for name, constraint in box.items()) for box in boxes)


def events(schema: Schema) -> list[dict[str, Literal]]:
    values = product(*map(points, schema.domains))
    return [dict(zip(schema.names, chosen, strict=True)) for chosen in values]


def places(dz_expressions: Iterable[Dz]) -> set[int]:
    """Return the points of a space of PLACES bits, by number."""
    return {
        number
        for dz in dz_expressions
        for number in range(1 << PLACES)
        if all(a in ("*", b) for a, b in zip(dz.text, format(number, f"0{PLACES}b"), strict=False))
    }


wild = st.text("01*", max_size=PLACES).map(Dz)
plain = st.text("01", max_size=PLACES).map(Dz)
wild_lists = st.lists(wild, max_size=6)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_value_in_an_interval_has_its_cell_in_the_side(data: st.DataObject) -> None:
    domain = data.draw(texts_or_other)
    constraint = data.draw(constraints(domain))
    side = side_of(domain, constraint)
    for value in points(domain):
        cell = domain.cell(value)
        inside = side.common(cell, cell + 1) == 1
        assert inside or not admits(constraint, value)
        assert admits(constraint, value) or not inside or not side.exact


@given(
    st.floats(-1e9, 1e9),
    st.floats(-1e9, 1e9),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 200),
    st.integers(0, 9),
)
def test_the_cell_of_a_number_is_that_of_exact_arithmetic(
    a: float, b: float, share: float, bits: int, less: int
) -> None:
    lo, hi = min(a, b), max(a, b)
    value = lo + (hi - lo) * share
    if not lo <= value < hi:
        return
    exact = (Fraction(value) - Fraction(lo)) / (Fraction(hi) - Fraction(lo)) * 2**bits
    cell = FloatRange(lo, hi, bits).cell(value)
    assert cell == exact.numerator // exact.denominator
    assert bits < less or cell >> less == FloatRange(lo, hi, bits - less).cell(value)


@given(st.integers(-(2**200), 2**200), st.integers(0, 2**200), st.data())
def test_every_integer_has_a_finest_cell_of_its_own(lo: int, size: int, data: st.DataObject) -> None:
    domain = IntRange(lo, lo + size)
    a, b = (data.draw(st.integers(lo, lo + size)) for _ in range(2))
    assert (domain.cell(a) < domain.cell(b)) == (a < b)
    assert domain.cell(a) < 1 << domain.bits or size == 0


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_event_is_lost_and_where_faithful_none_is_added(data: st.DataObject) -> None:
    schema = data.draw(schemas(texts_or_other, most=2))
    boxes = data.draw(filters(schema, most=2))
    depth = data.draw(st.integers(0, min(schema.depth, 12)))
    region = Region.of(schema, boxes, depth)
    exact, wildcards = region.exact(), region.wildcards()
    coarse = [region.at_most(3, strategy) for strategy in Strategy]
    for event in events(schema):
        dz = schema.locate(event)
        if matches(boxes, event):
            assert all(dz_set.covers(dz) for dz_set in (exact, *coarse))
        elif region.faithful:
            assert not exact.covers(dz)
        assert exact.covers(dz) == any(each.covers(dz) for each in wildcards)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_mapping_is_exact_cell_by_cell(data: st.DataObject) -> None:
    """A cell with values is in the mapping iff one of them matches. Integer domains of 2**k have no other cells."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3))
    schema = Schema.of({f"a{i}": IntRange(0, size - 1) for i, size in enumerate(sizes)})
    boxes = data.draw(filters(schema))
    depth = data.draw(st.integers(0, schema.depth))
    matched = {schema.locate(event, depth) for event in events(schema) if matches(boxes, event)}
    region = Region.of(schema, boxes, depth)
    assert region.exact() == DzSet.of(matched), "canonical form is unique"
    assert region.volume() == Fraction(len(matched), 1 << depth)
    assert DzSet.of(region.wildcards()) == region.exact()
    assert region.count() == len(region.exact()) or len(region.boxes) > 1
    assert region.count() >= len(region.exact())


@given(st.data(), st.sampled_from(list(Strategy)), st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_at_most_theta_cover_the_exact_mapping(data: st.DataObject, strategy: Strategy, theta: int) -> None:
    schema = data.draw(schemas())
    region = Region.of(schema, data.draw(filters(schema)))
    exact, coarse = region.exact(), region.at_most(theta, strategy)
    assert len(coarse) <= theta
    assert coarse.covers(exact)
    assert region.false_volume(coarse) >= 0
    assert coarse == exact or len(exact) > theta or strategy is Strategy.BREADTH_FIRST
    again = exact.at_most(theta, strategy)
    assert len(again) <= theta
    assert again.covers(exact)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_finer_and_coarser_lose_nothing(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    region = Region.of(schema, data.draw(filters(schema)))
    exact = region.exact()
    for member in region.at_most(4):
        needed = exact.intersection(DzSet.of([member]))
        finer = region.finer(member)
        assert finer.covers(needed)
        assert DzSet.of([member]).covers(finer)
        assert region.coarser(member).covers(member)
        assert member.depth == 0 or region.coarser(member).depth < member.depth


@given(st.lists(plain, min_size=1, max_size=20), st.integers(1, 8))
@settings(deadline=None)
def test_the_default_coarsening_is_optimal_for_theta(given_dz: list[Dz], theta: int) -> None:
    """Compare with the least volume over all sets of sub-spaces, found by trying every division."""
    held = DzSet.of(given_dz)
    if len(held) > 4 * theta:
        return

    @cache
    def least(dz: Dz, count: int) -> Fraction:
        if not held.overlaps(dz):
            return Fraction(0)
        if held.covers(dz) or not count:
            return dz.volume if count else Fraction(99)
        lower, upper = dz.children()
        return min(dz.volume, *(least(lower, i) + least(upper, count - i) for i in range(count + 1)))

    assert held.at_most(theta).volume == least(Dz(""), theta)
    assert held.at_most(theta).volume <= held.at_most(theta, Strategy.BREADTH_FIRST).volume


@given(wild, wild)
def test_covers_and_overlaps_agree_with_the_points(a: Dz, b: Dz) -> None:
    assert a.covers(b) == (places([a]) >= places([b]))
    assert a.overlaps(b) == bool(places([a]) & places([b]))
    assert a.volume == Fraction(len(places([a])), 1 << PLACES)
    merged = a.merged(b)
    assert merged is None or places([merged]) == places([a, b])


@given(wild_lists, wild_lists, wild)
@settings(max_examples=200)
def test_sets_agree_with_the_points(some: list[Dz], others: list[Dz], dz: Dz) -> None:
    a, b, pa, pb = DzSet.of(some), DzSet.of(others), places(some), places(others)
    assert places(a) == pa
    assert (a == b) == (pa == pb), "canonical form is unique"
    assert places(a.union(b)) == pa | pb
    assert places(a.intersection(b)) == pa & pb
    assert places(a.difference(b)) == pa - pb
    assert a.covers(b) == (pa >= pb)
    assert a.overlaps(b) == bool(pa & pb)
    assert a.covers(dz) == (pa >= places([dz]))
    assert a.overlaps(dz) == bool(pa & places([dz]))
    assert a.volume == Fraction(len(pa), 1 << PLACES)


@given(wild_lists)
def test_a_set_is_minimal_and_in_order(some: list[Dz]) -> None:
    members = DzSet.of(some).members
    assert list(members) == sorted(members)
    assert not any(a.overlaps(b) for a in members for b in members if a is not b)
    assert not any(dz.depth and dz.sibling() in members for dz in members)
    assert all(dz.plain for dz in members)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_wildcards_are_what_the_recursion_of_2_6_makes(data: st.DataObject) -> None:
    """Follow thesis 2.6 literally: as in 2.3.1, but `*` where the subscription fills the dimension to be divided."""
    schema = data.draw(schemas())
    region = Region.of(schema, data.draw(filters(schema, most=1)))
    turns = region.grid.turns

    def divided(dz: str, spans: tuple[tuple[int, int], ...]) -> set[str]:
        fills = [side.common(*span) == span[1] - span[0] for side, span in zip(sides, spans, strict=True)]
        if not all(side.common(*span) for side, span in zip(sides, spans, strict=True)):
            return set()
        if all(fills):
            return {dz.rstrip("*")}
        turn = turns[len(dz)]
        (first, end), middle = spans[turn], sum(spans[turn]) // 2
        halves = ((first, middle), (middle, end))
        if fills[turn]:
            return divided(dz + "*", (*spans[:turn], halves[0], *spans[turn + 1 :]))
        return {
            found
            for bit, half in enumerate(halves)
            for found in divided(f"{dz}{bit}", (*spans[:turn], half, *spans[turn + 1 :]))
        }

    for box in region.boxes:
        sides = box.sides
        whole = tuple((0, 1 << bits) for bits in region.grid.bits)
        assert {dz.text for dz in region.wildcards()} == divided("", whole)


@given(schemas(texts_or_other))
def test_a_schema_survives_its_text(schema: Schema) -> None:
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert again.to_json() == schema.to_json()
    assert all(again.locate(event) == schema.locate(event) for event in events(schema)[:20])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
rows = st.dictionaries(
    st.sampled_from(["name", "type", "lo", "hi", "bits", "values", "prefix_bytes", "other"]),
    json_values | st.sampled_from(["int", "float", "enum", "text", "a", "b"]),
)


@given(json_values | st.fixed_dictionaries({"attributes": st.lists(json_values | rows, max_size=3)}))
@settings(max_examples=300)
def test_a_strange_schema_is_refused_in_one_way(strange: object) -> None:
    try:
        schema = Schema.from_dict(strange)
    except SpaceInvalid:
        return
    assert Schema.from_json(schema.to_json()) == schema


@given(st.lists(plain, max_size=12).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_the_order_of_the_given_does_not_matter(orders: tuple[list[Dz], list[Dz]]) -> None:
    assert list(DzSet.of(orders[0])) == list(DzSet.of(orders[1]))

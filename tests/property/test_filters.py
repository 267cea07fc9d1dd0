"""The filter language compared with brute force, and invariants of every filter and text.

The long comparisons are plain loops over seeded generators: 20,000 pairs of filter and event in `make test`, a million
with PLAIT_NIGHTLY. A failure names the seed that reproduces its example.
"""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import brute_force
import pytest
import strategies
from brute_force import Tree
from hypothesis import example, given, reject
from hypothesis import strategies as st

from plait_core.errors import FilterError, FilterNeverTrue, FilterSyntax, FilterTooComplex
from plait_core.filters import F, Filter, parse, satisfies
from plait_core.filters.contradiction import contradiction
from plait_core.limits import CONJUNCTIONS_MAX, FilterLimits

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))
PAIRS = 1_000_000 if NIGHTLY else 20_000
EVENTS_A_FILTER = 20
FILTERS = PAIRS // EVENTS_A_FILTER


def seeds(what: str, count: int) -> Iterator[tuple[str, Random]]:
    """Yield `count` seeds, each with its generator."""
    for i in range(count):
        yield f"{what}:{i}", Random(f"{what}:{i}")


def some_tree(rng: Random) -> Tree:
    return strategies.random_tree(rng, rng.choice([1, 3, 8, 20]))


# --- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_filters_agree_with_brute_force() -> None:
    results = {True: 0, False: 0, None: 0}
    for seed, rng in seeds("pairs", FILTERS):
        tree = some_tree(rng)
        text = strategies.render(tree, rng)
        found = parse(text)
        for _ in range(EVENTS_A_FILTER):
            attributes = strategies.random_attributes(rng)
            expected = brute_force.evaluate(tree, attributes)
            where = f"seed {seed!r}: {text!r} on {attributes!r}"
            assert found.evaluate(attributes) is expected, where
            assert found.matches(attributes) is (expected is True), where
            results[expected] += 1
    assert min(results.values()) > PAIRS / 10, f"the sample is not balanced: {results}"


def test_explanations_agree_with_brute_force() -> None:
    for seed, rng in seeds("explain", FILTERS // 10):
        tree = some_tree(rng)
        text = strategies.render(tree, rng)
        found = parse(text)
        for _ in range(5):
            attributes = strategies.random_attributes(rng)
            expected = brute_force.evaluate(tree, attributes)
            explained = found.explain(attributes)
            where = f"seed {seed!r}: {text!r} on {attributes!r}"
            assert explained.result is expected, where
            seen = {reason.attr: attributes[reason.attr] for reason in explained.reasons if reason.present}
            assert expected is None or found.evaluate(seen) is expected, (
                f"{where}: the reasons alone do not give the result"
            )
            for reason in explained.reasons:
                assert parse(reason.atom).evaluate(attributes) is reason.result, where


@given(strategies.spelled_trees(), strategies.attributes)
def test_filters_agree_with_brute_force_and_shrink(spelled: tuple[Tree, str], attributes: dict[str, Any]) -> None:
    tree, text = spelled
    expected = brute_force.evaluate(tree, attributes)
    found = parse(text)
    assert found.evaluate(attributes) is expected
    assert (~found).evaluate(attributes) is (None if expected is None else not expected)


def test_the_operators_of_filters_are_those_of_their_texts() -> None:
    for seed, rng in seeds("operators", FILTERS // 4):
        trees = [strategies.random_tree(rng, 4) for _ in range(2)]
        one, other = (parse(strategies.render(tree, rng)) for tree in trees)
        for _ in range(5):
            attributes = strategies.random_attributes(rng)
            for joined, what in ((one & other, "and"), (one | other, "or")):
                assert joined.evaluate(attributes) is brute_force.evaluate((what, trees), attributes), seed


def test_a_filter_without_alternatives_is_refused_with_conditions_that_exclude_each_other() -> None:
    refused = 0
    for seed, rng in seeds("never", FILTERS):
        found = parse(strategies.render(some_tree(rng), rng))
        if found.normal:
            found.check_satisfiable()
            continue
        with pytest.raises(FilterNeverTrue):
            found.check_satisfiable()
        conditions = contradiction(found.expr)
        together = parse(" and ".join(f"({condition})" for condition in conditions))
        assert together.normal == (), f"seed {seed!r}: {conditions}"
        assert len({attr for condition in conditions for attr in parse(condition).attributes()}) <= 1
        refused += 1
    assert refused > 10


# --- text -------------------------------------------------------------------------------------------------------------


def assert_printable(found: Filter, where: str) -> None:
    """Check that the canonical text parses to the same filter, and is its own canonical text."""
    again = parse(found.text)
    assert again == found, where
    assert again.expr == found.expr, where
    assert again.text == found.text, where
    assert pickle.loads(pickle.dumps(found)).expr == found.expr, where


def test_printed_filters_parse_to_the_same_filter() -> None:
    for seed, rng in seeds("print", FILTERS):
        text = strategies.render(some_tree(rng), rng)
        assert_printable(parse(text), f"seed {seed!r}: {text!r}")


def test_two_spellings_of_a_tree_are_equal() -> None:
    for seed, rng in seeds("spell", FILTERS // 2):
        tree = some_tree(rng)
        texts = [strategies.render(tree, rng) for _ in range(2)]
        one, other = map(parse, texts)
        assert one == other, f"seed {seed!r}: {texts!r}"
        assert hash(one) == hash(other)


def built(tree: Tree) -> Filter:
    """Build the tree with F."""
    what, *parts = tree
    match what:
        case "true" | "false":
            return parse(what)
        case "not":
            return ~built(parts[0])
        case "and" | "or":
            made = built(parts[0][0])
            for part in parts[0][1:]:
                made = made & built(part) if what == "and" else made | built(part)
            return made
        case "chain":
            return _built_chain(*parts)
    attr = F[parts[0]]
    match what, *parts[1:]:
        case ("truth",):
            return attr.as_filter()
        case ("has",):
            return attr.exists()
        case "null", negated:
            return attr.exists() if negated else attr.is_null()
        case "in", negated, literals:
            return attr.not_in(literals) if negated else attr.is_in(literals)
        case "between", negated, low, high:
            return ~attr.between(low, high) if negated else attr.between(low, high)
        case "text", negated, op, pattern:
            made = getattr(attr, op)(pattern)
            return ~made if negated else made
    raise AssertionError(f"no such tree: {tree!r}")


_LINKS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _built_chain(operands: list[tuple[str, Any]], ops: list[str]) -> Filter:
    sides = [F[side] if kind == "attr" else side for kind, side in operands]
    links = [_LINKS[op](left, right) for op, (left, right) in zip(ops, pairwise(sides), strict=True)]
    made = links[0]
    for link in links[1:]:
        made &= link
    assert isinstance(made, Filter)
    return made


def test_built_filters_are_the_written_ones() -> None:
    for seed, rng in seeds("build", FILTERS):
        tree = some_tree(rng)
        made = built(tree)
        assert made == parse(strategies.render(tree, rng)), f"seed {seed!r}"
        assert_printable(made, f"seed {seed!r}: {made}")


# --- the normal form and the relations --------------------------------------------------------------------------------


def test_the_normal_form_is_satisfied_where_the_filter_is_true() -> None:
    too_complex = 0
    for seed, rng in seeds("normal", FILTERS):
        tree = some_tree(rng)
        found = parse(strategies.render(tree, rng))
        try:
            alternatives = found.normal
        except FilterTooComplex:
            too_complex += 1
            continue
        assert len(alternatives) <= CONJUNCTIONS_MAX
        for _ in range(5):
            attributes = strategies.random_attributes(rng)
            expected = brute_force.evaluate(tree, attributes) is True
            satisfied = any(satisfies(attributes, conjunction) for conjunction in alternatives)
            assert satisfied is expected, f"seed {seed!r}: {found} on {attributes!r}"
    assert too_complex < FILTERS / 10


def test_covering_and_intersection_never_lose_an_event() -> None:
    covering = apart = 0
    for seed, rng in seeds("relations", FILTERS):
        trees = [strategies.random_tree(rng, 3) for _ in range(2)]
        if rng.random() < 0.5:  # related filters cover more often
            trees[1] = ("and", [trees[0], trees[1]]) if rng.random() < 0.5 else ("and", trees[::-1])
        a, b = (parse(strategies.render(tree, rng)) for tree in trees)
        assert a.covers(a), f"seed {seed!r}: {a} does not cover itself"
        assert a.intersects(b) is b.intersects(a), f"seed {seed!r}"
        covers, meets = a.covers(b), a.intersects(b)
        covering, apart = covering + covers, apart + (not meets)
        if not covers and meets:
            continue
        for _ in range(10):
            attributes = strategies.random_attributes(rng)
            matched = [brute_force.evaluate(tree, attributes) is True for tree in trees]
            where = f"seed {seed!r}: {a} and {b} on {attributes!r}"
            assert not (covers and matched == [False, True]), where
            assert meets or matched != [True, True], where
    assert covering > FILTERS / 10
    assert apart > FILTERS / 50


SHORT_TEXTS = ["".join(chars) for length in range(6) for chars in product("ab", repeat=length)]


def text_atom(rng: Random) -> Tree:
    """Draw an atom on the text x over the alphabet of SHORT_TEXTS."""
    text = rng.choice(SHORT_TEXTS[:15])
    if rng.random() < 0.3:
        return ("chain", [("attr", "x"), ("literal", text)], [rng.choice(strategies.COMPARISONS)])
    if rng.random() < 0.2:
        return ("between", "x", False, *sorted((text, rng.choice(SHORT_TEXTS[:15]))))
    op = rng.choice(strategies.TEXT_OPS)
    pattern = "".join(rng.choice("ab%_") for _ in range(rng.randint(0, 5))) if op == "like" else text
    return ("text", "x", rng.random() < 0.4, op, pattern)


def test_text_relations_hold_for_all_short_texts() -> None:
    covering = apart = 0
    for seed, rng in seeds("shapes", FILTERS * 2):
        conjunctions = [[text_atom(rng) for _ in range(rng.randint(1, 3))] for _ in range(2)]
        trees: list[Tree] = [("and", [("true",), *atoms]) for atoms in conjunctions]
        a, b = (parse(strategies.render(tree, rng)) for tree in trees)
        covers, meets = a.covers(b), a.intersects(b)
        covering, apart = covering + covers, apart + (not meets)
        if not covers and meets and rng.random() < 0.8:
            continue
        for text in SHORT_TEXTS:
            matched = [brute_force.evaluate(tree, {"x": text}) is True for tree in trees]
            where = f"seed {seed!r}: {a} and {b} on {text!r}"
            assert [a.matches({"x": text}), b.matches({"x": text})] == matched, where
            assert not (covers and matched == [False, True]), where
            assert meets or matched != [True, True], where
    assert min(covering, apart) > FILTERS / 20


EXACT_NUMBERS = [-(2**200), -1.5, -1, 0, 0.1, 0.5, 1, 3, 100, 2**53 - 1, 2**53 + 1, 2**63, 2.0**64, 2**200]
EXACT_TEXTS = ["", "a", "ab", "abc", "b", "ba", "é", "\ud7ff", "\U00010000", "\U0010ffff", "a\U0010ffff"]


def exact_atom(rng: Random) -> Tree:
    """Draw an atom that covering decides exactly: range, equality, set, prefix or presence, on x or y."""
    attr = rng.choice("xy")
    numbers = rng.random() < 0.6
    pool: list[Any] = EXACT_NUMBERS if numbers else EXACT_TEXTS
    roll = rng.random()
    if roll < 0.45:
        op = rng.choice(["==", "<", "<=", ">", ">="])
        return ("chain", [("attr", attr), ("literal", rng.choice(pool))], [op])
    if roll < 0.55:
        return ("between", attr, False, *sorted((rng.choice(pool), rng.choice(pool))))
    if roll < 0.7:
        mixed = [*EXACT_NUMBERS, *EXACT_TEXTS, True, False] if rng.random() < 0.3 else pool
        return ("in", attr, False, [rng.choice(mixed) for _ in range(rng.randint(1, 5))])
    if roll < 0.85:
        return ("text", attr, False, "startswith", rng.choice(EXACT_TEXTS))
    return rng.choice([("has", attr), ("null", attr, False), ("truth", attr)])


def boundary_points() -> list[Any]:
    """Return a value at every literal, one strictly between any two neighbours, and the other states."""
    ordered = sorted(EXACT_NUMBERS)
    numbers: list[Any] = [-math.inf, *ordered, math.inf]
    for low, high in pairwise(ordered):
        middle = (Fraction(low) + Fraction(high)) / 2
        numbers.append(int(middle) if abs(middle) > 2**53 - 2 else float(middle))
        assert low < numbers[-1] < high
    texts = list(EXACT_TEXTS)
    for text in EXACT_TEXTS:
        texts += [text + "\0", text + "0", text + "z", text + "\U0010ffff" * 3]
        texts += [text[:-1] + chr(ord(text[-1]) - 1) + "\U0010ffff" * 3] if text and text[-1] != "\ud7ff" else []
    return [*numbers, *texts, True, False, None, math.nan, [1]]


def test_covering_is_exact_for_conjunctions_of_what_can_be_decided() -> None:
    """Covering and intersection are exact. A conjunction is a product, so one attribute's points at a time suffice."""
    points = boundary_points()
    yes = no = 0

    def states(conjunction: list[Tree], attr: str) -> set[int]:
        own = [atom for atom in conjunction if attr in brute_force.attributes_of(atom)]
        return {i for i, at in enumerate(points) if brute_force.evaluate(("and", own), {attr: at}) is True}

    for seed, rng in seeds("exact", 30_000 if NIGHTLY else 1_500):
        wide = [exact_atom(rng) for _ in range(rng.randint(1, 3))]
        narrow = [exact_atom(rng) for _ in range(rng.randint(1, 4))]
        narrow += wide if rng.random() < 0.3 else []
        inside = [(states(wide, attr), states(narrow, attr)) for attr in "xy"]
        covers = all(b <= a for a, b in inside) or not all(b for _, b in inside)
        meets = all(a & b for a, b in inside)
        one, other = (parse(strategies.render(("and", [*atoms, ("true",)]), rng)) for atoms in (wide, narrow))
        where = f"seed {seed!r}: {one} and {other}"
        assert one.covers(other) is covers, f"{where}: covers"
        assert one.intersects(other) is meets, f"{where}: intersects"
        yes, no = yes + covers, no + (not covers)
    assert yes > no / 10 > 0


@given(strategies.trees, strategies.trees, strategies.trees)
def test_covering_is_an_order_among_conjunctions(a: Tree, b: Tree, c: Tree) -> None:
    one, other, third = (parse(strategies.render(tree, Random(0))) for tree in (a, b, c))
    try:
        for combined in (one | other, one | third, one & other, one & third, other & third):
            _ = combined.normal
    except FilterTooComplex:
        reject()
    assert (one | other).covers(one)
    assert one.covers(one & other)
    assert (one | other).covers(one & third)
    if one.covers(other):
        assert (one | third).covers(other)
        assert one.covers(other & third)
        assert not other.normal or one.intersects(other)


# --- arbitrary text ---------------------------------------------------------------------------------------------------


def assert_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except (FilterSyntax, FilterTooComplex) as refused:
        error = refused
    else:
        assert_printable(found, repr(text))
        return
    assert error.text == text
    assert 1 <= error.column <= len(text) + 1, f"{text!r}: column {error.column}"
    shown, caret = error.caret().split("\n")
    assert caret.strip() == "^"
    assert len(caret) <= len(shown) + 1
    assert str(error)


WORDS = [
    *("and", "or", "not", "has", "in", "between", "like", "startswith", "is", "null", "true", "false", "NOT", "&&"),
    *("(", ")", "[", "]", ",", "==", "=", "<", "<=", "!", "!=", "&", "||", "'a'", '"b"', "'", '"', "\\", "x", "a.b"),
    *("1", "-1", "1e5", ".5", "1.", "1e999", "9" * 90, "$x", "é", "\0", "\ud800", "'\\ud800'", "'%_%'", " ", "|", "."),
]


@given(st.text(st.characters(codec=None)) | st.lists(st.sampled_from(WORDS)).map(" ".join))
@example("\ud800")
@example("x == '\ud800'")
@example("x == '\\")
@example("(" * 300)
@example("not " * 1000)
@example("x in [" * 100)
def test_any_text_is_read_or_refused_with_a_column(text: str) -> None:
    assert_read_or_refused(text)


def test_mutated_filters_are_read_or_refused_with_a_column() -> None:
    """Texts with bytes lost, doubled, swapped or replaced are close to the grammar, where parsers break."""
    for _, rng in seeds("mutate", FILTERS * 2):
        text = strategies.render(strategies.random_tree(rng, 4), rng)
        for _ in range(rng.randint(1, 4)):
            at, until = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
            piece = rng.choice([*WORDS, text[min(at, until) : max(at, until)][:10]])
            text = text[:at] + piece + text[at + rng.choice([0, 0, 1, len(piece)]) :]
        assert_read_or_refused(text)


# --- cost -------------------------------------------------------------------------------------------------------------


WIDE = FilterLimits(text_max=1 << 22, atoms_max=1 << 18, set_max=1 << 18)
RATIO_MAX = 2.5  # SCORECARD.md, D8


def least_time(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - start)
    return max(min(times), 1)


def assert_linear(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Check that twice the size takes at most 2.5 times as long. The least of several runs counts, with one retry."""
    once, twice = make(size), make(2 * size)
    once(), twice()
    ratio = math.inf
    for repeats in (5, 10, 20):
        ratio = min(ratio, least_time(twice, repeats) / least_time(once, repeats))
        if ratio <= RATIO_MAX:
            return
    pytest.fail(f"twice the size takes {ratio:.2f} times as long")


def joined(word: str, write: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: f" {word} ".join(map(write, range(n)))


NESTED = "parentheses and connectives"  # n alternatives of up to n constraints each, so its normal form is larger
SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "or of equalities": (joined("or", lambda i: f"x == {i}"), 500),
    "or of texts": (joined("or", lambda i: f"x == 's{i}'"), 500),
    "or of lists": (joined("or", lambda i: f"x in [{i}, {-i}, 'a{i}']"), 200),
    "and of ranges": (joined("and", lambda i: f"x > {i}"), 500),
    "and of attributes": (joined("and", lambda i: f"x{i} > {i}"), 500),
    "and of inequalities": (joined("and", lambda i: f"x != {i}"), 200),
    "and of infixes": (joined("and", lambda i: f"x contains '{i}'"), 200),
    "and of no suffixes": (joined("and", lambda i: f"x not endswith '{i}'"), 200),
    "and of suffixes": (lambda n: " and ".join(f"x endswith '{'a' * (i % 100)}'" for i in range(n)), 200),
    "alternatives and atoms": (
        lambda n: f"({' or '.join(f'a{i} == 1' for i in range(120))}) and {joined('and', lambda i: f'x != {i}')(n)}",
        200,
    ),
    "list": (lambda n: f"x in [{', '.join(map(str, range(n)))}]", 2_000),
    "list of texts": (lambda n: f"x not in [{', '.join(f'{i!r}' for i in map(str, range(n)))}]", 2_000),
    "chain": (lambda n: "0" + " < x < 1" * n, 500),
    "negated chain": (lambda n: f"not ({joined('or', lambda i: f'x != {i} and y != {i}')(n)})", 4),
    "parentheses": (lambda n: "(" * n + "a" + ")" * n, 32),
    NESTED: (lambda n: "(a and (b or " * n + "c" + "))" * n, 16),
    "nots": (lambda n: "not " * n + "a", 4_000),
    "long text": (lambda n: f"x == '{'é' * n}'", 8_000),
    "escapes": (lambda n: f"x == '{chr(92) * 2 * n}'", 8_000),
    "quotes": (lambda n: f"x == '{chr(39) * 2 * n}'", 8_000),
    "like": (lambda n: f"x like '{'%a_' * n}'", 2_500),
    "names": (lambda n: ".".join(["a"] * n) + " == 1", 32),
    "truths": (joined("or", lambda i: "true"), 1_000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_and_printing_take_linear_time(shape: str) -> None:
    write, size = SHAPES[shape]

    def make(n: int) -> Callable[[], object]:
        text = write(n)
        return lambda: parse(text, WIDE).text

    assert_linear(make, size)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != NESTED])
def test_normalising_and_compiling_take_linear_time(shape: str) -> None:
    write, size = SHAPES[shape]

    def make(n: int) -> Callable[[], object]:
        found = parse(write(n), WIDE)

        def work() -> None:
            fresh = Filter(found.expr, limits=WIDE)
            assert fresh.normal is not None
            assert fresh.matches({}) is not None

        return work

    assert_linear(make, size)


@pytest.mark.parametrize("text", ["(" * 20_000, "not " * 20_000, "x == " + "'" * 19_999, "x" * 100_000, "[" * 20_000])
def test_filters_are_refused_in_linear_time(text: str) -> None:
    def make(n: int) -> Callable[[], object]:
        part = text[: len(text) * n // 2]

        def work() -> None:
            with pytest.raises(FilterError):
                parse(part, WIDE)

        return work

    assert_linear(make, 1)


@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 50 + "%b",
        "%a" * 50 + "b",
        "%" + "a" * 50 + "b%",
        "%_" + "a" * 50 + "b%",
        "%" + "a_" * 50 + "b%",
        "%a_" * 50 + "%b%",
        "%_" * 50 + "b%",
        "_" * 50 + "%",
    ],
)
def test_like_takes_linear_time_in_the_text(pattern: str) -> None:
    found = parse(f"x like '{pattern}' or x contains '{'ab' * 20}'")

    def make(n: int) -> Callable[[], object]:
        event = {"x": "a" * n}

        def work() -> None:
            for _ in range(10):
                found.matches(event)

        return work

    assert_linear(make, 2_000)


def disjoint(n: int, *, odd: bool) -> Filter:
    """Return n alternatives such that even ones neither cover nor intersect odd ones."""
    return parse(" or ".join(f"x{i} == {i * 2 + odd} and y > {i}" for i in range(n)))


@pytest.mark.parametrize("relation", ["covers", "intersects"])
@pytest.mark.parametrize("grown", [0, 1])
def test_relations_take_time_linear_in_either_side(relation: str, grown: int) -> None:
    full = disjoint(CONJUNCTIONS_MAX, odd=True)

    def make(n: int) -> Callable[[], object]:
        sides = [disjoint(n, odd=False), full] if grown == 0 else [full, disjoint(n, odd=False)]
        assert all(side.normal for side in sides)
        relate = getattr(sides[0], relation)
        assert relate(sides[1]) is (relation == "intersects")
        return lambda: relate(sides[1])

    assert_linear(make, CONJUNCTIONS_MAX // 2)


def test_covering_sets_takes_linear_time() -> None:
    def make(n: int) -> Callable[[], object]:
        wide, narrow = (parse(f"x in [{', '.join(map(str, range(extra, n)))}]", WIDE) for extra in (0, 1))
        assert wide.normal
        assert narrow.normal
        return lambda: (wide.covers(narrow), narrow.covers(wide), wide.intersects(narrow))

    assert_linear(make, 5_000)


def test_a_thousand_random_texts_of_the_largest_size_are_quick() -> None:
    """No text within the limits takes much longer than usual: the slowest of many is near the median."""
    rng = Random("largest")
    writers: list[Callable[[], str]] = [lambda: rng.choice(WORDS) + " ", lambda: rng.choice("()[]'\"\\%_ax1!& ")]
    times = []
    for write, _ in product(writers, range(100)):
        text = "".join(write() for _ in range(4_000))[:16_000]
        start = time.process_time()
        assert_read_or_refused(text)
        times.append(time.process_time() - start)
    assert max(times) < 1

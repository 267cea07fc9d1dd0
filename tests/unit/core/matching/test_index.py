"""The contract of `Index` in small stories, for every implementation."""

from __future__ import annotations

import random

import indexes
import pytest

from plait_core.errors import IndexMisuse
from plait_core.filters import Filter, parse
from plait_core.matching import Index, PythonIndex, index_name, new_index


@pytest.fixture(params=indexes.KINDS)
def index(request: pytest.FixtureRequest) -> Index:
    return indexes.make(request.param)


def filled(index: Index, *texts: str) -> list[Filter]:
    filters = [parse(text) for text in texts]
    for id, filter in enumerate(filters):
        index.add(id, filter)
    return filters


def test_the_index_finds_exactly_the_matching_filters(index: Index) -> None:
    filled(index, "symbol == 'IBM'", "symbol == 'IBM' and price < 120", "price > 100", "has(halted)", "true", "false")
    assert sorted(index.match({"symbol": "IBM", "price": 119})) == [0, 1, 2, 4]
    assert sorted(index.match({"symbol": "HP", "halted": False})) == [3, 4]
    assert sorted(index.match({})) == [4]


def test_identical_filters_keep_their_ids_apart(index: Index) -> None:
    filled(index, "x == 1", "x = 1.0", "1 == x")
    assert sorted(index.match({"x": 1})) == [0, 1, 2]
    index.remove(1)
    assert sorted(index.match({"x": 1})) == [0, 2]
    assert (len(index), 1 in index, 2 in index) == (2, False, True)


def test_an_index_gives_back_the_text_of_each_filter(index: Index) -> None:
    texts = [
        "x == 1",
        "x = 1.0",
        "y > 2 and x > 1",
        "x > 1 and y > 2",
        "name == 'it\\'s' or name in ['', 'b2']",
        "true",
    ]
    filters = filled(index, *texts)
    assert [index.text(id) for id in range(len(texts))] == [filter.text for filter in filters]
    index.remove(2)
    assert index.text(3) == filters[3].text
    index.add(2, parse("x == 2"))
    assert index.text(2) == "x == 2"
    with pytest.raises(IndexMisuse):
        index.text(77)


def test_a_filter_of_many_alternatives_is_found_once(index: Index) -> None:
    filled(index, "x > 1 or y > 1 or has(z)")
    assert index.match({"x": 2, "y": 2, "z": 2}) == [0]


def test_ids_are_taken_once_and_removed_once(index: Index) -> None:
    filled(index, "x == 1")
    with pytest.raises(IndexMisuse):
        index.add(0, parse("x == 2"))
    index.remove(0)
    with pytest.raises(IndexMisuse):
        index.remove(0)
    index.add(0, parse("x == 2"))
    assert index.match({"x": 2}) == [0]


@pytest.mark.parametrize("big", [2**53, 2**63, 2**200])
def test_big_integers_are_exact(index: Index, big: int) -> None:
    filled(index, f"x == {big}", f"x > {big}", f"x >= {big + 1}", f"x < {big + 1}")
    assert sorted(index.match({"x": big})) == [0, 3]
    assert sorted(index.match({"x": big + 1})) == [1, 2]
    assert sorted(index.match({"x": float(big)})) == [0, 3]


def test_a_bool_is_no_number_and_nan_matches_nothing(index: Index) -> None:
    filled(index, "x == 1", "x", "x in [0, 1]", "x != 7", "has(x)")
    assert sorted(index.match({"x": True})) == [1, 4]
    assert sorted(index.match({"x": 1})) == [0, 2, 3, 4]
    assert sorted(index.match({"x": float("nan")})) == [4]
    assert sorted(index.match({"x": [1]})) == [4]


def test_an_attribute_may_become_common_and_rare_again(index: Index) -> None:
    """The number of filters on an attribute crosses the limit for a column in both directions."""
    for id in range(100):
        index.add(id, parse(f"{id} <= x <= {id + 10}"))
    assert sorted(index.match({"x": 50})) == list(range(40, 51))
    for id in range(2, 100):
        index.remove(id)
    assert sorted(index.match({"x": 5})) == [0, 1]
    index.remove(0)
    index.remove(1)
    assert index.match({"x": 5}) == []
    index.add(7, parse("x >= 5"))
    assert index.match({"x": 5}) == [7]


def test_a_crowded_value_is_thinned_out(index: Index) -> None:
    for id in range(500):
        index.add(id, parse(f"symbol == 'IBM' and {id} <= price < {id + 5}"))
    assert sorted(index.match({"symbol": "IBM", "price": 250.5})) == [246, 247, 248, 249, 250]
    assert index.match({"symbol": "HP", "price": 250.5}) == []


def test_relations(index: Index) -> None:
    texts = ["x > 0", "x > 10", "x > 10 and y == 1", "x < 0", "y == 1", "true", "x > 0 or y == 1", "false"]
    filters = filled(index, *texts)
    for other in [*filters, parse("x > 5"), parse("x in [1, 20]"), parse("name startswith 'a'")]:
        assert sorted(index.covering(other)) == [i for i, f in enumerate(filters) if f.covers(other)], other
        assert sorted(index.covered(other)) == [i for i, f in enumerate(filters) if other.covers(f)], other
        assert sorted(index.intersecting(other)) == [i for i, f in enumerate(filters) if f.intersects(other)], other


def test_same_calls_same_order(index: Index) -> None:
    """Law 3: results do not depend on hashes of addresses or on earlier runs."""

    def history(kind: str) -> list[list[int]]:
        rng, other = random.Random(5), indexes.make(kind)
        for id in range(300):
            other.add(id, parse(f"x in [{rng.randrange(9)}, {rng.randrange(9)}] or y > {rng.randrange(9)}"))
        return [other.match({"x": rng.randrange(9), "y": rng.randrange(9)}) for _ in range(50)]

    kind = "python" if isinstance(index, PythonIndex) else "native"
    assert history(kind) == history(kind)


def test_the_choice_is_reported() -> None:
    assert isinstance(new_index(native=False), PythonIndex)
    assert index_name() == ("native" if "native" in indexes.KINDS else "python")

"""The index compared with brute force: random additions, removals and queries, for every implementation."""

from __future__ import annotations

import os
import random

import indexes
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from strategies import random_attributes, random_tree, render

from plait_core.errors import FilterTooComplex
from plait_core.filters import Filter, parse

STEPS = 100_000 if os.environ.get("PLAIT_NIGHTLY") else 3_000


SEEDS = st.integers(0, 2**32 - 1)


def random_filter(rng: random.Random) -> Filter:
    while True:
        try:
            filter = parse(render(random_tree(rng, rng.choice([1, 2, 4, 8])), rng))
            filter.normal  # noqa: B018 - raises what an index would
        except FilterTooComplex:
            continue
        return filter


class IndexAgainstBruteForce(RuleBasedStateMachine):
    kind = "python"

    def __init__(self) -> None:
        super().__init__()
        self.index = indexes.make(self.kind)
        self.filters: dict[int, Filter] = {}
        self.next_id = 0

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        rng = random.Random(seed)
        filter = random_filter(rng)
        self.index.add(self.next_id, filter)
        self.filters[self.next_id] = filter
        self.next_id += 1

    @rule(seed=SEEDS, count=st.integers(5, 60))
    def add_many_alike(self, seed: int, count: int) -> None:
        rng = random.Random(seed)
        for _ in range(count):
            low = rng.randrange(100)
            filter = parse(f"{low} <= x <= {low + 20} and price > {rng.randrange(50)}")
            self.index.add(self.next_id, filter)
            self.filters[self.next_id] = filter
            self.next_id += 1

    @precondition(lambda self: self.filters)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.filters)))
        self.index.remove(id)
        del self.filters[id]

    @rule(seed=SEEDS)
    def match(self, seed: int) -> None:
        rng = random.Random(seed)
        attributes = random_attributes(rng)
        expected = [id for id, filter in self.filters.items() if filter.matches(attributes)]
        assert sorted(self.index.match(attributes)) == sorted(expected)

    @rule(seed=SEEDS)
    def relate(self, seed: int) -> None:
        rng = random.Random(seed)
        assert_relations(self.index, self.filters, random_filter(rng))

    @rule()
    def read(self) -> None:
        assert {id: self.index.text(id) for id in self.filters} == {id: one.text for id, one in self.filters.items()}

    @invariant()
    def size(self) -> None:
        assert len(self.index) == len(self.filters)


def assert_relations(index: indexes.Index, filters: dict[int, Filter], other: Filter) -> None:
    assert sorted(index.covering(other)) == [id for id, filter in filters.items() if filter.covers(other)]
    assert sorted(index.covered(other)) == [id for id, filter in filters.items() if other.covers(filter)]
    assert sorted(index.intersecting(other)) == [id for id, filter in filters.items() if filter.intersects(other)]


for _kind in indexes.KINDS:
    _machine = type(f"{_kind.title()}Index", (IndexAgainstBruteForce,), {"kind": _kind})
    _machine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)  # type: ignore[attr-defined]
    globals()[f"Test{_kind.title()}Index"] = _machine.TestCase  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", indexes.KINDS)
@pytest.mark.timeout(3600)
def test_a_long_life(kind: str) -> None:
    """Thousands of steps in one index: growth, refitting, reuse of positions, and no matches of removed filters."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    index, filters = indexes.make(kind), dict[int, Filter]()
    for step in range(STEPS):
        roll = rng.random()
        if roll < 0.45 or not filters:
            filters[step] = random_filter(rng)
            index.add(step, filters[step])
        elif roll < (0.75 if len(filters) > 400 else 0.6):
            id = rng.choice(list(filters))
            index.remove(id)
            del filters[id]
        elif roll < 0.97:
            attributes = random_attributes(rng)
            expected = {id for id, filter in filters.items() if filter.matches(attributes)}
            found = index.match(attributes)
            assert len(found) == len(set(found)), f"seed {seed}, step {step}: duplicates"
            assert set(found) == expected, f"seed {seed}, step {step}: {attributes}"
        else:
            assert_relations(index, filters, random_filter(rng))
    for id in list(filters):
        index.remove(id)
    assert len(index) == 0
    assert index.match(random_attributes(rng)) == [], f"seed {seed}: matches of removed filters"

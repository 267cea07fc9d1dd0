"""Guarantees of the native kernel beyond the results that test_index.py checks: errors, order, extras."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

kernel = pytest.importorskip("plait_kernel")

from plait_core.errors import FilterTooComplex, FrameError, FrameFault, IndexMisuse  # noqa: E402
from plait_core.events import Event  # noqa: E402
from plait_core.filters import parse  # noqa: E402
from plait_core.matching import index_name, new_index  # noqa: E402
from plait_core.wire import Confirm, Ping, deliver_head, encode_block, encode_frame, publish_head  # noqa: E402


def index_of(*texts: str) -> Any:
    index = kernel.Index()
    for id, text in enumerate(texts):
        index.add(id, parse(text))
    return index


def publish(**attributes: Any) -> bytes:
    block = encode_block(Event(attributes))
    return publish_head(block, Confirm.NONE) + block


def test_the_kernel_is_chosen_where_it_is_installed() -> None:
    assert index_name() == "native"
    assert isinstance(new_index(), kernel.Index)


def test_ids() -> None:
    index, largest = kernel.Index(), 2**63 - 1
    index.add(largest, parse("true"))
    assert index.match({}) == [largest]
    for id in (2**63, 2**64, 2**200, -1):
        with pytest.raises(IndexMisuse):
            index.add(id, parse("true"))
        with pytest.raises(IndexMisuse):
            index.remove(id)
        assert id not in index
    assert "1" not in index
    assert len(index) == 1


def test_misuse_names_the_id() -> None:
    index = index_of("a == 1")
    with pytest.raises(IndexMisuse, match="id 0 is in the index already"):
        index.add(0, parse("b == 1"))
    with pytest.raises(IndexMisuse, match="id 7 is not in the index"):
        index.remove(7)
    assert index.match({"a": 1, "b": 1}) == [0]


def test_a_filter_that_is_too_complex_changes_nothing() -> None:
    index = index_of("a == 1")
    too_much = " and ".join(f"(x{i} == 1 or y{i} == 1)" for i in range(12))
    with pytest.raises(FilterTooComplex):
        index.add(1, parse(too_much))
    assert 1 not in index
    assert len(index) == 1


def test_results_ascend_after_every_history() -> None:
    index = kernel.Index()
    for id in (9, 3, 7, 2**62, 1):
        index.add(id, parse("a > 0"))
    index.remove(7)
    index.add(5, parse("a > 0 or b > 0"))
    assert index.match({"a": 1, "b": 1}) == [1, 3, 5, 9, 2**62]


def test_equal_filters_are_kept_once() -> None:
    index = index_of("a == 1 and b == 2", "b == 2 and a == 1", "a == 1.0 and b == 2")
    assert index.stats()["classes"] == 1
    for id in range(3):
        index.remove(id)
    assert index.stats()["classes"] == 0
    assert index.match({"a": 1, "b": 2}) == []


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 - 1, 2**64 + 1, 2**200 + 1, -(2**63) - 1, -(2**255)])
def test_integers_are_exact(number: int) -> None:
    texts = [f"a == {number}", f"a < {number}", f"a > {number}", f"a in [{number}, 'x']", f"a != {number}"]
    index = index_of(*texts)
    assert index.match({"a": number}) == [0, 3]
    assert index.match({"a": number - 1}) == [1, 4]
    assert index.match({"a": number + 1}) == [2, 4]
    near = {"a": float(number)}
    assert index.match(near) == [id for id, text in enumerate(texts) if parse(text).matches(near)]


def test_kinds_are_distinguished() -> None:
    index = index_of("a == 1", "a", "a == '1'", "has(a)", "a is null", "a != 1", "a < 2")
    assert index.match({"a": 1}) == [0, 3, 6]
    assert index.match({"a": True}) == [1, 3]
    assert index.match({"a": "1"}) == [2, 3]
    assert index.match({"a": float("nan")}) == [3]
    assert index.match({"a": [1]}) == [3]
    assert index.match({"a": None}) == [4]
    assert index.match({}) == [4]


def test_unsatisfiable_filters_are_stored() -> None:
    index, filters = kernel.Index(), {}
    for id in range(1_500):
        filters[id] = parse(f"x not in [true, false] and y > {id}")
    filters |= {2_000: parse("x > 1"), 2_001: parse("x not in [true, false] or x == 1"), 2_002: parse("false")}
    for id, filter in filters.items():
        index.add(id, filter)
    asked = filters[3]
    for _ in range(2):
        assert index.match({"x": True, "y": 9_999}) == []
        assert index.match({"x": 1, "y": 9_999}) == [2_001]
        assert index.covering(asked) == [id for id, filter in filters.items() if filter.covers(asked)]
        assert index.covered(asked) == [id for id, filter in filters.items() if asked.covers(filter)]
        index.settle()


def test_names_and_texts_come_and_go() -> None:
    """Ids of names and texts are reused; nothing of their previous owners may remain."""
    index = kernel.Index()
    for turn in range(3_000):
        index.add(turn, parse(f"n{turn} == 't{turn}' and shared > {turn}"))
        if turn >= 50:
            index.remove(turn - 50)
        if turn % 500 == 0:
            index.settle()
        assert index.match({f"n{turn}": f"t{turn}", "shared": 1e9, f"n{turn - 60}": f"t{turn - 60}"}) == [turn]


def test_settling_tidies_up() -> None:
    index = kernel.Index()
    for id in range(5_000):
        index.add(id, parse(f"a > {id}"))
    for id in range(0, 5_000, 2):
        index.remove(id)
    index.settle()
    stats = index.stats()
    assert (stats["segments"], stats["in_segments"], stats["waiting"]) == (1, 2_500, 0)
    assert index.match({"a": 10}) == [1, 3, 5, 7, 9]


def test_frames_and_their_matches() -> None:
    index = index_of("a > 1", "b == 'x'")
    block = encode_block(Event({"a": 2}))
    deliver = deliver_head(block, 0, 0, (), ()) + block
    data = publish(a=2) + encode_frame(Ping(1)) + deliver + publish(a=2, b="x") + publish(c=1)
    rows, taken, refusal = index.match_many(data + publish(a=1)[:-1], kernel.splitter_for())
    assert [row[4] for row in rows] == [[0], None, None, [0, 1], []]
    assert taken == len(data)
    assert refusal is None
    assert [row[:4] for row in rows] == kernel.split_frames(data)[0]


def test_frames_before_an_error_come_first() -> None:
    index = index_of("a > 1")
    good, bad = publish(a=2), publish(a=2).replace(b"\xa1a", b"\xa1-")
    rows, taken, refusal = index.match_many(good + bad + good, kernel.splitter_for())
    assert ([row[4] for row in rows], taken) == ([[0]], len(good))
    error = kernel.frame_error(refusal)
    assert isinstance(error, FrameError)
    assert error.fault is FrameFault.FIELD
    frames, taken, error = kernel.split_frames(good + b"\xff" * 8)
    assert (len(frames), taken) == (1, len(good))
    assert error is not None
    assert error.fault is FrameFault.OVERSIZE


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Make threads switch all the time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("eager_threads")
def test_threads_take_turns() -> None:
    index, problems = kernel.Index(), []
    reads = publish(a=5) * 20

    def work(first: int) -> None:
        try:
            for id in range(first, first + 300):
                index.add(id, parse(f"a > {id % 10}"))
                index.match_many(reads, kernel.splitter_for())
                index.match({"a": 5})
                if id % 3:
                    index.remove(id)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1_000, 2_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(index) == sum(1 for first in (0, 1_000, 2_000) for id in range(first, first + 300) if id % 3 == 0)


def test_a_finaliser_may_query_the_index_during_a_query() -> None:
    """Making a result may collect garbage: an index that kept its lock meanwhile would deadlock."""
    index, asked = index_of("a > 1", "b > 1"), []

    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            asked.append(index.match({"a": 2}))
            asked.append(len(index))

    def work() -> None:
        for _ in range(200):
            Garbage()
            index.match({"a": 2**70, "b": 2})
            index.covering(parse("a > 5"))

    usual = gc.get_threshold()
    gc.set_threshold(1)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    gc.set_threshold(*usual)
    assert not thread.is_alive(), "it deadlocks"
    gc.collect()
    assert asked == [[0], 2] * 200

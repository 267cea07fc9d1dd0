"""The filters of other brokers at a publisher's broker: kept once, given back, and small."""

from __future__ import annotations

import pytest

from plait_broker.overlay.interest.remote_interest import NUMBER_BITS, RemoteInterest
from plait_core import Event, PlaitError
from plait_core.filters import Filter, parse
from plait_core.matching import index_name, new_index
from plait_core.matching.index import Index
from plait_core.wire import Confirm, Publish, encode_block
from plait_core.wire.frame_types.overlay_frames import InterestUpdate
from plait_lab.benchmarks.wide.remote_filters import KINDS, measure_memory

HOME, OTHER, ROOT = 1 << 60, 3, 1

BYTES_MAX = 1_000
"""Bytes that one of 20,000 filters may take, with the fixed part of the index and of the process."""


@pytest.fixture(params=["python", index_name()])
def remote(request: pytest.FixtureRequest) -> RemoteInterest:
    def index() -> Index:
        return new_index(native=request.param == "native")

    return RemoteInterest(index)


def update(
    remote: RemoteInterest,
    version: int,
    added: dict[int, str],
    *removed: int,
    source: int = HOME,
    whole: bool = False,
    more: bool = False,
) -> int:
    numbers, texts = tuple(added), tuple(added.values())
    within = tuple(1000 * number for number in numbers)
    frame = InterestUpdate((ROOT,), source, (version,), (0,), whole, numbers, texts, removed, more, (), within)
    return remote.apply(frame, version, 0)


def homes_of(remote: RemoteInterest, **attributes: int) -> list[int]:
    return remote.match(Publish(Confirm.NONE, encode_block(Event(attributes))))


def held(remote: RemoteInterest, source: int = HOME) -> dict[int, str]:
    return dict(remote.texts(source))


@pytest.mark.skipif(index_name() != "native", reason="the Python index keeps Python objects")
@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_filter_takes_less_memory_than_a_python_object_for_it(kind: str) -> None:
    filters = 20_000
    assert measure_memory(kind, filters).settled_mb * 1e6 / filters < BYTES_MAX


def test_filters_come_back_as_they_were_written(remote: RemoteInterest) -> None:
    texts = {1: "x > 1 and y > 2", 2: "y > 2 and x > 1", 3: "x in [1, 2] or name == 'it\\'s'", 5: "$kind == 'up'"}
    update(remote, 1, texts, whole=True)
    update(remote, 1, {1: "x > 1 and y > 2"}, source=OTHER, whole=True)
    assert held(remote) == {number: parse(text).text for number, text in texts.items()}
    assert dict(remote.filters(OTHER)) == {1: parse(texts[1])}
    assert held(remote, ROOT) == {}
    assert homes_of(remote, x=5, y=5) == [HOME, OTHER]
    assert remote.match_system({"$kind": "up"}) == [HOME]
    assert sorted(remote.intersecting(parse("x == 7"))) == [OTHER, HOME]
    assert len(remote) == 5


def test_a_replaced_filter_comes_last_and_a_removed_one_is_gone(remote: RemoteInterest) -> None:
    update(remote, 1, {number: f"x == {number}" for number in range(200)}, whole=True)
    assert update(remote, 2, {7: "x == 1000", 300: "x == 300"}, *range(10, 200)) == 2
    assert list(held(remote)) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 7, 300]
    assert (homes_of(remote, x=7), homes_of(remote, x=1000), homes_of(remote, x=50)) == ([], [HOME], [])
    table = remote.homes[HOME].table
    assert len(table.numbers) < 100, "removed numbers do not stay"
    assert sorted(table.within_us) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 300]


def test_a_whole_update_in_parts_replaces_its_predecessor_with_its_last_part(remote: RemoteInterest) -> None:
    update(remote, 1, {1: "x == 1", 2: "x == 2"}, whole=True)
    update(remote, 2, {1: "x == 10"}, whole=True, more=True)
    assert held(remote) == {1: "x == 10"}
    assert [homes_of(remote, x=value) for value in (1, 2, 10)] == [[HOME]] * 3, "no event falls between the parts"
    update(remote, 3, {3: "x == 1"})
    assert [homes_of(remote, x=value) for value in (1, 2, 10)] == [[HOME], [], [HOME]]
    assert len(remote) == 2


def test_tables_and_filters_of_forgotten_brokers_are_used_again(remote: RemoteInterest) -> None:
    for turn in range(50):
        update(remote, 2 * turn + 1, {1: f"x == {turn}"}, whole=True)
        update(remote, 1, {1: f"x == {turn}"}, source=OTHER + turn, whole=True)
        remote.succeed(OTHER + turn, OTHER + 1000 + turn)
        assert homes_of(remote, x=turn) in ([HOME, OTHER + 1000 + turn], [OTHER + 1000 + turn, HOME])
        remote.gone(OTHER + 1000 + turn)
        assert remote.homes[HOME].table.id < 3
    remote.gone(HOME)
    assert len(remote) == 0
    assert homes_of(remote, x=49) == []


def test_a_number_beyond_the_bits_of_an_id_changes_nothing(remote: RemoteInterest) -> None:
    largest = (1 << NUMBER_BITS) - 1
    update(remote, 1, {largest: "x == 1"}, whole=True)
    update(remote, 1, {1: "x == 1"}, source=OTHER, whole=True)
    for added, removed in (({largest + 1: "x == 2"}, ()), ({}, (largest + 2,))):
        with pytest.raises(PlaitError):
            update(remote, 2, added, *removed)
    assert homes_of(remote, x=1) == [HOME, OTHER]
    assert len(remote) == 2
    assert update(remote, 2, {}, largest) == 2
    assert homes_of(remote, x=1) == [OTHER]


def test_the_filters_of_one_broker_are_filters_again(remote: RemoteInterest) -> None:
    update(remote, 1, {4: "not (price > 5)"}, whole=True)
    ((number, filter),) = remote.filters(HOME)
    assert (number, filter) == (4, parse("not (price > 5)"))
    assert isinstance(filter, Filter)

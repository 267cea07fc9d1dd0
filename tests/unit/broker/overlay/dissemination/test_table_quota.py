"""The bounds of the tree tables: in total, for a neighbour, for an origin, and by the size of filters."""

from __future__ import annotations

import pytest

from plait_broker.overlay.dissemination.table_quota import NEIGHBOUR_SHARE, TEXT_CHARS, TableQuota, filter_weight
from plait_core.filters import parse


def test_a_neighbour_gets_its_share() -> None:
    quota = TableQuota(10, 10)
    assert [quota.add(1, origin, 1) for origin in range(6)] == [True] * (10 // NEIGHBOUR_SHARE) + [False]
    assert quota.add(2, 0, 1), "another neighbour has a share of its own"


def test_an_origin_gets_its_share_over_all_neighbours() -> None:
    quota = TableQuota(100, 3)
    assert [quota.add(neighbour, 7, 1) for neighbour in range(4)] == [True, True, True, False]
    assert quota.add(0, 8, 1)


def test_the_total_is_bounded() -> None:
    quota = TableQuota(4, 4)
    assert [quota.add(neighbour, neighbour, 1) for neighbour in range(5)] == [True] * 4 + [False]
    assert quota.total == 4


def test_what_is_removed_leaves_room_again() -> None:
    quota = TableQuota(6, 3)
    assert quota.add(1, 7, 3)
    assert not quota.add(1, 7, 1)
    quota.remove(1, 7, 3)
    assert quota.total == 0
    assert quota.add(1, 7, 3)


def test_a_refused_entry_counts_nowhere() -> None:
    quota = TableQuota(100, 3)
    assert not quota.add(1, 7, 4)
    assert quota.total == 0
    assert quota.add(1, 7, 3)


def test_what_was_not_added_cannot_be_removed() -> None:
    with pytest.raises(AssertionError):
        TableQuota(10, 10).remove(1, 7, 1)


def test_a_large_filter_counts_as_several_entries() -> None:
    assert filter_weight(parse("x >= 1 and y < 2")) == 1
    assert filter_weight(parse(f"x == '{'a' * 3 * TEXT_CHARS}'")) == 4
    many = parse(" and ".join(f"(a{i} == 1 or b{i} == 2)" for i in range(8)))
    assert len(many.text) < TEXT_CHARS
    assert len(many.normal) == 256
    assert filter_weight(many) > 100, "a short text with many alternatives takes the memory of its alternatives"

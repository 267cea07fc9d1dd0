"""Acks of a part of a tree become one frame: the members together, their MACs by XOR."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from plait_broker.overlay.groups.group_acks import POSITIONS_MAX, TOGETHER_S, GroupAcks


def test_acks_of_all_members_leave_at_once() -> None:
    acks = GroupAcks(0b111)
    assert acks.add(7, 0b001, 0b1100, 0.0)
    assert acks.due(0.0) == []
    assert acks.add(7, 0b110, 0b1010, 0.0)
    assert acks.due(0.0) == [(7, 0b111, 0b0110, ())]
    assert (acks.due(inf), acks.due_at) == ([], inf)


def test_acks_of_some_members_wait_for_the_others() -> None:
    acks = GroupAcks(0b111)
    acks.add(7, 0b001, 5, 1.0)
    acks.add(8, 0b001, 6, 1.0 + TOGETHER_S / 2)
    acks.add(7, 0b010, 5, 1.0 + TOGETHER_S / 2)
    assert acks.due_at == 1.0 + TOGETHER_S
    assert acks.due(1.0 + TOGETHER_S * 0.9) == []
    assert acks.due(1.0 + TOGETHER_S) == [(7, 0b011, 0, ())]
    assert acks.due_at == 1.0 + TOGETHER_S / 2 + TOGETHER_S
    assert acks.due(2.0) == [(8, 0b001, 6, ())]


def test_a_member_that_comes_twice_changes_nothing() -> None:
    acks = GroupAcks(0b111)
    acks.add(7, 0b011, 5, 0.0)
    assert not acks.add(7, 0b110, 9, 0.0)
    assert not acks.add(7, 0b001, 9, 0.0)
    assert acks.due(1.0) == [(7, 0b011, 5, ())]


def test_a_late_ack_is_sent_by_itself() -> None:
    acks = GroupAcks(0b11)
    acks.add(7, 0b01, 5, 0.0)
    assert acks.due(1.0) == [(7, 0b01, 5, ())]
    assert acks.add(7, 0b10, 3, 1.0)
    assert acks.due(1.0) == []
    assert acks.due(1.0 + TOGETHER_S) == [(7, 0b10, 3, ())]


def test_positions_are_bounded_and_the_oldest_go() -> None:
    acks = GroupAcks(0b11)
    for position in range(10 * POSITIONS_MAX):
        acks.add(position, 1, position, 0.0)
    left = [position for position, *_ in acks.due(1.0)]
    assert left == list(range(9 * POSITIONS_MAX, 10 * POSITIONS_MAX))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), st.data())
def test_what_leaves_is_the_sum_of_what_has_come(proofs: list[int], data: st.DataObject) -> None:
    """Add the acks of all members in any order and at any times: each leaves once, with its MAC."""
    acks = GroupAcks((1 << len(proofs)) - 1)
    now, left = 0.0, 0
    members = total = 0
    for index in data.draw(st.permutations(range(len(proofs)))):
        now += data.draw(st.sampled_from([0.0, TOGETHER_S / 3]))
        assert acks.add(7, 1 << index, proofs[index], now)
        for up_to, some, proof, _ in acks.due(now):
            assert (up_to, members & some) == (7, 0)
            members, total, left = members | some, total ^ proof, left + 1
    for _, some, proof, _ in acks.due(now + 1.0):
        members, total = members | some, total ^ proof
    expected = 0
    for proof in proofs:
        expected ^= proof
    assert (members, total) == ((1 << len(proofs)) - 1, expected)

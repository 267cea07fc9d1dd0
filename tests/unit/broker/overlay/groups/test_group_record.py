"""A member and the root compute the same record, with any positions of questions and any ends of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_broker.overlay.groups import group_record
from plait_broker.overlay.groups.group_record import MemberRecord, RootRecords

EPOCH = 1000
MEMBERS = 4


@given(st.lists(st.integers(0, 15), max_size=40), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_the_member_and_the_root_agree(sets: list[int], asked: set[int], missed: set[int]) -> None:
    """Ask at some positions; a member misses some of the questions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_record, "BLOCK", 8)
        root, members = RootRecords(EPOCH, MEMBERS), [MemberRecord(EPOCH) for _ in range(MEMBERS)]
        for at, named in enumerate(sets):
            root.add(named)
            for index, member in enumerate(members):
                if named >> index & 1:
                    member.add(EPOCH + at)
            if at in asked:
                right = root.all()
                for index, member in enumerate(members):
                    if index or at not in missed:
                        assert member.up_to(EPOCH + at) == right[index]
        last = EPOCH + len(sets) - 1
        assert [member.up_to(last) for member in members] == root.all()


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_other_events_have_another_record(one: set[int], other: set[int]) -> None:
    records = []
    for positions in (one, other):
        record = MemberRecord(EPOCH)
        for position in sorted(positions):
            record.add(EPOCH + position)
        records.append(record.up_to(EPOCH + 40))
    assert (records[0] == records[1]) == (one == other)

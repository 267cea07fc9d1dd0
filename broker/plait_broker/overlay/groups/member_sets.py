"""Which of an event's destinations are members of the present group, as a bit set. The latest answers are kept:
publishers often have the same subscribers for many events."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from .group_root import GroupRoot

SETS_MAX: Final = 256
"""Answers that are kept."""

Found: TypeAlias = tuple[int, list[int]]
"""The members among some destinations, as a bit set, and the others."""


class MemberSets:
    """The answers for one group. `forget` is due after each change of its members."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Found] = OrderedDict()
        """By destinations."""
        self._latest: tuple[list[int], Found] = ([], (0, []))
        """Of the event before. To compare lists takes an eighth of the time to hash a tuple."""

    def find(self, homes: list[int], group: GroupRoot | None) -> Found:
        """Return the members of a group among destinations, and the others."""
        latest, found_latest = self._latest
        if homes == latest:
            return found_latest
        key = tuple(homes)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = _members(homes, group)
            if len(self._kept) > SETS_MAX:
                self._kept.popitem(last=False)
        self._latest = (homes.copy(), found)
        return found

    def forget(self) -> None:
        """Forget all answers: the members have changed."""
        self._kept.clear()
        self._latest = ([], (0, []))


def _members(homes: list[int], group: GroupRoot | None) -> Found:
    if group is None:
        return 0, homes.copy()
    members, others, index, active = 0, [], group.tree.index, group.active
    for home in homes:
        at = index.get(home)
        if at is not None and active >> at & 1:
            members |= 1 << at
        else:
            others.append(home)
    return members, others

"""Which members' acks are not to be added to those of others, since a sum with them was wrong.

- After a wrong sum, all its members ack each by itself for a while: their MACs travel side by side. Those of other
  children of the root are added as before.
- A member whose own MAC is wrong acks by itself for as long as the group lasts, so it spoils no sum any more. It, or a
  broker between it and the root, is to blame. The root serves it by its own stream.
- A broker may spoil sums and send right MACs when each is by itself. Then the time for which the sums of that child are
  not used doubles with each wrong one. It costs eight bytes a member and question, in that part of the tree alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

APART_S: Final = 2.0
"""Time for which the members of a first wrong sum ack by themselves: ten questions."""

APART_MAX_S: Final = 128.0
"""The time doubles up to this."""


@dataclass(slots=True)
class _Suspects:
    """Members below one child of the root."""

    members: int = 0
    until: float = -inf
    next_s: float = APART_S


class SpoiledAcks:
    """The members of one group whose acks are not added."""

    def __init__(self) -> None:
        self.wrong = 0
        """Members whose own MACs were wrong."""
        self._new: list[int] = []
        self._suspects: dict[int, _Suspects] = {}
        """By child of the root."""

    def suspect(self, child: int, members: int, now: float) -> bool:
        """Note a wrong sum below a child. Return whether its members are to be asked again."""
        suspects = self._suspects.setdefault(child, _Suspects())
        if now >= suspects.until:
            suspects.members = 0
        if (
            not members & ~suspects.members
        ):  # they were asked again: it acks an earlier question, or the child obeys not
            return False
        suspects.members |= members
        suspects.until = now + suspects.next_s
        suspects.next_s = min(2 * suspects.next_s, APART_MAX_S)
        return True

    def note_wrong(self, indexes: Iterable[int]) -> None:
        """Note members whose own MACs are wrong."""
        for index in indexes:
            if not self.wrong >> index & 1:
                self.wrong |= 1 << index
                self._new.append(index)

    def exclude(self, index: int) -> None:
        """Let a member ack by itself from the first question on: it was wrong in an earlier group."""
        self.wrong |= 1 << index

    def take_new(self) -> list[int]:
        """Return the members that were found to be wrong since the last call."""
        new, self._new = self._new, []
        return new

    def apart(self, now: float) -> int:
        """Return the members whose acks are not to be added now."""
        found = self.wrong
        for suspects in self._suspects.values():
            if now < suspects.until:
                found |= suspects.members
        return found

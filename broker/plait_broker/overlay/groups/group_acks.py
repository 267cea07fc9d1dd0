"""The acks of a part of a stream group's tree, on their way up: those of several members become one.

A member's ack is a MAC for the root, over the position and the record of its events up to there. MACs are added without
carries (XOR), so a frame for a thousand members is as long as one for a few. The root knows what they must add up to.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from typing import Final

TOGETHER_S: Final = 0.05
"""An ack waits so long for those of other members below the same broker."""

POSITIONS_MAX: Final = 64
"""Positions whose acks wait at once. A root asks for a few a second."""


@dataclass(slots=True)
class Gathered:
    """Acks of one position."""

    members: int
    proof: int
    send_at: float


class GroupAcks:
    """The acks at one broker, for one group."""

    def __init__(self, everyone: int) -> None:
        """`everyone`: the bit set of the members of this part of the tree."""
        self._everyone = everyone
        self._waiting: OrderedDict[int, Gathered] = OrderedDict()

    def add(self, up_to: int, members: int, proof: int, now: float) -> bool:
        """Add acks of members. Return False if one of them has an ack here already: somebody sends false ones."""
        known = self._waiting.get(up_to)
        if known is None:
            self._waiting[up_to] = Gathered(members, proof, now + TOGETHER_S)
            if len(self._waiting) > POSITIONS_MAX:
                self._waiting.popitem(last=False)
            return True
        if known.members & members:
            return False
        known.members |= members
        known.proof ^= proof
        return True

    def due(self, now: float) -> list[tuple[int, int, int]]:
        """Remove and return the acks to send now, as (position, members, proof): those of all members, and those that
        have waited."""
        if not self._waiting:
            return []
        ready = [
            up_to
            for up_to, gathered in self._waiting.items()
            if gathered.members == self._everyone or now >= gathered.send_at
        ]
        taken = [(up_to, self._waiting.pop(up_to)) for up_to in ready]
        return [(up_to, gathered.members, gathered.proof) for up_to, gathered in taken]

    @property
    def due_at(self) -> float:
        """When `due` returns something, at the latest."""
        return min((gathered.send_at for gathered in self._waiting.values()), default=inf)

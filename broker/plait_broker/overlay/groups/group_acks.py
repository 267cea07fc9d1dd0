"""The acks of a part of a stream group's tree, on their way up: those of several members become one.

A member's ack is a MAC for the root, over the position and the record of its events up to there. MACs are added without
carries (XOR), so a frame for a thousand members is as long as one for a few. The root knows what they must add up to.

One wrong MAC spoils a sum. A question can therefore name members whose MACs travel side by side, in one frame as well:
the root learns which of them is wrong, and the sum of the others stays right.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from .group_tree import bits_of

TOGETHER_S: Final = 0.05
"""An ack waits so long for those of other members below the same broker."""

POSITIONS_MAX: Final = 64
"""Positions whose acks wait at once. A root asks for a few a second."""


@dataclass(slots=True)
class Gathered:
    """Acks of one position."""

    send_at: float
    members: int = 0
    """The members whose MACs are added to `proof`."""
    proof: int = 0
    apart: dict[int, int] = field(default_factory=dict)
    """The MACs of the others, by index."""
    apart_members: int = 0


class DueAcks(NamedTuple):
    """Acks that become one frame."""

    up_to: int
    members: int
    proof: int
    apart: tuple[int, ...] = ()
    """In place of the sum, the MAC of each member in order."""


class GroupAcks:
    """The acks at one broker, for one group."""

    def __init__(self, everyone: int) -> None:
        """`everyone`: the bit set of the members of this part of the tree."""
        self._everyone = everyone
        self._waiting: OrderedDict[int, Gathered] = OrderedDict()
        self._apart: OrderedDict[int, int] = OrderedDict()
        """By position, the members whose MACs are not to be added, of the latest questions that name some."""

    def ask(self, up_to: int, apart: int) -> None:
        """Begin a question, with the members whose acks are not to be added. If these are others than in an earlier
        question for the same position, drop the acks that wait: all members ack it again."""
        if self._apart.get(up_to, 0) == apart:
            return
        self._waiting.pop(up_to, None)
        self._apart.pop(up_to, None)
        if apart:
            self._apart[up_to] = apart
            if len(self._apart) > POSITIONS_MAX:
                self._apart.popitem(last=False)

    def add(self, up_to: int, members: int, proof: int, now: float, apart: Sequence[int] = ()) -> bool:
        """Add acks of members: their sum, or the MAC of each. Return False if one of them has an ack here already, or
        is in a sum where its MAC was not to be, or the other way around: somebody sends false ones."""
        alone = self._apart.get(up_to, 0)
        known = self._waiting.get(up_to)
        if known is not None and (known.members | known.apart_members) & members:
            return False
        if not apart and members & alone and not members & (members - 1):  # the sum of one
            apart = (proof,)
        if members & ~alone if apart else members & alone:
            return False
        if known is None:
            known = self._waiting[up_to] = Gathered(now + TOGETHER_S)
            if len(self._waiting) > POSITIONS_MAX:
                self._waiting.popitem(last=False)
        if apart:
            known.apart.update(zip(bits_of(members), apart, strict=True))
            known.apart_members |= members
        else:
            known.members |= members
            known.proof ^= proof
        return True

    def due(self, now: float) -> list[DueAcks]:
        """Remove and return the acks to send now: those of all members, and those that have waited."""
        if not self._waiting:
            return []
        ready = [
            up_to
            for up_to, gathered in self._waiting.items()
            if gathered.members | gathered.apart_members == self._everyone or now >= gathered.send_at
        ]
        found: list[DueAcks] = []
        for up_to in ready:
            gathered = self._waiting.pop(up_to)
            if gathered.members:
                found.append(DueAcks(up_to, gathered.members, gathered.proof))
            if gathered.apart:
                proofs = tuple(gathered.apart[index] for index in sorted(gathered.apart))
                found.append(DueAcks(up_to, gathered.apart_members, 0, proofs))
        return found

    @property
    def due_at(self) -> float:
        """When `due` returns something, at the latest."""
        return min((gathered.send_at for gathered in self._waiting.values()), default=inf)

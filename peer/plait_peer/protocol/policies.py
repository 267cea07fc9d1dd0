"""The decisions in which peer overlays differ, each behind an interface: the thesis' as printed, and Plait's.

A `ParentPolicy` ranks candidates: possible parents, children that compete for a place, and coarser subscriptions that
make a peer a more attractive child. A `LinkCost` is what the link to a peer adds to a delay. `MayConnect` decides
whether two peers may be parent and child. The algorithms call these objects and never test which one they have, so that
another implementation needs no change in them. Policies keep no state: one object serves all peers of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, TypeAlias

from plait_core.wire.frame_types.peer_frames import UNREACHED, Profile

from .outputs import PeerId
from .subspaces import Texts, crowd

Rank: TypeAlias = tuple[float, float, float]
"""Ranks compare as tuples."""
Test: TypeAlias = Callable[[str], bool]
"""A condition on one sub-space."""


# --- the interfaces ---------------------------------------------------------------------------------------------------


class ParentPolicy(Protocol):
    """Ranks candidates."""

    @property
    def undo_after(self) -> float:
        """The number of patience spans without a parent after which coarsening is undone (infinite: never)."""
        ...

    def rank_candidate(self, candidate: Profile, bound: float, covered: int) -> Rank:
        """Return the rank of a possible parent that covers `covered` missing sub-spaces. The least comes first."""
        ...

    def rank_child(self, volume: float, bound: float, below_child: float) -> Rank:
        """Return the rank of a child. The least is disconnected first.

        `below_child` is the delay that it would have as the child of another child.
        """
        ...

    def coarser(self, dz: str, affordable: Test, wins: Test) -> str | None:
        """Return the coarser sub-space that replaces `dz`, which has no parent, or None to keep `dz`.

        `affordable`: its events fit the bandwidth. `wins`: with it, this peer outranks a child of a peer that refused.
        """
        ...


class LinkCost(Protocol):
    """The delay that links add, in the unit in which delays and bounds are counted."""

    def cost(self, peer: Profile | None, measured_s: float | None) -> float:
        """Return the cost of the link to a peer.

        `peer` is None for a peer not known yet; `measured_s` is the measured one-way delay, if there is one.
        """
        ...

    def waiting(self, seconds: float) -> float:
        """Return what the time that an event waits at its publisher adds to its delay."""
        ...


class MayConnect(Protocol):
    """Decides which peers may be parent and child, and which children compete for a place."""

    def allows(self, parent: Profile | None, delay: float, bound: float, child_bound: float, link: float) -> bool:
        """Return whether a child may connect to a parent that has this delay and this bound.

        `parent` is None where the parent decides about itself.
        """
        ...

    def keeps(self, delay: float | None, link: float, bound: float, *, waited: float, patience: float) -> bool:
        """Return whether a child stays with a parent whose latest publisher has this delay.

        The delay is None while no publisher reaches the parent; the child has `waited` for one, and has `patience`.
        """
        ...

    def share_cycle(self, bound: float, other: float) -> bool:
        """Return whether peers with these bounds can be in one cycle."""
        ...

    def competing(self, children: Mapping[PeerId, Texts], links_max: int) -> tuple[PeerId, ...]:
        """Return the children that count against the out-degree `m`, given what each takes."""
        ...


def expected(delay: float, bound: float) -> float:
    """Return a peer's delay; its bound before a publisher reaches it, since it leaves parents that exceed that."""
    return delay if delay < UNREACHED else bound


# --- the thesis -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThesisParentPolicy:
    """Ranks by requirements (Algorithm 1), and coarsens each sub-space that stays uncovered (Algorithm 3)."""

    undo_after: ClassVar[float] = float("inf")

    def rank_candidate(self, candidate: Profile, bound: float, covered: int) -> Rank:
        """Prefer the loosest bound that is tighter than ours: peers with tight bounds need the tight parents."""
        return (float(candidate.bound == bound), -covered, -candidate.bound)

    def rank_child(self, volume: float, bound: float, below_child: float) -> Rank:
        """Disconnect the smallest subscription; of equal ones the loosest bound (2.4.3)."""
        return (volume, -bound, 0.0)

    def coarser(self, dz: str, affordable: Test, wins: Test) -> str | None:
        """Coarsen by one step, as far as bandwidth allows (Algorithm 3, lines 1 to 3)."""
        return dz[:-1] if affordable(dz[:-1]) else None


@dataclass(frozen=True, slots=True)
class HopCount:
    """Every link costs one hop."""

    def cost(self, peer: Profile | None, measured_s: float | None) -> float:
        return 1.0

    def waiting(self, seconds: float) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class ConnectByRequirement:
    """A parent's bound must not be looser than the child's (Algorithm 1, line 17); m bounds connections (line 19)."""

    def allows(self, parent: Profile | None, delay: float, bound: float, child_bound: float, link: float) -> bool:
        return bound <= child_bound

    def keeps(self, delay: float | None, link: float, bound: float, *, waited: float, patience: float) -> bool:
        return True

    def share_cycle(self, bound: float, other: float) -> bool:
        """Bounds never become looser from a parent to its child, so that all bounds in a cycle are equal."""
        return bound == other

    def competing(self, children: Mapping[PeerId, Texts], links_max: int) -> tuple[PeerId, ...]:
        return tuple(children)


# --- Plait ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaitParentPolicy:
    """Ranks by experienced delays, and coarsens only as far as wins a place."""

    undo_after: ClassVar[float] = 2.0

    def rank_candidate(self, candidate: Profile, bound: float, covered: int) -> Rank:
        """Prefer peers with a free place, then those that cover most, then those that events reach first."""
        return (float(candidate.free == 0), -covered, expected(candidate.delay, candidate.bound))

    def rank_child(self, volume: float, bound: float, below_child: float) -> Rank:
        """Disconnect a child that another child can serve in time; of these the smallest subscription."""
        return (float(bound < below_child), volume, -bound)

    def coarser(self, dz: str, affordable: Test, wins: Test) -> str | None:
        """Coarsen to the smallest sub-space that wins a place. One that wins none would only cost bandwidth."""
        for end in range(len(dz) - 1, -1, -1):
            if not affordable(dz[:end]):
                return None
            if wins(dz[:end]):
                return dz[:end]
        return None


@dataclass(frozen=True, slots=True)
class MeasuredDelay:
    """A link costs half of its measured round trip, in seconds."""

    unmeasured_s: float = 0.05
    """The cost of a link without a measurement."""

    def cost(self, peer: Profile | None, measured_s: float | None) -> float:
        return self.unmeasured_s if measured_s is None else measured_s

    def waiting(self, seconds: float) -> float:
        return seconds


@dataclass(frozen=True, slots=True)
class ConnectByDelay:
    """The delay that a parent experiences, and the link's, must fit the child's bound (2.7).

    The out-degree m bounds how often one event is forwarded: the children that cover one point (property 4 in words).
    """

    def allows(self, parent: Profile | None, delay: float, bound: float, child_bound: float, link: float) -> bool:
        return expected(delay, bound) + link <= child_bound

    def keeps(self, delay: float | None, link: float, bound: float, *, waited: float, patience: float) -> bool:
        """Leave a parent that is too late, or that no publisher reaches for long: it may be part of a cycle."""
        return waited <= patience if delay is None else delay + link <= bound

    def share_cycle(self, bound: float, other: float) -> bool:
        return True

    def competing(self, children: Mapping[PeerId, Texts], links_max: int) -> tuple[PeerId, ...]:
        return tuple(children) if len(children) > links_max else crowd(children.items())


# --- combinations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policies:
    """One implementation of each interface."""

    parents: ParentPolicy = field(default_factory=PlaitParentPolicy)
    link_cost: LinkCost = field(default_factory=HopCount)
    may_connect: MayConnect = field(default_factory=ConnectByDelay)
    prompt: bool = True
    """A peer that loses a parent, or is refused, reacts at once and not in its next period: it looks for another parent
    and announces to its children which publishers reach it."""
    hints: int = 4
    """Possible parents that a refusal names. The thesis names one."""


PLAIT: Final = Policies()
"""Plait's policies."""
THESIS: Final = Policies(ThesisParentPolicy(), HopCount(), ConnectByRequirement(), prompt=False, hints=1)
"""Algorithms 1 to 4 as printed, with the corrections."""

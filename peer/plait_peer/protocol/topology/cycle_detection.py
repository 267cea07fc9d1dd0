"""Cycle detection: a DetectCycle frame follows the connections downwards and returns to its origin in a cycle.

See 2.4.3 and Algorithm 1, lines 34 to 42. Only peers that share a sub-space, each forwarding it to the next, can close
a cycle; by requirement they share their bound as well. A frame that follows exactly those connections returns if there
is a cycle. The thesis compares whole subscriptions. Sets that differ elsewhere may share a member, so members are
compared here.
"""

from __future__ import annotations

from collections import Counter

from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, DetectCycle

from ..outputs import PeerId
from ..peer_state import PeerState
from ..subspaces import Texts
from .children import Children
from .parents import Parents

FORWARDED_MAX = 4
"""DetectCycle frames of one origin and sub-space forwarded in a period. The origin may have several parents in the
cycle; and a frame in a cycle without its origin has to end."""


class CycleDetection:
    """The DetectCycle frames that pass one peer."""

    __slots__ = ("_children", "_delays", "_forwarded", "_parents", "_state")

    def __init__(self, state: PeerState, parents: Parents, children: Children) -> None:
        self._state = state
        self._parents = parents
        self._children = children
        self._forwarded: Counter[tuple[PeerId, str]] = Counter()
        self._delays: dict[PeerId, float] = {}
        """The greatest delay at each parent, in the last period."""

    def start(self, dz: Texts, parent_bound: float) -> None:
        """Send DetectCycle frames for sub-spaces that a parent has accepted (lines 34 and 35)."""
        state = self._state
        if state.policies.may_connect.share_cycle(parent_bound, state.bound):
            for each in dz:
                self._forward(DetectCycle(state.id, each, state.bound, 0))

    def recheck(self, *, unreached: bool) -> None:
        """Send DetectCycle frames again where a cycle is likely: an earlier frame may be lost, or two peers closed the
        cycle at once.

        Likely are parents without a source (checked if `unreached`), and parents whose delay rises: peers in a cycle
        announce a publisher to each other, each with a slightly greater delay.
        """
        before, self._delays = self._delays, {}
        for peer, parent in list(self._parents.by_id.items()):
            if parent.profile.publisher:
                continue
            assert peer != self._state.id, "no peer is its own parent"
            now = self._delays[peer] = max(parent.sources.values(), default=0.0)
            rising = now > before.get(peer, now) + self._parents.link_cost(parent) / 2
            if (unreached and not parent.sources) or (rising and self._state.policies.prompt):
                self.start(parent.dz, parent.profile.bound)

    def receive(self, sender: PeerId, frame: DetectCycle) -> None:
        """Leave the parent if the frame is this peer's own; otherwise forward it (lines 36 to 42)."""
        state = self._state
        parent = self._parents.by_id.get(sender)
        if parent is None or frame.dz not in parent.dz:
            return
        if frame.originator == state.id:
            state.counters.cycles += 1
            self._parents.leave(sender, "cycle", avoid=True)
            return
        most = FORWARDED_MAX if state.policies.prompt else 1
        same = state.policies.may_connect.share_cycle(frame.bound, state.bound)
        if (
            same
            and frame.dz in state.dz
            and frame.hops < CHASE_HOPS_MAX
            and self._forwarded[(frame.originator, frame.dz)] < most
        ):
            self._forwarded[(frame.originator, frame.dz)] += 1
            self._forward(DetectCycle(frame.originator, frame.dz, frame.bound, frame.hops + 1))

    def _forward(self, frame: DetectCycle) -> None:
        share_cycle = self._state.policies.may_connect.share_cycle
        for peer, child in self._children.by_id.items():
            if frame.dz in child.dz and share_cycle(child.profile.bound, frame.bound):
                self._state.send(peer, frame)

    def new_period(self) -> None:
        """Forget which frames were forwarded in the last period."""
        self._forwarded.clear()

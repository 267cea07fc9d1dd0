"""Cycles are chased down the connections, as deadlocks are along their edges (2.4.3; Algorithm 1, lines 34 to 42).

A cycle can only be closed by peers that share a sub-space, each passing it on to the next; by requirement they share
their bound as well. So a message that goes down exactly those connections comes back if there is one. The thesis
compares whole subscriptions; sets that differ elsewhere may share a member, so we go by members.
"""

from __future__ import annotations

from collections import Counter

from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, DetectCycle

from ..outputs import PeerId
from ..peer_state import PeerState
from ..subspaces import Texts
from .children import Children
from .parents import Parents

PASSED_MAX = 4
"""How often in a period one peer's chase is passed on: it may have found several parents in it; and what goes around a
cycle that its originator is not in must end."""


class CycleDetection:
    """The chases that go through one peer."""

    __slots__ = ("_delays", "_incoming", "_me", "_outgoing", "_passed")

    def __init__(self, me: PeerState, incoming: Parents, outgoing: Children) -> None:
        self._me = me
        self._incoming = incoming
        self._outgoing = outgoing
        self._passed: Counter[tuple[PeerId, str]] = Counter()
        self._delays: dict[PeerId, float] = {}
        """How late each parent was when we last looked."""

    def chase(self, dz: Texts, parent_bound: float) -> None:
        """Lines 34 and 35: a parent has accepted us for these."""
        me = self._me
        if me.policies.may_connect.share_cycle(parent_bound, me.bound):
            for each in dz:
                self._pass_on(DetectCycle(me.id, each, me.bound, 0))

    def pursue(self, *, lonely: bool) -> None:
        """The chase may have been lost, or the cycle closed by two at once: look again where nothing reaches us
        (`lonely`), and where it comes later and later: peers in a cycle tell each other that a publisher reaches them,
        each a little later than the one before."""
        before, self._delays = self._delays, {}
        for peer, parent in list(self._incoming.parents.items()):
            if parent.profile.publisher:
                continue
            assert peer != self._me.id, "nobody is his own parent"
            now = self._delays[peer] = max(parent.sources.values(), default=0.0)
            rising = now > before.get(peer, now) + self._incoming.link_of(parent) / 2
            if (lonely and not parent.sources) or (rising and self._me.policies.prompt):
                self.chase(parent.dz, parent.profile.bound)

    def receive(self, sender: PeerId, frame: DetectCycle) -> None:
        """Lines 36 to 42."""
        me = self._me
        parent = self._incoming.parents.get(sender)
        if parent is None or frame.dz not in parent.dz:
            return
        if frame.originator == me.id:
            me.counters.cycles += 1
            self._incoming.leave(sender, "cycle", avoid=True)
            return
        most = PASSED_MAX if me.policies.prompt else 1
        same = me.policies.may_connect.share_cycle(frame.bound, me.bound)
        if (
            same
            and frame.dz in me.dz
            and frame.hops < CHASE_HOPS_MAX
            and self._passed[(frame.originator, frame.dz)] < most
        ):
            self._passed[(frame.originator, frame.dz)] += 1
            self._pass_on(DetectCycle(frame.originator, frame.dz, frame.bound, frame.hops + 1))

    def _pass_on(self, frame: DetectCycle) -> None:
        share_cycle = self._me.policies.may_connect.share_cycle
        for peer, child in self._outgoing.children.items():
            if frame.dz in child.dz and share_cycle(child.profile.bound, frame.bound):
                self._me.send(peer, frame)

    def forget(self) -> None:
        """A period has passed; the same chase may come again."""
        self._passed.clear()

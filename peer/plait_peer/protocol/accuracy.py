"""How exactly a peer subscribes: coarser for a better place, finer to save bandwidth (Algorithm 3, thesis 2.5).

The thesis coarsens whatever stays uncovered, as far as bandwidth allows. Ours coarsens exactly as far as beats the
child that would have to go next where we were refused, and takes it back when it did not help: a coarser subscription
that wins no place only costs.
"""

from __future__ import annotations

from collections.abc import Callable

from .peer_state import PeerState
from .rates import FINER_BITS, Rates, aggregated, reports
from .subspaces import Texts, covers, volume
from .topology.candidate_view import CandidateView
from .topology.parent_search import ParentSearch
from .topology.parents import Parents

VIOLATED_PERIODS = 3
"""A rate must be too high for so long: counts of a period are noisy."""
TRIES_MAX = 128
"""Coarser sub-spaces that are remembered as having been of no use."""


class Accuracy:
    """The triggers, and what they do to the subscription."""

    __slots__ = ("_changed", "_incoming", "_me", "_rates", "_seeking", "_useless", "_views", "_violated")

    def __init__(
        self,
        me: PeerState,
        views: CandidateView,
        incoming: Parents,
        seeking: ParentSearch,
        rates: Rates,
        changed: Callable[[], None],
    ) -> None:
        self._me = me
        self._views = views
        self._incoming = incoming
        self._seeking = seeking
        self._rates = rates
        self._changed = changed
        self._violated = 0
        self._useless: dict[str, int] = {}

    def overall(self) -> float:
        """Events a second in the whole system: what all known publishers say they publish.

        As long as they say nothing it is 1: shares of the event space then stand for shares of the events.
        """
        return sum(sum(profile.rates) for profile, _ in self._views.publishers.values()) or 1.0

    def check(self, now: float) -> None:
        """Once a period: both triggers of Algorithm 3."""
        if self._bandwidth_violated():
            self._refine_falsest(now)
            return
        for dz, since in list(self._seeking.uncovered_since.items()):
            patient = self._me.period - since < self._me.settings.patience_periods
            if not patient and dz in self._me.dz and self._time_out(dz, since, now):
                return  # one step a period: the next is taken with what this one has changed

    # --- coarser ----------------------------------------------------------------------------------------------------

    def _time_out(self, dz: str, since: int, now: float) -> bool:
        """Lines 1 to 3."""
        if not dz:
            return False
        policy = self._me.policies.parents
        if (
            dz not in self._me.wanted
            and self._me.period - since >= policy.undo_after * self._me.settings.patience_periods
        ):
            self._useless[dz] = self._me.period
            if len(self._useless) > TRIES_MAX:
                del self._useless[next(iter(self._useless))]
            return self._refine(dz, self._wanted_in(dz), now)
        target = policy.coarser(dz, self._affordable, self._wins)
        return target is not None and self._coarsen(target)

    def _wins(self, around: str) -> bool:
        """Whether with this coarser sub-space we outrank a child of a peer that refused us, and do not without it.

        A child that we outrank already does not help: we were refused all the same.
        """
        me = self._me
        rank_child = me.policies.parents.rank_child
        before = volume(me.dz)
        after = volume(_without(me.dz, around)) + 0.5 ** len(around)
        for refusal in self._seeking.refusals.values():
            if not refusal.bar_volume or not covers(refusal.dz, around):
                continue
            below = refusal.delay + 2 * me.link_cost()
            bar = rank_child(refusal.bar_volume, refusal.bar_bound, below)
            if rank_child(after, me.bound, below) > bar >= rank_child(before, me.bound, below):
                return True
        return False

    def _affordable(self, around: str) -> bool:
        """Whether what we would receive in vain stays within our bandwidth (2.5.1)."""
        me = self._me
        if around in self._useless:
            return False
        overall = self.overall()
        dz = (*_without(me.dz, around), around)
        false = sum(self._false_rate(each, overall) for each in dz if each not in me.wanted)
        if false > me.settings.false_share * overall + 1e-9:
            return False
        return sum(self._estimate(each, overall) for each in dz) <= me.settings.events_per_s_max

    def _false_rate(self, dz: str, overall: float) -> float:
        wanted = sum(self._estimate(each, overall) for each in self._wanted_in(dz))
        return max(0.0, self._estimate(dz, overall) - wanted)

    def _estimate(self, dz: str, overall: float) -> float:
        if covers(self._me.dz, dz):
            return self._rates.leaning(dz, overall)
        known = reports(self._views.profiles(), dz)
        known |= {each: self._rates.leaning(each, overall) for each in self._me.dz if each.startswith(dz)}
        return aggregated(known, dz, overall)

    def _wanted_in(self, dz: str) -> Texts:
        return tuple([each for each in self._me.wanted if each.startswith(dz)])

    def _coarsen(self, around: str) -> bool:
        self._me.counters.coarsened += 1
        self._take(tuple(sorted((*_without(self._me.dz, around), around))))
        return True

    # --- finer ------------------------------------------------------------------------------------------------------

    def _bandwidth_violated(self) -> bool:
        """Whether what comes is too much, or too much of it in vain, and stays so."""
        me, rates = self._me, self._rates
        false = rates.per_s(rates.false_count)
        too_false = me.dz != me.wanted and false > me.settings.false_share * self.overall() * 1.1
        too_much = rates.per_s(rates.total) > me.settings.events_per_s_max
        self._violated = self._violated + 1 if too_false or too_much else 0
        return self._violated >= VIOLATED_PERIODS

    def _refine_falsest(self, now: float) -> None:
        """Lines 4 to 6: the sub-space with the most false positives goes, the finer ones that are wanted come."""
        self._violated = 0
        overall = self.overall()
        coarse = [dz for dz in self._me.dz if dz not in self._me.wanted]
        if coarse:
            falsest = max(coarse, key=lambda dz: (self._false_rate(dz, overall), dz))
            finer = {each[: len(falsest) + FINER_BITS // 2] for each in self._wanted_in(falsest)}
            self._refine(falsest, tuple(sorted(finer)), now)

    def _refine(self, dz: str, finer: Texts, now: float) -> bool:
        """Put finer sub-spaces in the place of one. Whoever covered it covers them."""
        assert finer, "every sub-space of ours has something that is wanted"
        self._me.counters.refined += 1
        self._take(tuple(sorted((*[each for each in self._me.dz if each != dz], *finer))))
        for peer, parent in list(self._incoming.parents.items()):
            if dz in parent.dz:
                kept = tuple(sorted((*[each for each in parent.dz if each != dz], *finer)))
                self._incoming.narrow(peer, kept, now)
        return True

    def _take(self, dz: Texts) -> None:
        me = self._me
        assert all(covers(dz, each) for each in me.wanted), "property 2 of 2.5.1"
        me.dz = dz
        self._seeking.anew()
        self._changed()


def _without(texts: Texts, around: str) -> Texts:
    return tuple([dz for dz in texts if not dz.startswith(around)])

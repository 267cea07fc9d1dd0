"""The accuracy of the subscription: coarser for a better place, finer to save bandwidth (Algorithm 3, thesis 2.5).

The parent policy decides how far to coarsen. Plait's coarsens only as far as outranks a child of a peer that refused,
and undoes coarsening that did not help: a coarser subscription that wins no place only costs bandwidth.
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
"""Periods for which a rate must be too high: the counts of one period are noisy."""
TRIES_MAX = 128
"""Coarser sub-spaces remembered as useless."""


class Accuracy:
    """The triggers of Algorithm 3, and the changes that they make to the subscription."""

    __slots__ = ("_candidates", "_changed", "_parent_search", "_parents", "_rates", "_state", "_useless", "_violated")

    def __init__(
        self,
        state: PeerState,
        candidates: CandidateView,
        parents: Parents,
        parent_search: ParentSearch,
        rates: Rates,
        changed: Callable[[], None],
    ) -> None:
        self._state = state
        self._candidates = candidates
        self._parents = parents
        self._parent_search = parent_search
        self._rates = rates
        self._changed = changed
        self._violated = 0
        self._useless: dict[str, int] = {}

    def overall(self) -> float:
        """Return the events per second of the whole system: the sum of the rates that all known publishers report.

        Without reports it is 1: shares of the event space then stand for shares of the events.
        """
        return sum(sum(profile.rates) for profile, _ in self._candidates.publishers.values()) or 1.0

    def check(self, now: float) -> None:
        """Run both triggers of Algorithm 3; called once a period."""
        if self._bandwidth_violated():
            self._refine_falsest(now)
            return
        for dz, since in list(self._parent_search.uncovered_since.items()):
            patient = self._state.period - since < self._state.settings.patience_periods
            if not patient and dz in self._state.dz and self._coarsen_or_undo(dz, since, now):
                return  # one step a period, so that its effect shows before the next

    # --- coarser ----------------------------------------------------------------------------------------------------

    def _coarsen_or_undo(self, dz: str, since: int, now: float) -> bool:
        """Coarsen a sub-space that stays uncovered (lines 1 to 3), or undo a coarsening that did not help."""
        if not dz:
            return False
        policy = self._state.policies.parents
        if (
            dz not in self._state.interest
            and self._state.period - since >= policy.undo_after * self._state.settings.patience_periods
        ):
            self._useless[dz] = self._state.period
            if len(self._useless) > TRIES_MAX:
                del self._useless[next(iter(self._useless))]
            return self._refine(dz, self._interest_in(dz), now)
        target = policy.coarser(dz, self._affordable, self._wins)
        return target is not None and self._coarsen(target)

    def _wins(self, around: str) -> bool:
        """Return whether this coarser sub-space outranks a child of a peer that refused.

        A child that the present subscription outranks does not count: that peer refused all the same.
        """
        state = self._state
        rank_child = state.policies.parents.rank_child
        before = volume(state.dz)
        after = volume(_without(state.dz, around)) + 0.5 ** len(around)
        for refusal in self._parent_search.refusals.values():
            if not refusal.bar_volume or not covers(refusal.dz, around):
                continue
            below = refusal.delay + 2 * state.link_cost()
            bar = rank_child(refusal.bar_volume, refusal.bar_bound, below)
            if rank_child(after, state.bound, below) > bar >= rank_child(before, state.bound, below):
                return True
        return False

    def _affordable(self, around: str) -> bool:
        """Return whether the events of a coarser sub-space stay within the bandwidth (2.5.1)."""
        state = self._state
        if around in self._useless:
            return False
        overall = self.overall()
        dz = (*_without(state.dz, around), around)
        false = sum(self._false_rate(each, overall) for each in dz if each not in state.interest)
        if false > state.settings.false_share * overall + 1e-9:
            return False
        return sum(self._estimate(each, overall) for each in dz) <= state.settings.events_per_s_max

    def _false_rate(self, dz: str, overall: float) -> float:
        matching = sum(self._estimate(each, overall) for each in self._interest_in(dz))
        return max(0.0, self._estimate(dz, overall) - matching)

    def _estimate(self, dz: str, overall: float) -> float:
        if covers(self._state.dz, dz):
            return self._rates.with_prior(dz, overall)
        known = reports(self._candidates.profiles(), dz)
        known |= {each: self._rates.with_prior(each, overall) for each in self._state.dz if each.startswith(dz)}
        return aggregated(known, dz, overall)

    def _interest_in(self, dz: str) -> Texts:
        return tuple([each for each in self._state.interest if each.startswith(dz)])

    def _coarsen(self, around: str) -> bool:
        self._state.counters.coarsened += 1
        self._change_subscription(tuple(sorted((*_without(self._state.dz, around), around))))
        return True

    # --- finer ------------------------------------------------------------------------------------------------------

    def _bandwidth_violated(self) -> bool:
        """Return whether too many events, or too many false positives, have arrived for several periods."""
        state, rates = self._state, self._rates
        false = rates.per_s(rates.false_count)
        too_false = state.dz != state.interest and false > state.settings.false_share * self.overall() * 1.1
        too_much = rates.per_s(rates.total) > state.settings.events_per_s_max
        self._violated = self._violated + 1 if too_false or too_much else 0
        return self._violated >= VIOLATED_PERIODS

    def _refine_falsest(self, now: float) -> None:
        """Replace the sub-space with the most false positives by finer ones (lines 4 to 6)."""
        self._violated = 0
        overall = self.overall()
        coarse = [dz for dz in self._state.dz if dz not in self._state.interest]
        if coarse:
            falsest = max(coarse, key=lambda dz: (self._false_rate(dz, overall), dz))
            finer = {each[: len(falsest) + FINER_BITS // 2] for each in self._interest_in(falsest)}
            self._refine(falsest, tuple(sorted(finer)), now)

    def _refine(self, dz: str, finer: Texts, now: float) -> bool:
        """Replace a sub-space by finer ones. The parents that cover it cover these."""
        assert finer, "each sub-space overlaps the interest"
        self._state.counters.refined += 1
        self._change_subscription(tuple(sorted((*[each for each in self._state.dz if each != dz], *finer))))
        for peer, parent in list(self._parents.by_id.items()):
            if dz in parent.dz:
                kept = tuple(sorted((*[each for each in parent.dz if each != dz], *finer)))
                self._parents.narrow(peer, kept, now)
        return True

    def _change_subscription(self, dz: Texts) -> None:
        state = self._state
        assert all(covers(dz, each) for each in state.interest), "property 2 of 2.5.1"
        state.dz = dz
        self._parent_search.reset_backoff()
        self._changed()


def _without(texts: Texts, around: str) -> Texts:
    return tuple([dz for dz in texts if not dz.startswith(around)])

"""The settings of a peer: its policies, and every limit and period with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from .policies import PLAIT, Policies


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Everything about a peer except its identity and its interest. Periods are multiples of `period_s`."""

    policies: Policies = PLAIT
    children_max: int = 8
    """The out-degree constraint m."""
    false_share: float = 0.0
    """The share of all events in the system that may be false positives here: a bandwidth constraint (2.8.5)."""
    events_per_s_max: float = float("inf")
    """The events that a peer can receive: B / (m + 1), section 2.2."""
    period_s: float = 1.0
    """The time between two rounds of gossip and connection management."""
    links_max: int = 256
    """Connections to children, even where the policy counts fewer: file descriptors are finite."""
    view_max: int = 350
    """Entries of pView: 5% of 7,000 peers, as in 2.8.1."""
    publishers_max: int = 256
    """Entries of pubList. Each entry may become a connection."""
    view_age_max: int = 30
    """Periods without news after which an entry leaves pView and pubList."""
    sample_view: int = 20
    """Peers in the view of the sampling service: Jelasity et al. find 20 to 30 to be enough for any group."""
    healing: int = 1
    """H: the number of oldest entries that each exchange drops."""
    swapping: int = 9
    """S: the number of sent entries that each exchange drops. H + S is half the view, so that no entry is copied
    needlessly."""
    connects_max: int = 4
    """Connection requests to subscribers in one period. More would count as a flood at their receivers."""
    prompt_max: int = 8
    """Prompt reactions in one period; further ones wait for the next period."""
    suspicion_periods: float = 2.5
    """Periods without a frame after which a parent is suspected: the peer looks for another, and keeps this one until
    then."""
    silence_periods: int = 3
    """Periods without a frame after which a neighbour counts as dead."""
    patience_periods: int = 8
    """Periods after which an uncovered sub-space is coarsened (Algorithm 3, TimeOut)."""
    grace_periods: int = 4
    """Periods for a publisher to reach a new parent before the child connects to the publisher itself."""
    avoid_periods: int = 6
    """Periods for which a parent that failed is not asked again."""
    backoff_periods_max: int = 16
    """The longest backoff after a refusal: 1, 2, 4 ... periods, up to this."""
    requests_per_period_max: int = 8
    """Connection requests accepted from one peer in one period; more count as a flood."""
    cycle_check_periods: int = 5
    """Periods between two checks for a cycle where no publisher is reached: a DetectCycle frame may be lost."""
    confirming: bool = False
    """Subscribers enrol with publishers, which may then request confirmation (`confirmed_delivery.py`)."""
    duplicates_max: int = 1024
    """Events remembered to detect duplicates: several periods at the rate that a peer can carry."""
    rates_max: int = 1024
    """Sub-spaces whose events are counted separately."""

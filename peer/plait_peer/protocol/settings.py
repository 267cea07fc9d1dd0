"""The settings of a peer: its policies, and every limit and period with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from .policies import PLAIT, Policies


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Everything about a peer but who it is and what it wants. Periods are multiples of `period_s`."""

    policies: Policies = PLAIT
    children_max: int = 8
    """m: the out-degree constraint."""
    false_share: float = 0.0
    """Of all events in the system, what share may be false positives here; a bandwidth constraint (2.8.5)."""
    events_per_s_max: float = float("inf")
    """What may be received at all: B / (m + 1), section 2.2."""
    period_s: float = 1.0
    """Between two rounds of gossip and connection management."""
    links_max: int = 256
    """Connections to children, whatever `places` allows: file descriptors are finite."""
    view_max: int = 350
    """Entries of pView: 5% of 7,000 peers, as in 2.8.1."""
    publishers_max: int = 256
    """Entries of pubList. Each may become a connection of its own."""
    view_age_max: int = 30
    """Periods without news after which an entry leaves pView and pubList."""
    sample_view: int = 20
    """Peers in the view of the sampling service: Jelasity et al. find 20 to 30 to be enough for any group."""
    healing: int = 1
    """H: how many of the oldest entries each exchange drops."""
    swapping: int = 9
    """S: how many of those sent it drops; H + S is half the view, so that no entry is copied needlessly."""
    asks_max: int = 4
    """Connection requests in one period: a flood of them would count against us."""
    prompt_max: int = 8
    """How often in a period a peer acts at once; what comes on top waits for the next period."""
    suspicion_periods: float = 2.5
    """Without a sign of life from a parent for so long another is looked for, and the first one kept until there is."""
    silence_periods: int = 3
    """Without a sign of life after which a neighbour is taken for dead."""
    patience_periods: int = 8
    """Uncovered for so long, a sub-space is coarsened (Algorithm 3, TimeOut)."""
    grace_periods: int = 4
    """A parent has this long to be reached by a publisher before the child turns to the publisher itself."""
    avoid_periods: int = 6
    """How long a parent that failed us is not asked again."""
    backoff_periods_max: int = 16
    """Publishers that refuse are asked again after 1, 2, 4 ... periods, up to this."""
    requests_per_period_max: int = 8
    """Connection requests that one peer may send us in one period before it counts as a flood."""
    pursue_periods: int = 5
    """How often a cycle is looked for again where no publisher is reached: the chase itself may be lost."""
    confirming: bool = False
    """Whether subscribers enrol with publishers, who may then ask for confirmation (`confirmed_delivery.py`)."""
    duplicates_max: int = 1024
    """Events that are remembered, to tell duplicates: several periods of the rates that a peer can carry."""
    rates_max: int = 1024
    """Sub-spaces whose events are counted apart."""

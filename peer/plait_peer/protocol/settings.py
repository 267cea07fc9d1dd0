"""How a peer behaves: the strategies that the laboratory compares, and every limit and period, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class DelayMetric(StrEnum):
    """By what a parent's place is judged."""

    REQUIREMENT = "requirement"  # its delay bound must not be looser than the child's (Algorithm 1, line 17)
    EXPERIENCED = "experienced"  # the delay it experiences, and the link's, must fit the child's bound (2.7)


class DelayUnit(StrEnum):
    """What delays are counted in."""

    HOPS = "hops"
    SECONDS = "seconds"  # measured, as half of a round trip


class ChildChoice(StrEnum):
    """Which child has to go when there are too many."""

    SELECTIVE = "selective"  # the smallest subscription; of equal ones, the loosest bound (2.4.3)
    LOOSEST = "loosest"  # the loosest bound; of equal ones, the smallest subscription
    MOVABLE = "movable"  # one that a sibling could serve in time; of these, the smallest subscription


class Places(StrEnum):
    """What the out-degree m bounds."""

    CONNECTIONS = "connections"  # children (Algorithm 1, line 19)
    POINTS = "points"  # how often any one event is forwarded: the children that cover a point (property 4 in words)


class Coarsening(StrEnum):
    """When a subscription is coarsened to get a better place."""

    NEVER = "never"
    BLIND = "blind"  # whatever is uncovered for a while, one step at a time (Algorithm 3)
    PURPOSEFUL = "purposeful"  # just as far as beats the child that would have to go next; undone when it does not help


@dataclass(frozen=True, slots=True)
class Strategies:
    """One choice of each."""

    metric: DelayMetric = DelayMetric.EXPERIENCED
    child: ChildChoice = ChildChoice.MOVABLE
    places: Places = Places.POINTS
    coarsening: Coarsening = Coarsening.PURPOSEFUL
    unit: DelayUnit = DelayUnit.HOPS
    prompt: bool = True
    """Whether a peer that loses a parent, or is refused, looks for another at once rather than in its next period, and
    tells its children at once which publishers reach it."""
    hints: int = 4
    """Possible parents named to whoever is refused; the thesis names one."""


PLAIT: Final = Strategies()
"""Ours."""
THESIS: Final = Strategies(
    DelayMetric.REQUIREMENT,
    ChildChoice.SELECTIVE,
    Places.CONNECTIONS,
    Coarsening.BLIND,
    DelayUnit.HOPS,
    prompt=False,
    hints=1,
)
"""Algorithms 1 to 4 as printed, with the corrections."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Everything about a peer but who it is and what it wants. Periods are multiples of `period_s`."""

    strategies: Strategies = PLAIT
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
    seconds_typical: float = 0.05
    """What a link that was never measured is taken to cost; used with measured delays alone."""

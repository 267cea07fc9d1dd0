"""The links to neighbours: liveness, and measured delay.

A link is dead when nothing arrives for the detection bound, or when a ping stays unanswered for so long. So a link that
loses one direction is dead, too. While events arrive at the neighbour, a ping may take longer: the link is full, and
alive. The delay of a link is half the round trip, smoothed. The delay that floods follows it with hysteresis, so that
noise does not change next hops. The measured capacity of a lane floods more rarely, and no path depends on it. The
delay that events carry is measured in `transit_delay.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from plait_core.rate_limit import TokenBucket

from ..transport.lane import Lane
from ..transport.lane_figures import ExcessDelays
from .transit_delay import TransitDelay

SMOOTHING: Final = 0.25
"""Weight of a new sample: three samples show most of a tenfold rise."""

FLOOD_RATIO: Final = 0.3
FLOOD_US: Final = 300
"""A delay floods again when it has changed by a third, and by more than the noise of a busy machine."""

FLOOD_AGAIN_S: Final = 0.5
"""Least time between two floods of one link's delay. Faster changes are averaged."""

CAPACITY_RATIO: Final = 0.3
CAPACITY_AGAIN_S: Final = 30.0
CAPACITY_SETTLED_S: Final = 2.0
"""A capacity floods once it was measured for this time, since the window is too small at first. It floods again when it
has changed by a third, at most every `CAPACITY_AGAIN_S`."""

PATIENCE_S: Final = 0.25
"""An answer counts as missing after this, beyond twice the round trip: half a heartbeat."""

DISPUTED_RATIO: Final = 4
DISPUTED_US: Final = 5_000
"""Both ends measure the same round trip, so their delays differ little. A flooded delay is suspect if ours is greater
by this ratio, and by more than a stalled process adds to its own measurement."""

DISPUTED_S: Final = 5.0
"""A delay that is suspect for so long is disputed: an honest broker floods a changed delay within a second."""

SAMPLES: Final = 4
"""Samples in a row whose minimum is compared: a stalled process does not delay all of them."""

RELAYS_PER_S: Final = 40_000.0
RELAYS_BURST: Final = 80_000.0
"""Limit of control frames that are relayed from one neighbour, and to one neighbour. It is below the rate that a
neighbour accepts from us, so that a relay of a flooding broker is not taken for one; and above any honest need."""

BESIDE_BYTES_PER_S: Final = 16_384.0
BESIDE_BYTES: Final = 32_768.0
"""Rate and burst of the events on source routes that pass by a lane in which others wait. They are on their way besides
the window of the lane, so that more of them would delay pings. They are retransmissions, and come again."""

PROGRESS_TIMES: Final = 4.0
"""Detection bounds for which a ping may stay unanswered while events arrive at the neighbour. Control frames overtake
events, so one that takes longer than this does not move."""

PINGS_MAX: Final = 64
"""Bound of remembered unanswered pings. The link is declared dead long before."""


@dataclass(slots=True)
class Neighbour:
    """A broker at the other end of a link."""

    id: int
    name: str
    link: int
    received_at: float
    delay_us: float = 0.0
    """The smoothed delay of one direction; 0 before the first sample."""
    jitter_us: float = 0.0
    flooded_us: int = 0
    """The delay that was flooded last; 0 before the first flood."""
    flooded_at: float = -1e9
    flooded_capacity: int = 0
    """The measured bytes/s of the lane to it that were flooded last; 0 before the first measurement."""
    capacity_flooded_at: float = -1e9
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """The last delays, not smoothed."""
    pings: dict[int, float] = field(default_factory=dict)
    answered: int = 0
    """Counts answered pings."""
    false_echoes: int = 0
    """Counts acknowledgements of events that were not sent to it."""
    sent: int = 0
    """Counts event copies sent to it."""
    claimed_us: int = 0
    """The delay of this link as the neighbour floods it."""
    disputed: bool = False
    """Whether it has flooded a far shorter delay than is measured here, for `DISPUTED_S`."""
    disputable_since: float | None = None
    relays: TokenBucket = field(init=False)
    """Rate limit of frames relayed from this neighbour."""
    passed: TokenBucket = field(init=False)
    """Rate limit of frames relayed to this neighbour."""
    beside: TokenBucket = field(init=False)
    """Rate limit of the bytes of events on source routes to this neighbour while its lane waits."""
    lane: Lane = field(init=False)
    """The direction of the link to the neighbour."""
    transit: TransitDelay = field(init=False)
    """The transit delay of each frame from it. Next hops follow the smoothed delay instead."""
    arrivals: ExcessDelays = field(init=False)
    """The transit delays of events from it."""

    def __post_init__(self) -> None:
        self.relays = TokenBucket(RELAYS_PER_S, RELAYS_BURST, self.received_at)
        self.passed = TokenBucket(RELAYS_PER_S, RELAYS_BURST, self.received_at)
        self.beside = TokenBucket(BESIDE_BYTES_PER_S, BESIDE_BYTES, self.received_at)
        self.lane = Lane(self.received_at)
        self.transit = TransitDelay(self.received_at)
        self.arrivals = ExcessDelays(self.received_at)

    def takes_beside(self, size: int, now: float) -> bool:
        """Return whether an event on a source route may be sent to it, beside the lane."""
        return not self.lane.queue or self.beside.take(now, min(size, BESIDE_BYTES))

    def sample(self, round_trip_s: float) -> None:
        """Update delay and jitter with a round trip."""
        delay_us = max(1.0, round_trip_s * 500_000)
        self.samples.append(delay_us)
        if not self.delay_us:
            self.delay_us = delay_us
        else:
            self.jitter_us += SMOOTHING * (abs(delay_us - self.delay_us) - self.jitter_us)
            self.delay_us += SMOOTHING * (delay_us - self.delay_us)

    def should_flood(self, now: float) -> bool:
        """Return whether its delay has changed enough to flood it."""
        if not self.delay_us:
            return False
        if not self.flooded_us:
            return True
        moved = abs(self.delay_us - self.flooded_us)
        return moved > max(FLOOD_US, FLOOD_RATIO * self.flooded_us) and now - self.flooded_at >= FLOOD_AGAIN_S

    def note_flooded(self, now: float) -> None:
        """Note that its delay floods now."""
        self.flooded_us = max(1, round(self.delay_us))
        self.flooded_at = now

    def should_flood_capacity(self, now: float) -> bool:
        """Return whether the capacity of the lane to it has changed enough to flood it."""
        capacity, flooded = self.lane.figures.capacity, self.flooded_capacity
        if capacity.measured_s < CAPACITY_SETTLED_S or not self.flooded_us:
            return False
        moved = abs(capacity.bytes_per_s - flooded)
        return moved > CAPACITY_RATIO * flooded and now - self.capacity_flooded_at >= CAPACITY_AGAIN_S

    def note_capacity_flooded(self, now: float) -> None:
        """Note that the capacity of the lane to it floods now."""
        self.flooded_capacity = round(self.lane.figures.capacity.bytes_per_s)
        self.capacity_flooded_at = now

    def compare(self, claimed_us: int | None, now: float) -> bool:
        """Compare the delay that it floods with the measured one. Return whether it is disputed from now on."""
        self.claimed_us = claimed_us or 0
        measured_us = min(self.flooded_us, min(self.samples, default=0))
        if claimed_us is None or measured_us - claimed_us <= DISPUTED_US or measured_us <= DISPUTED_RATIO * claimed_us:
            self.disputable_since, self.disputed = None, False
            return False
        if self.disputable_since is None:
            self.disputable_since = now
        newly = not self.disputed and now - self.disputable_since >= DISPUTED_S
        self.disputed = self.disputed or newly
        return newly

    def events_arrived(self, transit_us: int, count: int, now: float) -> None:
        """Note the transit delay of events from it that came together."""
        base_us = self.transit.base_us
        self.arrivals.add(base_us, transit_us - base_us, count, now)

    def ping(self, nonce: int, now: float) -> None:
        """Note a ping that is sent now."""
        if len(self.pings) < PINGS_MAX:
            self.pings[nonce] = now

    def pong(self, nonce: int, now: float) -> None:
        """Take the answer to a ping. It also counts as answering all pings before it."""
        sent_at = self.pings.get(nonce)
        if sent_at is not None:
            self.sample(now - sent_at)
            self.transit.answered((now - sent_at) * 500_000, now)
            self.answered += 1
            self.pings = {other: at for other, at in self.pings.items() if at > sent_at}

    def unanswered(self, now: float) -> int:
        """Return the number of pings that should have been answered by now."""
        patience_s = PATIENCE_S + 4e-6 * self.delay_us
        return sum(now - at > patience_s for at in self.pings.values())

    def dies_at(self, detect_s: float) -> float:
        """Return when the link is declared dead, unless a frame or an answer arrives before."""
        pinged_at = next(iter(self.pings.values()), self.received_at)
        moved_at = min(max(pinged_at, self.lane.progress_at), pinged_at + (PROGRESS_TIMES - 1) * detect_s)
        return min(moved_at, self.received_at) + detect_s

"""The links to other brokers: whether each is alive, and how long it takes.

A link is dead when a ping stays unanswered, or nothing at all is heard, for the detection bound: one direction that
loses everything is as dead as both. Delays are half the round trip, smoothed; what is told to others follows with
hysteresis, so that noise moves no event to another path. What an event says of its delay is not from here
(`transit_delay.py`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from plait_core.rate_limit import TokenBucket

from .transit_delay import TransitDelay

SMOOTHING: Final = 0.25
"""Weight of a new sample: three of them carry a tenfold rise."""

TOLD_RATIO: Final = 0.3
TOLD_US: Final = 300
"""A delay is told anew when it has moved by a third, and by more than a busy machine's noise."""

TOLD_AGAIN_S: Final = 0.5
"""Between two tellings of one link: what flaps faster is averaged."""

PATIENCE_S: Final = 0.25
"""Beyond its path's own delay, what an answer may take before it counts as missing: half a heartbeat."""

DISPUTED_RATIO: Final = 4
DISPUTED_US: Final = 5_000
"""Both ends measure the same round trip. A claim that is shorter than ours by so much, and by more than what a process
that was held up adds to its own, ..."""

DISPUTED_S: Final = 5.0
"""... for so long, is not what was measured: what is told follows within a second."""

SAMPLES: Final = 4
"""A delay that none of so many samples in a row is below is no process that was held up."""

RELAYS_PER_S: Final = 40_000.0
RELAYS_BURST: Final = 80_000.0
"""What is passed on for one neighbour, and what is to one: less than that takes from us in all, so that those who flood
make nobody else look like that; and more than events ever need."""

PINGS_MAX: Final = 64
"""Unanswered pings that are remembered; the link is declared dead long before."""


@dataclass(slots=True)
class Neighbour:
    """A broker at the other end of a link."""

    id: int
    name: str
    link: int
    heard_at: float
    delay_us: float = 0.0
    """Of one direction, as measured; 0 before the first sample."""
    jitter_us: float = 0.0
    told_us: int = 0
    """The delay that the map has."""
    told_at: float = -1e9
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """The last delays as they were measured, each by itself."""
    pings: dict[int, float] = field(default_factory=dict)
    answered: int = 0
    """Pings that it has answered."""
    sent: int = 0
    """Events handed to it."""
    claimed_us: int = 0
    """The delay of this link as it tells others."""
    disputed: bool = False
    """Whether it tells others of a far shorter one than is measured here."""
    disputable_since: float | None = None
    relays: TokenBucket = field(init=False)
    """What is passed on for it."""
    passed: TokenBucket = field(init=False)
    """What is passed on to it."""
    transit: TransitDelay = field(init=False)
    """How long what it sends is under way, each by itself: routes follow the smoothed delay."""

    def __post_init__(self) -> None:
        self.relays = TokenBucket(RELAYS_PER_S, RELAYS_BURST, self.heard_at)
        self.passed = TokenBucket(RELAYS_PER_S, RELAYS_BURST, self.heard_at)
        self.transit = TransitDelay(self.heard_at)

    def sample(self, round_trip_s: float) -> None:
        """A ping was answered."""
        delay_us = max(1.0, round_trip_s * 500_000)
        self.samples.append(delay_us)
        if not self.delay_us:
            self.delay_us = delay_us
        else:
            self.jitter_us += SMOOTHING * (abs(delay_us - self.delay_us) - self.jitter_us)
            self.delay_us += SMOOTHING * (delay_us - self.delay_us)

    def worth_telling(self, now: float) -> bool:
        """Whether others should hear of its delay."""
        if not self.delay_us:
            return False
        if not self.told_us:
            return True
        moved = abs(self.delay_us - self.told_us)
        return moved > max(TOLD_US, TOLD_RATIO * self.told_us) and now - self.told_at >= TOLD_AGAIN_S

    def tell(self, now: float) -> None:
        """Others hear of it now."""
        self.told_us = max(1, round(self.delay_us))
        self.told_at = now

    def compare(self, claimed_us: int | None, now: float) -> bool:
        """What it tells of this link, against what is measured; whether it is disputed from now on."""
        self.claimed_us = claimed_us or 0
        found_us = min(self.told_us, min(self.samples, default=0))
        if claimed_us is None or found_us - claimed_us <= DISPUTED_US or found_us <= DISPUTED_RATIO * claimed_us:
            self.disputable_since, self.disputed = None, False
            return False
        if self.disputable_since is None:
            self.disputable_since = now
        newly = not self.disputed and now - self.disputable_since >= DISPUTED_S
        self.disputed = self.disputed or newly
        return newly

    def ping(self, nonce: int, now: float) -> None:
        """A ping goes out."""
        if len(self.pings) < PINGS_MAX:
            self.pings[nonce] = now

    def pong(self, nonce: int, now: float) -> None:
        """An answer: to this ping, and so to all before it."""
        sent_at = self.pings.get(nonce)
        if sent_at is not None:
            self.sample(now - sent_at)
            self.transit.answered((now - sent_at) * 500_000, now)
            self.answered += 1
            self.pings = {other: at for other, at in self.pings.items() if at > sent_at}

    def unanswered(self, now: float) -> int:
        """Pings that should have been answered by now."""
        patience_s = PATIENCE_S + 4e-6 * self.delay_us
        return sum(now - at > patience_s for at in self.pings.values())

    def dies_at(self, detect_s: float) -> float:
        """When it is to be given up, if nothing is heard of it until then."""
        return min(next(iter(self.pings.values()), self.heard_at), self.heard_at) + detect_s

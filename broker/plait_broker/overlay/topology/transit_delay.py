"""How long what comes over a link was under way on it, without comparing the clocks of two machines.

Before what it writes, a neighbour says what its own clock says (`Sent`). The difference to ours means nothing; how that
differs from the least that there was is what the link took more than it can. What it takes at least is half of the
shortest round trip of the same time. So a process that stood still, a queue, and a link that has become slower are all
in the delay of the events that they held up, and of no others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final

MARK_S: Final = 0.005
"""How old a mark may be when something is written: 200 a second at most, and a delay is that much too short at most."""

SPAN_S: Final = 1.0
SPANS: Final = 10
"""The least counts for ten seconds: clocks that go 50 millionths apart differ by half a millisecond more after that."""


@dataclass(slots=True)
class Span:
    """The least of one second or so. It begins with an answer and the mark before it: so what a link took at least, and
    the difference of clocks that belongs to it, are forgotten together."""

    half_us: float
    """Half of a round trip."""
    apart_us: float
    """Of our clock from the neighbour's, when a mark came."""


class TransitDelay:
    """One link, in the direction to us."""

    __slots__ = ("_anew_at", "_apart_us", "_at_us", "_begun_at", "_heard_at", "_least", "_spans", "_us")

    def __init__(self, now: float) -> None:
        self._spans: deque[Span] = deque((Span(inf, inf),), SPANS)
        self._least = Span(0.0, inf)
        self._anew_at = now
        """What was asked before is of no use."""
        self._begun_at = now
        """When the latest span began."""
        self._at_us = 0
        """What the latest mark says."""
        self._apart_us = inf
        self._heard_at = inf
        """When the latest mark came."""
        self._us = 0

    def us(self, now: float) -> int:
        """How long what comes now was under way: as long as its mark, and longer the later it comes."""
        behind_s = now - self._heard_at - MARK_S
        return self._us + round(behind_s * 1_000_000) if behind_s > 0 else self._us

    def answered(self, half_us: float, now: float) -> None:
        """A ping was answered, in twice that."""
        if now - 2e-6 * half_us < self._anew_at:
            return
        if now - self._begun_at >= SPAN_S:
            self._begun_at = now
            self._spans.append(Span(half_us, self._apart_us))
        else:
            self._spans[-1].half_us = min(half_us, self._spans[-1].half_us)
        self._least = Span(min(s.half_us for s in self._spans), min(s.apart_us for s in self._spans))
        self._reckon()

    def mark(self, at_us: int, now: float) -> None:
        """A mark comes."""
        apart_us = now * 1_000_000 - at_us
        faster_us = self._least.apart_us - apart_us
        if at_us < self._at_us:  # its clock was set back: what came before says nothing
            self._begin_anew(self._least.half_us, apart_us, now)
        elif faster_us < inf and faster_us > MARK_S * 1_000_000:
            self._begin_anew(max(0.0, self._least.half_us - faster_us), apart_us, now)
        elif apart_us < self._spans[-1].apart_us:
            self._spans[-1].apart_us = apart_us
            self._least.apart_us = min(apart_us, self._least.apart_us)
        self._at_us, self._apart_us, self._heard_at = at_us, apart_us, now
        self._reckon()

    def _begin_anew(self, half_us: float, apart_us: float, now: float) -> None:
        """The link is another: `half_us` is a guess until a ping is answered that went out after this."""
        self._anew_at = self._begun_at = now
        self._spans = deque((Span(inf, apart_us),), SPANS)
        self._least = Span(half_us, apart_us)

    def _reckon(self) -> None:
        more_us = self._apart_us - self._least.apart_us if self._apart_us < inf else 0.0
        assert more_us >= 0, "no mark is earlier than the earliest"
        self._us = round(self._least.half_us + more_us)

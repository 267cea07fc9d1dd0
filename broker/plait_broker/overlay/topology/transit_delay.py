"""The transit delay of each frame on a link, measured without synchronised clocks.

A neighbour prefixes what it writes with the time of its own clock (`ClockStamp`). The offset between that stamp and our
clock contains an unknown difference of the clocks. But its excess over the least offset of the last seconds is
queueing delay. The base delay is half of the shortest round trip of the same seconds. So a stalled process, a queue, or
a link that has become slower adds to the delay of exactly those events that it held up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final

MARK_S: Final = 0.005
"""The greatest age of a stamp when a frame is written after it. So there are at most 200 stamps/s, and a measured delay
is at most this much too short."""

SPAN_S: Final = 1.0
SPANS: Final = 10
"""A minimum counts for ten seconds. In that time clocks with a relative drift of 50 ppm diverge by half a
millisecond."""


@dataclass(slots=True)
class Span:
    """The minima of about one second. It begins with an answered ping and the stamp before it, so that a round trip and
    the clock offset that belongs to it expire together."""

    half_us: float
    """Half of the shortest round trip."""
    offset_us: float
    """The least offset of our clock from a stamp, when the stamp arrived."""


class TransitDelay:
    """The transit delay of one link, in the direction to us."""

    __slots__ = ("_at_us", "_begun_at", "_least", "_offset_us", "_reset_at", "_spans", "_stamped_at", "_us")

    def __init__(self, now: float) -> None:
        self._spans: deque[Span] = deque((Span(inf, inf),), SPANS)
        self._least = Span(0.0, inf)
        self._reset_at = now
        """Round trips that began before this are ignored: the link or a clock has changed since."""
        self._begun_at = now
        """The start of the latest span."""
        self._at_us = 0
        """The latest stamp."""
        self._offset_us = inf
        self._stamped_at = inf
        """The arrival of the latest stamp, by our clock."""
        self._us = 0

    @property
    def base_us(self) -> float:
        """The transit delay without queueing: half of the shortest round trip of the last seconds."""
        return self._least.half_us

    def us(self, now: float) -> int:
        """Return the transit delay of a frame that arrives now: the stamp's, plus the stamp's age beyond `MARK_S`."""
        behind_s = now - self._stamped_at - MARK_S
        return self._us + round(behind_s * 1_000_000) if behind_s > 0 else self._us

    def answered(self, half_us: float, now: float) -> None:
        """Take half of a round trip, for a ping that was answered now."""
        if now - 2e-6 * half_us < self._reset_at:
            return
        if now - self._begun_at >= SPAN_S:
            self._begun_at = now
            self._spans.append(Span(half_us, self._offset_us))
        else:
            self._spans[-1].half_us = min(half_us, self._spans[-1].half_us)
        self._least = Span(min(s.half_us for s in self._spans), min(s.offset_us for s in self._spans))
        self._update()

    def mark(self, at_us: int, now: float) -> None:
        """Take a stamp of the neighbour's clock that arrives now.

        A clock that was set back, or an offset far below the minimum, starts the measurement anew.
        """
        offset_us = now * 1_000_000 - at_us
        faster_us = self._least.offset_us - offset_us
        if at_us < self._at_us:  # its clock was set back: earlier offsets are void
            self._reset(self._least.half_us, offset_us, now)
        elif faster_us < inf and faster_us > MARK_S * 1_000_000:
            self._reset(max(0.0, self._least.half_us - faster_us), offset_us, now)
        elif offset_us < self._spans[-1].offset_us:
            self._spans[-1].offset_us = offset_us
            self._least.offset_us = min(offset_us, self._least.offset_us)
        self._at_us, self._offset_us, self._stamped_at = at_us, offset_us, now
        self._update()

    def _reset(self, half_us: float, offset_us: float, now: float) -> None:
        """Forget all minima. `half_us` is an estimate until a ping that is sent after this is answered."""
        self._reset_at = self._begun_at = now
        self._spans = deque((Span(inf, offset_us),), SPANS)
        self._least = Span(half_us, offset_us)

    def _update(self) -> None:
        queued_us = self._offset_us - self._least.offset_us if self._offset_us < inf else 0.0
        assert queued_us >= 0, "no offset is below the minimum"
        self._us = round(self._least.half_us + queued_us)

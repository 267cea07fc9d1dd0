"""Sends the results of events with confirmation (`DeliveryOutcome`) to their publishers' brokers.

Nobody acks a result. So the latest ones are kept, and sent again when they may have been lost: those of the last
seconds when a link has failed, and all of one publisher's broker when it can be reached again. A broker that gets a
result twice ignores the second.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Final

from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome

from .control_unicast import ControlUnicast

OUTCOMES_MAX: Final = 4096
"""Results that are kept: four seconds of a thousand a second."""

KEPT_S: Final = 30.0
"""The time for which publishers wait for a confirmation by default. Later results help nobody."""

MARGIN_S: Final = 1.0
"""Time beyond that of detecting a silent link, for the news of it to arrive here."""


class OutcomeSender:
    """The results that one broker owes to others."""

    def __init__(self, unicast: ControlUnicast, detect_s: float) -> None:
        """`detect_s`: the time after which a silent link has failed."""
        self._unicast = unicast
        self._suspect_s = detect_s + MARGIN_S
        self._sent: deque[tuple[float, DeliveryOutcome]] = deque(maxlen=OUTCOMES_MAX)
        """With the time at which each was last sent, the latest at the right."""

    def send(self, outcome: DeliveryOutcome, now: float) -> None:
        """Send a result."""
        while self._sent and now - self._sent[0][0] > KEPT_S:
            self._sent.popleft()
        self._sent.append((now, outcome))
        self._unicast.send(outcome, now)

    def send_again(self, now: float, root: int | None = None) -> None:
        """Send again what may have been lost: a link has failed, or the publisher's broker `root` can be reached
        again."""
        oldest_at = now - (self._suspect_s if root is None else KEPT_S)
        latest = takewhile(lambda sent: sent[0] >= oldest_at, reversed(self._sent))
        again = [outcome for _, outcome in latest if root in (None, outcome.to)]
        for outcome in reversed(again):
            self._unicast.send(outcome, now)

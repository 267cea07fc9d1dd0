"""Acks of interest updates: at once, or gathered and sent in one envelope where many are due."""

from __future__ import annotations

import math
from typing import Final

from plait_core.rate_limit import TokenBucket
from plait_core.wire.frame_types.overlay_frames import InterestAck

from ..transport.control_unicast import ControlUnicast

ACKS_PER_S: Final = 100.0
ACKS_BURST: Final = 32.0
"""Rate of acks that are sent at once. When a thousand brokers start, each gets a first update of all others, and all
these acks are alike: gathered, they cross each link once."""

GATHER_S: Final = 0.1
"""How long others wait. It is well below the time after which an update is retransmitted."""


class InterestAcks:
    """The acks that one broker sends."""

    def __init__(self, unicast: ControlUnicast) -> None:
        self._unicast = unicast
        self._bucket = TokenBucket(ACKS_PER_S, ACKS_BURST, -math.inf)
        self._held: dict[int, tuple[InterestAck, int]] = {}
        """By home broker, the newest ack that waits, and how often its update has come."""
        self.due_at = math.inf
        """When to call `flush`."""

    def send(self, ack: InterestAck, tries: int, now: float) -> None:
        """Send an ack, now or together with others."""
        if ack.to not in self._held and self._bucket.take(now):
            self._unicast.send(ack, now, (tries,))
            return
        self._held[ack.to] = (ack, tries)
        self.due_at = min(self.due_at, now + GATHER_S)

    def flush(self, now: float) -> None:
        """Send what waits, equal acks in one envelope."""
        held, self._held, self.due_at = self._held, {}, math.inf
        alike: dict[tuple[int, int, int], list[tuple[InterestAck, int]]] = {}
        for ack, tries in held.values():
            alike.setdefault((ack.version, ack.offers, ack.asked), []).append((ack, tries))
        for group in alike.values():
            acks, tries_of = zip(*group, strict=True)
            self._unicast.send_alike(acks[0], [ack.to for ack in acks], now, tries_of)

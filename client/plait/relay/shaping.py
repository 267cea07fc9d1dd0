"""One direction of a shaped link: bytes in with a time, bytes out when they are due. No I/O.

A piece first waits until the link is free (bandwidth), then is under way (delay, jitter). It carries TCP streams, so
order is kept and loss is what an application sees of it: a stall of a retransmission time-out, twice as long each time
the same segment is lost again. Nothing is lost or repeated except where the flow is `lost`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SEGMENT_BYTES: Final = 1448
"""What one Ethernet frame carries of a TCP stream: the unit of loss, and of sending where the bandwidth is bounded."""

WAITING_BYTES_MAX: Final = 256 << 10
"""Bytes that wait for the link to be free, as in a router's queue; beyond, the sender is pushed back."""

UNDER_WAY_BYTES_MAX: Final = 16 << 20
"""Bytes under way: those of a gigabit link with 100 ms of delay."""

RETRANSMIT_S: Final = 0.2
"""The least retransmission time-out of common systems; the way there and back comes on top."""

RETRANSMISSIONS_MAX: Final = 6
"""Losses of one segment in a row: together 12.6 s, after which the best neighbour has given up."""


class FlowShape(StrEnum):
    """What becomes of bytes."""

    OPEN = "open"
    """They arrive."""
    FROZEN = "frozen"
    """They wait, and arrive once the flow is open again: half-open, as when the other end's machine has stopped."""
    LOST = "lost"
    """They are swallowed without a sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a direction is; the default is a link that adds nothing."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    """Each piece takes up to so much longer or shorter, but never overtakes."""
    loss: float = 0.0
    """The share of segments that are lost and sent again."""
    bandwidth_bit_s: float | None = None
    flow: FlowShape = FlowShape.OPEN

    def __post_init__(self) -> None:
        for name, value in (("delay", self.delay_s), ("jitter", self.jitter_s)):
            if not 0 <= value < math.inf:
                raise ValueError(f"a {name} of {value} s")
        if not 0 <= self.loss < 1:
            raise ValueError(f"a loss of {self.loss}: a share from 0 to below 1")
        if self.bandwidth_bit_s is not None and not 0 < self.bandwidth_bit_s < math.inf:
            raise ValueError(f"a bandwidth of {self.bandwidth_bit_s} bit/s")

    @property
    def segmented(self) -> bool:
        """Whether it matters where segments begin."""
        return bool(self.loss) or self.bandwidth_bit_s is not None


class ShapedLane:
    """One direction of one connection."""

    def __init__(self, shape: Shape, draw: Callable[[], float]) -> None:
        """`draw` gives numbers from 0 to below 1."""
        self.shape = shape
        self.carried_bytes = 0
        self.swallowed_bytes = 0
        self.stalls = 0
        """Segments that were lost and sent again."""
        self.torn = False
        """Whether something was swallowed: what comes after it makes no stream any more."""
        self._draw = draw
        self._waiting: deque[tuple[float, bytes]] = deque()
        """Since when, and what."""
        self._waiting_bytes = 0
        self._under_way: deque[tuple[float, bytes]] = deque()
        """When it is due, and what. Nothing overtakes: what is due before those ahead of it waits for them."""
        self._under_way_bytes = 0
        self._free_at = 0.0
        self._ended = False

    @property
    def held_bytes(self) -> int:
        return self._waiting_bytes + self._under_way_bytes

    @property
    def full(self) -> bool:
        """Whether no more is to be offered now."""
        return self._waiting_bytes >= WAITING_BYTES_MAX or self._under_way_bytes >= UNDER_WAY_BYTES_MAX

    @property
    def finished(self) -> bool:
        """Whether the stream has ended and all of it has been taken."""
        return self._ended and not self.held_bytes and self.shape.flow is FlowShape.OPEN

    def offer(self, data: bytes, now: float) -> None:
        """Bytes come in."""
        assert not self._ended, "a stream that has ended has no more bytes"
        if self.shape.flow is FlowShape.LOST:
            self._swallow(len(data))
            return
        step = SEGMENT_BYTES if self.shape.segmented else len(data)
        for at in range(0, len(data), step or 1):
            self._waiting.append((now, data[at : at + step]))
        self._waiting_bytes += len(data)
        self._send(now)

    def end(self) -> None:
        """No more bytes will come."""
        self._ended = True
        self.torn |= self.shape.flow is FlowShape.LOST

    def take(self, now: float) -> list[bytes]:
        """What has arrived by now."""
        self._send(now)
        arrived: list[bytes] = []
        if self.shape.flow is FlowShape.OPEN:
            while self._under_way and self._under_way[0][0] <= now:
                piece = self._under_way.popleft()[1]
                self._under_way_bytes -= len(piece)
                self.carried_bytes += len(piece)
                arrived.append(piece)
        assert self._under_way_bytes >= 0, "what is taken was under way"
        return arrived

    def next_deadline(self) -> float | None:
        """When `take` may have something more."""
        if self.shape.flow is not FlowShape.OPEN:
            return None
        due = self._under_way[0][0] if self._under_way else None
        if not self._waiting or self._under_way_bytes >= UNDER_WAY_BYTES_MAX:
            return due
        begins = max(self._free_at, self._waiting[0][0])
        return begins if due is None else min(due, begins)

    def reshape(self, shape: Shape, now: float) -> None:
        """Another shape from now on. What is under way stays as it was sent; what waits is sent by the new one."""
        self._send(now)
        before, self.shape = self.shape, shape
        if shape.flow is FlowShape.LOST:
            self._swallow(self.held_bytes)
            self._waiting.clear()
            self._under_way.clear()
            self._waiting_bytes = self._under_way_bytes = 0
        elif before.flow is not FlowShape.OPEN:
            self._free_at = max(self._free_at, now)

    def _swallow(self, count: int) -> None:
        self.swallowed_bytes += count
        self.torn |= bool(count)

    def _send(self, now: float) -> None:
        """Put under way what the link was free for by now."""
        shape = self.shape
        if shape.flow is not FlowShape.OPEN:
            return
        while self._waiting and self._under_way_bytes < UNDER_WAY_BYTES_MAX:
            since, piece = self._waiting[0]
            begins = max(self._free_at, since)
            if begins > now:
                break
            self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._free_at = begins + (8 * len(piece) / shape.bandwidth_bit_s if shape.bandwidth_bit_s else 0.0)
            self._under_way.append((self._free_at + self._way_s(shape), piece))
            self._under_way_bytes += len(piece)

    def _way_s(self, shape: Shape) -> float:
        """How long one piece is under way."""
        way_s = shape.delay_s
        if shape.jitter_s:
            way_s = max(0.0, way_s + shape.jitter_s * (2 * self._draw() - 1))
        if shape.loss:
            stall_s = RETRANSMIT_S + 2 * shape.delay_s
            for _ in range(RETRANSMISSIONS_MAX):
                if self._draw() >= shape.loss:
                    break
                self.stalls += 1
                way_s += stall_s
                stall_s *= 2
        return way_s

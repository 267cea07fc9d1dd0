"""One direction of a shaped link, without I/O: bytes enter with a time and leave when they are due.

A piece first waits until the link is free (bandwidth), then it is in flight (delay, jitter). The lane carries TCP
streams, so it keeps the order. Loss therefore appears as TCP applications see it: as a stall for a retransmission
timeout, which doubles each time the same segment is lost again. Bytes are lost only while the flow is `lost`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SEGMENT_BYTES: Final = 1448
"""TCP bytes of one Ethernet frame: the unit of loss, and of sending where the bandwidth is bounded."""

WAITING_BYTES_MAX: Final = 256 << 10
"""Bytes that wait for the link to be free, as in a router's queue. Beyond it the sender is blocked."""

IN_FLIGHT_BYTES_MAX: Final = 16 << 20
"""Bytes in flight: those of a gigabit link with 100 ms of delay."""

RETRANSMIT_S: Final = 0.2
"""The smallest retransmission timeout of common systems, to which the round trip is added."""

RETRANSMISSIONS_MAX: Final = 6
"""Losses of one segment in a row: together 12.6 s."""


class FlowShape(StrEnum):
    """The treatment of bytes."""

    OPEN = "open"
    """Bytes arrive."""
    FROZEN = "frozen"
    """Bytes wait, and arrive after the flow is open again: half-open, as when the other machine is suspended."""
    LOST = "lost"
    """Bytes are dropped silently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one direction. The default adds nothing."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    """Maximal deviation of the delay, both ways. Pieces never overtake each other."""
    loss: float = 0.0
    """Share of segments that are lost and retransmitted."""
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
        """Whether bytes must be split into segments."""
        return bool(self.loss) or self.bandwidth_bit_s is not None


class ShapedLane:
    """One direction of one connection."""

    def __init__(self, shape: Shape, draw: Callable[[], float]) -> None:
        """`draw` returns random numbers from 0 to below 1."""
        self.shape = shape
        self.carried_bytes = 0
        self.dropped_bytes = 0
        self.stalls = 0
        """Segments that were lost and retransmitted."""
        self.has_lost_bytes = False
        """Whether bytes were dropped, which breaks the stream."""
        self._draw = draw
        self._waiting: deque[tuple[float, bytes]] = deque()
        """Arrival time and bytes of each piece."""
        self._waiting_bytes = 0
        self._in_flight: deque[tuple[float, bytes]] = deque()
        """Due time and bytes of each piece. Pieces stay in order: an earlier due time behind a later one has no
        effect."""
        self._in_flight_bytes = 0
        self._free_at = 0.0
        self._ended = False

    @property
    def held_bytes(self) -> int:
        return self._waiting_bytes + self._in_flight_bytes

    @property
    def full(self) -> bool:
        """Whether the lane accepts no more bytes now."""
        return self._waiting_bytes >= WAITING_BYTES_MAX or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX

    @property
    def finished(self) -> bool:
        """Whether the stream has ended and all bytes were taken."""
        return self._ended and not self.held_bytes and self.shape.flow is FlowShape.OPEN

    def add(self, data: bytes, now: float) -> None:
        """Add bytes to the lane."""
        assert not self._ended, "an ended stream accepts no bytes"
        if self.shape.flow is FlowShape.LOST:
            self._drop(len(data))
            return
        step = SEGMENT_BYTES if self.shape.segmented else len(data)
        for at in range(0, len(data), step or 1):
            self._waiting.append((now, data[at : at + step]))
        self._waiting_bytes += len(data)
        self._send(now)

    def end(self) -> None:
        """End the stream."""
        self._ended = True
        self.has_lost_bytes |= self.shape.flow is FlowShape.LOST

    def take(self, now: float) -> list[bytes]:
        """Remove and return the bytes that have arrived by now."""
        self._send(now)
        arrived: list[bytes] = []
        if self.shape.flow is FlowShape.OPEN:
            while self._in_flight and self._in_flight[0][0] <= now:
                piece = self._in_flight.popleft()[1]
                self._in_flight_bytes -= len(piece)
                self.carried_bytes += len(piece)
                arrived.append(piece)
        assert self._in_flight_bytes >= 0, "only pieces in flight are taken"
        return arrived

    def next_deadline(self) -> float | None:
        """Return the next time at which `take` may return bytes, or None."""
        if self.shape.flow is not FlowShape.OPEN:
            return None
        due = self._in_flight[0][0] if self._in_flight else None
        if not self._waiting or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX:
            return due
        begins = max(self._free_at, self._waiting[0][0])
        return begins if due is None else min(due, begins)

    def reshape(self, shape: Shape, now: float) -> None:
        """Apply another shape. Pieces in flight keep their due times; waiting pieces are sent under the new shape."""
        self._send(now)
        before, self.shape = self.shape, shape
        if shape.flow is FlowShape.LOST:
            self._drop(self.held_bytes)
            self._waiting.clear()
            self._in_flight.clear()
            self._waiting_bytes = self._in_flight_bytes = 0
        elif before.flow is not FlowShape.OPEN:
            self._free_at = max(self._free_at, now)

    def _drop(self, count: int) -> None:
        self.dropped_bytes += count
        self.has_lost_bytes |= bool(count)

    def _send(self, now: float) -> None:
        """Send the waiting pieces for which the link was free by now."""
        shape = self.shape
        if shape.flow is not FlowShape.OPEN:
            return
        while self._waiting and self._in_flight_bytes < IN_FLIGHT_BYTES_MAX:
            since, piece = self._waiting[0]
            begins = max(self._free_at, since)
            if begins > now:
                break
            self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._free_at = begins + (8 * len(piece) / shape.bandwidth_bit_s if shape.bandwidth_bit_s else 0.0)
            self._in_flight.append((self._free_at + self._transit_s(shape), piece))
            self._in_flight_bytes += len(piece)

    def _transit_s(self, shape: Shape) -> float:
        """Return the transit time of one piece in seconds."""
        transit_s = shape.delay_s
        if shape.jitter_s:
            transit_s = max(0.0, transit_s + shape.jitter_s * (2 * self._draw() - 1))
        if shape.loss:
            stall_s = RETRANSMIT_S + 2 * shape.delay_s
            for _ in range(RETRANSMISSIONS_MAX):
                if self._draw() >= shape.loss:
                    break
                self.stalls += 1
                transit_s += stall_s
                stall_s *= 2
        return transit_s

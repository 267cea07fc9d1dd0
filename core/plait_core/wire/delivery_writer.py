"""What goes out over one connection: events for a client or for the next broker, handed over as one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..native import kernel
from .event_frames import EventFrame, deliver_head, forward_head

Named: TypeAlias = tuple[int, int, int]
"""What a `Delivery` says, as the plain tuple that costs half of it."""


class DeliveryWriter:
    """Bytes for one connection. Each call tells how many wait now."""

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def deliver(
        self, frame: EventFrame, delay_us: int, path: tuple[int, ...], deliveries: Sequence[Named], version: int
    ) -> int:
        """Write a deliver frame: an event for these. Counts within WireLimits are up to the caller."""
        self.append(deliver_head(frame.block, delay_us, 0, path, deliveries, version))
        return self.append(frame.block)

    def forward(
        self,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[tuple[int, int, int]],
        version: int,
    ) -> int:
        """Write a forward frame: an event on its way to these. Counts within WireLimits are up to the caller."""
        self.append(forward_head(frame.block, tree, delay_us, flags, path, destinations, version))
        return self.append(frame.block)

    def append(self, data: bytes) -> int:
        """Write bytes as they are."""
        self._chunks.append(data)
        self._size += len(data)
        return self._size

    def take(self) -> bytes:
        """Everything that waits, which does so no more."""
        taken, self._chunks, self._size = b"".join(self._chunks), [], 0
        return taken


if not TYPE_CHECKING and kernel is not None:
    DeliveryWriter = kernel.DeliveryWriter

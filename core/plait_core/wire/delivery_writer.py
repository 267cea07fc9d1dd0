"""Buffer the outgoing event frames of one connection, and return them as one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..native import kernel
from .event_frames import Delivery, Destination, EventFrame, Forward, deliver_head, forward_head

ForwardFields: TypeAlias = tuple[EventFrame, int, int, int, tuple[int, ...], Sequence[Destination]]
"""The fields of a forward frame: frame, tree, delay in microseconds, flags, path, destinations."""


class DeliveryWriter:
    """Buffer the frames of one connection. Each call returns the number of bytes buffered."""

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def deliver(
        self,
        frame: EventFrame,
        delay_us: int,
        path: tuple[int, ...],
        deliveries: Sequence[Delivery],
        version: int,
    ) -> int:
        """Write a deliver frame for these subscriptions. The caller keeps the counts within WireLimits."""
        head = deliver_head(frame.block, delay_us, 0, path, deliveries, version)
        self._chunks += (head, frame.block)
        self._size += len(head) + len(frame.block)
        return self._size

    def forward(
        self,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
        version: int,
    ) -> int:
        """Write a forward frame for these destinations. The caller keeps the counts within WireLimits."""
        head = forward_head(frame.block, tree, delay_us, flags, path, destinations, version)
        self._chunks += (head, frame.block)
        self._size += len(head) + len(frame.block)
        return self._size

    def forward_all(
        self, copies: Sequence[ForwardFields], version: int, bytes_max: int, waited_us: int = 0
    ) -> tuple[int, int]:
        """Write forward frames, in order, until `bytes_max` bytes are buffered. Add `waited_us` to their delays. Return
        the number of frames written and of bytes buffered."""
        written = 0
        for frame, tree, delay_us, flags, path, destinations in copies:
            if self._size >= bytes_max:
                break
            self.forward(frame, tree, delay_us + waited_us, flags, path, destinations, version)
            written += 1
        return written, self._size

    def append(self, data: bytes) -> int:
        """Write bytes unchanged."""
        self._chunks.append(data)
        self._size += len(data)
        return self._size

    def take(self) -> bytes:
        """Return all buffered bytes and empty the buffer."""
        taken, self._chunks, self._size = b"".join(self._chunks), [], 0
        return taken


def common_stream(copies: Sequence[ForwardFields]) -> tuple[int, int, int, int, int, int] | None:
    """Return what copies have in common if all are from one root for one destination, with one priority: root,
    destination, priority, their flags together, the bytes of their blocks, and the brokers on their paths. Return None
    for other copies, and if a frame names further destinations."""
    if not copies:
        return None
    _, _, _, _, first_path, first_to = copies[0]
    if not (first_path and first_to):
        return None
    root, destination, priority = first_path[0], first_to[0][0], copies[0][0].priority
    flags = block_bytes = hops = 0
    for frame, _, _, its_flags, path, to in copies:
        wide = len(to) != 1 or (isinstance(frame, Forward) and len(frame.destinations) != 1)
        if wide or to[0][0] != destination or path[0] != root or frame.priority != priority:
            return None
        flags |= its_flags
        block_bytes += len(frame.block)
        hops += len(path)
    return root, destination, priority, flags, block_bytes, hops


if not TYPE_CHECKING and kernel is not None:
    DeliveryWriter = kernel.DeliveryWriter
    common_stream = kernel.common_stream

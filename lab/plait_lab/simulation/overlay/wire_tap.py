"""What passes between simulated brokers: frames that an observer sees, or that an interceptor changes.

Nothing is decoded unless somebody observes or intercepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from plait_core.wire import VERSION_MAX, Close, Forward, Frame, FrameDecoder, encode_frame
from plait_core.wire.frame_header import FORWARD, HANDSHAKE_VERSION, PREFIX, PREFIX_BYTES
from plait_core.wire.frame_types.connection_frames import CLOSE, HELLO, INTRODUCTION, WELCOME

from .broker_node import OverlayNode
from .network import Endpoint, Link, LinkConnection, OverlayNetwork

_HANDSHAKE: Final = (HELLO, WELCOME, INTRODUCTION, CLOSE)

SeeWrite: TypeAlias = Callable[[LinkConnection, int, bytes], None]
SeeCopy: TypeAlias = Callable[[Link, OverlayNode, Forward], None]
"""Takes the link, the broker that writes, and the copy of an event."""

SeeFrame: TypeAlias = Callable[[Link, OverlayNode, Frame], None]
"""Takes the link, the broker that writes, and the frame."""

SeeClose: TypeAlias = Callable[[OverlayNode, Endpoint, Close], None]
"""Takes the broker that closes a connection, the other end, and the frame that says why."""

Change: TypeAlias = Callable[[LinkConnection, Frame], Sequence[Frame | bytes]]
"""Takes a connection and a frame that is written to it. Returns the frames, or bytes, to write instead."""


class WireTap:
    """Observers and interceptors of what brokers write to each other."""

    def __init__(self, network: OverlayNetwork, nodes: Sequence[OverlayNode]) -> None:
        self._network = network
        self._nodes = nodes
        self._see_write: list[SeeWrite] = []
        self._see_copy: list[SeeCopy] = []
        self._see_frame: dict[int, list[SeeFrame]] = {}
        self._changes: dict[int, Change] = {}

    def see_writes(self, see: SeeWrite) -> None:
        """Report each write, with its connection and the side that writes."""
        self._see_write.append(see)
        self._network.tap = self._pass

    def on_copy(self, see: SeeCopy) -> None:
        """Report each copy of an event."""
        self._see_copy.append(see)
        self._network.tap = self._pass

    def on_frame(self, number: int, see: SeeFrame) -> None:
        """Report each frame whose type has this number."""
        self._see_frame.setdefault(number, []).append(see)
        self._network.tap = self._pass

    def on_close(self, see: SeeClose) -> None:
        """Report each Close frame that a broker writes to another end of a link."""

        def see_write(connection: LinkConnection, side: int, data: bytes) -> None:
            for version, number, piece in pieces(data):
                if number == CLOSE:
                    (frame,) = FrameDecoder().read(piece) if version == HANDSHAKE_VERSION else decode(piece, version)
                    assert isinstance(frame, Close)
                    see(self._nodes[connection.ends[side].number], connection.ends[1 - side], frame)

        self.see_writes(see_write)

    def intercept(self, node: OverlayNode, change: Change | None) -> None:
        """Change what a broker writes, frame by frame, after the handshake. None ends that."""
        if change is None:
            self._changes.pop(node.number, None)
        else:
            self._changes[node.number] = change
            self._network.tap = self._pass

    def _pass(self, connection: LinkConnection, side: int, data: bytes) -> bytes:
        change = self._changes.get(connection.ends[side].number)
        if change is not None:
            data = b"".join(_changed(connection, data, change))
        for see in self._see_write:
            see(connection, side, data)
        if self._see_copy:
            node = self._nodes[connection.ends[side].number]
            for frame in _copies(data):
                for see_copy in self._see_copy:
                    see_copy(connection.link, node, frame)
        if self._see_frame:
            self._report(connection, side, data)
        return data

    def _report(self, connection: LinkConnection, side: int, data: bytes) -> None:
        """Decode and report the frames of a write that somebody observes."""
        for version, number, piece in pieces(data):
            if number in self._see_frame:
                (frame,) = decode(piece, version)
                for see in self._see_frame[number]:
                    see(connection.link, self._nodes[connection.ends[side].number], frame)


def pieces(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the version, the type number and the bytes of each frame in a write."""
    at = 0
    while at < len(data):
        body_bytes, version, number, _ = PREFIX.unpack_from(data, at)
        size = PREFIX_BYTES + body_bytes
        yield version, number, data[at : at + size]
        at += size


def _copies(data: bytes) -> Iterator[Forward]:
    for version, number, piece in pieces(data):
        if number == FORWARD:
            (frame,) = decode(piece, version)
            assert isinstance(frame, Forward)
            yield frame


def _changed(connection: LinkConnection, data: bytes, change: Change) -> Iterator[bytes]:
    for version, number, piece in pieces(data):
        if number in _HANDSHAKE:
            yield piece
            continue
        (frame,) = decode(piece, version)
        for instead in change(connection, frame):
            if instead is frame:
                yield piece
            else:
                yield instead if isinstance(instead, bytes) else encode_frame(instead, version)


def decode(piece: bytes, version: int = VERSION_MAX) -> list[Frame]:
    """Return the frames in bytes after a handshake."""
    decoder = FrameDecoder(version=version, keep_unknown=True)
    decoder.feed(piece)
    return decoder.take()

"""The streams that begin or end at one broker, one for each other broker."""

from __future__ import annotations

from .reliable_stream import ReceiveStream, SendStream


class OwnStreams:
    """The streams of one broker, by the broker at their other end."""

    def __init__(self) -> None:
        self.outgoing: dict[int, SendStream] = {}
        """By destination."""
        self.incoming: dict[int, ReceiveStream] = {}
        """By publisher's broker."""

    def last_position(self, home: int) -> int | None:
        """Return the last unacked position of the stream to a destination, 0 if there is none, and None while events
        wait for its window."""
        outgoing = self.outgoing.get(home)
        if outgoing is None:
            return 0
        if outgoing.waiting:
            return None
        return outgoing.next - 1 if outgoing.kept else 0

    def has_reached(self, root: int, position: int) -> bool:
        """Return whether the stream from a publisher's broker has reached a position."""
        incoming = self.incoming.get(root)
        return incoming is not None and incoming.expected is not None and incoming.expected > position

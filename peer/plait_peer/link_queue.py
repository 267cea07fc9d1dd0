"""The frames that wait for one connection: control frames, which overtake events, and events. No I/O.

Rule: everything that decides which frame overtakes which lives in this file, in `RULES`. Events never overtake each
other, so the events of one publisher keep their order. Nor do the frames of a pair that concern its connection.

`LinkPair` and `Close` come from the queue and the link, not from peers. A LinkPair is written as soon as the next frame
is of another pair, in the order of the connection. A Close is the last frame: what waits precedes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from plait_core.limits import PEER_SOURCES_MAX
from plait_core.wire import VERSION_MAX, DeliveryWriter, EventFrame, encode_frame
from plait_core.wire.frame_types.peer_frames import (
    Accept,
    Beat,
    Connect,
    DetectCycle,
    Disconnect,
    Enrol,
    Enrolled,
    Gossip,
    LinkPair,
    PeerEvent,
    PeerFrame,
    PotentialParent,
    Pulse,
    Taken,
)

from .protocol.outputs import PeerId

Pair: TypeAlias = tuple[PeerId, PeerId]
"""Sender and receiver."""
EventKey: TypeAlias = tuple[PeerId, PeerId, int]
"""A copy of an event: its receiver, its publisher and its number."""

WRITE_BYTES: Final = 16 * 1024
"""Bytes of events for one write, which the last event may exceed. A write is one record of the encryption, so the other
end reads nothing of it before all of it has arrived: an eighth of a second at 1 Mbit/s."""
NOTHING: Final[frozenset[EventKey]] = frozenset()
NO_PAIR: Final[Pair] = (0, 0)
"""Of frames of the link itself; no LinkPair precedes them."""


class Rule(Enum):
    """The frames that one may overtake. A pair is that of the frame's sender and receiver."""

    EVENT = auto()  # nothing: it waits behind all events
    AFTER_EVENTS = auto()  # events of other pairs
    CONNECTION = auto()  # all events, unless a frame AFTER_EVENTS of its pair waits
    DELAYS = auto()  # as CONNECTION; but it announces no delay below that of events of its pair that wait
    FREE = auto()  # all events


RULES: Final[dict[type[PeerFrame], Rule]] = {
    PeerEvent: Rule.EVENT,
    # Its receiver drops the sender's later events, and blames the sender for them.
    Disconnect: Rule.AFTER_EVENTS,
    # They ask for, keep or explain a connection. One that overtook a Disconnect would be undone by it.
    Connect: Rule.CONNECTION,
    PotentialParent: Rule.CONNECTION,
    DetectCycle: Rule.CONNECTION,
    Pulse: Rule.CONNECTION,
    # Their receiver blames the sender for events with more than the announced delay.
    Accept: Rule.DELAYS,
    Beat: Rule.DELAYS,
    # Gossip announces numbers of events that may still wait. It takes other paths as well, so the receiver is patient
    # while the events of a publisher advance (`protocol/omission_detection.py`).
    Gossip: Rule.FREE,
    # They name events of their receiver, and promise nothing about events that the sender has sent.
    Enrol: Rule.FREE,
    Enrolled: Rule.FREE,
    Taken: Rule.FREE,
}


class Chunk(NamedTuple):
    """Frames of one pair, encoded."""

    pair: Pair
    data: bytes
    ordered: bool
    """Whether it is a control frame that must not overtake earlier events."""
    confirmed: frozenset[EventKey]
    """The events with confirmation."""


class LinkQueue:
    """All frames that wait for one connection."""

    __slots__ = (
        "_confirmed", "_control", "_delays", "_events", "_ordered", "_sealed_bytes", "_tail", "_tail_bytes",
        "_tail_confirmed", "_tail_pair", "_waiting", "_written_pair", "size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.size = 0
        """Bytes that wait, without the LinkPair frames to come."""
        self._control: list[tuple[Pair, bytes]] = []
        self._events: deque[Chunk] = deque()
        self._tail = DeliveryWriter()
        """The last events, all of one pair: the end of the queue."""
        self._tail_pair = NO_PAIR
        self._tail_bytes = 0
        self._tail_confirmed: set[EventKey] = set()
        self._confirmed: set[EventKey] = set()
        """The events with confirmation that wait."""
        self._sealed_bytes = 0
        """Bytes that wait elsewhere than in the tail."""
        self._written_pair = NO_PAIR
        """The pair of the last LinkPair that was taken."""
        self._waiting: dict[Pair, int] = {}
        """Chunks of events in `_events`, by pair."""
        self._ordered: dict[Pair, int] = {}
        """Control frames in `_events`, by pair."""
        self._delays: dict[Pair, dict[PeerId, float]] = {}
        """The greatest delay of a publisher's events since no event waited."""

    def add_link_frame(self, data: bytes) -> None:
        """Queue a control frame of the link itself."""
        self._add_control(NO_PAIR, data)

    def add_close(self, data: bytes) -> None:
        """Queue the last frame."""
        self._add_ordered(NO_PAIR, data)

    def add_control(self, pair: Pair, frame: PeerFrame) -> None:
        """Queue a control frame of a peer."""
        rule = RULES[type(frame)]
        assert rule is not Rule.EVENT, "events are no control frames"
        if rule is Rule.DELAYS:
            assert isinstance(frame, Accept | Beat), "the frames that announce delays"
            frame = self._with_delays_of_waiting(pair, frame)
        data = encode_frame(frame, VERSION_MAX)
        behind = self._events_wait(pair) if rule is Rule.AFTER_EVENTS else False
        if behind or (rule is not Rule.FREE and pair in self._ordered):
            self._add_ordered(pair, data)
        else:
            self._add_control(pair, data)

    def add_event(self, pair: Pair, event: PeerEvent, data: bytes) -> None:
        """Queue an event, which is encoded as `data`."""
        if pair != self._tail_pair or self._tail_bytes >= WRITE_BYTES:
            self._seal(pair)
        self._tail_bytes = self._tail.append(data)
        self.size = self._sealed_bytes + self._tail_bytes
        if event.round:
            key = (pair[1], event.publisher, event.number)
            self._tail_confirmed.add(key)
            self._confirmed.add(key)
        if event.delay:
            delays = self._delays.setdefault(pair, {})
            known = delays.get(event.publisher)
            if event.delay > known if known is not None else len(delays) < PEER_SOURCES_MAX:
                delays[event.publisher] = event.delay

    def holds(self, receiver: PeerId, event: PeerEvent) -> bool:
        """Return whether a copy of an event with confirmation waits for a receiver, from any sender."""
        return (receiver, event.publisher, event.number) in self._confirmed

    def add_events(
        self, pair: Pair, frames: Sequence[EventFrame], destinations: tuple[tuple[int, int, int]], bytes_max: int
    ) -> int:
        """Queue a local publisher's events while no more than `bytes_max` bytes wait. Return the number of events left
        out."""
        if pair != self._tail_pair:
            self._seal(pair)
        forward, publisher, size = self._tail.forward, pair[0], self._tail_bytes
        limit = min(WRITE_BYTES, bytes_max - self._sealed_bytes)
        for count, frame in enumerate(frames):
            if size > limit:
                self._tail_bytes = size
                self.size = self._sealed_bytes + size
                if self.size > bytes_max:
                    return len(frames) - count
                self._seal(pair)
                size, limit = 0, min(WRITE_BYTES, bytes_max - self._sealed_bytes)
            size = forward(frame, publisher, 0, 0, (), destinations, VERSION_MAX)
        self._tail_bytes = size
        self.size = self._sealed_bytes + size
        return 0

    def take(self) -> bytes:
        """Remove and return the bytes of one write: all control frames that overtake, then the first events, up to
        `WRITE_BYTES`. At least one event is taken."""
        parts: list[bytes] = []
        control, self._control = self._control, []
        for pair, data in control:
            self._write(pair, data, parts)
        self._seal(self._tail_pair)
        events, taken = self._events, 0
        while events and (not taken or taken + len(events[0].data) <= WRITE_BYTES):
            pair, data, ordered, confirmed = events.popleft()
            _decrement(self._ordered if ordered else self._waiting, pair)
            if confirmed:
                self._confirmed -= confirmed
            self._write(pair, data, parts)
            taken += len(data)
        if not events:
            self._delays.clear()
        self._sealed_bytes -= taken + sum([len(data) for _, data in control])
        self.size = self._sealed_bytes
        assert self.size >= 0, "what is taken was queued"
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _events_wait(self, pair: Pair) -> bool:
        return pair in self._waiting or (pair == self._tail_pair and self._tail_bytes > 0)

    def _with_delays_of_waiting(self, pair: Pair, frame: Accept | Beat) -> Accept | Beat:
        """Return the frame with at least the delays of events that wait."""
        waiting = self._delays.get(pair)
        if not waiting:
            return frame
        both = zip(frame.sources, frame.delays, strict=True)
        return replace(frame, delays=tuple([max(delay, waiting.get(source, 0.0)) for source, delay in both]))

    def _add_control(self, pair: Pair, data: bytes) -> None:
        self._control.append((pair, data))
        self._sealed_bytes += len(data)
        self.size += len(data)

    def _add_ordered(self, pair: Pair, data: bytes) -> None:
        self._seal(self._tail_pair)
        self._events.append(Chunk(pair, data, True, NOTHING))
        self._ordered[pair] = self._ordered.get(pair, 0) + 1
        self._sealed_bytes += len(data)
        self.size += len(data)

    def _seal(self, pair: Pair) -> None:
        """End the chunk at the tail, and begin one of `pair`."""
        if self._tail_bytes:
            confirmed = frozenset(self._tail_confirmed) if self._tail_confirmed else NOTHING
            self._events.append(Chunk(self._tail_pair, self._tail.take(), False, confirmed))
            if confirmed:
                self._tail_confirmed.clear()
            self._waiting[self._tail_pair] = self._waiting.get(self._tail_pair, 0) + 1
            self._sealed_bytes += self._tail_bytes
            self._tail_bytes = 0
        self._tail_pair = pair

    def _write(self, pair: Pair, data: bytes, parts: list[bytes]) -> None:
        if pair not in (self._written_pair, NO_PAIR):
            self._written_pair = pair
            parts.append(encode_frame(LinkPair(*pair), VERSION_MAX))
        parts.append(data)


def _decrement(counts: dict[Pair, int], pair: Pair) -> None:
    if counts[pair] == 1:
        del counts[pair]
    else:
        counts[pair] -= 1

"""Processing time of simulated brokers: one frame after the other, while what arrives meanwhile waits.

A broker reads a frame at the end of its processing time, with the time of that moment, and what it writes leaves then.
So clock stamps and the ages of events count the wait in front of a broker, and the processing itself. The age of an
event begins when its publisher's broker has read it, as in production.

Frames are processed in the order of their arrival. A production broker differs: it reads its sockets in turn, each up
to some hundred KiB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeAlias

from plait_core.wire.frame_header import FORWARD, PREFIX, PREFIX_BYTES, PUBLISH

from ..timeline import Timeline

Happen: TypeAlias = Callable[[], None]


def constant(rng: Random) -> float:
    """Draw nothing: all frames of a kind take the same time."""
    return 1.0


def exponential(rng: Random) -> float:
    """Draw from the exponential distribution with mean 1."""
    return rng.expovariate(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTime:
    """The time that a broker takes for what it receives."""

    frame_s: float = 0.0
    """For each frame."""
    byte_s: float = 0.0
    """For each byte, besides."""
    event_s: float = 0.0
    """For each event of a client, besides."""
    copy_s: float = 0.0
    """For each copy of an event from another broker, besides."""
    factor: Callable[[Random], float] = constant
    """Draws the multiple of these times that one frame takes; its mean should be 1."""

    def draw(self, frame: bytes, rng: Random) -> float:
        """Return the seconds that a frame takes."""
        number = PREFIX.unpack_from(frame)[2]
        kind_s = self.copy_s if number == FORWARD else self.event_s if number == PUBLISH else 0.0
        return (self.frame_s + kind_s + self.byte_s * len(frame)) * self.factor(rng)


class InputQueue:
    """The input of one process, in order. It waits while the process is paused, or busy with a frame."""

    def __init__(self, timeline: Timeline, rng: Random, processed: Callable[[], None]) -> None:
        """`processed` is called after each frame that took time."""
        self.time: ProcessingTime | None = None
        """The time that input takes; None: none."""
        self.paused = False
        self.busy = False
        self._timeline = timeline
        self._rng = rng
        self._processed = processed
        self._held: deque[Happen] = deque()
        self._next: deque[Happen] = deque()
        """What waits for the end of the present frame alone: it does not come over a connection."""
        self._begun: dict[int, bytes] = {}
        """By connection, the frame of which only a part has arrived."""
        self._life = 0

    @property
    def waits(self) -> bool:
        """Whether input must wait now."""
        return self.paused or self.busy

    def add(self, happen: Happen) -> None:
        """Append input from a connection. Call it while input waits."""
        self._held.append(happen)

    def add_other(self, happen: Happen) -> None:
        """Append input that a process takes between two reads. Call it while input waits."""
        (self._next if self.busy else self._held).append(happen)

    def split(self, id: int, data: bytes) -> list[bytes]:
        """Return the parts that are processed by themselves: all bytes, or each frame that is complete now."""
        if self.time is None:
            return [data]
        data = self._begun.pop(id, b"") + data
        frames, at = [], 0
        while len(data) - at >= PREFIX_BYTES:
            end = at + PREFIX_BYTES + int(PREFIX.unpack_from(data, at)[0])
            if end > len(data):
                break
            frames.append(data[at:end])
            at = end
        if at < len(data):
            self._begun[id] = data[at:]
        return frames

    def forget(self, id: int) -> None:
        """Forget a connection that has ended."""
        self._begun.pop(id, None)

    def process(self, data: bytes, receive: Happen) -> None:
        """Receive bytes at the end of the time that they take. Call it while no input waits."""
        if self.time is None:
            receive()
        else:
            self.busy = True
            self._timeline.after(self.time.draw(data, self._rng), partial(self._end, self._life, receive))

    def go_on(self) -> None:
        """Take what has waited, as far as it need not wait any more."""
        while (waiting := self._next or self._held) and not self.waits:
            waiting.popleft()()

    def clear(self) -> None:
        """Drop everything: the process has died."""
        self._life += 1
        self.paused = self.busy = False
        for waiting in (self._held, self._next, self._begun):
            waiting.clear()

    def _end(self, life: int, receive: Happen) -> None:
        """End the processing of a frame, and begin that of the next one."""
        if life != self._life:
            return
        self.busy = False
        if self.paused:
            self._held.appendleft(receive)
            return
        receive()
        self._processed()
        self.go_on()

"""Discovery of brokers on one network segment, by multicast announcements. No I/O.

A datagram is one Announcement frame and, if the overlay has a secret, an HMAC of it. Announcements are numbered: one
whose number is not above the broker's last is old, and no clocks are compared. Announcements of unknown or forgotten
brokers can be replayed. Such a replay leads only to a connection attempt, where both ends must authenticate.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from dataclasses import dataclass
from typing import Final

from plait_core.errors import FrameError
from plait_core.ids import Randomness
from plait_core.limits import PROOF_BYTES
from plait_core.wire import VERSION_MAX, FrameDecoder, encode_frame
from plait_core.wire.frame_types.overlay_frames import Announcement

from ..security.mutual_auth import keyed

INTERVAL_S: Final = 3.0
"""Average time between two announcements. A new broker announces itself at once, and learns of all others within it."""

SPREAD: Final = 0.5
"""Relative jitter of the interval, so that brokers that start together do not keep sending at the same time."""

ANSWER_S: Final = 0.5
"""A broker answers the first announcement of another one within this, at random."""

QUIET_S: Final = 1.0
"""Least time between an announcement and such an answer, for any number of new brokers."""

DATAGRAM_BYTES_MAX: Final = 1200
"""Fits one packet on all networks."""

ANNOUNCEMENTS_MAX: Final = 1024
"""Brokers whose last number is stored. Beyond it the one with the oldest announcement is forgotten."""

PORTS: Final = range(1, 65_536)

_PURPOSE: Final = b"plait: an announcement of a broker"


@dataclass(frozen=True, slots=True)
class Found:
    """A broker that has announced itself."""

    broker: int
    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """The address as HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Announcements:
    """Makes one broker's announcements, and reads those of others."""

    def __init__(
        self, overlay: str, secret: str, me: int, name: str, host: str, port: int, randomness: Randomness, now: float
    ) -> None:
        """An empty `host` means the source address of the datagrams."""
        assert port in PORTS, "a broker that announces itself listens on a port"
        self.counts: Counter[str] = Counter()
        """Received datagrams by result."""
        self._template = Announcement(overlay, me, name, 0, port, host)
        self._number = 0
        self._key = keyed(secret, _PURPOSE) if secret else b""
        self._randomness = randomness
        self._numbers: dict[int, int] = {}
        """By broker, the number of its last announcement."""
        self._due_at = now
        self._announced_at = now

    def next_deadline(self) -> float:
        """Return when to announce again."""
        return self._due_at

    def announce(self, now: float) -> bytes:
        """Return the datagram to send to the group now."""
        self._due_at = now + INTERVAL_S * (1 + SPREAD * (2 * self._randomness.random() - 1))
        self._announced_at = now
        self._number += 1
        own = self._template
        frame = encode_frame(
            Announcement(own.overlay, own.broker, own.name, self._number, own.port, own.host), VERSION_MAX
        )
        datagram = frame + self._proof(frame)
        assert len(datagram) <= DATAGRAM_BYTES_MAX, "names and hosts are bounded"
        return datagram

    def receive(self, datagram: bytes, host: str, now: float) -> Found | None:
        """Return the broker that a datagram from this host announces, or None if the datagram is old or invalid."""
        announced = self._read(datagram)
        if isinstance(announced, str):
            self.counts[announced] += 1
            return None
        before = self._numbers.pop(announced.broker, 0)
        self._numbers[announced.broker] = max(announced.number, before)
        if announced.number <= before:
            self.counts["old"] += 1
            return None
        if len(self._numbers) > ANNOUNCEMENTS_MAX:
            del self._numbers[next(iter(self._numbers))]
        self.counts["heard"] += 1
        if not before:
            answer_at = max(now + ANSWER_S * self._randomness.random(), self._announced_at + QUIET_S)
            self._due_at = min(self._due_at, answer_at)
        return Found(announced.broker, announced.name, announced.host or host, announced.port)

    def _read(self, datagram: bytes) -> Announcement | str:
        """Return the announcement in a datagram, or the reason to drop it."""
        end = len(datagram) - (PROOF_BYTES if self._key else 0)
        if end <= 0 or len(datagram) > DATAGRAM_BYTES_MAX:
            return "malformed"
        frame, proof = datagram[:end], datagram[end:]
        if self._key and not hmac.compare_digest(self._proof(frame), proof):
            return "unproved"
        decoder = FrameDecoder(version=VERSION_MAX)
        try:
            decoder.feed(frame)
            frames = decoder.take() + decoder.take()  # the second call raises the error that follows a frame
        except FrameError:
            return "malformed"
        if len(frames) != 1 or not isinstance(frames[0], Announcement) or decoder.held_bytes:
            return "malformed"
        announcement = frames[0]
        if announcement.broker == self._template.broker:
            return "own"
        return announcement if announcement.overlay == self._template.overlay else "other_overlay"

    def _proof(self, frame: bytes) -> bytes:
        return hmac.digest(self._key, frame, hashlib.sha256) if self._key else b""

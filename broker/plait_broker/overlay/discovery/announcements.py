"""Finding brokers on one network segment: what is announced, and what is believed of announcements. No I/O.

A datagram is one Announcement frame and, where the overlay has a secret, an HMAC of it. No clocks are compared: what
has no higher number than the last of its broker is old. One of a broker that was forgotten, or never heard here, may be
replayed; that leads to an attempt to connect, where both ends must prove who they are, and to nothing more.
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
"""Between two announcements, on average: a newcomer hears of all others in that time, and they of it at once."""

SPREAD: Final = 0.5
"""How far one interval may be from the average: brokers that start together do not speak together for long."""

ANSWER_S: Final = 0.5
"""Within which a newcomer hears of those that are there, so that it need not wait for their next announcements."""

QUIET_S: Final = 1.0
"""After an announcement, however many newcomers there are."""

DATAGRAM_BYTES_MAX: Final = 1200
"""Fits one packet on any network."""

HEARD_MAX: Final = 1024
"""Brokers whose last number is known; beyond it the one that was silent for longest is forgotten."""

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
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Announcements:
    """One broker's announcements, and what it hears of others'."""

    def __init__(
        self, overlay: str, secret: str, me: int, name: str, host: str, port: int, randomness: Randomness, now: float
    ) -> None:
        """`host` is empty when it is the one that datagrams come from."""
        assert port in PORTS, "a broker that can be found listens somewhere"
        self.counts: Counter[str] = Counter()
        """Datagrams by what became of them."""
        self._said = Announcement(overlay, me, name, 0, port, host)
        self._number = 0
        self._key = keyed(secret, _PURPOSE) if secret else b""
        self._randomness = randomness
        self._heard: dict[int, int] = {}
        """By broker, the number of its last announcement."""
        self._due_at = now
        self._announced_at = now

    def next_deadline(self) -> float:
        """When to announce again."""
        return self._due_at

    def announce(self, now: float) -> bytes:
        """What to send to everyone now."""
        self._due_at = now + INTERVAL_S * (1 + SPREAD * (2 * self._randomness.random() - 1))
        self._announced_at = now
        self._number += 1
        said = self._said
        frame = encode_frame(
            Announcement(said.overlay, said.broker, said.name, self._number, said.port, said.host), VERSION_MAX
        )
        datagram = frame + self._proof(frame)
        assert len(datagram) <= DATAGRAM_BYTES_MAX, "names and hosts are bounded"
        return datagram

    def hear(self, datagram: bytes, host: str, now: float) -> Found | None:
        """The broker that a datagram from this host announces, if it is news."""
        said = self._read(datagram)
        if isinstance(said, str):
            self.counts[said] += 1
            return None
        before = self._heard.pop(said.broker, 0)
        self._heard[said.broker] = max(said.number, before)
        if said.number <= before:
            self.counts["old"] += 1
            return None
        if len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        self.counts["heard"] += 1
        if not before:
            answer_at = max(now + ANSWER_S * self._randomness.random(), self._announced_at + QUIET_S)
            self._due_at = min(self._due_at, answer_at)
        return Found(said.broker, said.name, said.host or host, said.port)

    def _read(self, datagram: bytes) -> Announcement | str:
        """What it says, or why nobody listens."""
        end = len(datagram) - (PROOF_BYTES if self._key else 0)
        if end <= 0 or len(datagram) > DATAGRAM_BYTES_MAX:
            return "malformed"
        frame, proof = datagram[:end], datagram[end:]
        if self._key and not hmac.compare_digest(self._proof(frame), proof):
            return "unproved"
        decoder = FrameDecoder(version=VERSION_MAX)
        try:
            decoder.feed(frame)
            said = decoder.take() + decoder.take()  # an error comes after what is before it
        except FrameError:
            return "malformed"
        if len(said) != 1 or not isinstance(said[0], Announcement) or decoder.held_bytes:
            return "malformed"
        if said[0].broker == self._said.broker:
            return "own"
        return said[0] if said[0].overlay == self._said.overlay else "other_overlay"

    def _proof(self, frame: bytes) -> bytes:
        return hmac.digest(self._key, frame, hashlib.sha256) if self._key else b""

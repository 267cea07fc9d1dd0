"""Discovery of peers on one network segment: announcements, and checks of received ones. No I/O.

A datagram is one Announcement and, if the group has a secret, an HMAC of it. It only causes an attempt to connect, in
which both ends authenticate. A replayed datagram is therefore harmless.
"""

from __future__ import annotations

import hmac
from typing import Final

from plait_core.errors import FrameError
from plait_core.ids import Randomness
from plait_core.limits import PROOF_BYTES
from plait_core.wire import VERSION_MAX, FrameDecoder, encode_frame
from plait_core.wire.frame_types.overlay_frames import Announcement

from .group import Group

GROUP: Final = ("239.255.46.82", 4682)
"""Multicast group of announcements: administratively scoped (RFC 2365), so that border routers do not forward it."""
INTERVAL_S: Final = 2.0
"""The average time between two announcements."""
ANSWER_S: Final = 0.2
"""The longest time until a new peer's announcement is answered."""
DATAGRAM_BYTES_MAX: Final = 1200
"""A datagram that fits one packet on any network."""
ANNOUNCERS_MAX: Final = 1024
"""Processes whose last number is known; beyond it the first one is forgotten."""


class Announcements:
    """The announcements of one process, and those that it receives."""

    def __init__(self, group: Group, node: int, address: str, randomness: Randomness, now: float) -> None:
        host, _, port = address.rpartition(":")
        self._group = group
        self._node = node
        self._host, self._port = host.strip("[]"), int(port)
        self._rng = randomness
        self._number = 0
        self._numbers: dict[int, int] = {}
        self._due_at = now

    def next_deadline(self) -> float:
        """Return the time of the next announcement."""
        return self._due_at

    def announce(self, now: float) -> bytes:
        """Return the datagram to send now, and schedule the next one."""
        self._number += 1
        self._due_at = now + INTERVAL_S * (0.5 + self._rng.random())
        announcement = Announcement(self._overlay, self._node, self._group.name, self._number, self._port, self._host)
        frame = encode_frame(announcement, VERSION_MAX)
        return frame + self._group.proof(frame)

    def receive(self, datagram: bytes, now: float) -> str | None:
        """Return the address of a process that is new, or None for all other datagrams."""
        end = len(datagram) - (PROOF_BYTES if self._group.secret else 0)
        frame, proof = datagram[:end], datagram[end:]
        if len(datagram) > DATAGRAM_BYTES_MAX or not hmac.compare_digest(self._group.proof(frame), proof):
            return None
        announcement = _announcement(frame)
        if announcement is None or announcement.broker == self._node or announcement.overlay != self._overlay:
            return None
        before = self._numbers.get(announcement.broker)
        self._numbers[announcement.broker] = max(announcement.number, before or 0)
        if before is not None:
            return None
        if len(self._numbers) > ANNOUNCERS_MAX:
            del self._numbers[next(iter(self._numbers))]
        self._due_at = min(self._due_at, now + ANSWER_S * self._rng.random())
        return (
            f"[{announcement.host}]:{announcement.port}"
            if ":" in announcement.host
            else f"{announcement.host}:{announcement.port}"
        )

    @property
    def _overlay(self) -> str:
        return f"peers of {self._group.name}"[:64]


def _announcement(frame: bytes) -> Announcement | None:
    decoder = FrameDecoder(version=VERSION_MAX)
    try:
        decoder.feed(frame)
        announcement = decoder.take()
    except FrameError:
        return None
    found = announcement[0] if len(announcement) == 1 and not decoder.held_bytes else None
    return found if isinstance(found, Announcement) else None

"""Finding peers on one network segment: what is announced, and what is believed of announcements. No I/O.

A datagram is one Announcement and, where the group has a secret, a proof of it. It leads to an attempt to connect,
where both ends must prove who they are, and to nothing more; so it does no harm to replay one.
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
"""Between two announcements, on average."""
ANSWER_S: Final = 0.2
"""Within which a newcomer hears of somebody who is there."""
DATAGRAM_BYTES_MAX: Final = 1200
"""Fits one packet on any network."""
HEARD_MAX: Final = 1024
"""Processes whose last number is known; whoever was heard first is forgotten first."""


class Announcements:
    """What one process announces, and what it hears."""

    def __init__(self, group: Group, node: int, address: str, randomness: Randomness, now: float) -> None:
        host, _, port = address.rpartition(":")
        self._group = group
        self._node = node
        self._host, self._port = host.strip("[]"), int(port)
        self._rng = randomness
        self._number = 0
        self._heard: dict[int, int] = {}
        self._due_at = now

    def next_deadline(self) -> float:
        """When to announce again."""
        return self._due_at

    def announce(self, now: float) -> bytes:
        """What to send to everyone now."""
        self._number += 1
        self._due_at = now + INTERVAL_S * (0.5 + self._rng.random())
        said = Announcement(self._overlay, self._node, self._group.name, self._number, self._port, self._host)
        frame = encode_frame(said, VERSION_MAX)
        return frame + self._group.proof(frame)

    def hear(self, datagram: bytes, now: float) -> str | None:
        """The address of somebody who is new."""
        end = len(datagram) - (PROOF_BYTES if self._group.secret else 0)
        frame, proof = datagram[:end], datagram[end:]
        if len(datagram) > DATAGRAM_BYTES_MAX or not hmac.compare_digest(self._group.proof(frame), proof):
            return None
        said = _announcement(frame)
        if said is None or said.broker == self._node or said.overlay != self._overlay:
            return None
        before = self._heard.get(said.broker)
        self._heard[said.broker] = max(said.number, before or 0)
        if before is not None:
            return None
        if len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]
        self._due_at = min(self._due_at, now + ANSWER_S * self._rng.random())
        return f"[{said.host}]:{said.port}" if ":" in said.host else f"{said.host}:{said.port}"

    @property
    def _overlay(self) -> str:
        return f"peers of {self._group.name}"[:64]


def _announcement(frame: bytes) -> Announcement | None:
    decoder = FrameDecoder(version=VERSION_MAX)
    try:
        decoder.feed(frame)
        said = decoder.take()
    except FrameError:
        return None
    found = said[0] if len(said) == 1 and not decoder.held_bytes else None
    return found if isinstance(found, Announcement) else None

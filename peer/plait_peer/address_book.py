"""The addresses at which remote peers listen, as their profiles name them. No I/O."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from plait_core.wire.frame_types.peer_frames import PeerFrame, Profile

from .protocol.outputs import PeerId

ADDRESSES_MAX: Final = 8192
"""Peers whose address is remembered; beyond it the oldest entry is removed."""


class AddressBook:
    """Addresses of remote peers, the oldest first."""

    def __init__(self, local: Container[PeerId]) -> None:
        self._local = local
        self._addresses: dict[PeerId, str] = {}

    def address(self, peer: PeerId) -> str:
        """Return the address of a peer; empty if it is unknown."""
        return self._addresses.get(peer, "")

    def remember(self, profile: Profile) -> None:
        """Remember the address in a profile, unless its peer is local."""
        if not profile.address or profile.peer in self._local:
            return
        self._addresses.pop(profile.peer, None)
        self._addresses[profile.peer] = profile.address
        if len(self._addresses) > ADDRESSES_MAX:
            del self._addresses[next(iter(self._addresses))]

    def remember_all(self, frame: PeerFrame) -> None:
        """Remember the addresses in all profiles that a frame carries."""
        for name in ("profiles", "adverts", "hints"):
            for profile in getattr(frame, name, ()):
                self.remember(profile)
        profile = getattr(frame, "profile", None)
        if profile is not None:
            self.remember(profile)

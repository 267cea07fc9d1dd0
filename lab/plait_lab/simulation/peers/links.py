"""The links of simulated peers: frames as objects, or encoded and encrypted as live links do it.

Encryption costs several times what the rest of a step costs, so most histories pass objects. Both kinds have the same
history: `history_hashes.py` encrypts in some of those that it plays.
"""

from __future__ import annotations

from random import Random
from typing import Final, Protocol, TypeAlias, cast

from plait_core.ids import Randomness
from plait_core.wire import VERSION_MAX, FrameDecoder, encode_frame
from plait_core.wire.frame_types.peer_frames import PeerFrame
from plait_peer import PeerId
from plait_peer.group import Group
from plait_peer.link_cipher import LinkCipher, new_noise_cipher

Parcel: TypeAlias = PeerFrame | bytes
"""A frame on its way."""

GROUP: Final = Group("simulated", None, "swordfish")


class PeerLinks(Protocol):
    """The links between all pairs of peers."""

    def send(self, sender: PeerId, to: PeerId, frame: PeerFrame) -> Parcel:
        """Return a frame as it goes over the link."""

    def receive(self, sender: PeerId, to: PeerId, parcel: Parcel) -> PeerFrame:
        """Return the frame that has arrived. Parcels of a link arrive in their order."""

    def reset(self, one: PeerId, other: PeerId) -> None:
        """Break a link: what was on its way is lost."""


class ObjectLinks:
    """Passes the frames themselves."""

    def send(self, sender: PeerId, to: PeerId, frame: PeerFrame) -> Parcel:
        return frame

    def receive(self, sender: PeerId, to: PeerId, parcel: Parcel) -> PeerFrame:
        return cast(PeerFrame, parcel)

    def reset(self, one: PeerId, other: PeerId) -> None:
        pass


class EncryptedLinks:
    """Encodes and encrypts each frame with the ciphers of live links."""

    def __init__(self, seed: int | str) -> None:
        self._rng = Random(f"links/{seed}")
        self._ciphers: dict[tuple[PeerId, PeerId], LinkCipher] = {}
        """The end of the first peer, towards the second one."""

    def send(self, sender: PeerId, to: PeerId, frame: PeerFrame) -> Parcel:
        if (sender, to) not in self._ciphers:
            self._exchange_keys(sender, to)
        return self._ciphers[sender, to].encrypt(encode_frame(frame, VERSION_MAX))

    def receive(self, sender: PeerId, to: PeerId, parcel: Parcel) -> PeerFrame:
        assert isinstance(parcel, bytes), "nothing goes around the encryption"
        decoder = FrameDecoder(version=VERSION_MAX)
        decoder.feed(self._ciphers[to, sender].decrypt(parcel))
        (frame,) = decoder.take()
        return cast(PeerFrame, frame)

    def reset(self, one: PeerId, other: PeerId) -> None:
        self._ciphers.pop((one, other), None)
        self._ciphers.pop((other, one), None)

    def _exchange_keys(self, dialler: PeerId, acceptor: PeerId) -> None:
        one, other = new_noise_cipher(GROUP, self._rng, True), new_noise_cipher(GROUP, self._rng, False)
        other.decrypt(one.write_handshake())
        one.decrypt(other.write_handshake())
        other.decrypt(one.encrypt(b"proof"))
        self._ciphers[dialler, acceptor], self._ciphers[acceptor, dialler] = one, other


class PlainCipher:
    """A cipher that changes nothing, behind the interface of live ones: to measure what encryption costs."""

    proven: Final = True

    def write_handshake(self) -> bytes:
        return b""

    def encrypt(self, plaintext: bytes) -> bytes:
        return plaintext

    def decrypt(self, data: bytes) -> bytes:
        return data


def new_plain_cipher(group: Group, randomness: Randomness, dials: bool) -> LinkCipher:
    """Make a cipher that changes nothing."""
    return PlainCipher()

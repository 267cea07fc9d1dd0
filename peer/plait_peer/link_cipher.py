"""The encryption of a link between two processes of peers: a key exchange, then records. No I/O.

The key exchange is Noise's NNpsk0 (`noise.py`): two messages of 48 bytes. The pre-shared key comes from the group's
secret, and the prologue names the group. So a stranger can neither finish the exchange nor learn why it failed. The
dialler's first record shows that it has read the answer; before it the acceptor sends nothing but the key exchange.

A record is two bytes of length, then a Noise message: ciphertext and tag. One write of a link is one record or several.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, TypeAlias

from plait_core.errors import PlaitError
from plait_core.ids import Randomness
from plait_core.limits import HELLO_BYTES_MAX

from .group import Group
from .noise import KEY_BYTES, MESSAGE_BYTES_MAX, TAG_BYTES, CipherState, HandshakeState, NotAuthentic

HANDSHAKE_BYTES: Final = KEY_BYTES + TAG_BYTES
"""Length of either message of the key exchange: a public key, and the tag of an empty payload."""
PLAINTEXT_BYTES_MAX: Final = MESSAGE_BYTES_MAX - TAG_BYTES
"""Plaintext of one record."""
FIRST_RECORD_BYTES_MAX: Final = HELLO_BYTES_MAX + TAG_BYTES
"""Length of the record that proves the dialler: a Hello. A stranger cannot make the acceptor buffer more."""
REKEY_RECORDS: Final = 1024
"""Records under one key, in each direction: at most 64 MiB. A key that leaks opens nothing older than that."""

_LENGTH: Final = Struct(">H")


class CipherFault(PlaitError):
    """Bytes that do not authenticate. They end the link."""


class LinkCipher(Protocol):
    """The encryption of one end. The laboratory has one that changes nothing, for comparison."""

    @property
    def proven(self) -> bool:
        """Whether the other end has proved, in this connection, that it holds the group's secret."""

    def write_handshake(self) -> bytes:
        """Return the message of the key exchange to send now; empty if there is none."""

    def encrypt(self, plaintext: bytes) -> bytes:
        """Return the records of one write. The other end must be proven."""

    def decrypt(self, data: bytes, /) -> bytes:
        """Take received bytes, cut in any way, and return the plaintext that they complete. Raise CipherFault."""


NewCipher: TypeAlias = Callable[[Group, Randomness, bool], LinkCipher]
"""Makes the encryption of a new link of a group. The flag is True for the end that dials."""


def new_noise_cipher(group: Group, randomness: Randomness, dials: bool) -> LinkCipher:
    """Make the encryption of a live link."""
    ephemeral = randomness.getrandbits(8 * KEY_BYTES).to_bytes(KEY_BYTES)
    return NoiseCipher(group.link_key, group.link_prologue, ephemeral, dials=dials)


class NoiseCipher:
    """The encryption of live links.

    A record that does not authenticate ends the stream: every later call raises CipherFault as well.
    """

    def __init__(self, key: bytes, prologue: bytes, ephemeral: bytes, *, dials: bool) -> None:
        """`key` comes from the group's secret. `ephemeral`: 32 random bytes for this link alone."""
        self.proven = False
        self._handshake: HandshakeState | None = HandshakeState(key, prologue, ephemeral, initiator=dials)
        self._reply = self._handshake.write_message() if dials else b""
        self._dials = dials
        self._sending: CipherState | None = None
        self._receiving: CipherState | None = None
        self._pending = bytearray()
        """The start of a message or record."""
        self._need = HANDSHAKE_BYTES
        """Bytes that `_pending` must reach before the next step."""
        self._fault = ""

    def write_handshake(self) -> bytes:
        """Return the message of the key exchange to send now; empty if there is none."""
        reply, self._reply = self._reply, b""
        return reply

    def encrypt(self, plaintext: bytes) -> bytes:
        """Return the records of one write."""
        cipher = self._sending
        assert cipher is not None, "keys come before frames"
        assert self.proven, "nothing is sent to an end that has proved nothing"
        if len(plaintext) <= PLAINTEXT_BYTES_MAX:  # the usual case
            return self._record(cipher, plaintext) if plaintext else b""
        view = memoryview(plaintext)
        starts = range(0, len(view), PLAINTEXT_BYTES_MAX)
        return b"".join([self._record(cipher, view[start : start + PLAINTEXT_BYTES_MAX]) for start in starts])

    @staticmethod
    def _record(cipher: CipherState, plaintext: bytes | memoryview) -> bytes:
        ciphertext = cipher.encrypt(plaintext)
        if cipher.nonce % REKEY_RECORDS == 0:
            cipher.rekey()
        return _LENGTH.pack(len(ciphertext)) + ciphertext

    def decrypt(self, data: bytes | bytearray) -> bytes:
        """Take received bytes, cut in any way, and return the plaintext that they complete. Raise CipherFault."""
        if self._fault:
            raise CipherFault(self._fault)
        if self._pending or self._handshake is not None:
            self._pending += data
            if len(self._pending) < self._need:
                return b""
            data, self._pending = self._pending, bytearray()
        try:
            if self._handshake is not None:
                self._read_handshake(self._handshake, bytes(data[:HANDSHAKE_BYTES]))
                data = data[HANDSHAKE_BYTES:]
            return self._read_records(data)
        except NotAuthentic:
            self._fault = "a record does not authenticate" if self.proven else "the group's secret was not proved"
            self._pending.clear()
            raise CipherFault(self._fault) from None

    def _read_handshake(self, handshake: HandshakeState, message: bytes) -> None:
        if handshake.read_message(message):
            raise NotAuthentic  # a payload: not this protocol
        if not self._dials:
            self._reply = handshake.write_message()
        self._sending, self._receiving = handshake.split()
        self._handshake = None
        self.proven = self._dials  # the answer depends on our new key; the first message may be a recorded one
        self._need = _LENGTH.size

    def _read_records(self, data: bytes | bytearray) -> bytes:
        cipher = self._receiving
        assert cipher is not None, "the key exchange is done"
        at, end, view = 0, len(data), memoryview(data)
        found: list[bytes] = []
        need = _LENGTH.size
        while end - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data, at)
            if size <= TAG_BYTES or (size > FIRST_RECORD_BYTES_MAX and not self.proven):
                raise NotAuthentic
            start = at + _LENGTH.size
            if end - start < size:
                need = _LENGTH.size + size
                break
            at = start + size
            found.append(cipher.decrypt(view[start:at]))
            if cipher.nonce % REKEY_RECORDS == 0:
                cipher.rekey()
            self.proven = True
        if at < end:
            self._pending += view[at:]
            self._need = need
        return found[0] if len(found) == 1 else b"".join(found)

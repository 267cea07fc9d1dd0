"""The key exchange and the ciphers of the Noise Protocol Framework (revision 34), for one pattern. No I/O.

    NNpsk0:
      -> psk, e
      <- e, ee

Its full name is `Noise_NNpsk0_25519_ChaChaPoly_SHA256`. NN: neither end has a static key. psk0: a pre-shared key enters
before the first message, so that even this message authenticates its sender as a holder of the key. The names of
classes and methods are those of the framework's section 5.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PROTOCOL_NAME: Final = b"Noise_NNpsk0_25519_ChaChaPoly_SHA256"
KEY_BYTES: Final = 32
"""Length of a key, of a public key and of a hash (DHLEN and HASHLEN)."""
TAG_BYTES: Final = 16
MESSAGE_BYTES_MAX: Final = 65_535
"""The framework's limit for a message, tag included (section 3)."""
REKEY_NONCE: Final = (1 << 64) - 1
"""The nonce that only `rekey` uses."""

_NONCE: Final = Struct("<4xQ")


class NotAuthentic(Exception):
    """A message that no holder of the key has written, or that is out of its place."""


class CipherState:
    """One direction's key and nonce (section 5.1)."""

    __slots__ = ("_aead", "nonce")

    def __init__(self, key: bytes) -> None:
        self.nonce = 0
        """The number of messages so far."""
        self._aead = ChaCha20Poly1305(key)

    def encrypt(self, plaintext: bytes | memoryview, ad: bytes = b"") -> bytes:
        """Return the next message."""
        assert self.nonce < REKEY_NONCE, "a direction ends before its nonces do"
        ciphertext = self._aead.encrypt(_NONCE.pack(self.nonce), plaintext, ad)
        self.nonce += 1
        return ciphertext

    def decrypt(self, ciphertext: bytes | memoryview, ad: bytes = b"") -> bytes:
        """Return the plaintext of the next message, or raise NotAuthentic."""
        assert self.nonce < REKEY_NONCE, "a direction ends before its nonces do"
        try:
            plaintext = self._aead.decrypt(_NONCE.pack(self.nonce), ciphertext, ad)
        except InvalidTag:
            raise NotAuthentic from None
        self.nonce += 1
        return plaintext

    def rekey(self) -> None:
        """Replace the key by a one-way function of it (section 11.3). The nonce goes on."""
        self._aead = ChaCha20Poly1305(self._aead.encrypt(_NONCE.pack(REKEY_NONCE), bytes(KEY_BYTES), b"")[:KEY_BYTES])


class SymmetricState:
    """The chaining key, and the hash of everything that both ends have seen (section 5.2)."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256(PROTOCOL_NAME).digest()  # the name is longer than a hash
        self._chaining_key = self.hash
        self._cipher: CipherState | None = None

    def mix_hash(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, input: bytes) -> None:
        self._chaining_key, key = hkdf(self._chaining_key, input, 2)
        self._cipher = CipherState(key)

    def mix_key_and_hash(self, input: bytes) -> None:
        self._chaining_key, mixed, key = hkdf(self._chaining_key, input, 3)
        self.mix_hash(mixed)
        self._cipher = CipherState(key)

    def encrypt_and_hash(self, plaintext: bytes) -> bytes:
        assert self._cipher is not None, "psk0 mixes a key before the first payload"
        ciphertext = self._cipher.encrypt(plaintext, self.hash)
        self.mix_hash(ciphertext)
        return ciphertext

    def decrypt_and_hash(self, ciphertext: bytes) -> bytes:
        assert self._cipher is not None, "psk0 mixes a key before the first payload"
        plaintext = self._cipher.decrypt(ciphertext, self.hash)
        self.mix_hash(ciphertext)
        return plaintext

    def split(self) -> tuple[CipherState, CipherState]:
        """Return the ciphers from the initiator to the responder, and back."""
        forth, back = hkdf(self._chaining_key, b"", 2)
        return CipherState(forth), CipherState(back)


class HandshakeState:
    """One end of the key exchange (section 5.3). The initiator writes, then reads; the responder the reverse."""

    def __init__(self, psk: bytes, prologue: bytes, ephemeral: bytes, *, initiator: bool) -> None:
        """`ephemeral` is this end's private key: 32 random bytes that are used for nothing else."""
        assert len(psk) == len(ephemeral) == KEY_BYTES, "keys have 32 bytes"
        self._symmetric = SymmetricState()
        self._symmetric.mix_hash(prologue)
        self._psk = psk
        self._ephemeral = ephemeral
        self._remote = b""
        self._initiator = initiator

    @property
    def hash(self) -> bytes:
        """The hash of everything that both ends have seen."""
        return self._symmetric.hash

    def write_message(self, payload: bytes = b"") -> bytes:
        """Return this end's message."""
        symmetric = self._symmetric
        private = X25519PrivateKey.from_private_bytes(self._ephemeral)
        public = private.public_key().public_bytes_raw()
        if self._initiator:
            symmetric.mix_key_and_hash(self._psk)
        symmetric.mix_hash(public)
        symmetric.mix_key(public)  # with a pre-shared key, public keys are mixed in (section 9.2)
        if not self._initiator:
            self._mix_shared_key(private)
        return public + symmetric.encrypt_and_hash(payload)

    def read_message(self, message: bytes) -> bytes:
        """Return the payload of the other end's message, or raise NotAuthentic."""
        symmetric = self._symmetric
        if len(message) < KEY_BYTES + TAG_BYTES:
            raise NotAuthentic
        if not self._initiator:
            symmetric.mix_key_and_hash(self._psk)
        self._remote = message[:KEY_BYTES]
        symmetric.mix_hash(self._remote)
        symmetric.mix_key(self._remote)
        if self._initiator:
            self._mix_shared_key(X25519PrivateKey.from_private_bytes(self._ephemeral))
        return symmetric.decrypt_and_hash(message[KEY_BYTES:])

    def split(self) -> tuple[CipherState, CipherState]:
        """Return the ciphers for sending and receiving, after both messages."""
        forth, back = self._symmetric.split()
        return (forth, back) if self._initiator else (back, forth)

    def _mix_shared_key(self, private: X25519PrivateKey) -> None:
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(self._remote))
        except ValueError:  # a point of low order: the shared key would not depend on ours
            raise NotAuthentic from None
        self._symmetric.mix_key(shared)


def hkdf(chaining_key: bytes, input: bytes, outputs: int) -> list[bytes]:
    """Return two or three keys (section 4.3)."""
    temporary = hmac.digest(chaining_key, input, hashlib.sha256)
    found: list[bytes] = []
    for number in range(1, outputs + 1):
        before = found[-1] if found else b""
        found.append(hmac.digest(temporary, before + bytes([number]), hashlib.sha256))
    return found

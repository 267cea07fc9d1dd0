"""The keys of a broker: drawn at its start, and hashed into its id.

A broker has two *public keys*, and its id is the first eight bytes of their hash: nobody else can show keys for that
id. With one key it signs the documents that it floods. From the other one and another broker's public keys, both
brokers compute a *pair key*, for the MACs of messages and events between them. The log of a broker has a key of its
own, which outlives the broker. It names the *incarnation*: only the holder of the log can claim to have restarted with
it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from plait_core.ids import Randomness

KEY_BYTES: Final = 32
PUBLIC_KEYS_BYTES: Final = 2 * KEY_BYTES
SIGNATURE_BYTES: Final = 64
PROOF_BYTES: Final = 16

_DOCUMENT: Final = b"plait document "
_INCARNATION: Final = b"plait incarnation "


class Forged(Exception):
    """A signature or a MAC that its alleged author did not make."""


class Identity:
    """A broker's own keys, drawn from `randomness`."""

    def __init__(self, randomness: Randomness, log_secret: bytes = b"") -> None:
        self._signing = Ed25519PrivateKey.from_private_bytes(_draw(randomness))
        self._agreeing = X25519PrivateKey.from_private_bytes(_draw(randomness))
        signing, agreeing = self._signing.public_key(), self._agreeing.public_key()
        self.public_keys = signing.public_bytes_raw() + agreeing.public_bytes_raw()
        self.id = id_of(self.public_keys)
        self._incarnation = Ed25519PrivateKey.from_private_bytes(log_secret) if log_secret else None
        self.incarnation_key = b"" if self._incarnation is None else self._incarnation.public_key().public_bytes_raw()

    def sign(self, document: bytes) -> bytes:
        """Return this broker's signature of a document."""
        return self._signing.sign(_DOCUMENT + document)

    def sign_incarnation(self, claim: bytes) -> bytes:
        """Return the signature of a claim with the key of the log, or b"" without a log."""
        return b"" if self._incarnation is None else self._incarnation.sign(_INCARNATION + claim)

    def pair_key(self, public_keys: bytes) -> bytes:
        """Return the key of this broker and the owner of the public keys. Raise Forged for invalid keys."""
        try:
            shared = self._agreeing.exchange(X25519PublicKey.from_public_bytes(public_keys[KEY_BYTES:]))
        except ValueError as error:  # a point of small order
            raise Forged("public keys that are none") from error
        both = b"".join(sorted((self.public_keys, public_keys)))
        return hashlib.blake2b(both, key=shared, digest_size=KEY_BYTES, person=b"plait pair").digest()


def id_of(public_keys: bytes) -> int:
    """Return the id of the broker with those public keys."""
    return int.from_bytes(hashlib.blake2b(public_keys, digest_size=8, person=b"plait broker").digest(), "big")


def incarnation_of(key: bytes) -> int:
    """Return the number of the log with that public key. It is below 2^63, the most that a log can store."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"plait log").digest(), "big") >> 1


def incarnation_key_of(secret: bytes) -> bytes:
    """Return the public key of a log with that secret."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def check_public_keys(public_keys: bytes, id: int) -> None:
    """Raise Forged unless they are the public keys of that broker."""
    if len(public_keys) != PUBLIC_KEYS_BYTES or id_of(public_keys) != id:
        raise Forged("public keys that are not this broker's")


def check_signature(public_keys: bytes, document: bytes, signature: bytes) -> None:
    """Raise Forged unless the owner of the public keys signed the document."""
    _check(public_keys[:KEY_BYTES], _DOCUMENT + document, signature)


def check_incarnation(key: bytes, incarnation: int, claim: bytes, signature: bytes) -> None:
    """Raise Forged unless the holder of that log signed the claim."""
    if len(key) != KEY_BYTES or incarnation_of(key) != incarnation:
        raise Forged("a key that is not this log's")
    _check(key, _INCARNATION + claim, signature)


def prove(key: bytes, message: bytes) -> bytes:
    """Return the MAC of a message with a pair key."""
    return hashlib.blake2b(message, key=key, digest_size=PROOF_BYTES).digest()


def check_proof(key: bytes, message: bytes, proof: bytes) -> None:
    """Raise Forged unless the MAC was made with the pair key."""
    if not hmac.compare_digest(prove(key, message), proof):
        raise Forged("a message with a MAC that is not its source's")


def _check(key: bytes, message: bytes, signature: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise Forged("a signature that is not this broker's") from error


def _draw(randomness: Randomness) -> bytes:
    return randomness.getrandbits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")

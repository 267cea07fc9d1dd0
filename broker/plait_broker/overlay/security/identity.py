"""Who a broker is: keys that it draws when it starts, of which its id is the name.

A broker's *card* is its two public keys, and its id the first eight bytes of the card's hash: nobody else can show a
card for that id. With one key it signs what it says to all (`Sheet`, `Offer`); from the other and someone's card both
compute the key of a pair, with which they prove to each other what they say to one (`Took`, `Want`, events).
A log has a key of its own, which outlives its broker: only who holds the log can say that it has started anew with it.
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
CARD_BYTES: Final = 2 * KEY_BYTES
SIGNATURE_BYTES: Final = 64
PROOF_BYTES: Final = 16


class Forged(Exception):
    """Something was not said by whom it claims to be from."""


class Identity:
    """A broker's own keys. Everything random comes from `randomness`."""

    def __init__(self, randomness: Randomness, log_secret: bytes = b"") -> None:
        self._signing = Ed25519PrivateKey.from_private_bytes(_draw(randomness))
        self._agreeing = X25519PrivateKey.from_private_bytes(_draw(randomness))
        self.card = self._signing.public_key().public_bytes_raw() + self._agreeing.public_key().public_bytes_raw()
        self.id = id_of(self.card)
        self._log = Ed25519PrivateKey.from_private_bytes(log_secret) if log_secret else None
        self.log_key = self._log.public_key().public_bytes_raw() if self._log is not None else b""

    def sign(self, what: bytes) -> bytes:
        """Show that this broker says it."""
        return self._signing.sign(b"plait says " + what)

    def sign_for_log(self, what: bytes) -> bytes:
        """Show that the holder of the log says it; nothing when there is no log."""
        return self._log.sign(b"plait log says " + what) if self._log is not None else b""

    def pair_key(self, card: bytes) -> bytes:
        """A key that only this broker and the one with that card know; Forged when the card is none."""
        try:
            shared = self._agreeing.exchange(X25519PublicKey.from_public_bytes(card[KEY_BYTES:]))
        except ValueError as error:  # a point of small order
            raise Forged("a card that is none") from error
        both = b"".join(sorted((self.card, card)))
        return hashlib.blake2b(both, key=shared, digest_size=KEY_BYTES, person=b"plait pair").digest()


def id_of(card: bytes) -> int:
    """The id of the broker with that card."""
    return int.from_bytes(hashlib.blake2b(card, digest_size=8, person=b"plait broker").digest(), "big")


def log_of(key: bytes) -> int:
    """The number of the log with that public key; below 2^63, which is what a log can keep."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"plait log").digest(), "big") >> 1


def log_key_of(secret: bytes) -> bytes:
    """The public key of a log with that secret."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def check_card(card: bytes, id: int) -> None:
    """Forged unless it is the card of that broker."""
    if len(card) != CARD_BYTES or id_of(card) != id:
        raise Forged("a card that is not this broker's")


def check_signature(card: bytes, what: bytes, signature: bytes) -> None:
    """Forged unless the card's owner said it."""
    _check(card[:KEY_BYTES], b"plait says " + what, signature)


def check_log(key: bytes, log: int, what: bytes, signature: bytes) -> None:
    """Forged unless the holder of that log said it."""
    if len(key) != KEY_BYTES or log_of(key) != log:
        raise Forged("a key that is not this log's")
    _check(key, b"plait log says " + what, signature)


def prove(key: bytes, what: bytes) -> bytes:
    """Show the other of a pair that it is we who say it."""
    return hashlib.blake2b(what, key=key, digest_size=PROOF_BYTES).digest()


def check_proof(key: bytes, what: bytes, proof: bytes) -> None:
    """Forged unless the other of the pair said it, or we did."""
    if not hmac.compare_digest(prove(key, what), proof):
        raise Forged("not said by whom it claims to be from")


def _check(key: bytes, what: bytes, signature: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, what)
    except (InvalidSignature, ValueError) as error:
        raise Forged("a signature that is not this broker's") from error


def _draw(randomness: Randomness) -> bytes:
    return randomness.getrandbits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")

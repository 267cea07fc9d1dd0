"""Hashes of the scheme, each under a label of its own: no output of one use is valid in another.

Every part is preceded by its length, so different parts never give the same input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SUITE: Final = b"PLAIT-SEAL-V2-BLS12381"
"""Version 2 of everything here. It is part of every label, so that a later version shares no hash with it."""

TO_G2: Final = b"PLAIT-SEAL-V2-BLS12381G2_XMD:SHA-256_SSWU_RO_CREDENTIAL_"
"""The domain separation tag of H3 (RFC 9380, 3.1)."""

DIGEST_BYTES: Final = 32


def digest(label: bytes, *parts: bytes) -> bytes:
    """Return SHA-256 over a label and parts."""
    return hashlib.sha256(_framed(label, parts)).digest()


def exponent(order: int, label: bytes, *parts: bytes) -> int:
    """Return an exponent that is not zero, in groups of this order. It reduces 512 bits: the bias is below 2**-256."""
    found = int.from_bytes(hashlib.sha512(_framed(label, parts)).digest(), "big")
    return found % (order - 1) + 1


def derive(secret: bytes, label: bytes, context: bytes, size: int) -> bytes:
    """Derive a key from a secret (HKDF, RFC 5869)."""
    return HKDF(hashes.SHA256(), size, salt=context, info=_framed(label, ())).derive(secret)


def bit_places(found: bytes) -> list[int]:
    """Return the positions of a digest's set bits, which the Waters hash multiplies."""
    number = int.from_bytes(found, "big")
    return [k for k in range(8 * len(found)) if number >> k & 1]


def _framed(label: bytes, parts: Iterable[bytes]) -> bytes:
    framed = [SUITE, bytes((len(label),)), label]
    for part in parts:
        framed += [len(part).to_bytes(8, "big"), part]
    return b"".join(framed)

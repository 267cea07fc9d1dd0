"""Every way in which programs write bytes, to search logs, pages and files for a secret that is no text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

PIECE: int = 24
"""Bytes of a secret that are searched for: a log line may show a part of it."""


def written(secret: bytes) -> list[bytes]:
    """Return a piece from the middle of a secret as programs write it: raw, in hex, base64, escaped, as numbers."""
    at = (len(secret) - PIECE) // 2
    piece = secret[at : at + PIECE]
    texts = [piece.hex(), piece.hex().upper(), piece.hex(" "), piece.hex(":"), repr(piece)[2:-1]]
    texts += [json.dumps(piece.decode("latin-1"))[1:-1], str(list(piece))[1:-1], json.dumps(list(piece))[1:-1]]
    for start in range(at, at + 3):  # base64 encodes three bytes together, counted from where the text begins
        encoded = base64.b64encode(secret[start : start + PIECE]).decode()
        texts += [encoded, encoded.replace("+", "-").replace("/", "_")]
    return [piece, *(text.encode() for text in texts)]


def found_in(text: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """Return the secrets that a text contains, however it writes them."""
    return [secret for secret in secrets if any(each in text for each in written(secret))]

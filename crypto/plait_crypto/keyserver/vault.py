"""The vault: secrets at rest under a passphrase. scrypt makes guesses expensive, ChaCha20-Poly1305 detects changes.

The cost parameters are stored with it, authenticated, and bounded for the reader.
"""

from __future__ import annotations

import json
import unicodedata
from base64 import b64decode, b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from plait_core import Randomness

from ..errors import SealError
from .limits import SCRYPT_N_MAX

COST_N: Final = 2**16
"""64 MB and a fifth of a second for each guess (r = 8), and for each command of the operator, on small machines too. A
generated passphrase needs no more."""

_R, _P, _KEY_BYTES, _SALT_BYTES, _NONCE_BYTES = 8, 1, 32, 16, 12


class VaultClosed(SealError):
    """The vault does not open: a wrong passphrase, a file that is not a vault, or a changed file.

    These cases cannot be distinguished.
    """

    def __init__(self) -> None:
        super().__init__("the vault does not open", hint="is it the right passphrase, and the right file?")


def close_vault(secrets: bytes, passphrase: str, randomness: Randomness, *, cost_n: int = COST_N) -> str:
    """Encrypt secrets, and return the text to be stored."""
    salt, nonce = _draw(randomness, _SALT_BYTES), _draw(randomness, _NONCE_BYTES)
    box = ChaCha20Poly1305(_key(passphrase, salt, cost_n)).encrypt(nonce, secrets, _head(cost_n, salt))
    parts = {"salt": salt, "nonce": nonce, "box": box}
    return json.dumps({"v": 1, "n": cost_n, **{name: b64encode(part).decode() for name, part in parts.items()}})


def open_vault(text: str, passphrase: str) -> bytes:
    """Return the secrets; raise VaultClosed if the vault does not open."""
    try:
        given = json.loads(text)
        cost_n = given["n"]
        if given["v"] != 1 or type(cost_n) is not int or not 2 <= cost_n <= SCRYPT_N_MAX or cost_n & (cost_n - 1):
            raise VaultClosed
        salt, nonce, box = (b64decode(given[name], validate=True) for name in ("salt", "nonce", "box"))
        return ChaCha20Poly1305(_key(passphrase, salt, cost_n)).decrypt(nonce, box, _head(cost_n, salt))
    except (ValueError, TypeError, KeyError, RecursionError, InvalidTag):
        raise VaultClosed from None


def _key(passphrase: str, salt: bytes, cost_n: int) -> bytes:
    # Keyboards differ in how they compose a letter with an accent. NFKC makes it the same passphrase.
    normal = unicodedata.normalize("NFKC", passphrase)
    return Scrypt(salt=salt, length=_KEY_BYTES, n=cost_n, r=_R, p=_P).derive(normal.encode())


def _head(cost_n: int, salt: bytes) -> bytes:
    return b"PLAIT-VAULT-V1" + cost_n.to_bytes(4, "big") + salt


def _draw(randomness: Randomness, size: int) -> bytes:
    return randomness.getrandbits(8 * size).to_bytes(size, "big")

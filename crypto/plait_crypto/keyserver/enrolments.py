"""Enrolment tokens: each is for one holder, valid once and for a week. Only their digests are stored.

A token has 256 random bits, so a plain digest cannot be inverted, and the time of a look-up reveals nothing to a
guesser.
"""

from __future__ import annotations

import json
from hashlib import sha256

from plait_core import Randomness

from ..errors import SealError, SealInvalid
from .limits import TOKEN_LIFE_US, TOKENS_MAX


class Enrolments:
    """Tokens that wait to be used."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def make(self, holder: str, now_us: int, randomness: Randomness) -> str:
        """Return a new token. It cannot be shown again."""
        self._forget(now_us)
        if len(self._waiting) >= TOKENS_MAX:
            raise SealInvalid(f"{TOKENS_MAX} enrolment tokens wait to be used", hint="they are forgotten after a week")
        token = randomness.getrandbits(256).to_bytes(32, "big").hex()
        self._waiting[_digest(token)] = (holder, now_us + TOKEN_LIFE_US)
        return token

    def redeem(self, token: str, now_us: int) -> str | None:
        """Use up a token and return its holder, or None if it is invalid."""
        self._forget(now_us)
        found = self._waiting.pop(_digest(token), None)
        return None if found is None else found[0]

    def to_json(self) -> str:
        """Return the stored form."""
        return json.dumps({"v": 1, "waiting": self._waiting})

    @classmethod
    def from_json(cls, text: str) -> Enrolments:
        """Parse the output of `to_json`; raise SealError if it is invalid."""
        found = cls()
        try:
            given = json.loads(text)
            if given["v"] != 1:
                raise ValueError
            found._waiting = {str(key): (str(holder), int(end)) for key, (holder, end) in given["waiting"].items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SealError("enrolment tokens that cannot be read", hint="make new ones") from None
        return found

    def _forget(self, now_us: int) -> None:
        self._waiting = {key: each for key, each in self._waiting.items() if now_us < each[1]}


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()

"""Mutual authentication of two brokers over a new connection, seen from one side.

    dialler: Hello(nonce)   acceptor: Welcome(nonce)   dialler: Introduction(proof)   acceptor: Introduction(proof)

A proof is an HMAC, keyed from the overlay's secret, over the side, both nonces, ids, names and versions. So the secret
is never on the wire, and a proof is valid only for its side of its connection. The dialler proves first: a stranger
that connects gets no proof to try guesses of the secret on.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Final

from plait_core.errors import PlaitError
from plait_core.ids import Randomness
from plait_core.limits import NONCE_BYTES
from plait_core.wire import VERSION_MAX, VERSION_MIN, Hello, Introduction, Role, Welcome

SAME_ONE: Final = "give all brokers the same [overlay] secret"

_PURPOSE: Final = b"plait: a link between two brokers"
"""Separates this use of the secret from others: the key of announcements proves nothing here."""


class Untrusted(PlaitError):
    """The other end has not proved that it belongs to the overlay."""


def draw_nonce(randomness: Randomness) -> bytes:
    """Return a fresh nonce for one connection."""
    return randomness.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES)


def keyed(secret: str, purpose: bytes) -> bytes:
    """Return the key that is derived from the secret for one purpose."""
    return hmac.digest(secret.encode(), purpose, hashlib.sha256)


@dataclass(slots=True)
class MutualAuth:
    """The authentication of one connection between brokers."""

    secret: str
    dialled: bool
    """Whether this side opened the connection."""
    nonce: bytes
    hello: Hello | None = None
    welcome: Welcome | None = None

    @classmethod
    def dialler(cls, secret: str, me: int, name: str, randomness: Randomness) -> MutualAuth:
        """Return the state of the side that connects. `hello` is its first frame."""
        nonce = draw_nonce(randomness)
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.BROKER, name, me, nonce=nonce if secret else None)
        return cls(secret, True, nonce, hello)

    @classmethod
    def acceptor(cls, secret: str, hello: Hello, randomness: Randomness) -> MutualAuth:
        """Return the state of the side that accepts the connection."""
        return cls(secret, False, draw_nonce(randomness), hello)

    @property
    def offered(self) -> bytes | None:
        """The nonce to send, or None without a secret."""
        return self.nonce if self.secret else None

    def check_offer(self, nonce: bytes | None) -> None:
        """Raise Untrusted unless both ends have a secret, or neither has, and the nonce is valid."""
        if self.secret and nonce is None:
            raise Untrusted("the other broker has no overlay secret, and this one has", hint=SAME_ONE)
        if not self.secret and nonce is not None:
            raise Untrusted("the other broker has an overlay secret, and this one has none", hint=SAME_ONE)
        if nonce is not None and len(nonce) != NONCE_BYTES:
            raise Untrusted(f"a nonce has {NONCE_BYTES} bytes")

    def introduce(self, seen: str, *, fixed: bool) -> Introduction:
        """Return the Introduction of this side, with its proof if there is a secret. `seen` is the other end's host."""
        bare = Introduction(b"", seen, fixed)
        return replace(bare, proof=self._proof(bare, by_dialler=self.dialled)) if self.secret else bare

    def check(self, introduction: Introduction) -> None:
        """Raise Untrusted unless the other end's proof is right."""
        if not self.secret:
            return
        right = self._proof(introduction, by_dialler=not self.dialled)
        if not hmac.compare_digest(right, introduction.proof):
            raise Untrusted("the proof of the overlay secret is wrong", hint=SAME_ONE)

    def _proof(self, introduction: Introduction, *, by_dialler: bool) -> bytes:
        hello, welcome = self.hello, self.welcome
        assert hello is not None, "nothing is proved before hello"
        assert welcome is not None, "nothing is proved before welcome"
        parts = (
            b"dialler" if by_dialler else b"acceptor",
            hello.nonce or b"",
            welcome.nonce or b"",
            hello.publisher.to_bytes(8),
            welcome.broker.to_bytes(8),
            hello.name.encode(),
            welcome.broker_name.encode(),
            bytes((hello.version_min, hello.version_max, welcome.version)),
            introduction.seen.encode(),
            bytes((introduction.fixed,)),
        )
        proved = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hmac.digest(keyed(self.secret, _PURPOSE), proved, hashlib.sha256)

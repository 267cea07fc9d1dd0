"""Two brokers meet: what each says before either trusts the other, over one connection and seen from one side.

    dialler: Hello(nonce)   acceptor: Welcome(nonce)   dialler: Introduction(proof)   acceptor: Introduction(proof)

A proof is an HMAC, keyed from the overlay's secret, over who proves, both nonces, ids, names and versions. So the
secret is never on the wire, and a proof serves for nothing but its own place in its own connection. The dialler proves
first: a stranger who connects gets nothing that guesses could be tried on.
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
"""What a key made from the secret is for: one for announcements proves nothing here."""


class Untrusted(PlaitError):
    """The other end has not proved that it belongs to the overlay."""


def draw_nonce(randomness: Randomness) -> bytes:
    """For one connection."""
    return randomness.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES)


def keyed(secret: str, purpose: bytes) -> bytes:
    """A key for one purpose."""
    return hmac.digest(secret.encode(), purpose, hashlib.sha256)


@dataclass(slots=True)
class MutualAuth:
    """One connection between brokers, until they know each other."""

    secret: str
    dialled: bool
    """Whether this side did."""
    nonce: bytes
    hello: Hello | None = None
    welcome: Welcome | None = None

    @classmethod
    def dialler(cls, secret: str, me: int, name: str, randomness: Randomness) -> MutualAuth:
        """The side that has connected; `hello` is its first frame."""
        nonce = draw_nonce(randomness)
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.BROKER, name, me, nonce=nonce if secret else None)
        return cls(secret, True, nonce, hello)

    @classmethod
    def acceptor(cls, secret: str, hello: Hello, randomness: Randomness) -> MutualAuth:
        """The side that was connected to."""
        return cls(secret, False, draw_nonce(randomness), hello)

    @property
    def offered(self) -> bytes | None:
        """The nonce to send: none when there is nothing to prove."""
        return self.nonce if self.secret else None

    def check_offer(self, nonce: bytes | None) -> None:
        """Raise Untrusted unless the other end means to prove what this one does."""
        if self.secret and nonce is None:
            raise Untrusted("the other broker has no overlay secret, and this one has", hint=SAME_ONE)
        if not self.secret and nonce is not None:
            raise Untrusted("the other broker has an overlay secret, and this one has none", hint=SAME_ONE)
        if nonce is not None and len(nonce) != NONCE_BYTES:
            raise Untrusted(f"a nonce has {NONCE_BYTES} bytes")

    def introduce(self, seen: str, *, fixed: bool) -> Introduction:
        """Say who this is."""
        bare = Introduction(b"", seen, fixed)
        return replace(bare, proof=self._proof(bare, by_dialler=self.dialled)) if self.secret else bare

    def check(self, introduction: Introduction) -> None:
        """Raise Untrusted unless the other end has proved that it knows the secret."""
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
        said = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hmac.digest(keyed(self.secret, _PURPOSE), said, hashlib.sha256)

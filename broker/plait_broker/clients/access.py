"""Who may connect, and what they may say and hear: rules written as filters. Deny wins, and nothing fits nobody.

A publication must match some allow filter and no deny filter of its publisher; so must a delivery of its subscriber.
The check is on the event itself, so it holds on every path by which an event can reach someone.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from plait_core.filters import EVERYTHING, Filter
from plait_core.values import Attributes
from plait_core.wire import Hello


@dataclass(frozen=True, slots=True)
class Rules:
    """Filters of what is allowed, and of what is denied all the same."""

    allow: tuple[Filter, ...] = ()
    deny: tuple[Filter, ...] = ()

    def permit(self, attributes: Attributes) -> bool:
        """Whether an event with these attributes may pass."""
        return any(f.matches(attributes) for f in self.allow) and not any(f.matches(attributes) for f in self.deny)

    def may_permit(self, filter: Filter) -> bool:
        """Whether some event that `filter` matches might pass: no is certain, yes is not."""
        return any(f.intersects(filter) for f in self.allow) and not any(f.covers(filter) for f in self.deny)

    def split(self) -> tuple[Rules, Rules]:
        """What these rules say of clients' events, and of the system's own (`$kind`): those are allowed to nobody whom
        no rule that names them allows them to. What is denied is denied of both."""
        own = tuple(f for f in self.allow if f.system)
        return Rules(tuple(f for f in self.allow if not f.system), self.deny), Rules(own, self.deny)

    @property
    def open(self) -> bool:
        """Whether everything passes, so that nobody needs to ask."""
        return EVERYTHING in self.allow and not self.deny


ALL = Rules(allow=(EVERYTHING,))
NONE = Rules()


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone known, with what they may do."""

    name: str
    publish: Rules = ALL
    subscribe: Rules = ALL
    system: Rules = NONE
    """What it may hear of the system's own events: what the brokers record."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What the face knows of the other end of a connection."""

    address: str = ""
    certificate: str = ""
    """The common name of its verified certificate; empty without one."""
    dialled: str = ""
    """Where this broker has connected to, when it did."""
    vouched: bool = False
    """Whether the overlay's authority vouches for it: it is a broker."""


class Gate(Protocol):
    """Decides who someone is. None refuses; an exception does too, so a broken gate lets nobody in."""

    def admit(self, hello: Hello, caller: Caller) -> Principal | None: ...


class OpenGate:
    """Everyone may do everything, each under one shared principal: for loopback and for tests."""

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        return Principal("anyone", system=ALL)


@dataclass(frozen=True)
class Keyring:
    """Principals by the digest of their token, or by the name in their certificate."""

    by_token: Mapping[bytes, Principal] = field(default_factory=dict)
    by_certificate: Mapping[str, Principal] = field(default_factory=dict)

    @classmethod
    def of_tokens(cls, principals: Sequence[tuple[str, Principal]], certificates: Sequence[Principal] = ()) -> Keyring:
        """From tokens in the clear, which are not kept."""
        return cls({digest(token): who for token, who in principals if token}, {who.name: who for who in certificates})

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        if hello.token:
            return self._by_token(digest(hello.token))
        return self.by_certificate.get(caller.certificate) if caller.certificate else None

    def _by_token(self, offered: bytes) -> Principal | None:
        """Compares with every digest in the same time, so that a guess learns nothing from how long it took."""
        found: Principal | None = None
        for known, principal in self.by_token.items():
            if hmac.compare_digest(known, offered):
                found = principal
        return found


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()

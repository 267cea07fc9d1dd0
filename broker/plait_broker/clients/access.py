"""Access control: which clients may connect, publish and subscribe. Rules are filters; deny wins over allow.

An event must match some allow filter and no deny filter of its publisher, and a delivery those of its subscriber. The
check is on the event itself, so it holds on every path by which an event reaches a client.
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
    """Filters of the allowed events, and of the denied ones among them."""

    allow: tuple[Filter, ...] = ()
    deny: tuple[Filter, ...] = ()

    def permit(self, attributes: Attributes) -> bool:
        """Return whether an event with these attributes is permitted."""
        return any(f.matches(attributes) for f in self.allow) and not any(f.matches(attributes) for f in self.deny)

    def may_permit(self, filter: Filter) -> bool:
        """Return False if no event that `filter` matches is permitted. True is not certain."""
        return any(f.intersects(filter) for f in self.allow) and not any(f.covers(filter) for f in self.deny)

    def split(self) -> tuple[Rules, Rules]:
        """Return the rules for clients' events and those for events of brokers (`$kind`). Only a rule that names `$`
        attributes allows events of brokers. A deny filter belongs to both."""
        own = tuple(f for f in self.allow if f.system)
        return Rules(tuple(f for f in self.allow if not f.system), self.deny), Rules(own, self.deny)

    @property
    def open(self) -> bool:
        """Whether every event is permitted, so that no check is needed."""
        return EVERYTHING in self.allow and not self.deny


ALL = Rules(allow=(EVERYTHING,))
NONE = Rules()


@dataclass(frozen=True, slots=True)
class Principal:
    """A known client with its rights."""

    name: str
    publish: Rules = ALL
    subscribe: Rules = ALL
    system: Rules = NONE
    """Rights to events of brokers: telemetry records."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The server's knowledge about the other end of a connection."""

    address: str = ""
    certificate: str = ""
    """The common name of its verified certificate; empty without one."""
    dialled: str = ""
    """Address that this broker has dialled; empty for accepted connections."""
    vouched: bool = False
    """Whether its certificate is of the overlay's authority: it is a broker."""


class Gate(Protocol):
    """Authenticates clients. None refuses; so does an exception, so that a broken gate admits nobody."""

    def admit(self, hello: Hello, caller: Caller) -> Principal | None: ...


class OpenGate:
    """Admits every client with all rights, under one shared principal: for loopback and for tests."""

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        return Principal("anyone", system=ALL)


@dataclass(frozen=True)
class Keyring:
    """Principals by the digest of their token, or by the name in their certificate."""

    by_token: Mapping[bytes, Principal] = field(default_factory=dict)
    by_certificate: Mapping[str, Principal] = field(default_factory=dict)

    @classmethod
    def of_tokens(cls, principals: Sequence[tuple[str, Principal]], certificates: Sequence[Principal] = ()) -> Keyring:
        """Make a keyring of tokens; it keeps only their digests."""
        return cls({digest(token): who for token, who in principals if token}, {who.name: who for who in certificates})

    def admit(self, hello: Hello, caller: Caller) -> Principal | None:
        if hello.token:
            return self._by_token(digest(hello.token))
        return self.by_certificate.get(caller.certificate) if caller.certificate else None

    def _by_token(self, presented: bytes) -> Principal | None:
        """Compare with every digest in constant time, so that the time reveals nothing."""
        found: Principal | None = None
        for known, principal in self.by_token.items():
            if hmac.compare_digest(known, presented):
                found = principal
        return found


def digest(token: str) -> bytes:
    """Return the digest that is kept of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()

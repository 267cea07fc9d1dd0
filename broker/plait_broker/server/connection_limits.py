"""Who may open a connection now: how many in all and from one address, and how fast. No I/O.

Two defences with two manners. Everyone together is paced: beyond the rate, connections wait in the kernel's queue, so
a storm of reconnects is served in order. One address is refused beyond its share, at once and with a reason, so that
a flood costs little and starves nobody.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

ADDRESSES_MAX: Final = 65_536
"""Addresses remembered at once; the longest silent without a connection is forgotten first."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many may come in, how fast, and how long they may take to leave. Each default says why it is that."""

    connections_max: int = 12_000
    """More than sessions, for those that have not said hello yet. What open files allow may be less."""
    address_connections_max: int = 6_000
    """Half of all: no address can shut out the others, yet thousands of clients behind one gateway come in."""
    accepts_per_s: float = 1_000.0
    """A connection costs some 100 us, so this leaves most of the time to those that are there."""
    address_accepts_per_s: float = 500.0
    """After a burst of all that one address may have."""
    drain_s: float = 8.0
    """For clients to take what is queued when the broker stops: Docker kills after 10 s."""


TLS_COST: Final = 4.0
"""How many plain connections one TLS handshake is worth."""


@dataclass(slots=True)
class _Address:
    connections: int
    tokens: float
    at: float


class ConnectionLimiter:
    """Counts who is in."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.connections = 0
        self._addresses: dict[str, _Address] = {}  # in the order in which they were last heard of
        self._tokens = 0.0
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """How long until the next connection may be taken; 0 when one may be now."""
        rate = self.limits.accepts_per_s
        if self._at is None:
            self._at, self._tokens = now, rate
        self._tokens = min(rate, self._tokens + max(0.0, now - self._at) * rate)
        self._at = now
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / rate

    def admit(self, address: str, now: float, cost: float = 1.0) -> str:
        """Let a connection in, or say why not. Whoever was let in is to `leave` once."""
        group = _group(address)
        known = self._addresses.pop(group, None) or _Address(0, self.limits.address_connections_max, now)
        self._addresses[group] = known
        self._forget()
        refilled = known.tokens + max(0.0, now - known.at) * self.limits.address_accepts_per_s
        known.tokens, known.at = min(self.limits.address_connections_max, refilled), now
        if self.connections >= self.limits.connections_max:
            return f"{self.connections} connections are open, and no more are taken"
        if known.connections >= self.limits.address_connections_max:
            return f"{known.connections} connections are open from your address, and no more are taken"
        if known.tokens < cost:
            return "your address connects too often"
        known.tokens -= cost
        known.connections += 1
        self.connections += 1
        self._tokens -= cost  # may fall below zero: the next one then waits longer
        return ""

    def leave(self, address: str) -> None:
        """A connection that was let in is gone."""
        known = self._addresses[_group(address)]
        assert 0 < known.connections <= self.connections, "one leaves for one that was let in"
        known.connections -= 1
        self.connections -= 1

    def _forget(self) -> None:
        while len(self._addresses) > ADDRESSES_MAX:
            idle = next((group for group, known in self._addresses.items() if not known.connections), None)
            if idle is None:
                return
            del self._addresses[idle]


def _group(address: str) -> str:
    """Who counts as one: an IPv4 address, or an IPv6 network of 64 bits, which is what one customer is given."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))

"""Limits on connections: how many in total and from one address, and at which rate. No I/O.

There are two defences. The total rate is paced: beyond it connections wait in the kernel's queue, so a storm of
reconnects is served in order. One address is refused beyond its share, at once and with a reason, so that a flood costs
little and cannot lock out others.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

ADDRESSES_MAX: Final = 65_536
"""Addresses remembered at once. The least recent one without a connection is removed first."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on connections, and the time for them to end. Each default states its reason."""

    connections_max: int = 12_000
    """More than sessions, for connections without a Hello yet. The limit of open files may be lower."""
    address_connections_max: int = 6_000
    """Half of all: no address can lock out the others, yet thousands of clients behind one gateway may connect."""
    accepts_per_s: float = 1_000.0
    """A connection costs about 100 µs, so this leaves most of the time to the open ones."""
    address_accepts_per_s: float = 500.0
    """Rate after a burst of as many connections as one address may have."""
    drain_s: float = 8.0
    """Time for clients to read what is queued when the broker stops: Docker kills after 10 s."""


TLS_COST: Final = 4.0
"""Plain connections that one TLS handshake costs as much as."""


@dataclass(slots=True)
class _Address:
    connections: int
    tokens: float
    at: float


class ConnectionLimiter:
    """Counts the open connections."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.connections = 0
        self._addresses: dict[str, _Address] = {}  # least recent first
        self._tokens = 0.0
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """Return the time until the next connection may be accepted; 0 if one may be accepted now."""
        rate = self.limits.accepts_per_s
        if self._at is None:
            self._at, self._tokens = now, rate
        self._tokens = min(rate, self._tokens + max(0.0, now - self._at) * rate)
        self._at = now
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / rate

    def admit(self, address: str, now: float, cost: float = 1.0) -> str:
        """Admit a connection; return "" or the reason for a refusal. Call `leave` once for each admitted connection."""
        group = _group(address)
        known = self._addresses.pop(group, None) or _Address(0, self.limits.address_connections_max, now)
        self._addresses[group] = known
        self._forget()
        refilled = known.tokens + max(0.0, now - known.at) * self.limits.address_accepts_per_s
        known.tokens, known.at = min(self.limits.address_connections_max, refilled), now
        if self.connections >= self.limits.connections_max:
            return f"{self.connections} connections are open, and no more are accepted"
        if known.connections >= self.limits.address_connections_max:
            return f"{known.connections} connections are open from your address, and no more are accepted"
        if known.tokens < cost:
            return "your address connects too often"
        known.tokens -= cost
        known.connections += 1
        self.connections += 1
        self._tokens -= cost  # may fall below zero: the next one then waits longer
        return ""

    def leave(self, address: str) -> None:
        """Count an admitted connection as closed."""
        known = self._addresses[_group(address)]
        assert 0 < known.connections <= self.connections, "each admitted connection leaves once"
        known.connections -= 1
        self.connections -= 1

    def _forget(self) -> None:
        while len(self._addresses) > ADDRESSES_MAX:
            idle = next((group for group, known in self._addresses.items() if not known.connections), None)
            if idle is None:
                return
            del self._addresses[idle]


def _group(address: str) -> str:
    """Return the unit that a limit counts: an IPv4 address, or an IPv6 network of 64 bits, which one customer is
    given."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))

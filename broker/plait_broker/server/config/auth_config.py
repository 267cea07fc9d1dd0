"""Access as configured: the gate that checks Hellos, and the permission to read HTTP.

Without access rules a broker that only this machine can reach is open. One that other machines can reach generates a
token, which is printed once and stored nowhere.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from plait_core.wire import VERSION_MAX, VERSION_MIN, Hello, Role

from ...clients.access import ALL, Caller, Gate, Keyring, OpenGate, Principal, digest
from .configuration import Configuration


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """Decides about connections and HTTP requests."""

    gate: Gate
    http_open: bool
    http_digests: tuple[bytes, ...] = field(default=(), repr=False)
    guarded: bool = True
    """Whether the gate distinguishes clients at all."""

    def may_read(self, token: str, address: str) -> bool:
        """Return whether an HTTP client may read: with a token for HTTP, or as a principal that may subscribe to
        everything."""
        if self.http_open:
            return True
        if not token:
            return False
        given = digest(token)
        if [known for known in self.http_digests if hmac.compare_digest(known, given)]:
            return True
        if not self.guarded:
            return False
        try:
            principal = self.gate.admit(_as_hello(token), Caller(address))
        except Exception:  # a gate that fails admits no one
            return False
        return principal is not None and principal.subscribe.open


def needs_token(configuration: Configuration) -> bool:
    """Return whether other machines could connect and the configuration has no access rules."""
    access = configuration.access
    if access.keyring is not None:
        return False
    if access.open:
        return configuration.http is not None and not configuration.http.loopback and access.http_token is None
    return any(not endpoint.loopback for endpoint in configuration.endpoints)


def generate_token() -> str:
    """Return an unguessable token, in characters that survive a URL and a shell."""
    return secrets.token_urlsafe(24)


def auth_config(configuration: Configuration, generated: str | None) -> AuthConfig:
    """Return the access rules of a configuration; `drawn` is the generated token, if it needs one."""
    access = configuration.access
    http_open = configuration.http is None or configuration.http.loopback
    digests = () if access.http_token is None else (access.http_token,)
    if access.keyring is not None:
        return AuthConfig(access.keyring, http_open, digests)
    if not needs_token(configuration):
        return AuthConfig(OpenGate(), http_open, digests, guarded=False)
    assert generated, "the caller generates a token if one is needed"
    if access.open:
        return AuthConfig(OpenGate(), http_open, (*digests, digest(generated)), guarded=False)
    return AuthConfig(Keyring({digest(generated): Principal("token", system=ALL)}), http_open, digests)


def _as_hello(token: str) -> Hello:
    return Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "http", 0, token=token)

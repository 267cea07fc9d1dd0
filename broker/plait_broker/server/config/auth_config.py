"""Who gets in, as configured: the gate that hellos are shown to, and who may read the HTTP side.

Nothing configured and only this machine can reach the broker: it is open. Nothing configured and others can: a token is
drawn, told once, and known to nobody else.
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
    """Decides for connections and for HTTP requests."""

    gate: Gate
    http_open: bool
    http_digests: tuple[bytes, ...] = field(default=(), repr=False)
    guarded: bool = True
    """Whether the gate tells callers apart at all."""

    def may_read(self, token: str, address: str) -> bool:
        """Whether an HTTP caller may look: with a token for that, or as someone who may hear everything anyway."""
        if self.http_open:
            return True
        if not token:
            return False
        offered = digest(token)
        if [known for known in self.http_digests if hmac.compare_digest(known, offered)]:
            return True
        if not self.guarded:
            return False
        try:
            principal = self.gate.admit(_as_hello(token), Caller(address))
        except Exception:  # a gate that fails lets nobody in, whatever the failure
            return False
        return principal is not None and principal.subscribe.open


def needs_token(configuration: Configuration) -> bool:
    """Whether others could come in and nothing says who may."""
    access = configuration.access
    if access.keyring is not None:
        return False
    if access.open:
        return configuration.http is not None and not configuration.http.loopback and access.http_token is None
    return any(not endpoint.loopback for endpoint in configuration.endpoints)


def draw_token() -> str:
    """A token that nobody can guess, in characters that survive a URL and a shell."""
    return secrets.token_urlsafe(24)


def auth_config(configuration: Configuration, drawn: str | None) -> AuthConfig:
    """The entrance that a configuration describes; `drawn` is the token that was drawn when it needs one."""
    access = configuration.access
    http_open = configuration.http is None or configuration.http.loopback
    digests = () if access.http_token is None else (access.http_token,)
    if access.keyring is not None:
        return AuthConfig(access.keyring, http_open, digests)
    if not needs_token(configuration):
        return AuthConfig(OpenGate(), http_open, digests, guarded=False)
    assert drawn, "a broker that others can reach is never open by accident"
    if access.open:
        return AuthConfig(OpenGate(), http_open, (*digests, digest(drawn)), guarded=False)
    return AuthConfig(Keyring({digest(drawn): Principal("token", system=ALL)}), http_open, digests)


def _as_hello(token: str) -> Hello:
    return Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "http", 0, token=token)

"""Addresses of brokers: `plait://[TOKEN@]HOST[:PORT]`, `plaits://` for TLS, or bare `HOST:PORT`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from ..errors import AddressInvalid
from .limits import URLS_MAX

PORT: Final = 4680
DEFAULT_URL: Final = f"plait://127.0.0.1:{PORT}"
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_SCHEMES: Final = {"plait": False, "plaits": True}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one broker."""

    host: str
    port: int = PORT
    tls: bool = False
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return the URL without the token, because messages and logs contain it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'plaits' if self.tls else 'plait'}://{host}:{self.port}"


def parse_address(url: str) -> Address:
    """Parse a URL, or HOST:PORT. Raise AddressInvalid if it names no broker."""
    shown = url.rpartition("@")[2][:200]
    if "://" not in url:
        return _parse_bare(url, shown)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressInvalid(f"{shown!r} is no URL: {error}", hint=f"like {DEFAULT_URL}") from None
    if parts.scheme not in _SCHEMES:
        raise AddressInvalid(f"{shown!r} starts with neither plait:// nor plaits://", hint=f"like {DEFAULT_URL}")
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise AddressInvalid(f"{shown!r} names no broker", hint=f"a host and perhaps a port, like {DEFAULT_URL}")
    token = unquote(parts.username) if parts.username else None
    return Address(parts.hostname, PORT if port is None else port, _SCHEMES[parts.scheme], token)


def _parse_bare(text: str, shown: str) -> Address:
    """Parse HOST:PORT without a scheme. The port is required, so that a misspelt argument is not taken for a host."""
    try:
        return parse_host_port(text)
    except AddressInvalid:
        host = text if _HOST.fullmatch(text) else "127.0.0.1"
        hint = "plait://TOKEN@HOST[:PORT]" if "@" in text else f"like {host}:{PORT} or plait://{host}"
        raise AddressInvalid(f"{shown!r} is neither HOST:PORT nor a URL", hint=hint) from None


def parse_host_port(text: str, *, any_port: bool = False) -> Address:
    """Parse HOST:PORT. Raise AddressInvalid for other texts. `any_port` allows port 0, for any free port."""
    invalid = AddressInvalid(f"{text[:200]!r} is no HOST:PORT", hint=f"like 127.0.0.1:{PORT}")
    try:
        place = parse_address(f"plait://{text}")
    except AddressInvalid:
        raise invalid from None
    written = text.rpartition(":")[2]
    if "@" in text or not text.isprintable() or " " in text or written != str(place.port):
        raise invalid
    if not place.port and not any_port:
        raise AddressInvalid(f"{text[:200]!r} names no port: 0 is whichever is free", hint=f"like 127.0.0.1:{PORT}")
    return place


def parse_addresses(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """Parse the URLs that are tried in turn, at least one."""
    given = [urls] if isinstance(urls, str) else list(urls)
    if not 0 < len(given) <= URLS_MAX:
        raise AddressInvalid(f"{len(given)} URLs", hint=f"one to {URLS_MAX}")
    return tuple(parse_address(url) for url in given)

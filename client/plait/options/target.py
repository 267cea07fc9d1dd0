"""Selects the brokers to connect to and the credentials for them, for the SDK and for commands alike.

The address is the first of these that is given: the URL argument, the context argument, PLAIT_URL, PLAIT_CONTEXT, the
context in use, the default. The token is the first of: the URL's, `auth=`, the context argument's, the content of the
file that PLAIT_TOKEN_FILE names, the token of the context that gave the address. A context that is merely in use gives
its token to no other address.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import AddressInvalid, ConfigurationInvalid
from .addresses import DEFAULT_URL, Address, parse_addresses
from .contexts import Context, load_contexts
from .trust import SYSTEM, Trust

URL_VARIABLE: Final = "PLAIT_URL"
CONTEXT_VARIABLE: Final = "PLAIT_CONTEXT"
TOKEN_VARIABLE: Final = "PLAIT_TOKEN_FILE"  # noqa: S105 - a name, no token
TOKEN_CHARACTERS_MAX: Final = 4096
"""Characters of the token file that are read. A Hello has no room for more."""

DEFAULT_SOURCE: Final = "default"
AUTH_ARGUMENT: Final = "auth="


@dataclass(frozen=True, slots=True)
class Target:
    """Brokers, the credentials for them, and where both were configured."""

    addresses: tuple[Address, ...]
    """Tried in turn, at least one."""
    source: str
    """The argument, variable or context that gave the addresses, or `default`."""
    token: str | None = field(default=None, repr=False)
    """Token for addresses that have none of their own. A single address's own token is also here."""
    token_source: str = ""
    """The argument, variable or context that gave the token. Empty without a token."""
    http: str | None = None
    """The broker's HTTP side as the context has it."""
    trust: Trust = SYSTEM

    @classmethod
    def of(cls, url: str, source: str) -> Target:
        """Return the target of one URL. Ignore the environment."""
        addresses = parse_addresses(url)
        own = addresses[0].token
        return cls(addresses, source, own, "the URL" if own else "")

    @property
    def address(self) -> Address:
        """The first address."""
        return self.addresses[0]

    @property
    def url(self) -> str:
        """The first address without its token, so that it can be printed."""
        return str(self.address)

    @property
    def tls(self) -> bool:
        return self.address.tls

    @property
    def origin(self) -> str:
        """The source, in parentheses, for an error message; empty for the default and for an argument of the SDK."""
        return "" if self.source in ("", DEFAULT_SOURCE) else f" (from {self.source})"

    def token_origin(self, address: Address) -> str:
        """Where the token for an address comes from, in parentheses, for the error of a broker that does not know it.

        Empty for `auth=`, which the caller knows of.
        """
        source = "the URL" if address.token else self.token_source
        if source == AUTH_ARGUMENT:
            return ""
        return f" (the token is from {source})" if source else " (no token was given)"


def select_target(
    urls: str | Sequence[str] | None = None,
    context: str | None = None,
    *,
    given_by: str = "",
    authenticated: bool = False,
) -> Target:
    """Return the target by the rule above. `urls` and `context` are the arguments, if any.

    `given_by` names the argument of the URL in messages. `authenticated` means that `auth=` gives the token: the token
    file is not read then. Raise AddressInvalid or ConfigurationInvalid for what is not usable.
    """
    named = None if context is None else load_contexts().named(context)
    if urls is not None:
        chosen, source, holder = urls, given_by, None
    elif named is not None:
        chosen, source, holder = named.url, f"context {context}", named
    else:
        chosen, source, holder = _from_environment()
    try:
        addresses = parse_addresses(chosen)
    except AddressInvalid as error:
        if urls is None:
            error.message = f"{source}: {error.message}"
        raise
    credentials = named or holder
    token, token_source = _token(addresses, named, holder, authenticated=authenticated)
    return Target(
        addresses,
        source,
        token,
        token_source,
        None if holder is None else holder.http,
        SYSTEM if credentials is None else Trust(credentials.ca, credentials.certificate, credentials.key),
    )


def _from_environment() -> tuple[str, str, Context | None]:
    """Return the URL without arguments: its text, where it comes from, and the saved context that has it."""
    if url := os.environ.get(URL_VARIABLE):
        return url, URL_VARIABLE, None
    contexts = load_contexts()
    if name := os.environ.get(CONTEXT_VARIABLE):
        context = contexts.named(name, CONTEXT_VARIABLE)
        return context.url, f"context {name}, by {CONTEXT_VARIABLE}", context
    if contexts.current:
        context = contexts.named(contexts.current)
        return context.url, f"context {contexts.current}, in use", context
    return DEFAULT_URL, DEFAULT_SOURCE, None


def _token(
    addresses: tuple[Address, ...], named: Context | None, holder: Context | None, *, authenticated: bool
) -> tuple[str | None, str]:
    """Return the token and where it comes from. The argument named one context; the other holds the address."""
    if len(addresses) == 1 and addresses[0].token:
        return addresses[0].token, "the URL"
    if authenticated:
        return None, AUTH_ARGUMENT
    if named is not None and named.token:
        return named.token, "the context"
    if token := token_from_file():
        return token, TOKEN_VARIABLE
    if holder is not None and holder.token:
        return holder.token, "the context"
    return None, ""


def token_from_file() -> str | None:
    """Return the token in the file that PLAIT_TOKEN_FILE names, or None if there is none."""
    path = os.environ.get(TOKEN_VARIABLE)
    if not path:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(TOKEN_CHARACTERS_MAX).strip() or None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationInvalid(
            f"{TOKEN_VARIABLE}: {path} cannot be read: {reason}", hint="it must contain the broker's token"
        ) from None

"""Certificates for TLS at the prompt: whom to believe, and who one is. They come from the context in use.

Without any, what the system trusts is believed; SSL_CERT_FILE and SSL_CERT_DIR override that, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..terminal.failures import Failure

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Trust:
    """Names of PEM files."""

    ca: str | None = None
    """The authority that has signed the broker's certificate; None: those that the system trusts."""
    certificate: str | None = None
    key: str | None = None
    """Of the certificate; None: it is in the same file."""

    def context(self) -> ssl.SSLContext:
        """How to speak TLS; Failure when a file does not say it."""
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (ssl.SSLError, OSError) as error:
            raise Failure(f"{self.ca} holds no certificates: {_why(error)}", hint="a PEM file") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
            except (ssl.SSLError, OSError, ValueError) as error:
                files = f"{self.certificate} and {self.key}" if self.key else self.certificate
                hint = "PEM files, the key without a password"
                raise Failure(f"{files}: no certificate and its key: {_why(error)}", hint=hint) from None
        return context


SYSTEM: Final = Trust()
"""Whom the system trusts, and oneself nobody."""


def _no_password() -> str:
    raise ValueError("the key has a password")


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)

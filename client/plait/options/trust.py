"""TLS certificates of a saved context: the trusted authority and the client's own.

Without an authority, the system's are trusted; SSL_CERT_FILE and SSL_CERT_DIR override those, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import ConfigurationInvalid

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Trust:
    """Names of PEM files."""

    ca: str | None = None
    """The authority that signed the broker's certificate. None means the system's authorities."""
    certificate: str | None = None
    key: str | None = None
    """Key of the certificate. None means that it is in the same file."""

    def context(self) -> ssl.SSLContext:
        """Return a TLS context; ConfigurationInvalid if a file holds no certificate or key."""
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationInvalid(
                f"{self.ca} holds no certificates: {_reason(error)}", hint="a PEM file"
            ) from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
            except (ssl.SSLError, OSError, ValueError) as error:
                files = f"{self.certificate} and {self.key}" if self.key else self.certificate
                hint = "PEM files, the key without a password"
                raise ConfigurationInvalid(
                    f"{files} hold no certificate with its key: {_reason(error)}", hint=hint
                ) from None
        return context


SYSTEM: Final = Trust()
"""Trusts the system's authorities, without a certificate of the client."""


def _no_password() -> str:
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)

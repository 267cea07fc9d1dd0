"""TLS contexts from the configured certificates."""

from __future__ import annotations

import ssl

from .config.config_reader import ConfigurationError
from .config.configuration import TlsFiles
from .config.overlay_config import OverlayTls


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context for clients' connections; raise ConfigurationError if a file is not usable."""
    context = http_context(files)
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"{files.client_ca} holds no certificates: {_why(error)}", key="tls.client_ca", hint="a PEM file"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED if files.client_certificate_required else ssl.CERT_OPTIONAL
    return context


def http_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context for HTTP. It requests no client certificates: scrapers and browsers use tokens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"{files.certificate} and {files.key} are no certificate and its key: {_why(error)}",
            key="tls.certificate",
            hint="PEM files, the certificate with its chain, the key without a password",
        ) from None
    return context


def link_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context for connections to other brokers: with this broker's certificate, and trusting the authority
    that signs those of clients."""
    context = ssl.create_default_context(cafile=str(files.client_ca) if files.client_ca is not None else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key, password=_no_password)
    return context


def overlay_contexts(files: OverlayTls) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts for links between brokers, for accepting and for connecting. Both ends show certificates of
    the overlay's authority, which signs only brokers, so the host name is not checked."""
    found: list[ssl.SSLContext] = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
            context.load_verify_locations(files.ca)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigurationError(
                f"{files.certificate}, {files.key} and {files.ca} are no certificate, its key and an authority: "
                f"{_why(error)}",
                key="overlay.tls",
                hint="PEM files, the key without a password",
            ) from None
        found.append(context)
    return found[0], found[1]


def _no_password() -> str:
    raise ValueError("the key has a password")


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)

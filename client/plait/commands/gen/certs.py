"""`plait gen certs`: certificates for TLS, signed by two private authorities.

One signs brokers' certificates; brokers and clients trust it. The other signs clients', so that no client can pass for
a broker.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ..terminal.failures import Failure, WrongUse
from .writing import write_secret

if TYPE_CHECKING:
    from .authority import Authority

DAYS: Final = 825
"""The longest validity of a server's certificate that some systems accept."""

DAYS_MAX: Final = 3650
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class CertificateRequest(NamedTuple):
    """A certificate to make."""

    name: str
    hosts: tuple[str, ...]


@click.command(
    epilog="\b\nExample: plait gen certs ./certs --broker north=north.example.org,10.0.0.1 --broker south --client feed"
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--broker", "brokers", multiple=True, metavar="NAME[=HOST,...]",
    help="A broker, and the hosts at which it is dialled besides its name, localhost and 127.0.0.1.",
)  # fmt: skip
@click.option("--client", "clients", multiple=True, metavar="NAME", help="A client that has a certificate.")
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=DAYS,
    show_default=True,
    help="Validity of the certificates in days.",
)
def certs(directory: Path, brokers: tuple[str, ...], clients: tuple[str, ...], days: int) -> None:
    """Make certificates for brokers and clients.

    The first call makes the authorities, later calls use them. Guard their keys: brokers and clients need only
    certificates. Existing certificates stay as they are.
    """
    if not brokers and not clients:
        raise WrongUse("neither brokers nor clients are named", hint="--broker NAME or --client NAME")
    try:
        from .authority import Authority
    except ImportError as error:
        raise Failure(f"this needs the package cryptography: {error}", hint="pip install plait-broker") from None
    requests = {
        "brokers": [_broker(text) for text in brokers],
        "clients": [CertificateRequest(_checked_name(name), ()) for name in clients],
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for kind, each in requests.items():
            if each:
                _sign(Authority.at(directory, f"{kind}-ca"), each, directory, days)
    except OSError as error:
        raise Failure(f"{directory} cannot be written: {error.strerror}") from error


def _sign(authority: Authority, requests: list[CertificateRequest], directory: Path, days: int) -> None:
    for name, hosts in requests:
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        if certificate.exists():
            click.echo(f"{certificate} exists already")
            continue
        made = authority.sign(name, hosts, days)
        write_secret(key, made.key)
        certificate.write_bytes(made.certificate)
        click.echo(f"{certificate}, {key.name}, by {authority.name}.pem")


def _broker(text: str) -> CertificateRequest:
    name, _, hosts = text.partition("=")
    return CertificateRequest(_checked_name(name), (name, *filter(None, hosts.split(",")), "localhost", "127.0.0.1"))


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise WrongUse(f"{name[:80]!r} is no name", hint="1 to 64 letters, digits, dots, dashes and underscores")
    return name

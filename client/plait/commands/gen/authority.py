"""An authority in a directory: its certificate and its key, and what it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..terminal.failures import Failure

AUTHORITY_DAYS: Final = 3650
_SKEW: Final = timedelta(minutes=5)
"""Clocks differ: certificates hold from a little before they are made."""


@dataclass(frozen=True, slots=True)
class Made:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """Signs certificates of one kind."""

    name: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def at(cls, directory: Path, name: str) -> Authority:
        """The one of a directory, made if it is not there."""
        from .certs import write_secret

        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        if not certificate.exists():
            secret = ec.generate_private_key(ec.SECP256R1())
            subject = _subject(f"Plait {name}")
            made = _begun(subject, subject, secret.public_key(), AUTHORITY_DAYS)
            made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            signed = made.sign(secret, hashes.SHA256())
            key.unlink(missing_ok=True)
            write_secret(key, _key_pem(secret))
            certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        try:
            found = serialization.load_pem_private_key(key.read_bytes(), None)
            assert isinstance(found, ec.EllipticCurvePrivateKey), "it was made here"
            return cls(name, x509.load_pem_x509_certificate(certificate.read_bytes()), found)
        except (FileNotFoundError, ValueError) as error:
            hint = "bring it back, or take the directory away and make all certificates anew"
            raise Failure(f"{key} is not the key of {certificate.name}: {error}", hint=hint) from None

    def sign(self, name: str, hosts: Iterable[str], days: int) -> Made:
        """A certificate for a broker at these hosts; without any, for a client."""
        secret, places = ec.generate_private_key(ec.SECP256R1()), list(dict.fromkeys(hosts))
        builder = _begun(_subject(name), self.certificate.subject, secret.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if places:  # brokers connect to each other: each is both
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(place) for place in places]), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False).add_extension(issuer, False)
        signed = builder.sign(self.key, hashes.SHA256())
        return Made(signed.public_bytes(serialization.Encoding.PEM), _key_pem(secret))


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(place: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(place))
    except ValueError:
        return x509.DNSName(place)

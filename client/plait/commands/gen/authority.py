"""A certificate authority whose certificate and key are files of a directory."""

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
from .writing import write_secret

AUTHORITY_DAYS: Final = 3650
_SKEW: Final = timedelta(minutes=5)
"""Clocks differ, so certificates are valid from a little before they are made."""


@dataclass(frozen=True, slots=True)
class SignedPair:
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
        """Return the authority of a directory. Make it if it does not exist."""
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        if not certificate.exists():
            secret = ec.generate_private_key(ec.SECP256R1())
            subject = _subject(f"Plait {name}")
            made = _builder(subject, subject, secret.public_key(), AUTHORITY_DAYS)
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
            hint = "restore it, or remove the directory and make all certificates again"
            raise Failure(f"{key} is not the key of {certificate.name}: {error}", hint=hint) from None

    def sign(self, name: str, hosts: Iterable[str], days: int) -> SignedPair:
        """Sign a certificate for a broker at these hosts, or for a client if there are none."""
        secret, addresses = ec.generate_private_key(ec.SECP256R1()), list(dict.fromkeys(hosts))
        builder = _builder(_subject(name), self.certificate.subject, secret.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if addresses:  # brokers connect to each other: each is client and server
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(address) for address in addresses]), False
            )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False).add_extension(issuer, False)
        signed = builder.sign(self.key, hashes.SHA256())
        return SignedPair(signed.public_bytes(serialization.Encoding.PEM), _key_pem(secret))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
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


def _host(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)

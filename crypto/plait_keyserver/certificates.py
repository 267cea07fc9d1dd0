"""Identities: the key server's own authority signs certificates of holders, and of its replicas for their hosts.

Its key is in the vault. The server writes the holder's name into the certificate. From a request it takes only the
public key, no claim about the sender.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from plait_crypto import SealInvalid
from plait_crypto.keyserver import Certified

AUTHORITY_LIFE: Final = timedelta(days=3650)
HOLDER_LIFE: Final = timedelta(days=365)
"""Lifetime of a holder's certificate; then it enrols anew. Revocation and policy are checked at each issue anyway."""

SERVICE_LIFE: Final = timedelta(days=90)
"""Lifetime of a replica's certificate. It draws a new one at each start."""

_SKEW: Final = timedelta(minutes=5)
"""Certificates are valid from a little before they are made, because clocks differ."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, repr=False)
class CertificateAuthority:
    """A key and its certificate, both PEM."""

    key: str
    certificate: str

    @classmethod
    def new(cls, now_us: int) -> CertificateAuthority:
        """Return a new authority."""
        key = new_key()
        name = _name("Plait key server")
        builder = _begun(name, name, key.public_key(), now_us, AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key_pem(key), _pem(builder.sign(key, hashes.SHA256())))

    def certify_holder(self, holder: str, request: str, now_us: int) -> Certified:
        """Return a certificate for the key of a request.

        Raise SealInvalid unless the request proves possession of the key.
        """
        try:
            csr = x509.load_pem_x509_csr(request.encode())
            public = csr.public_key()
            p256 = isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1)
            sound = p256 and csr.is_signature_valid
        except Exception:  # the library has no common base for its errors about foreign bytes
            sound = False
        if not sound:
            raise SealInvalid("no certificate request", hint="PKCS #10 in PEM, of a P-256 key")
        assert isinstance(public, ec.EllipticCurvePublicKey)
        serial = x509.random_serial_number()
        usage = ExtendedKeyUsageOID.CLIENT_AUTH
        return Certified(self._signed(holder, public, now_us, HOLDER_LIFE, usage, (), serial), f"{serial:x}")

    def certify_service(self, hosts: Sequence[str], now_us: int) -> tuple[str, str]:
        """Return a new key and its certificate for a server at these hosts, both PEM."""
        key = new_key()
        names = tuple(_host(host) for host in hosts)
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return key_pem(key), self._signed("plait keyserver", key.public_key(), now_us, SERVICE_LIFE, usage, names)

    def _signed(
        self,
        name: str,
        public: ec.EllipticCurvePublicKey,
        now_us: int,
        life: timedelta,
        usage: x509.ObjectIdentifier,
        hosts: tuple[x509.GeneralName, ...],
        serial: int | None = None,
    ) -> str:
        issuer = x509.load_pem_x509_certificate(self.certificate.encode())
        key = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        builder = _begun(_name(name), issuer.subject, public, now_us, life, serial)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return _pem(builder.sign(key, hashes.SHA256()))


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key, which every TLS library supports."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Encode a key as PEM, without a password."""
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def request_for(key: ec.EllipticCurvePrivateKey) -> str:
    """Return a certificate request for a key, PEM. It contains no name: the server knows the holder by the token."""
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def load_pair(context: ssl.SSLContext, key: str, certificate: str) -> None:
    """Load a key and its certificate. The library reads only files; this one is deleted after reading."""
    descriptor, name = tempfile.mkstemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - memory
    try:
        with open(descriptor, "w") as file:  # mkstemp makes it readable by this user alone
            file.write(key + certificate)
        context.load_cert_chain(name)
    finally:
        os.unlink(name)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now_us: int,
    life: timedelta,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    now = _EPOCH + timedelta(microseconds=now_us)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number() if serial is None else serial)
    return builder.not_valid_before(now - _SKEW).not_valid_after(now + life)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()

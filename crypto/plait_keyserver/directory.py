"""A key server's directory. A replica needs a copy of the first three files; the others are its own.

vault.json       the master secret and the authority's key, under a passphrase      secret
policy.toml      filters of each holder                                              edited by the operator
revoked.jsonl    revoked holders: append-only
authority.pem    the certificate that clients trust
enrolments.json  digests of unused tokens: a token is valid at the replica where it was made
audit.jsonl      requests and their outcomes: append-only
"""

from __future__ import annotations

import fcntl
import json
import os
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from plait_core import Randomness
from plait_crypto import Realm, Schema, SealError, SealInvalid
from plait_crypto.hazmat import ArkworksGroups, MasterSecret, Parameters, PointInvalid, set_up
from plait_crypto.keyserver import Enrolments, Policy, VaultClosed, close_vault, open_vault

from .certificates import CertificateAuthority

VAULT, POLICY, REVOKED, AUTHORITY = "vault.json", "policy.toml", "revoked.jsonl", "authority.pem"
ENROLMENTS, AUDIT, _LOCK = "enrolments.json", "audit.jsonl", ".lock"

_FIRST_POLICY: Final = """\
# Filters for which each holder may have keys. All others are denied. A change applies from the next request on.
#
# [holders.alice]
# publish = ["symbol == 'IBM'"]
# subscribe = ["price < 100"]
"""


@dataclass(frozen=True, repr=False)
class Secrets:
    """The content of a vault, with its realm."""

    realm: Realm
    master: MasterSecret
    authority: CertificateAuthority

    @classmethod
    def new(cls, schema: Schema, now_us: int, randomness: Randomness) -> Secrets:
        """Create a new realm."""
        parameters, master = set_up(ArkworksGroups(), randomness)
        return cls(Realm(parameters, schema), master, CertificateAuthority.new(now_us))

    def encode(self) -> bytes:
        """Return the content of the vault."""
        parameters = self.realm.parameters
        points = {"parameters": parameters.encode(), "master": self.master.encode()}
        texts = {"schema": self.realm.schema.to_json(), "key": self.authority.key, "pem": self.authority.certificate}
        return json.dumps({**texts, **{name: b64encode(each).decode() for name, each in points.items()}}).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Secrets:
        """Parse the output of `encode`; raise VaultClosed if it is invalid."""
        groups = ArkworksGroups()
        try:
            given = json.loads(encoded)
            parameters = Parameters.decode(groups, b64decode(given["parameters"]))
            master = MasterSecret.decode(groups, b64decode(given["master"]))
            realm = Realm(parameters, Schema.from_json(given["schema"]))
            return cls(realm, master, CertificateAuthority(given["key"], given["pem"]))
        except (ValueError, KeyError, PointInvalid):
            raise VaultClosed from None


class KeyDirectory:
    """The files of one replica."""

    def __init__(self, path: Path, randomness: Randomness | None = None) -> None:
        self.path = path
        self._randomness = randomness if randomness is not None else random.SystemRandom()
        self._decided: tuple[object, tuple[Policy, Mapping[str, int]]] | None = None

    # --- secrets ------------------------------------------------------------------------------------------------------

    def create(self, schema: Schema, passphrase: str, now_us: int) -> Secrets:
        """Begin a realm in this directory; raise SealInvalid if it has one already."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if (self.path / VAULT).exists():
                raise SealInvalid(f"{self.path} has a vault already", hint="another directory, or `plait keys rotate`")
            secrets = Secrets.new(schema, now_us, self._randomness)
            self._write(AUTHORITY, secrets.authority.certificate, 0o644)
            if not (self.path / POLICY).exists():
                self._write(POLICY, _FIRST_POLICY, 0o600)
            self._write(VAULT, close_vault(secrets.encode(), passphrase, self._randomness))
        return secrets

    def open(self, passphrase: str) -> Secrets:
        """Return the vault's content; raise VaultClosed if it does not open."""
        return Secrets.decode(open_vault(self._read(VAULT), passphrase))

    def rotate(self, passphrase: str, new_passphrase: str, *, new_master: bool) -> Secrets:
        """Close the vault under another passphrase, or put a new master secret into it: a new realm, same schema.

        Holders keep their certificates. The old master secret is not kept: events sealed under it open only with keys
        that were issued before.
        """
        with self._locked():
            secrets = self.open(passphrase)
            if new_master:
                parameters, master = set_up(secrets.realm.parameters.groups, self._randomness)
                secrets = Secrets(Realm(parameters, secrets.realm.schema), master, secrets.authority)
            self._write(VAULT, close_vault(secrets.encode(), new_passphrase, self._randomness))
        return secrets

    # --- decisions ----------------------------------------------------------------------------------------------------

    def decisions(self) -> tuple[Policy, Mapping[str, int]]:
        """Return the policy and the revoked holders with the time of revocation. Changed files are read again."""
        found = tuple(_stamp(self.path / name) for name in (POLICY, REVOKED))
        if self._decided is None or self._decided[0] != found:
            self._decided = found, (Policy.from_toml(self._read(POLICY)), self._read_revoked())
        return self._decided[1]

    def revoke(self, holder: str, now_us: int) -> None:
        """Record that a holder gets no more keys."""
        if holder not in self.decisions()[0].holders and holder not in self._read_revoked():
            raise SealInvalid(f"{holder[:80]} is not in the policy", hint="it gets no keys anyway")
        with self._locked():
            self._append(REVOKED, {"holder": holder, "at_us": now_us})

    def make_token(self, holder: str, now_us: int) -> str:
        """Return a token with which a holder enrols, once."""
        policy, revoked = self.decisions()
        if holder not in policy.holders or holder in revoked:
            raise SealInvalid(
                f"{holder[:80]} is {'revoked' if holder in revoked else 'not in the policy'}",
                hint=f"write the holder's filters into {POLICY}",
            )
        with self._locked():
            enrolments = self._enrolments()
            token = enrolments.make(holder, now_us, self._randomness)
            self._write(ENROLMENTS, enrolments.to_json())
        return token

    def redeem(self, token: str, now_us: int) -> str | None:
        """Return the holder of a token. The token is durably used up before this returns."""
        with self._locked():
            enrolments = self._enrolments()
            holder = enrolments.redeem(token, now_us)
            if holder is not None:
                self._write(ENROLMENTS, enrolments.to_json())
        return holder

    def audit(self, line: Mapping[str, Any]) -> None:
        """Append a line to the audit log. It is on disk when this returns."""
        self._append(AUDIT, line)

    # --- files --------------------------------------------------------------------------------------------------------

    def _enrolments(self) -> Enrolments:
        path = self.path / ENROLMENTS
        return Enrolments.from_json(path.read_text()) if path.exists() else Enrolments()

    def _read_revoked(self) -> dict[str, int]:
        path, found = self.path / REVOKED, dict[str, int]()
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
            try:
                given = json.loads(line)
                found.setdefault(given["holder"], int(given["at_us"]))
            except (ValueError, TypeError, KeyError, RecursionError):
                # Going on would ignore a revocation.
                raise SealError(
                    f"{path}: line {number} cannot be read", hint="repair it: it revokes a holder"
                ) from None
        return found

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            hint = "`plait keys init` creates a directory"
            raise SealError(f"{self.path / name} cannot be read: {error}", hint=hint) from None

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Write a file atomically, even if the power fails."""
        temporary = self.path / f".{name}.new"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path / name)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(os.open(self.path / name, flags, 0o600), "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other processes: commands may run beside the server."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

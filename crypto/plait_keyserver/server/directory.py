"""A key server's directory. A replica needs a copy of the first four files; the others are its own.

vault.json        the master secret and the authority's key, under a passphrase      secret
policy.toml       filters of each holder                                              edited by the operator
revoked.jsonl     revoked holders and certificates: append-only
epoch_ends.jsonl  decisions to end an epoch early: append-only
authority.pem     the certificate that clients trust
enrolments.json   digests of unused tokens: a token is valid at the replica where it was made
audit.jsonl       requests and their outcomes, with audit.head and earlier files: see `audit_log`
"""

from __future__ import annotations

import fcntl
import json
import os
import random
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from plait_core import Randomness
from plait_core.values import Json
from plait_crypto import Authority, Realm, Schema, SealError, SealInvalid
from plait_crypto.hazmat import ArkworksGroups, MasterSecret, Parameters, PointInvalid, set_up
from plait_crypto.keyserver import (
    Decisions,
    Enrolments,
    Policy,
    ServedRealm,
    VaultClosed,
    close_vault,
    open_vault,
)
from plait_crypto.limits import EARLY_ENDS_MAX

from ..certificates import CertificateAuthority
from ..private_files import check_folder, private_folder, write_private
from .audit_log import AuditLog

VAULT, POLICY, REVOKED, AUTHORITY = "vault.json", "policy.toml", "revoked.jsonl", "authority.pem"
EPOCH_ENDS, ENROLMENTS, _LOCK = "epoch_ends.jsonl", "enrolments.json", ".lock"

_FIRST_POLICY: Final = """\
# Filters for which each holder may have keys. All others are denied. A change applies from the next request on.
#
# [holders.alice]
# publish = ["symbol == 'IBM'"]
# subscribe = ["price < 100"]
"""


@dataclass(frozen=True, repr=False)
class Former:
    """The realm before a rotation. Its keys are issued until `ends_us`."""

    realm: Realm
    master: MasterSecret
    decided_us: int
    ends_us: int


@dataclass(frozen=True, repr=False)
class Secrets:
    """The content of a vault, with its realm."""

    realm: Realm
    master: MasterSecret
    authority: CertificateAuthority
    decided_us: int = 0
    """When this realm was drawn in place of another."""
    begins_us: int = 0
    """Events are sealed in it from here on. Until then members get its keys, and seal in the former realm."""
    former: Former | None = None

    @classmethod
    def new(cls, schema: Schema, now_us: int, randomness: Randomness) -> Secrets:
        """Create a new realm."""
        parameters, master = set_up(ArkworksGroups(), randomness)
        return cls(Realm(parameters, schema), master, CertificateAuthority.new(now_us))

    def encode(self) -> bytes:
        """Return the content of the vault."""
        texts = {"schema": self.realm.schema.to_json(), "key": self.authority.key, "pem": self.authority.certificate}
        times = {"decided_us": self.decided_us, "begins_us": self.begins_us}
        found: Json = {**texts, **times, **_points(self.realm, self.master)}
        if (former := self.former) is not None:
            times = {"decided_us": former.decided_us, "ends_us": former.ends_us}
            found["former"] = {**times, **_points(former.realm, former.master)}
        return json.dumps(found).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Secrets:
        """Parse the output of `encode`; raise VaultClosed if it is invalid."""
        try:
            given = json.loads(encoded)
            schema, old = Schema.from_json(given["schema"]), given.get("former")
            former = None if old is None else Former(*_read_points(old, schema), old["decided_us"], old["ends_us"])
            authority = CertificateAuthority(given["key"], given["pem"])
            times = int(given.get("decided_us", 0)), int(given.get("begins_us", 0))
            return cls(*_read_points(given, schema), authority, *times, former)
        except (ValueError, TypeError, KeyError, RecursionError, SealInvalid, PointInvalid):
            raise VaultClosed from None

    def rotated(self, now_us: int, randomness: Randomness, *, at_once: bool) -> Secrets:
        """Return secrets with a new master secret. Unless at once, keep the present one for two overlaps.

        In the first one members get keys of the new realm. In the second one the last events of the old realm arrive.
        """
        schema, overlap_us = self.realm.schema, self.realm.schema.epochs.overlap_us
        if not at_once and self.former is not None and now_us < self.former.ends_us:
            hint = "wait for it, or give --at-once, with which members lose events until they have new keys"
            raise SealInvalid("the last rotation is not over", hint=hint)
        parameters, master = set_up(self.realm.parameters.groups, randomness)
        realm = Realm(parameters, schema)
        if at_once:
            return Secrets(realm, master, self.authority, now_us)
        former = Former(self.realm, self.master, self.decided_us, now_us + 2 * overlap_us)
        return Secrets(realm, master, self.authority, now_us, now_us + overlap_us, former)

    def served(self) -> list[ServedRealm]:
        """Return the realms to serve, the oldest first."""
        present = ServedRealm(Authority(self.realm, self.master), self.decided_us, self.begins_us)
        if (old := self.former) is None:
            return [present]
        return [ServedRealm(Authority(old.realm, old.master), old.decided_us, 0, old.ends_us), present]


class KeyDirectory:
    """The files of one replica."""

    def __init__(self, path: Path, randomness: Randomness | None = None) -> None:
        self.path = path
        self._randomness = randomness if randomness is not None else random.SystemRandom()
        self._decided: tuple[object, Decisions] | None = None
        self._log = AuditLog(path)

    # --- secrets ------------------------------------------------------------------------------------------------------

    def create(self, schema: Schema, passphrase: str, now_us: int) -> Secrets:
        """Begin a realm in this directory; raise SealInvalid if it has one already."""
        private_folder(self.path)
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
        """Return the vault's content; raise VaultClosed if it does not open, SealError if others may write here."""
        check_folder(self.path)
        return Secrets.decode(open_vault(self._read(VAULT), passphrase))

    def rotate(self, passphrase: str, new_passphrase: str, now_us: int, *, at_once: bool = False) -> Secrets:
        """Put a new master secret into the vault: a new realm of the same schema. Holders keep their certificates."""
        with self._locked():
            secrets = self.open(passphrase).rotated(now_us, self._randomness, at_once=at_once)
            self._write(VAULT, close_vault(secrets.encode(), new_passphrase, self._randomness))
        return secrets

    def change_passphrase(self, passphrase: str, new_passphrase: str, now_us: int) -> Secrets:
        """Close the vault under another passphrase. Drop a former master secret that is not served any more."""
        with self._locked():
            secrets = self.open(passphrase)
            if secrets.former is not None and now_us >= secrets.former.ends_us:
                secrets = replace(secrets, former=None)
            self._write(VAULT, close_vault(secrets.encode(), new_passphrase, self._randomness))
        return secrets

    # --- decisions ----------------------------------------------------------------------------------------------------

    def decisions(self) -> Decisions:
        """Return what the operator decided. Changed files are read again."""
        found = tuple(_stamp(self.path / name) for name in (POLICY, REVOKED, EPOCH_ENDS))
        if self._decided is None or self._decided[0] != found:
            self._decided = (
                found,
                Decisions(Policy.from_toml(self._read(POLICY)), *self._read_revoked(), self._read_epoch_ends()),
            )
        return self._decided[1]

    def revoke(self, holder: str, now_us: int, certificate: str = "") -> None:
        """Record that a holder gets no more keys, or that one of its certificates is not valid any more."""
        decisions = self.decisions()
        if holder not in decisions.policy.holders and holder not in decisions.revoked:
            raise SealInvalid(f"{holder[:80]} is not in the policy", hint="it gets no keys anyway")
        only = {"certificate": _serial(certificate)} if certificate else {}
        with self._locked():
            self._append(REVOKED, {"holder": holder, "at_us": now_us, **only})

    def end_epoch(self, now_us: int) -> None:
        """Record that the present epoch ends early."""
        if len(self._read_epoch_ends()) >= EARLY_ENDS_MAX:
            hint = f"`plait keys rotate`; lines of {EPOCH_ENDS} before it may then be removed"
            raise SealInvalid(f"{EARLY_ENDS_MAX} epochs were ended early", hint=hint)
        with self._locked():
            self._append(EPOCH_ENDS, {"at_us": now_us})

    def make_token(self, holder: str, now_us: int) -> str:
        """Return a token with which a holder enrols, once."""
        decisions = self.decisions()
        if holder not in decisions.policy.holders or holder in decisions.revoked:
            raise SealInvalid(
                f"{holder[:80]} is {'revoked' if holder in decisions.revoked else 'not in the policy'}",
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

    def audit(self, *lines: Mapping[str, Any]) -> None:
        """Append lines to the audit log. They are on disk when this returns."""
        self._log.append(lines)

    # --- files --------------------------------------------------------------------------------------------------------

    def _enrolments(self) -> Enrolments:
        path = self.path / ENROLMENTS
        return Enrolments.from_json(path.read_text()) if path.exists() else Enrolments()

    def _read_revoked(self) -> tuple[dict[str, int], frozenset[str]]:
        """Return revoked holders with the time of revocation, and revoked certificates."""
        holders, certificates = dict[str, int](), set[str]()

        def read(given: Any) -> None:
            if "certificate" in given:
                certificates.add(_serial(given["certificate"]))
            else:
                holders.setdefault(str(given["holder"]), int(given["at_us"]))

        self._read_lines(REVOKED, read, "it revokes a holder")
        return holders, frozenset(certificates)

    def _read_epoch_ends(self) -> tuple[int, ...]:
        found: list[int] = []
        self._read_lines(EPOCH_ENDS, lambda given: found.append(int(given["at_us"])), "it ends an epoch")
        return tuple(found)

    def _read_lines(self, name: str, read: Callable[[Any], None], meaning: str) -> None:
        path = self.path / name
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
            try:
                read(json.loads(line))
            except (ValueError, TypeError, KeyError, RecursionError, SealInvalid):
                # Going on would ignore a decision.
                raise SealError(f"{path}: line {number} cannot be read", hint=f"repair it: {meaning}") from None

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            hint = "`plait keys init` creates a directory"
            raise SealError(f"{self.path / name} cannot be read: {error}", hint=hint) from None

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        write_private(self.path / name, text.encode(), mode)

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


def _points(realm: Realm, master: MasterSecret) -> Json:
    points = {"parameters": realm.parameters.encode(), "master": master.encode()}
    return {name: b64encode(each).decode() for name, each in points.items()}


def _read_points(given: Mapping[str, Any], schema: Schema) -> tuple[Realm, MasterSecret]:
    groups = ArkworksGroups()
    parameters, master = (b64decode(given[name], validate=True) for name in ("parameters", "master"))
    secret = MasterSecret.decode(groups, master)
    return Realm(Parameters.decode(groups, parameters), schema), secret


def _serial(text: str) -> str:
    """Return a serial number in hexadecimal in the one form that is compared."""
    try:
        return f"{int(text.replace(':', ''), 16):x}"
    except (ValueError, AttributeError):
        raise SealInvalid(f"{text!r:.80} is no serial number", hint="hexadecimal, as in the audit log") from None


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

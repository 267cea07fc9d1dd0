"""The operator's commands of `plait keys`: revoke, end an epoch, rotate the master secret, check the audit log.

They work on a key server's directory, also while it runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from plait_core import PlaitError

from ..server.audit_log import AuditBroken, AuditLog
from ..server.directory import EPOCH_ENDS, REVOKED, VAULT, KeyDirectory
from .passphrases import passphrase

T = TypeVar("T")

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)
PASSPHRASE = click.option("--passphrase-file", type=_FILE, help="File with the passphrase of the vault.")


@click.command(epilog="\b\nExample: plait keys revoke ./realm mallory && plait keys epoch end ./realm")
@click.argument("directory", type=_DIRECTORY)
@click.argument("holder")
@click.option("--certificate", metavar="SERIAL", help="Revoke this certificate alone: its number in the audit log.")
def revoke(directory: Path, holder: str, certificate: str | None) -> None:
    """Issue nothing more to HOLDER.

    Its present keys open events until their epoch is over: this one, or the next if that is issued already. To end them
    sooner, run `plait keys epoch end` afterwards. With --certificate, the holder's other certificates stay valid.
    """
    trying(lambda: KeyDirectory(directory).revoke(holder, now_us(), certificate or ""))
    click.echo(f"certificate {certificate} of {holder} is revoked" if certificate else f"{holder} gets no more keys")
    click.echo(f"Next: copy {directory / REVOKED} to the replicas, if there are any.", err=True)


@click.group(epilog="\b\nExample: plait keys epoch end ./realm")
def epoch() -> None:
    """End the present epoch of a realm."""


@epoch.command(epilog="\b\nExample: plait keys epoch end ./realm")
@click.argument("directory", type=_DIRECTORY)
def end(directory: Path) -> None:
    """End the present epoch early: one overlap from now.

    Members learn of it from the key server and get keys of the next epoch meanwhile. Holders that were revoked before
    get none. Events that are sealed with the old keys are accepted for one more overlap.
    """
    trying(lambda: KeyDirectory(directory).end_epoch(now_us()))
    click.echo("the present epoch ends one overlap from now")
    click.echo(f"Next: copy {directory / EPOCH_ENDS} to the replicas, if there are any.", err=True)


@click.command(epilog="\b\nExample: plait keys rotate ./realm --passphrase-only --new-passphrase-file new.txt")
@click.argument("directory", type=_DIRECTORY)
@PASSPHRASE
@click.option("--new-passphrase-file", type=_FILE, help="File with the new passphrase; by default it stays the same.")
@click.option("--passphrase-only", is_flag=True, help="Keep the master secret.")
@click.option("--at-once", is_flag=True, help="Drop the old master secret now: members lose events until they follow.")
def rotate(
    directory: Path,
    passphrase_file: Path | None,
    new_passphrase_file: Path | None,
    passphrase_only: bool,
    at_once: bool,
) -> None:
    """Draw a new master secret: a new realm of the same schema.

    Both realms are served for two overlaps. In the first one members get keys of the new realm, in the second one
    events of the old realm are still read. Members follow by themselves. Restart the server now, and give its replicas
    the new vault.
    """
    if passphrase_only and new_passphrase_file is None:
        raise click.UsageError("--passphrase-only needs --new-passphrase-file")
    old = passphrase(passphrase_file)
    new = old if new_passphrase_file is None else passphrase(new_passphrase_file, new=True)
    kept = KeyDirectory(directory)
    if passphrase_only:
        secrets = trying(lambda: kept.change_passphrase(old, new, now_us()))
    else:
        secrets = trying(lambda: kept.rotate(old, new, now_us(), at_once=at_once))
    click.echo(f"realm {secrets.realm.digest.hex()[:16]}")
    click.echo(f"Next: restart the server, and copy {directory / VAULT} to the replicas, if there are any.", err=True)


@click.group(epilog="\b\nExample: plait keys audit verify ./realm")
def audit() -> None:
    """Check the audit log of a key server."""


@audit.command(epilog="\b\nExample: plait keys audit verify ./realm --json")
@click.argument("directory", type=_DIRECTORY)
@click.option("--head", default="", metavar="DIGEST", help="A head that was printed before: it must be in the log.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def verify(directory: Path, head: str, as_json: bool) -> None:
    """Check that no line of the audit log was changed or removed.

    Note the head that it prints where a writer of DIRECTORY cannot change it, and give it next time: only that shows
    whether somebody wrote the whole log anew.
    """
    try:
        found = trying(lambda: AuditLog(directory).verify(head))
    except AuditBroken as error:
        if as_json:
            click.echo(json.dumps({"ok": False, "error": error.message, "hint": error.hint}))
            raise click.exceptions.Exit(1) from None
        raise click.ClickException(str(error)) from None
    archived = f", {found.archived} earlier ones are archived" if found.archived else ""
    whole = f"{found.lines} lines in {found.files} files{archived}; head {found.head}"
    click.echo(json.dumps(found.fields()) if as_json else whole)


def trying(what: Callable[[], T]) -> T:
    """Call `what` and return its result; turn errors into the command's failure with a hint."""
    try:
        return what()
    except AuditBroken:
        raise
    except (PlaitError, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None


def now_us() -> int:
    """Return microseconds since 1970."""
    return time.time_ns() // 1000

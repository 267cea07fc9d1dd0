"""`plait keys`: create a realm, enrol and revoke its holders, request keys, show them.

`init`, `enrol`, `revoke` and `rotate` work on a key server's directory, also while it runs; `issue` and `join` contact
a server.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from plait_core import Filter, FilterError, PlaitError, parse
from plait_core.values import Json
from plait_crypto import KeyInvalid, PublisherKeys, RoutingKeys, Schema, SubscriberKeys
from plait_crypto.hazmat import ArkworksGroups
from plait_crypto.keyserver import VaultClosed

from .client import Identity, KeyClient
from .directory import VAULT, KeyDirectory, Secrets
from .folders import IDENTITY, make_folder, write_secret
from .passphrases import passphrase

T = TypeVar("T")

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)
_PASSPHRASE = click.option("--passphrase-file", type=_FILE, help="File with the passphrase of the vault.")


@click.group(epilog="\b\nExample: plait keys init ./realm --schema schema.json")
def keys() -> None:
    """Create, issue and show keys.

    `init`, `enrol`, `revoke` and `rotate` work on a key server's directory, also while it runs; `issue` and `join`
    contact a server.

    A passphrase is read from --passphrase-file, else from PLAIT_KEYS_PASSPHRASE, else from the terminal.
    """


@keys.command(epilog="\b\nExample: plait keys init ./realm --schema schema.json --passphrase-file secret.txt")
@click.argument("directory", type=_DIRECTORY)
@click.option("--schema", type=_FILE, required=True, help="Attributes that guard events, and epochs: Schema.to_json.")
@_PASSPHRASE
def init(directory: Path, schema: Path, passphrase_file: Path | None) -> None:
    """Begin a realm: draw a master secret and store it in DIRECTORY, under a passphrase."""
    found = _trying(lambda: Schema.from_json(schema.read_text()))
    word = passphrase(passphrase_file, new=True)
    secrets = _trying(lambda: KeyDirectory(directory).create(found, word, _now_us()))
    click.echo(f"realm {secrets.realm.digest.hex()[:16]} in {directory}")
    click.echo(
        f"Next: write the holders' filters into {directory / 'policy.toml'}, then `plait keyserver {directory}`."
    )


@keys.command(epilog="\b\nExample: plait keys enrol ./realm alice")
@click.argument("directory", type=_DIRECTORY)
@click.argument("holder")
def enrol(directory: Path, holder: str) -> None:
    """Print a token with which HOLDER gets a certificate, once, within a week, at the server of this DIRECTORY."""
    click.echo(_trying(lambda: KeyDirectory(directory).make_token(holder, _now_us())))


@keys.command(epilog='\b\nExample: plait keys issue "price < 100" --server localhost:4679 --ca authority.pem -i me.pem')
@click.argument("filter")
@click.option("--server", "servers", multiple=True, required=True, metavar="H:P", help="A replica; may be repeated.")
@click.option("--ca", type=_FILE, required=True, help="authority.pem of the key server's directory.")
@click.option("--identity", "-i", type=_NEW_FILE, required=True, help="Your certificate and its key.")
@click.option("--token-file", type=_FILE, help="Enrol with the token in it first; --identity is written.")
@click.option("--as", "role", type=click.Choice(["publisher", "subscriber"]), default="subscriber", show_default=True)
@click.option("--epoch", type=int, help="An epoch that keys are issued for; by default the present one.")
@click.option("--out", type=_NEW_FILE, required=True, help="Where to write the keys, readable by you alone.")
def issue(
    filter: str,
    servers: tuple[str, ...],
    ca: Path,
    identity: Path,
    token_file: Path | None,
    role: str,
    epoch: int | None,
    out: Path,
) -> None:
    """Request keys for FILTER from a key server."""
    parsed = _filter(filter)

    def ask() -> bytes:
        client = KeyClient([_address(server) for server in servers], ca.read_text())
        if token_file is None:
            client.identity = Identity.from_pem(identity.read_text())
        else:
            enrolled = asyncio.run(client.enrol(token_file.read_text().strip()))
            write_secret(identity, enrolled.to_pem().encode())
        return asyncio.run(_issued(client, role, parsed, epoch))

    encoded = _trying(ask)
    write_secret(out, encoded)
    click.echo(f"{_description(encoded)['kind']} keys in {out}, {len(encoded)} bytes")


@keys.command(
    epilog="\b\nExample: plait keys join ./alice --server localhost:4679 --ca authority.pem --token-file token"
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--server", "servers", multiple=True, required=True, metavar="H:P", help="A replica; may be repeated.")
@click.option("--ca", type=_FILE, required=True, help="authority.pem of the key server's directory.")
@click.option("--token-file", type=_FILE, required=True, help="The output of `plait keys enrol`, valid once.")
def join(folder: Path, servers: tuple[str, ...], ca: Path, token_file: Path) -> None:
    """Enrol, and store the identity in FOLDER: for `plait sub --unseal FOLDER` and `plait pub --seal FOLDER`."""
    addresses, authority = [_address(server) for server in servers], ca.read_text()
    client = KeyClient(addresses, authority)
    identity = _trying(lambda: asyncio.run(client.enrol(token_file.read_text().strip())))
    _trying(lambda: make_folder(folder, addresses, authority, identity))
    click.echo(f"enrolled; the identity is in {folder}")


@keys.command(epilog="\b\nExample: plait keys show alice.keys")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@_PASSPHRASE
def show(path: Path, passphrase_file: Path | None) -> None:
    """Print the realm and epoch of keys, or the realm of a directory. Secrets are not printed."""
    if (path / IDENTITY).is_file():
        raise click.ClickException(f"{path} is a member's folder: it holds an identity, and requests keys when in use")
    if path.is_dir():
        word = passphrase(passphrase_file)
        shown = _trying(lambda: _realm(KeyDirectory(path), word))
    else:
        shown = _trying(lambda: _description(path.read_bytes()))
    click.echo(json.dumps(shown))


@keys.command(epilog="\b\nExample: plait keys revoke ./realm mallory")
@click.argument("directory", type=_DIRECTORY)
@click.argument("holder")
def revoke(directory: Path, holder: str) -> None:
    """Issue nothing more to HOLDER. Its present keys work until their epoch is over."""
    _trying(lambda: KeyDirectory(directory).revoke(holder, _now_us()))
    click.echo(f"{holder} gets no more keys")


@keys.command(epilog="\b\nExample: plait keys rotate ./realm --passphrase-only --new-passphrase-file new.txt")
@click.argument("directory", type=_DIRECTORY)
@_PASSPHRASE
@click.option("--new-passphrase-file", type=_FILE, help="File with the new passphrase; by default it stays the same.")
@click.option("--passphrase-only", is_flag=True, help="Keep the master secret.")
def rotate(
    directory: Path, passphrase_file: Path | None, new_passphrase_file: Path | None, passphrase_only: bool
) -> None:
    """Draw a new master secret: a new realm of the same schema, in which all members request new keys.

    Restart the server afterwards, and give its replicas the new vault.
    """
    if passphrase_only and new_passphrase_file is None:
        raise click.UsageError("--passphrase-only needs --new-passphrase-file")
    old = passphrase(passphrase_file)
    new = old if new_passphrase_file is None else passphrase(new_passphrase_file, new=True)
    secrets = _trying(lambda: KeyDirectory(directory).rotate(old, new, new_master=not passphrase_only))
    click.echo(f"realm {secrets.realm.digest.hex()[:16]}")


async def _issued(client: KeyClient, role: str, filter: Filter, epoch: int | None) -> bytes:
    now = await client.realm()
    requested, groups = now.epochs[0] if epoch is None else epoch, now.realm.parameters.groups
    if role == "subscriber":
        return (await client.subscriber_keys(now.realm, filter, requested)).encode(groups)
    instance = random.SystemRandom().randrange(1, 2**32)
    return (await client.publisher_keys(now.realm, filter, requested, instance)).encode(groups)


def _realm(directory: KeyDirectory, word: str) -> Json:
    secrets: Secrets = directory.open(word)
    policy, revoked = directory.decisions()
    return {
        "kind": "realm",
        "realm": secrets.realm.digest.hex(),
        "epoch": secrets.realm.schema.epochs.epoch_at(_now_us()),
        "holders": sorted(policy.holders),
        "revoked": sorted(revoked),
    }


def _description(encoded: bytes) -> Json:
    groups = ArkworksGroups()
    for kind, decode in (
        ("publisher", PublisherKeys.decode),
        ("subscriber", SubscriberKeys.decode),
        ("routing", RoutingKeys.decode),
    ):
        try:
            found = decode(groups, encoded)
        except KeyInvalid:
            continue
        return {"kind": kind, "realm": found.realm.hex(), "epoch": found.epoch, "boxes": len(found.boxes)}
    raise KeyInvalid("no keys of this version", hint=f"the output of `plait keys issue`, or a directory with {VAULT}")


def _filter(text: str) -> Filter:
    try:
        return parse(text)
    except FilterError as error:
        raise click.BadParameter(f"{error}\n{error.caret()}", param_hint="FILTER") from None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise click.UsageError(f"{text[:80]!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _trying(what: Callable[[], T]) -> T:
    """Call `what` and return its result; turn errors into the command's failure with a hint."""
    try:
        return what()
    except VaultClosed as error:
        raise click.ClickException(str(error)) from None
    except (PlaitError, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None


def _now_us() -> int:
    return time.time_ns() // 1000

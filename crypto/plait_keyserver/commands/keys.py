"""`plait keys`: create a realm, enrol its holders, request keys, show them.

`init` and `enrol` work on a key server's directory, as do the commands of `operating`; `issue` and `join` contact a
server.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Final

import click

from plait_core import Filter, FilterError, parse
from plait_core.values import Json
from plait_crypto import KeyInvalid, PublisherKeys, RoutingTokens, Schema, SubscriberKeys
from plait_crypto.hazmat import ArkworksGroups

from ..client import Identity, KeyClient
from ..folders import IDENTITY, make_folder
from ..private_files import private_folder, write_private
from ..server.directory import VAULT, KeyDirectory, Secrets
from .operating import PASSPHRASE, audit, epoch, now_us, revoke, rotate, trying
from .passphrases import passphrase

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)


@click.group(epilog="\b\nExample: plait keys init ./realm --schema schema.json")
def keys() -> None:
    """Create, issue and show keys.

    `init`, `enrol`, `revoke`, `epoch`, `rotate` and `audit` work on a key server's directory, also while it runs;
    `issue` and `join` contact a server.

    A passphrase is read from --passphrase-file, else from PLAIT_KEYS_PASSPHRASE, else from the terminal.
    """


@keys.command(epilog="\b\nExample: plait keys init ./realm --schema schema.json --passphrase-file secret.txt")
@click.argument("directory", type=_DIRECTORY)
@click.option("--schema", type=_FILE, required=True, help="Attributes that guard events, and epochs: Schema.to_json.")
@PASSPHRASE
def init(directory: Path, schema: Path, passphrase_file: Path | None) -> None:
    """Begin a realm: draw a master secret and store it in DIRECTORY, under a passphrase."""
    found = trying(lambda: Schema.from_json(schema.read_text()))
    word = passphrase(passphrase_file, new=True)
    secrets = trying(lambda: KeyDirectory(directory).create(found, word, now_us()))
    click.echo(f"realm {secrets.realm.digest.hex()[:16]} in {directory}")
    click.echo(
        f"Next: write the holders' filters into {directory / 'policy.toml'}, then `plait keyserver {directory}`."
    )


@keys.command(epilog="\b\nExample: plait keys enrol ./realm alice")
@click.argument("directory", type=_DIRECTORY)
@click.argument("holder")
@click.option("--out", type=_NEW_FILE, help="Write the token to this file, readable by you alone.")
def enrol(directory: Path, holder: str, out: Path | None) -> None:
    """Print a token with which HOLDER gets a certificate, once, within a week, at the server of this DIRECTORY."""
    token = trying(lambda: KeyDirectory(directory).make_token(holder, now_us()))
    if out is None:
        click.echo(token)
    else:
        trying(lambda: write_private(out, f"{token}\n".encode()))


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
            client.identity = Identity.load(identity)
        else:
            asyncio.run(client.enrol(token_file.read_text().strip())).save(identity)
        return asyncio.run(_issued(client, role, parsed, epoch))

    encoded = trying(ask)
    trying(lambda: write_private(out, encoded))
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
    trying(lambda: private_folder(folder))  # before the token is used up
    identity = trying(lambda: asyncio.run(client.enrol(token_file.read_text().strip())))
    trying(lambda: make_folder(folder, addresses, authority, identity))
    click.echo(f"enrolled; the identity is in {folder}")


@keys.command(epilog="\b\nExample: plait keys show alice.keys")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@PASSPHRASE
def show(path: Path, passphrase_file: Path | None) -> None:
    """Print the realm and epoch of keys, or the realm of a directory. Secrets are not printed."""
    if (path / IDENTITY).is_file():
        raise click.ClickException(f"{path} is a member's folder: it holds an identity, and requests keys when in use")
    if path.is_dir():
        word = passphrase(passphrase_file)
        shown = trying(lambda: _realm(KeyDirectory(path), word))
    else:
        shown = trying(lambda: _description(path.read_bytes()))
    click.echo(json.dumps(shown))


keys.add_command(revoke)
keys.add_command(epoch)
keys.add_command(rotate)
keys.add_command(audit)


async def _issued(client: KeyClient, role: str, filter: Filter, epoch: int | None) -> bytes:
    now = await client.realm()
    requested, groups = now.epochs[0] if epoch is None else epoch, now.realm.parameters.groups
    if role == "subscriber":
        return (await client.subscriber_keys(now.realm, filter, requested)).encode(groups)
    instance = random.SystemRandom().randrange(1, 2**32)
    return (await client.publisher_keys(now.realm, filter, requested, instance)).encode(groups)


def _realm(directory: KeyDirectory, word: str) -> Json:
    secrets: Secrets = directory.open(word)
    decisions, at_us = directory.decisions(), now_us()
    served = [each for each in secrets.served() if each.served_at(at_us)]
    served[-1].end_epochs(decisions.epoch_ends)
    epochs = served[-1].authority.realm.schema.epochs
    number = epochs.epoch_at(at_us)
    former = {"begins_us": served[-1].begins_us, "former": served[0].digest} if len(served) > 1 else {}
    return {
        "kind": "realm",
        "realm": served[-1].digest,
        **former,
        "epoch": number,
        "epoch_ends_us": epochs.begin_us(number + 1),
        "holders": sorted(decisions.policy.holders),
        "revoked": sorted(decisions.revoked),
    }


def _description(encoded: bytes) -> Json:
    groups = ArkworksGroups()
    for kind, decode in (
        ("publisher", PublisherKeys.decode),
        ("subscriber", SubscriberKeys.decode),
        ("routing", RoutingTokens.decode),
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

"""`plait context`: saves brokers' addresses under names, which replace `--url`."""

from __future__ import annotations

import re
import sys
from typing import Final

import click

from ...options.contexts import Context, load_contexts, save_contexts
from ..terminal.failures import WrongUse
from ..terminal.interrupts import interruptible
from ..terminal.output import json_option, print_json
from ..terminal.tables import print_table

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")

_FILE: Final = click.Path(exists=True, dir_okay=False, resolve_path=True)


@click.group(epilog="\b\nExample: plait context add lab plait://broker.lab:4680 --use")
def context() -> None:
    """Save brokers' addresses under names.

    Commands and the SDK use the context that --context or PLAIT_CONTEXT names, else the one in use; --url and PLAIT_URL
    come before it. The file is ~/.config/plait/contexts.json, or below XDG_CONFIG_HOME, readable by you alone. Tokens
    are never printed.
    """


@context.command(epilog="\b\nExample: plait context add lab plait://broker.lab:4680 --token - --use < token.txt")
@click.argument("name")
@click.argument("url")
@click.option("--http", metavar="HOST:PORT", help="The broker's HTTP side, if it is not one port above URL's.")
@click.option("--token", metavar="TOKEN", help="Token that authenticates you; - reads it from standard input.")
@click.option("--ca", type=_FILE, help="The authority of the broker's certificate, if the system does not trust it.")
@click.option("--certificate", type=_FILE, help="Your own certificate, if the broker requires one.")
@click.option("--key", type=_FILE, help="The key of your certificate.")
@click.option("--use", "use_it", is_flag=True, help="Use this context from now on.")
def add(name: str, url: str, http: str | None, token: str | None, use_it: bool, **files: str | None) -> None:
    """Save an address. Replaces an existing NAME.

    Certificates and keys are PEM files. The names of the files are saved, not their contents.
    """
    from ...options.addresses import parse_address
    from ...options.trust import Trust

    if not _NAME.match(name):
        raise WrongUse(f"{name[:80]!r} is no name for a context", hint="use letters, digits and _ . -")
    address = parse_address(url)
    if token == "-":  # noqa: S105 (a dash, not a password)
        token = sys.stdin.readline().strip()
    if any(files.values()):
        if not address.tls:
            raise WrongUse("certificates are for plaits:// addresses", hint=f"plaits{str(address)[5:]} speaks TLS")
        if files["key"] and not files["certificate"]:
            raise WrongUse("--key needs --certificate")
        Trust(**files).context()  # raises ConfigurationInvalid if a file is not usable
    contexts = load_contexts()
    contexts.saved[name] = Context(str(address), http, token or address.token, **files)
    if use_it:
        contexts.current = name
    interruptible()
    save_contexts(contexts)
    click.echo(f"saved {name}: {address}" + (", in use" if contexts.current == name else ""))


@context.command(epilog="\b\nExample: plait context use lab")
@click.argument("name")
def use(name: str) -> None:
    """Use a saved address from now on."""
    contexts = load_contexts()
    contexts.named(name)
    contexts.current = name
    interruptible()
    save_contexts(contexts)
    click.echo(f"using {name}: {contexts.saved[name].url}")


@context.command("list", epilog="\b\nExample: plait context list --json")
@json_option
def list_(as_json: bool) -> None:
    """List the saved addresses. * marks the one in use."""
    contexts = load_contexts()
    rows = [(name, saved, name == contexts.current) for name, saved in sorted(contexts.saved.items())]
    if as_json:
        for name, saved, used in rows:
            print_json(
                {"name": name, "url": saved.url, "http": saved.http, "token": saved.token is not None, "in_use": used}
            )
        return
    shown = [
        ["*" if used else "", name, saved.url, saved.http or "", "yes" if saved.token else ""]
        for name, saved, used in rows
    ]
    print_table(["", "NAME", "URL", "HTTP", "TOKEN"], shown)


@context.command(epilog="\b\nExample: plait context remove lab")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a saved address."""
    contexts = load_contexts()
    contexts.named(name)
    del contexts.saved[name]
    if contexts.current == name:
        contexts.current = None
    interruptible()
    save_contexts(contexts)
    click.echo(f"removed {name}")

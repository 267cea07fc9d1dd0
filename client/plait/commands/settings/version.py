"""`plait version`: the installed distributions of Plait."""

from __future__ import annotations

from typing import Final

import click

from ..terminal.output import json_option, print_json
from ..terminal.tables import print_table

DISTRIBUTIONS: Final = (
    "plait", "plait-core", "plait-kernel", "plait-broker", "plait-crypto", "plait-peer", "plait-analytics",
)  # fmt: skip


@click.command(epilog="\b\nExample: plait version --json")
@json_option
def version(as_json: bool) -> None:
    """Print the versions of the installed distributions."""
    installed = installed_versions(DISTRIBUTIONS)
    if as_json:
        print_json(installed)
    else:
        print_table(["DISTRIBUTION", "VERSION"], [list(row) for row in installed.items()])


def installed_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those distributions that are installed."""
    from importlib import metadata

    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

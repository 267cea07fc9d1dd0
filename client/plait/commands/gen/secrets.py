"""`plait gen secrets`: the secrets of a deployment, generated once at its first start."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

import click

from ..terminal.failures import Failure

SECRET_BYTES: Final = 32

SECRETS: Final = {
    "overlay-secret": 0o600,  # authenticates brokers to each other
    "token": 0o600,  # permits a client to publish, subscribe and read everything
    "keys-passphrase": 0o600,  # decrypts the key server's vault
    "http-token": 0o644,  # permits reading metrics; Prometheus runs as another user
    "grafana-password": 0o644,  # of Grafana's admin; Grafana runs as another user
}
"""Mode of each file, by name. Only the containers that need the directory mount it."""


@click.command(epilog="\b\nExample: plait gen secrets /run/plait")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def secrets(directory: Path) -> None:
    """Generate the secrets of a deployment, each in its own file. Existing files stay."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        new = [name for name, mode in SECRETS.items() if _generate(directory / name, mode)]
    except OSError as error:
        raise Failure(f"{directory} cannot be written: {error.strerror}") from error
    click.echo(f"{directory}: {', '.join(new) if new else 'nothing'} generated, {len(SECRETS) - len(new)} kept")


def _generate(path: Path, mode: int) -> bool:
    """Generate a secret unless its file exists. Return whether it did. The file appears complete or not at all."""
    if path.exists():
        return False
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token_urlsafe(SECRET_BYTES) + "\n")
        os.fchmod(file.fileno(), mode)
    unfinished.replace(path)
    return True

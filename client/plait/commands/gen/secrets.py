"""`plait gen secrets`: what a deployment keeps to itself, drawn on its first start and never again."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

import click

from ..terminal.failures import Failure

SECRET_BYTES: Final = 32

SECRETS: Final = {
    "overlay-secret": 0o600,  # brokers know each other by it
    "token": 0o600,  # who has it may publish, subscribe and look at everything
    "keys-passphrase": 0o600,  # of the key server's vault
    "http-token": 0o644,  # reads metrics and nothing else; Prometheus runs as another user
    "grafana-password": 0o644,  # of Grafana's admin, for the same reason
}
"""By file name, who may read it. The directory is given to nobody but the containers that need it."""


@click.command(epilog="\b\nExample: plait gen secrets /run/plait")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def secrets(directory: Path) -> None:
    """Draw the secrets of a deployment, each into a file of its own. What is there already stays."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drawn = [name for name, mode in SECRETS.items() if _draw(directory / name, mode)]
    except OSError as error:
        raise Failure(f"{directory} cannot be written: {error.strerror}") from error
    click.echo(f"{directory}: {', '.join(drawn) if drawn else 'nothing'} drawn, {len(SECRETS) - len(drawn)} kept")


def _draw(path: Path, mode: int) -> bool:
    """Whether it was not there. It appears whole or not at all: who is killed in between begins anew."""
    if path.exists():
        return False
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token_urlsafe(SECRET_BYTES) + "\n")
        os.fchmod(file.fileno(), mode)
    unfinished.replace(path)
    return True

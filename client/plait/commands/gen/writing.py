"""How generated files come to disk: all of them or none, and never over something that is already there unasked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from ..terminal.failures import Failure


def write_files(directory: Path, files: Mapping[str, str], *, replace: bool) -> None:
    """Write files below a directory, by their names in it, and say which."""
    there = [name for name in files if (directory / name).exists()]
    if there and not replace:
        raise Failure(f"{directory / there[0]} is there already", hint="--replace writes over it; or another --output")
    for name, text in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}") from error
        click.echo(path)

"""Writes generated files. Existing files are replaced only if the user asks for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from ..terminal.failures import Failure


def write_files(directory: Path, files: Mapping[str, str], *, replace: bool) -> None:
    """Write files below a directory, and print their paths. Failure if one exists and `replace` is false."""
    existing = [name for name in files if (directory / name).exists()]
    if existing and not replace:
        raise Failure(
            f"{directory / existing[0]} exists already", hint="--replace overwrites it; or choose another --output"
        )
    for name, text in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}") from error
        click.echo(path)


def write_secret(path: Path, content: bytes) -> None:
    """Create a file that only its owner can read, from the start."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

"""Read a passphrase from a file, the environment or the terminal.

Never from the command line, which others can read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

VARIABLE: Final = "PLAIT_KEYS_PASSPHRASE"

CHARS_MIN: Final = 12
"""Characters of a new passphrase: shorter ones can be guessed at any cost of scrypt."""


def passphrase(file: Path | None, *, new: bool = False, what: str = "Passphrase") -> str:
    """Return the passphrase. Raise UsageError if there is none, or a new one is too short."""
    if file is not None:
        found = file.read_text().rstrip("\r\n")
    elif VARIABLE in os.environ:
        found = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        found = click.prompt(what, hide_input=True, confirmation_prompt=new, err=True)
    else:
        raise click.UsageError(f"no passphrase: give --passphrase-file FILE, or set {VARIABLE}")
    if new and len(found) < CHARS_MIN:
        raise click.UsageError(f"a passphrase of {len(found)} characters: {CHARS_MIN} at least")
    return found

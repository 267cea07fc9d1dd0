"""What `plait analyze` says while it works, and when it cannot."""

from __future__ import annotations

import sys
from typing import NoReturn

from plait_core import PlaitError


class SparkMissing(PlaitError):
    """The engine that is asked for is not here."""


def spark_missing(error: ImportError, otherwise: str) -> SparkMissing:
    """What to install, or to do otherwise."""
    hint = f'pip install "plait-analytics[spark]" (in the repository: make setup-analytics), {otherwise}'
    return SparkMissing(f"Spark is not installed: {error}", hint=hint)


def progress(text: str) -> None:
    """A line for people."""
    print(f"plait analyze: {text}", file=sys.stderr, flush=True)


def fail(message: str, hint: str) -> NoReturn:
    """The last line, and exit code 1."""
    print(f"plait analyze: {message}" + (f" ({hint})" if hint else ""), file=sys.stderr)
    raise SystemExit(1)

"""Progress and error messages of `plait analyze`."""

from __future__ import annotations

import sys
from typing import NoReturn

from plait_core import PlaitError


class SparkMissing(PlaitError):
    """The Spark engine was requested and is not installed."""


def spark_missing(error: ImportError, otherwise: str) -> SparkMissing:
    """Return the error for a missing Spark, with a hint how to install it or what to use instead."""
    hint = f'pip install "plait-analytics[spark]" (in the repository: make setup-analytics), {otherwise}'
    return SparkMissing(f"Spark is not installed: {error}", hint=hint)


def progress(text: str) -> None:
    """Print a line of progress to stderr."""
    print(f"plait analyze: {text}", file=sys.stderr, flush=True)


def fail(message: str, hint: str) -> NoReturn:
    """Print an error and exit with code 1."""
    print(f"plait analyze: {message}" + (f" ({hint})" if hint else ""), file=sys.stderr)
    raise SystemExit(1)

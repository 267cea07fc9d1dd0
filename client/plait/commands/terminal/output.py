"""Output of commands: one JSON object a line for programs, text for people.

Control characters of text from the network are escaped, so that no event can control the terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])


def json_option(command: C) -> C:
    """Add the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")(command)


def json_text(value: object) -> str:
    """Return one line of JSON. Infinities and NaN, which JSON lacks, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def print_json(value: object) -> None:
    """Print one line of JSON."""
    click.echo(json_text(value))


def printable(text: str) -> str:
    """Escape all characters of a text that are not printable."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def attributes_text(attributes: Mapping[str, object]) -> str:
    """Return attributes as `plait pub` accepts them: `symbol=IBM price=99.5`."""
    return " ".join(f"{name}={_value_text(value)}" for name, value in attributes.items())


def _value_text(value: object) -> str:
    """Return a value as JSON. A string needs no quotes if `plait pub` would read it as the same string."""
    if isinstance(value, str):
        bare = bool(value) and value.isprintable() and not any(c.isspace() or c in "\"'" for c in value)
        return value if bare and not _reads_as_scalar(value) else printable(json.dumps(value, ensure_ascii=False))
    return json_text(value)


def _reads_as_scalar(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value

"""Attributes on the command line: `symbol=IBM price=99.5`, and JSON objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ..terminal.failures import WrongUse

if TYPE_CHECKING:
    from plait_core import Attributes


def parse_json_object(text: str) -> Attributes:
    """Return the attributes of a JSON object; ValueError or EventInvalid if it is none, or repeats a name."""
    from plait_core.values import check_attributes

    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return check_attributes(found)


def parse_pairs(pairs: Iterable[str]) -> Attributes:
    """Return the attributes of `k=v` pairs. A value is a JSON scalar where it parses as one, else text."""
    from plait_core.values import check_attributes

    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise WrongUse(f"{pair!r} is no attribute", hint="write NAME=VALUE, like price=99.5")
        if name in found:
            raise WrongUse(f"the attribute {name} is given twice")
        found[name] = _scalar(text)
    return check_attributes(found)


class JsonAttributes(click.ParamType["Attributes"]):
    """A JSON object of attributes."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Attributes:
        try:
            return parse_json_object(value)
        except ValueError as error:
            self.fail(f"{value[:80]!r}: {error}", param, ctx)


def _scalar(text: str) -> object:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        return text
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is no JSON")

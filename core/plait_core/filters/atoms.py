"""Construction of atoms: the only place that checks their parts. The parser, the builder and importers call it.

Every function returns the canonical tree (ast.py) or raises FilterSyntax without a column. The caller adds the column
if it knows one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..errors import FilterSyntax, FilterTooComplex
from ..limits import EVENT_LIMITS, FilterLimits
from ..values import Literal, is_name, is_text
from .ast import KEYWORDS, Compare, Expr, Flag, Member, Presence, Text, canonical_number, literal_order, negate
from .ast import conjoin as _conjoin


def attribute(name: str) -> str:
    """Return `name` if a filter may use it as an attribute."""
    if not is_name(name):
        raise FilterSyntax(f"{name[:80]!r} is no attribute name", hint="letters, digits and _ joined by dots")
    if name.lower() in KEYWORDS:
        raise FilterSyntax(f"{name!r} is a word of the filter language", hint="it cannot name an attribute here")
    return name


def literal(value: object) -> Literal:
    """Return `value` as a literal: plain, finite and canonical."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > EVENT_LIMITS.value_bytes_max:
            raise FilterTooComplex(f"a text of {len(value)} characters; {EVENT_LIMITS.value_bytes_max} are allowed")
        if not is_text(value):
            raise FilterSyntax("a text with a lone surrogate matches nothing")
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > EVENT_LIMITS.int_bits_max:
            raise FilterSyntax(f"an integer of over {EVENT_LIMITS.int_bits_max} bits matches nothing")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FilterSyntax(f"{value} cannot be compared with", hint="leave the bound away")
        return canonical_number(float(value))
    raise FilterSyntax(f"a literal of type {type(value).__name__}", hint="int, float, text, true or false")


def compare(attr: str, op: str, value: Literal) -> Expr:
    """Build `attr op value`."""
    if not isinstance(value, bool):
        return Compare(attr, op, value)
    if op in ("==", "!="):
        return Flag(attr, value is (op == "=="))
    raise FilterSyntax("booleans have no order", hint="compare them with == or !=")


def member(attr: str, values: Iterable[Literal], limits: FilterLimits) -> Expr:
    """Build `attr in [values]`, sorted, without repetitions. A single value gives an equality."""
    found = {literal_order(value): value for value in values}
    if not found:
        raise FilterSyntax("an empty list", hint="nothing is in it; write false")
    if len(found) > limits.set_max:
        raise FilterTooComplex(f"a list of {len(found)} literals; {limits.set_max} are allowed")
    ordered = tuple(found[key] for key in sorted(found))
    return Member(attr, ordered) if len(ordered) > 1 else compare(attr, "==", ordered[0])


def between(attr: str, low: Literal, high: Literal) -> Expr:
    """Build `low <= attr <= high`."""
    if isinstance(low, str) is not isinstance(high, str) or isinstance(low, bool) or isinstance(high, bool):
        raise FilterSyntax("between two bounds of different kinds", hint="two numbers or two texts")
    return _conjoin([compare(attr, ">=", low), compare(attr, "<=", high)])


def text(attr: str, op: str, pattern: Literal) -> Expr:
    """Build `attr op pattern`. A `like` that is an equality, prefix, suffix or infix becomes that simpler test."""
    if not isinstance(pattern, str):
        raise FilterSyntax(f"{op} needs a text")
    return Text(attr, op, pattern) if op != "like" else _like(attr, pattern)


def presence(attr: str, present: bool) -> Expr:
    """Build `has(attr)`, or `attr is null`."""
    return Presence(attr, present)


def negate_if(expr: Expr, condition: bool) -> Expr:
    """Return `not expr` if `condition` is true, else `expr`."""
    return negate(expr) if condition else expr


def like_pieces(pattern: str) -> list[str | None]:
    """Split a `like` pattern into characters, with "%" as "" and "_" as None.

    A backslash makes the next character plain.
    """
    pieces: list[str | None] = []
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            pieces.append(next(chars, "\\"))
        else:
            pieces.append("" if char == "%" else None if char == "_" else char)
    return pieces


def _like(attr: str, pattern: str) -> Expr:
    pieces = like_pieces(pattern)
    if None in pieces or "" in pieces[1:-1]:
        return Text(attr, "like", pattern)
    plain = "".join(piece or "" for piece in pieces)
    before, after = pieces[:1] == [""], len(pieces) > 1 and pieces[-1] == ""
    if before and (after or len(pieces) == 1):
        return Text(attr, "contains", plain) if plain else Text(attr, "startswith", "")
    if before:
        return Text(attr, "endswith", plain)
    return Text(attr, "startswith", plain) if after else Compare(attr, "==", plain)

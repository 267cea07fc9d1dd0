"""EventBridge-style JSON patterns as filters: `{"detail": {"state": ["open"], "price": [{"numeric": [">", 5]}]}}`.

Nested objects give dotted names. A field's list means "any of"; all fields must hold; `$or` takes a list of patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import FilterSyntax, FilterTooComplex
from ..limits import FILTER_LIMITS
from . import atoms
from .ast import Constant, Expr, conjoin, disjoin, negate
from .filter import Filter


def from_pattern(pattern: Mapping[str, Any]) -> Filter:
    """Translate a pattern to the equivalent filter; raise FilterSyntax naming the offending field."""
    return Filter(_pattern(pattern, "", 0))


def _pattern(pattern: object, prefix: str, level: int) -> Expr:
    if not isinstance(pattern, Mapping):
        raise FilterSyntax(f"pattern{_at(prefix)}: an object or a list of conditions is needed")
    if level > FILTER_LIMITS.depth_max:
        raise FilterTooComplex(f"pattern nested over {FILTER_LIMITS.depth_max} deep")
    parts: list[Expr] = []
    for key, value in pattern.items():
        if key == "$or":
            if not isinstance(value, list) or not value:
                raise FilterSyntax(f"pattern{_at(prefix)}: $or needs a list of patterns")
            parts.append(disjoin([_pattern(one, prefix, level + 1) for one in value]))
        elif isinstance(value, list):
            parts.append(_field(atoms.attribute(prefix + str(key)), value))
        else:
            parts.append(_pattern(value, f"{prefix}{key}.", level + 1))
    return conjoin(parts) if parts else Constant(True)


def _field(attr: str, conditions: list[object]) -> Expr:
    if not conditions:
        raise FilterSyntax(f"pattern at {attr}: an empty list matches nothing")
    plain = [atoms.literal(value) for value in conditions if isinstance(value, (str, int, float))]
    parts: list[Expr] = [atoms.member(attr, plain, FILTER_LIMITS)] if plain else []
    for condition in conditions:
        if condition is None:
            parts.append(atoms.presence(attr, False))
        elif isinstance(condition, Mapping):
            parts.append(_condition(attr, condition))
        elif not isinstance(condition, (str, int, float)):
            raise FilterSyntax(f"pattern at {attr}: {type(condition).__name__} is no condition")
    return disjoin(parts)


def _condition(attr: str, condition: Mapping[str, Any]) -> Expr:
    if len(condition) != 1:
        raise FilterSyntax(f"pattern at {attr}: a condition has one operator, not {len(condition)}")
    ((operator, operand),) = condition.items()
    make = _OPERATORS.get(operator)
    if make is None:
        raise FilterSyntax(f"pattern at {attr}: unknown operator {operator!r}", hint=f"known: {', '.join(_OPERATORS)}")
    return make(attr, operand)


def _anything_but(attr: str, operand: object) -> Expr:
    if isinstance(operand, Mapping):
        if "anything-but" in operand:
            raise FilterSyntax(f"pattern at {attr}: anything-but of anything-but")
        return negate(_condition(attr, operand))
    values = operand if isinstance(operand, list) else [operand]
    return negate(atoms.member(attr, [atoms.literal(value) for value in values], FILTER_LIMITS))


def _numeric(attr: str, operand: object) -> Expr:
    if not isinstance(operand, list) or not operand or len(operand) % 2:
        raise FilterSyntax(f"pattern at {attr}: numeric needs pairs like ['>', 0, '<=', 5]")
    parts: list[Expr] = []
    for op, bound in zip(operand[::2], operand[1::2], strict=True):
        if op not in ("<", "<=", ">", ">=", "=", "==", "!=") or not isinstance(bound, (int, float)):
            raise FilterSyntax(f"pattern at {attr}: {op!r} {bound!r} is no numeric condition")
        parts.append(atoms.compare(attr, "==" if op == "=" else op, atoms.literal(bound)))
    return conjoin(parts)


def _exists(attr: str, operand: object) -> Expr:
    if not isinstance(operand, bool):
        raise FilterSyntax(f"pattern at {attr}: exists is true or false")
    return atoms.presence(attr, operand)


def _wildcard(attr: str, operand: object) -> Expr:
    if not isinstance(operand, str):
        raise FilterSyntax(f"pattern at {attr}: wildcard needs a text")
    return atoms.text(attr, "like", _WILD.sub(lambda match: _AS_LIKE[match.group()], operand))


_WILD = re.compile(r"\\[*\\]|[\\%_*]")
_AS_LIKE = {"*": "%", r"\*": "*", r"\\": r"\\", "\\": r"\\", "%": r"\%", "_": r"\_"}
"""EventBridge's wildcards and escapes, and LIKE's own characters, in LIKE's spelling."""


def _text(op: str) -> Callable[[str, Any], Expr]:
    return lambda attr, operand: atoms.text(attr, op, atoms.literal(operand))


_OPERATORS: dict[str, Callable[[str, Any], Expr]] = {
    "prefix": _text("startswith"),
    "suffix": _text("endswith"),
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
}


def _at(prefix: str) -> str:
    return f" at {prefix.rstrip('.')}" if prefix else ""

"""A second, naive implementation of the filter language, written from DESIGN.md: the tests' oracle.

It shares no code with `plait_core.filters`. Numbers are Fractions, texts are lists of code points, `like` is a table.
Unknown is None. Tests render a tree to text (strategies.py), let Plait parse it, and compare.

A tree is a tuple:

    ("true",) ("false",)                       ("truth", attr)              attr alone: is true
    ("chain", operands, ops)                   operands are ("attr", name) or ("literal", value)
    ("in", attr, negated, literals)            ("between", attr, negated, low, high)
    ("text", attr, negated, op, pattern)       ("has", attr)
    ("null", attr, negated)                    attr is [not] null
    ("not", tree) ("and", trees) ("or", trees)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

Tree: TypeAlias = tuple[Any, ...]
Truth: TypeAlias = bool | None


def evaluate(tree: Tree, attributes: Mapping[str, object]) -> Truth:
    """Return True, False, or None for unknown."""
    what, *parts = tree
    match what:
        case "true" | "false":
            return what == "true"
        case "not":
            return _not(evaluate(parts[0], attributes))
        case "and":
            return _all(evaluate(part, attributes) for part in parts[0])
        case "or":
            return _not(_all(_not(evaluate(part, attributes)) for part in parts[0]))
        case "has":
            return attributes.get(parts[0]) is not None
        case "null":
            attr, negated = parts
            return (attributes.get(attr) is None) is not negated
        case "truth":
            return _compared(attributes.get(parts[0]), "==", True)
        case "chain":
            return _all(_links(*parts, attributes))
        case "in":
            attr, negated, literals = parts
            return _negated(_member(attributes.get(attr), literals), negated)
        case "between":
            attr, negated, low, high = parts
            value = attributes.get(attr)
            return _negated(_all((_compared(value, ">=", low), _compared(value, "<=", high))), negated)
        case "text":
            attr, negated, op, pattern = parts
            value = attributes.get(attr)
            return _negated(_shaped(value, op, pattern), negated) if isinstance(value, str) else None
    raise AssertionError(f"no such tree: {tree!r}")


def matching(trees: Mapping[Any, Tree], attributes: Mapping[str, object]) -> set[Any]:
    """Return the keys of the trees that match the attributes: the oracle of matching."""
    return {key for key, tree in trees.items() if evaluate(tree, attributes) is True}


def attributes_of(tree: Tree) -> set[str]:
    """Return the attributes that a tree names."""
    what, *parts = tree
    match what:
        case "true" | "false":
            return set()
        case "not":
            return attributes_of(parts[0])
        case "and" | "or":
            return set().union(*map(attributes_of, parts[0]))
        case "chain":
            return {name for kind, name in parts[0] if kind == "attr"}
    return {parts[0]}


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _negated(truth: Truth, negated: bool) -> Truth:
    return _not(truth) if negated else truth


def _all(truths: Iterable[Truth]) -> Truth:
    seen = set(truths)
    return False if False in seen else None if None in seen else True


def _links(operands: list[tuple[str, Any]], ops: list[str], attributes: Mapping[str, object]) -> Iterator[Truth]:
    for (left_is, left), op, (right_is, right) in zip(operands, ops, operands[1:], strict=False):
        if left_is == "attr":
            assert right_is == "literal"
            yield _compared(attributes.get(left), op, right)
        else:
            assert right_is == "attr"
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
            yield _compared(attributes.get(right), mirrored, left)


def key(value: object) -> tuple[str, Any] | None:
    """Return the kind of a value and an exact value that compares within the kind, or None if no atom compares it."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "text", [ord(char) for char in value]
    if isinstance(value, int):
        return "number", (0, Fraction(value))
    if isinstance(value, float) and not math.isnan(value):
        return "number", (0, Fraction(value)) if math.isfinite(value) else (1 if value > 0 else -1, Fraction(0))
    return None


def _compared(value: object, op: str, literal: object) -> Truth:
    left, right = key(value), key(literal)
    assert right is not None
    if left is None or left[0] != right[0]:
        return None
    a, b = left[1], right[1]
    return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _member(value: object, literals: list[object]) -> Truth:
    mine, theirs = key(value), [key(literal) for literal in literals]
    if mine is None or mine[0] not in {other[0] for other in theirs if other}:
        return None
    return mine in theirs


def _shaped(value: str, op: str, pattern: str) -> bool:
    places = range(len(value) - len(pattern) + 1)
    match op:
        case "startswith":
            return value[: len(pattern)] == pattern
        case "endswith":
            return any(value[at:] == pattern for at in range(len(value) + 1))
        case "contains":
            return any(value[at : at + len(pattern)] == pattern for at in places)
    return _like(value, pattern)


def _like(value: str, pattern: str) -> bool:
    reached = {0}  # how much of `value` the pattern so far may have taken
    at = 0
    while at < len(pattern):
        char, at = pattern[at], at + 1
        if char == "%":
            reached = {end for start in reached for end in range(start, len(value) + 1)}
            continue
        anything = char == "_"
        if char == "\\" and at < len(pattern):
            char, at = pattern[at], at + 1
        reached = {start + 1 for start in reached if start < len(value) and (anything or value[start] == char)}
    return len(value) in reached

"""Compile a filter to Python closures. Three truth values need two: one tests for true, one for false; else unknown.

Every negation is pushed into the atoms. Then a filter is true exactly when its and/or structure over "this atom is
true" is, so each closure is one boolean expression. Its source contains neither literals nor names: they are the
closure's cells. Filters of one shape share one code object, and compiling the second of a shape takes microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from ..values import Attributes, ValueKind, kind_of
from .ast import And, Atom, Compare, Constant, Expr, Flag, Member, Not, Or, Presence, Text, negate, push_not
from .like import LikePattern

Matcher: TypeAlias = Callable[[Attributes], bool]

_SHAPES_KEPT = 1024
"""Code objects in the cache, by source. Applications have dozens of shapes."""

_SHAPE_CHARS_MAX = 4096
"""Characters of the longest cached source: about 50 atoms, 20 KB compiled.

Hostile shapes then fill 20 MB, not hundreds.
"""


def compile_true(expr: Expr) -> Matcher:
    """Return a function that tests whether attributes make `expr` true."""
    return _compile(expr)


def compile_false(expr: Expr) -> Matcher:
    """Return a function that tests whether attributes make `expr` false. It returns False for unknown."""
    return _compile(negate(expr))


def _compile(expr: Expr) -> Matcher:
    writer = _Writer()
    source = writer.expression(expr)
    factory = _factory if len(source) <= _SHAPE_CHARS_MAX else _factory.__wrapped__
    made: Matcher = factory(source, len(writer.cells))(*writer.cells)
    return made


@lru_cache(maxsize=_SHAPES_KEPT)
def _factory(source: str, cells: int) -> Callable[..., Matcher]:
    names = ", ".join(f"c{i}" for i in range(cells))
    module = f"def make({names}):\n def matches(a):\n  g = a.get\n  return {source}\n return matches"
    namespace: dict[str, Any] = {}
    exec(module, namespace)  # noqa: S102 - the source is built from this module's own tokens alone
    return namespace["make"]  # type: ignore[no-any-return]


class _Writer:
    """Write the source of one expression and collect its literals and names as cells."""

    def __init__(self) -> None:
        self.cells: list[object] = []
        self._names: dict[str, str] = {}

    def name(self, attr: str) -> str:
        """Return the cell of an attribute's name. All atoms on the attribute share it."""
        if attr not in self._names:
            self._names[attr] = self.cell(attr)
        return self._names[attr]

    def cell(self, value: object) -> str:
        self.cells.append(value)
        return f"c{len(self.cells) - 1}"

    def expression(self, expr: Expr) -> str:
        match expr:
            case Not(part):
                return self.expression(push_not(part))
            case And(parts):
                return f"({' and '.join(self._conjuncts(parts))})"
            case Or(parts):
                return f"({' or '.join(map(self.expression, parts))})"
            case Constant(value):
                return repr(value)
            case _:
                return self._atom(expr)

    def _conjuncts(self, parts: tuple[Expr, ...]) -> list[str]:
        """Write the parts of an `and`. Two bounds of one number become one chain, loaded and type-checked once."""
        written: list[str] = []
        at = 0
        while at < len(parts):
            chain = _chain(parts[at], parts[at + 1]) if at + 1 < len(parts) else None
            if chain is None:
                written.append(self.expression(parts[at]))
                at += 1
            else:
                low, high = chain
                test = f"{self.cell(low.literal)} {low.op.replace('>', '<')} v {high.op} {self.cell(high.literal)}"
                written.append(self._kind_then(low.attr, low.literal, test))
                at += 2
        return written

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Flag(attr, value):
                return f"g({self.name(attr)}) is {value}"
            case Presence(attr, present):
                return f"g({self.name(attr)}) is {'not ' if present else ''}None"
            case Compare(attr, "==", literal):
                return self._equals(attr, literal)
            case Compare(attr, op, literal):
                test = f"v {op} {self.cell(literal)}"
                return self._kind_then(attr, literal, test + (" and v == v" if _number(literal) and op == "!=" else ""))
            case Member():
                return self._member(atom)
            case Text():
                return self._text(atom)

    def _equals(self, attr: str, literal: int | float | str) -> str:
        cell = self.cell(literal)
        if literal in (0, 1):  # equal to False and True, which are not numbers here
            return f"((v := g({self.name(attr)})) == {cell} and v.__class__ is not bool)"
        return f"g({self.name(attr)}) == {cell}"

    def _kind_then(self, attr: str, literal: object, test: str) -> str:
        if _number(literal):
            return f"(((t := (v := g({self.name(attr)})).__class__) is float or t is int) and {test})"
        return f"((v := g({self.name(attr)})).__class__ is str and {test})"

    def _member(self, atom: Member) -> str:
        verb = "not in" if atom.negated else "in"
        tests: list[str] = []
        for kind in ValueKind:
            chosen = frozenset(literal for literal in atom.literals if kind_of(literal) is kind)
            if not chosen:
                continue
            test = f"v {verb} {self.cell(chosen)}"
            if kind is ValueKind.NUMBER:
                tests.append(f"((t := v.__class__) is float or t is int) and {test} and v == v")
            else:
                tests.append(f"v.__class__ is {'str' if kind is ValueKind.TEXT else 'bool'} and {test}")
        first = tests[0].replace("v.__class__", f"(v := g({self.name(atom.attr)})).__class__", 1)
        return f"({' or '.join([first, *tests[1:]])})"

    def _text(self, atom: Text) -> str:
        if atom.op == "contains":
            test = f"{self.cell(atom.text)} {'not in' if atom.negated else 'in'} v"
        elif atom.op == "like":
            test = f"{'not ' if atom.negated else ''}{self.cell(LikePattern(atom.text).matches)}(v)"
        else:
            test = f"{'not ' if atom.negated else ''}v.{atom.op}({self.cell(atom.text)})"
        return f"((v := g({self.name(atom.attr)})).__class__ is str and {test})"


def _number(literal: object) -> bool:
    return not isinstance(literal, str)


def _chain(low: Expr, high: Expr) -> tuple[Compare, Compare] | None:
    """Return the two comparisons as (lower, upper) bound of one attribute and kind, or None if they are not a band."""
    if not (isinstance(low, Compare) and isinstance(high, Compare)) or low.attr != high.attr:
        return None
    if low.op in ("<", "<="):
        low, high = high, low
    ordered = low.op in (">", ">=") and high.op in ("<", "<=")
    return (low, high) if ordered and _number(low.literal) == _number(high.literal) else None

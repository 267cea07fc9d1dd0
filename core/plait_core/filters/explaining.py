"""Explain the result of a filter on an event: the atoms that decided it, with the values that they tested."""

from __future__ import annotations

from dataclasses import dataclass

from ..values import Attributes, Value
from .ast import And, Atom, Constant, Expr, Not, Or, push_not
from .compiling import compile_false, compile_true

WORDS = {True: "true", False: "false", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One deciding atom: its text, its result, and the value that it tested."""

    atom: str
    result: bool | None
    attr: str
    present: bool
    value: Value

    def __str__(self) -> str:
        seen = repr(self.value) if self.present else "missing"
        return f"{self.atom} is {WORDS[self.result]}: {self.attr} is {seen[:200]}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of a filter (true, false or None for unknown) and the atoms that decided it."""

    result: bool | None
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        return "\n".join([WORDS[self.result], *(f"  {reason}" for reason in self.reasons)])


def evaluate(expr: Expr, attributes: Attributes) -> bool | None:
    """Return the three-valued result: true, false or None for unknown."""
    if compile_true(expr)(attributes):
        return True
    return False if compile_false(expr)(attributes) else None


def explain(expr: Expr, attributes: Attributes) -> Explanation:
    """Return the result of `expr` on `attributes`, and the deciding atoms."""
    match expr:
        case Not(part):
            return explain(push_not(part), attributes)
        case And(parts):
            return _joined([explain(part, attributes) for part in parts], stopper=False)
        case Or(parts):
            return _joined([explain(part, attributes) for part in parts], stopper=True)
        case Constant(value):
            return Explanation(value, ())
        case _:
            return _explain_atom(expr, attributes)


def _joined(parts: list[Explanation], *, stopper: bool) -> Explanation:
    """Join the explanations of parts.

    The first part equal to `stopper` decides alone, else the unknown parts, else all.
    """
    for part in parts:
        if part.result is stopper:
            return part
    unknown = [part for part in parts if part.result is None]
    deciding = unknown or parts
    reasons = tuple(reason for part in deciding for reason in part.reasons)
    return Explanation(None if unknown else not stopper, reasons)


def _explain_atom(atom: Atom, attributes: Attributes) -> Explanation:
    result = evaluate(atom, attributes)
    reason = Reason(str(atom), result, atom.attr, atom.attr in attributes, attributes.get(atom.attr))
    return Explanation(result, (reason,))

"""The shape of a filter: atoms on one attribute each, joined by and, or, not. Pure data, with its canonical text.

Whatever the spelling, one meaning has one shape: literals stand on the right, chains and `between` are taken apart,
booleans are flags, sets are sorted, a negated atom is the complementary atom. So `str(node)` is canonical, and
parsing it gives the node back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..limits import EVENT_LIMITS
from ..values import Literal

COMPLEMENT: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
KEYWORDS: Final = frozenset(
    {"and", "or", "not", "true", "false", "has", "in", "between", "is", "null"}
    | {"startswith", "endswith", "contains", "like"}
)


@dataclass(frozen=True, slots=True)
class Constant:
    """`true` matches every event, `false` none."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class Compare:
    """A number or text against a literal of its kind."""

    attr: str
    op: str
    literal: int | float | str

    def __str__(self) -> str:
        return f"{self.attr} {self.op} {literal_text(self.literal)}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean attribute that is `value`."""

    attr: str
    value: bool

    def __str__(self) -> str:
        return self.attr if self.value else f"not {self.attr}"


@dataclass(frozen=True, slots=True)
class Member:
    """One of two or more literals, or none of them. Decided for values of any kind that the literals have."""

    attr: str
    literals: tuple[Literal, ...]
    negated: bool = False

    def __str__(self) -> str:
        literals = ", ".join(map(literal_text, self.literals))
        return f"{self.attr} {'not ' if self.negated else ''}in [{literals}]"


@dataclass(frozen=True, slots=True)
class Text:
    """A text with a shape: `op` is startswith, endswith, contains or like."""

    attr: str
    op: str
    text: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.attr} {'not ' if self.negated else ''}{self.op} {literal_text(self.text)}"


@dataclass(frozen=True, slots=True)
class Presence:
    """An attribute that is there and not null, or the contrary: the only test of what is missing."""

    attr: str
    present: bool

    def __str__(self) -> str:
        return f"has({self.attr})" if self.present else f"{self.attr} is null"


@dataclass(frozen=True, slots=True)
class And:
    """All parts, two or more, none of them an And."""

    parts: tuple[Expr, ...]
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Some part of two or more, none of them an Or."""

    parts: tuple[Expr, ...]
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary of an And or an Or: unknown stays unknown."""

    part: And | Or

    def __str__(self) -> str:
        return f"not ({self.part})"


Atom: TypeAlias = Compare | Flag | Member | Text | Presence
Expr: TypeAlias = Atom | Constant | And | Or | Not


def conjoin(parts: list[Expr], column: int = 1) -> Expr:
    """`and` of the parts, flattened; of one part, that part."""
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat), column)


def disjoin(parts: list[Expr], column: int = 1) -> Expr:
    """`or` of the parts, flattened; of one part, that part."""
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat), column)


def negate(expr: Expr) -> Expr:
    """`not expr`: of an atom the complementary atom, so that Not stands before parentheses only."""
    match expr:
        case And() | Or():
            return Not(expr)
        case Not(part):
            return part
        case Constant(value):
            return Constant(not value)
        case Compare(attr, op, literal):
            return Compare(attr, COMPLEMENT[op], literal)
        case Flag(attr, value):
            return Flag(attr, not value)
        case Presence(attr, present):
            return Presence(attr, not present)
        case Member(attr, literals, negated):
            return Member(attr, literals, not negated)
        case Text(attr, op, text, negated):
            return Text(attr, op, text, not negated)


def push_not(expr: And | Or) -> And | Or:
    """`not expr` with the negation moved one level inward (De Morgan holds for three values too)."""
    parts = tuple(negate(part) for part in expr.parts)
    return Or(parts, expr.column) if isinstance(expr, And) else And(parts, expr.column)


def atoms(expr: Expr) -> Iterator[Atom]:
    """The atoms of an expression, left to right."""
    match expr:
        case And(parts) | Or(parts):
            for part in parts:
                yield from atoms(part)
        case Not(part):
            yield from atoms(part)
        case Constant():
            return
        case _:
            yield expr


def depth(expr: Expr) -> int:
    """How deep the parentheses of an expression's text nest: 0 for an atom."""
    match expr:
        case And(parts) | Or(parts):
            return max(depth(part) + (isinstance(expr, And) and isinstance(part, Or)) for part in parts)
        case Not(part):
            return 1 + depth(part)
        case _:
            return 0


def literal_text(literal: Literal) -> str:
    """A literal as the grammar writes it."""
    if literal is True:
        return "true"
    if literal is False:
        return "false"
    if isinstance(literal, str):
        return f"'{''.join(map(_escaped, literal))}'"
    return repr(literal)


_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def canonical_number(number: int | float) -> int | float:
    """One spelling a value: 3.0 is 3, and only a float too large to be written as an int keeps its own."""
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**EVENT_LIMITS.int_bits_max:
        return int(number)
    return number


def literal_order(literal: Literal) -> tuple[int, int | float, str]:
    """The order of literals in a set: booleans, numbers, texts."""
    if isinstance(literal, bool):
        return (0, literal, "")
    if isinstance(literal, str):
        return (2, 0, literal)
    return (1, literal, "")

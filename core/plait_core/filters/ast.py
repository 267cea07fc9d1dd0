"""The syntax tree of a filter: atoms on one attribute each, joined by and, or, not. Pure data, with its canonical text.

Different spellings of one condition give one tree: literals are on the right, chains and `between` are split, booleans
are flags, sets are sorted, `true and` and `false or` are left out, and a negated atom is the complementary atom. So
`str(node)` is canonical, and parsing it gives the node back.
"""

from __future__ import annotations

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


TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a number or text with a literal of the same kind."""

    attr: str
    op: str
    literal: int | float | str

    def __str__(self) -> str:
        return f"{self.attr} {self.op} {literal_text(self.literal)}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A test that a boolean attribute equals `value`."""

    attr: str
    value: bool

    def __str__(self) -> str:
        return self.attr if self.value else f"not {self.attr}"


@dataclass(frozen=True, slots=True)
class Member:
    """A test that the attribute is one of two or more literals, or none of them.

    The result is known for values of every kind that occurs among the literals, and unknown for values of other kinds.
    """

    attr: str
    literals: tuple[Literal, ...]
    negated: bool = False

    def __str__(self) -> str:
        literals = ", ".join(map(literal_text, self.literals))
        return f"{self.attr} {'not ' if self.negated else ''}in [{literals}]"


@dataclass(frozen=True, slots=True)
class Text:
    """A test of a text: `op` is startswith, endswith, contains or like."""

    attr: str
    op: str
    text: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.attr} {'not ' if self.negated else ''}{self.op} {literal_text(self.text)}"


@dataclass(frozen=True, slots=True)
class Presence:
    """A test that the attribute is present and not null, or the contrary.

    No other atom is true of a missing attribute.
    """

    attr: str
    present: bool

    def __str__(self) -> str:
        return f"has({self.attr})" if self.present else f"{self.attr} is null"


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are. Two or more parts, none of them an And."""

    parts: tuple[Expr, ...]
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """True if some part is. Two or more parts, none of them an Or."""

    parts: tuple[Expr, ...]
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of an And or an Or. The negation of unknown is unknown."""

    part: And | Or

    def __str__(self) -> str:
        return f"not ({self.part})"


Atom: TypeAlias = Compare | Flag | Member | Text | Presence
Expr: TypeAlias = Atom | Constant | And | Or | Not


def conjoin(parts: list[Expr], column: int = 1) -> Expr:
    """Return the flattened `and` of the parts, without `true`; a single part is returned as it is."""
    flat = [part for given in parts for part in (given.parts if isinstance(given, And) else (given,)) if part != TRUE]
    return And(tuple(flat), column) if len(flat) > 1 else flat[0] if flat else TRUE


def disjoin(parts: list[Expr], column: int = 1) -> Expr:
    """Return the flattened `or` of the parts, without `false`; a single part is returned as it is."""
    flat = [part for given in parts for part in (given.parts if isinstance(given, Or) else (given,)) if part != FALSE]
    return Or(tuple(flat), column) if len(flat) > 1 else flat[0] if flat else FALSE


def negate(expr: Expr) -> Expr:
    """Return `not expr`. An atom becomes the complementary atom, so Not applies to parentheses only."""
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
    """Move the negation of `not expr` one level inward. De Morgan's laws hold for three truth values, too."""
    parts = tuple(negate(part) for part in expr.parts)
    return Or(parts, expr.column) if isinstance(expr, And) else And(parts, expr.column)


def atoms(expr: Expr) -> list[Atom]:
    """Return the atoms of an expression, left to right."""
    match expr:
        case And(parts) | Or(parts):
            return [atom for part in parts for atom in atoms(part)]
        case Not(part):
            return atoms(part)
        case Constant():
            return []
        case _:
            return [expr]


def tested_attributes(expr: Expr) -> list[str]:
    """Return the attributes that an expression tests, sorted."""
    return sorted({atom.attr for atom in atoms(expr)})


def depth(expr: Expr) -> int:
    """Return the nesting depth of parentheses in an expression's text: 0 for an atom."""
    match expr:
        case And(parts) | Or(parts):
            return max(depth(part) + (isinstance(expr, And) and isinstance(part, Or)) for part in parts)
        case Not(part):
            return 1 + depth(part)
        case _:
            return 0


def literal_text(literal: Literal) -> str:
    """Write a literal in the grammar's spelling."""
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
    """Return the canonical spelling of a number: 3.0 becomes 3. A float too large to be written as an int stays a
    float.
    """
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**EVENT_LIMITS.int_bits_max:
        return int(number)
    return number


def literal_order(literal: Literal) -> tuple[int, int | float, str]:
    """Sort key for the literals of a set: booleans, numbers, texts."""
    if isinstance(literal, bool):
        return (0, literal, "")
    if isinstance(literal, str):
        return (2, 0, literal)
    return (1, literal, "")

"""The filter: a predicate over attributes, as subscriptions and advertisements carry it. Immutable; equal by text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NoReturn

from ..errors import FilterError, FilterTooComplex
from ..limits import FILTER_LIMITS, FilterLimits
from ..values import Attributes, Value, check_attributes, is_reserved
from . import covering, explaining
from .ast import Constant, Expr, atoms, conjoin, depth, disjoin, negate
from .compiling import Matcher, compile_false, compile_true
from .explaining import Explanation
from .normal_form import NormalForm, normal_form
from .parser import parse_expr


class Filter:
    """A predicate over an event's attributes. `str(f)` is its canonical text; equal texts are equal filters.

    Build one with `parse` or with `F`; combine with `&`, `|` and `~`.
    """

    def __init__(self, expr: Expr, *, source: str = "", limits: FilterLimits = FILTER_LIMITS) -> None:
        self.expr = expr
        self.text = str(expr)
        """The canonical text: what is sent, compared and shown."""
        self._source = source
        self._limits = limits
        self._check_size()

    @cached_property
    def matches(self) -> Matcher:
        """Whether the filter is true of attributes (plain, as in `Event.attributes`): the compiled closure itself."""
        return compile_true(self.expr)

    @cached_property
    def normal(self) -> NormalForm:
        """The alternatives, or FilterTooComplex."""
        try:
            return normal_form(self.expr, self._limits)
        except FilterError as error:
            error.text = self._source
            error.column = error.column if self._source else 0
            raise

    def evaluate(self, attributes: Attributes) -> bool | None:
        """True, False, or None for unknown."""
        if self.matches(attributes):
            return True
        return False if self._refutes(attributes) else None

    @cached_property
    def _refutes(self) -> Matcher:
        return compile_false(self.expr)

    def covers(self, other: Filter) -> bool:
        """Whether every event that `other` matches is matched here; False where that cannot be told cheaply."""
        return covering.covers(self.normal, other.normal)

    def intersects(self, other: Filter) -> bool:
        """Whether some event may match both; True where that cannot be told cheaply."""
        return covering.intersects(self.normal, other.normal)

    def explain(self, attributes: Mapping[str, Value]) -> Explanation:
        """The result on attributes, with the atoms that decided."""
        return explaining.explain(self.expr, check_attributes(attributes))

    def attributes(self) -> list[str]:
        """The attributes that it speaks of, sorted."""
        return sorted({atom.attr for atom in atoms(self.expr)})

    @cached_property
    def system(self) -> bool:
        """Whether it speaks of what the system itself says (`$kind`): then it is about that alone."""
        return any(is_reserved(atom.attr) for atom in atoms(self.expr))

    def __and__(self, other: object) -> Filter:
        return self._joined(conjoin, self, other)

    def __rand__(self, other: object) -> Filter:
        return self._joined(conjoin, other, self)

    def __or__(self, other: object) -> Filter:
        return self._joined(disjoin, self, other)

    def __ror__(self, other: object) -> Filter:
        return self._joined(disjoin, other, self)

    def __invert__(self) -> Filter:
        return Filter(negate(self.expr), limits=self._limits)

    def __bool__(self) -> NoReturn:
        raise TypeError("a filter is neither true nor false by itself: combine filters with &, | and ~")

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Filter) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __reduce__(self) -> tuple[object, tuple[str, FilterLimits]]:
        return parse, (self.text, self._limits)

    def _joined(self, join: Callable[[list[Expr]], Expr], left: object, right: object) -> Filter:
        return Filter(join([as_filter(side).expr for side in (left, right)]), limits=self._limits)

    def _check_size(self) -> None:
        """FilterTooComplex when the canonical text is none that `parse` would take back."""
        limits = self._limits
        if depth(self.expr) > limits.depth_max:
            blame = f"parentheses of its canonical text nest over {limits.depth_max} deep"
        elif sum(1 for _ in atoms(self.expr)) > limits.atoms_max:
            blame = f"over {limits.atoms_max} conditions"
        elif len(self.text) > limits.text_max:
            blame = f"{len(self.text)} characters of canonical text; {limits.text_max} are allowed"
        else:
            return
        raise FilterTooComplex(blame, text=self._source, column=1 if self._source else 0)


def parse(text: str, limits: FilterLimits = FILTER_LIMITS) -> Filter:
    """The filter that `text` writes, or FilterSyntax or FilterTooComplex with a column."""
    return Filter(parse_expr(text, limits), source=text, limits=limits)


def as_filter(given: object) -> Filter:
    """A filter from a filter, its text, or a boolean attribute of the builder."""
    if isinstance(given, Filter):
        return given
    if isinstance(given, str):
        return parse(given)
    if hasattr(given, "as_filter"):
        found: Filter = given.as_filter()
        return found
    raise TypeError(f"{type(given).__name__} is no filter: give a text or an expression made with F")


EVERYTHING = Filter(Constant(True))
"""Matches every event."""

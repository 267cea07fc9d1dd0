"""The filter: an immutable predicate over attributes, used by subscriptions and advertisements.

Equal by canonical text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NoReturn
from weakref import WeakValueDictionary

from ..errors import FilterError, FilterNeverTrue, FilterTooComplex
from ..limits import FILTER_LIMITS, FilterLimits
from ..values import Attributes, Value, check_attributes, is_reserved
from . import covering, explaining, slips
from .ast import Constant, Expr, atoms, conjoin, depth, disjoin, negate, tested_attributes
from .compiling import Matcher, compile_false, compile_true
from .contradiction import contradiction
from .explaining import Explanation
from .normal_form import NormalForm, normal_form
from .parser import parse_expr


class Filter:
    """A predicate over an event's attributes. `str(f)` is its canonical text; equal texts are equal filters.

    Build one with `parse` or with `F`; combine with `&`, `|` and `~`.
    """

    def __init__(self, expr: Expr, *, source: str = "", limits: FilterLimits = FILTER_LIMITS) -> None:
        self.expr = expr
        self.text: str = str(expr)
        """The canonical text, used on the wire, for comparison and for display."""
        self._source = source
        self._limits = limits
        self._check_size(depth(expr), len(atoms(expr)))

    @cached_property
    def matches(self) -> Matcher:
        """The compiled closure that tests whether plain attributes (as in `Event.attributes`) make the filter true."""
        return compile_true(self.expr)

    @cached_property
    def normal(self) -> NormalForm:
        """The alternatives; raises FilterTooComplex if there are too many."""
        try:
            return normal_form(self.expr, self._limits)
        except FilterError as error:
            error.text = self._source
            error.column = error.column if self._source else 0
            raise

    def check_satisfiable(self) -> None:
        """Raise FilterNeverTrue if certainly no event matches. The message names the conditions that exclude each
        other."""
        if self.normal:
            return
        *others, last = contradiction(self.expr)
        named = " and ".join(f"`{condition:.100}`" for condition in [*others, last])
        reason = f"{named} exclude each other" if others else f"{named} is never true"
        places = [match.start() for match in re.finditer(rf"(?<![\w.$']){re.escape(last)}(?![\w.])", self._source)]
        column = places[-1] + 1 if places else 0
        raise FilterNeverTrue(
            f"no event can match: {reason}",
            text=self._source if column else "",
            column=column,
            hint="join alternatives by `or`" if others else "leave it out",
        )

    def evaluate(self, attributes: Attributes) -> bool | None:
        """Return True, False, or None for unknown."""
        if self.matches(attributes):
            return True
        return False if self._refutes(attributes) else None

    @cached_property
    def _refutes(self) -> Matcher:
        return compile_false(self.expr)

    def covers(self, other: Filter) -> bool:
        """Return whether every event that `other` matches is matched here.

        Return False if that cannot be decided cheaply.
        """
        return covering.covers(self.normal, other.normal)

    def intersects(self, other: Filter) -> bool:
        """Return whether some event may match both. Return True if that cannot be decided cheaply."""
        return covering.intersects(self.normal, other.normal)

    def explain(self, attributes: Mapping[str, Value]) -> Explanation:
        """Return the result on attributes, with the atoms that decided it."""
        return explaining.explain(self.expr, check_attributes(attributes))

    def doubts(self) -> list[str]:
        """Return a sentence for each condition that looks like a slip, such as `symbol.IBM` for `symbol == 'IBM'`."""
        return slips.doubts(self.expr)

    def attributes(self) -> list[str]:
        """Return the attributes that the filter tests, sorted."""
        return tested_attributes(self.expr)

    @cached_property
    def system(self) -> bool:
        """True if the filter tests a reserved attribute (`$kind`).

        Such a filter matches only the system's own events.
        """
        return "$" in self.text and any(map(is_reserved, tested_attributes(self.expr)))

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
        raise TypeError(
            "a filter is neither true nor false by itself: combine filters with &, | and ~, "
            "write between() for low <= x <= high, and is_in() for `in`"
        )

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

    def _check_size(self, depth: int, conditions: int) -> None:
        """Raise FilterTooComplex if `parse` would refuse the canonical text."""
        limits = self._limits
        if depth > limits.depth_max:
            blame = f"parentheses of its canonical text nest over {limits.depth_max} deep"
        elif conditions > limits.atoms_max:
            blame = f"over {limits.atoms_max} conditions"
        elif len(self.text) > limits.text_max:
            blame = f"{len(self.text)} characters of canonical text; {limits.text_max} are allowed"
        else:
            return
        raise FilterTooComplex(blame, text=self._source, column=1 if self._source else 0)


def parse(text: str, limits: FilterLimits = FILTER_LIMITS) -> Filter:
    """Parse a filter; raise FilterSyntax or FilterTooComplex with a column.

    Equal texts give one shared object for as long as somebody holds it.
    """
    if limits is not FILTER_LIMITS:
        return Filter(parse_expr(text, limits), source=text, limits=limits)
    shared = _SHARED.get(text)
    if shared is None:
        shared = _SHARED[text] = Filter(parse_expr(text), source=text)
    return shared


_SHARED: Final[WeakValueDictionary[str, Filter]] = WeakValueDictionary()
"""The filters in use, by the text that they were parsed from. Clients tend to subscribe to the same few filters.

Weak, so that the memory is bounded by the filters in use, and a filter that nobody holds is forgotten at once.
"""


def parse_indexable(text: str) -> Filter:
    """Parse a filter that is to go into an index. Raise FilterTooComplex also if its normal form exceeds a limit."""
    filter = parse(text)
    filter.normal  # noqa: B018 - computed once, and kept
    return filter


def as_filter(given: object) -> Filter:
    """Convert a filter, its text, or a boolean attribute of the builder to a filter."""
    if isinstance(given, Filter):
        return given
    if isinstance(given, str):
        return parse(given)
    if hasattr(given, "as_filter"):
        found: Filter = given.as_filter()
        return found
    raise TypeError(f"{type(given).__name__} is no filter: give a text or an expression made with F")


EVERYTHING = Filter(Constant(True))
"""The filter that matches every event."""

"""The normal form: a filter as at most 256 alternatives, each a conjunction of one constraint per attribute.

It is the unit of indexing, covering and intersection. Unsatisfiable alternatives are left out. Equalities on one
attribute joined by `or` are one alternative with a set. Above the limit, the error names the offending part.
"""

from __future__ import annotations

from typing import TypeAlias

from ..errors import FilterTooComplex
from ..limits import FILTER_LIMITS, FilterLimits
from ..values import Attributes
from .ast import And, Constant, Expr, Not, Or, push_not
from .constraints import Constraint, constraint_of, union_of_points

Conjunction: TypeAlias = dict[str, Constraint]
"""A constraint for each tested attribute; an event satisfies the conjunction if it satisfies all of them."""

NormalForm: TypeAlias = tuple[Conjunction, ...]

_WORK = 16
"""A product may exceed the limit by this factor while it is built, because contradictions may thin it out again."""


def normal_form(expr: Expr, limits: FilterLimits = FILTER_LIMITS) -> NormalForm:
    """Return the alternatives of a filter, in the order of its text; () for a filter that no event satisfies."""
    return tuple(_alternatives(expr, limits))


def satisfies(attributes: Attributes, conjunction: Conjunction) -> bool:
    """Return whether attributes satisfy a conjunction."""
    return all(constraint.accepts(attributes.get(attr)) for attr, constraint in conjunction.items())


def _alternatives(expr: Expr, limits: FilterLimits) -> list[Conjunction]:
    match expr:
        case Not(part):
            return _alternatives(push_not(part), limits)
        case And(parts):
            return _product(expr, parts, limits)
        case Or(parts):
            return _union(expr, parts, limits)
        case Constant(value):
            return [{}] if value else []
        case _:
            constraint = constraint_of(expr)
            return [{expr.attr: constraint}] if constraint is not None else []


def _union(expr: Or, parts: tuple[Expr, ...], limits: FilterLimits) -> list[Conjunction]:
    found: list[Conjunction] = []
    # attribute -> the index in `found` of the alternative that unites its sets of points
    sets: dict[str, tuple[int, list[Constraint]]] = {}
    for part in parts:
        for conjunction in _alternatives(part, limits):
            if not conjunction:
                return [{}]
            _add_alternative(conjunction, found, sets)
        if len(found) > limits.conjunctions_max:
            raise _too_complex(expr, limits)
    for attr, (at, constraints) in sets.items():
        found[at] = {attr: union_of_points(constraints)}
    return found


def _add_alternative(
    conjunction: Conjunction, found: list[Conjunction], sets: dict[str, tuple[int, list[Constraint]]]
) -> None:
    if len(conjunction) == 1:
        ((attr, constraint),) = conjunction.items()
        if constraint.points() is not None:
            at, constraints = sets.setdefault(attr, (len(found), []))
            constraints.append(constraint)
            if at < len(found):
                return
    found.append(conjunction)


def _product(expr: And, parts: tuple[Expr, ...], limits: FilterLimits) -> list[Conjunction]:
    common: Conjunction = {}  # atoms first: they narrow the part that all alternatives share only once
    compounds: list[Expr] = []
    for part in parts:
        if isinstance(part, (And, Or, Not, Constant)):
            compounds.append(part)
            continue
        constraint = constraint_of(part)
        if constraint is None or not _narrow(common, part.attr, constraint):
            return []
    found = [common]
    for part in compounds:
        factors = _alternatives(part, limits)
        if len(found) * len(factors) > _WORK * limits.conjunctions_max:
            raise _too_complex(expr, limits)
        found = _crossed(found, factors)
        if len(found) > limits.conjunctions_max:
            raise _too_complex(expr, limits)
    return found


def _crossed(found: list[Conjunction], factors: list[Conjunction]) -> list[Conjunction]:
    crossed: list[Conjunction] = []
    for conjunction in found:
        for factor in factors:
            merged = dict(conjunction)
            if all(_narrow(merged, attr, constraint) for attr, constraint in factor.items()):
                crossed.append(merged)
    return crossed


def _narrow(conjunction: Conjunction, attr: str, constraint: Constraint) -> bool:
    """Narrow `conjunction` in place. Return False if no event can satisfy it any more."""
    known = conjunction.get(attr)
    if known is not None:
        narrowed = known.intersect(constraint)
        if narrowed is None:
            return False
        constraint = narrowed
    conjunction[attr] = constraint
    return True


def _too_complex(expr: And | Or, limits: FilterLimits) -> FilterTooComplex:
    shown = str(expr)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return FilterTooComplex(
        f"`{shown}` comes to over {limits.conjunctions_max} alternatives",
        column=expr.column,
        hint="split it into several subscriptions",
    )

"""Why a filter can never be true: the conditions of its first alternative that exclude each other.

A filter without alternatives in its normal form matches no event. Then every conjunction of its atoms is contradictory,
also the leftmost one, which a reader finds first.
"""

from __future__ import annotations

from itertools import combinations

from .ast import And, Atom, Constant, Expr, Not, Or, push_not
from .constraints import Constraint, constraint_of


def contradiction(expr: Expr) -> tuple[str, ...]:
    """Return the conditions that exclude each other in a filter that no event matches: usually two, as texts."""
    atoms = _first_conjunction(expr)
    for atom in atoms:
        if isinstance(atom, Constant) or constraint_of(atom) is None:
            return (str(atom),)
    tests = [atom for atom in atoms if not isinstance(atom, Constant)]
    for earlier, later in combinations(tests, 2):
        if earlier.attr == later.attr and _exclude_each_other([earlier, later]):
            return (str(earlier), str(later))
    for attr in dict.fromkeys(atom.attr for atom in tests):  # x >= 3 and x <= 3 and x != 3
        together = [atom for atom in tests if atom.attr == attr]
        if _exclude_each_other(together):
            return tuple(map(str, _without_the_needless(together)))
    return (str(expr),)


def _first_conjunction(expr: Expr) -> list[Atom | Constant]:
    """Return the atoms of the leftmost conjunction, with each constant that is false."""
    match expr:
        case Not(part):
            return _first_conjunction(push_not(part))
        case And(parts):
            return [atom for part in parts for atom in _first_conjunction(part)]
        case Or(parts):
            return _first_conjunction(parts[0])
        case Constant(True):
            return []
        case _:
            return [expr]


def _exclude_each_other(atoms: list[Atom]) -> bool:
    """Return whether atoms on one attribute are certainly never true together."""
    common: Constraint | None = None
    for atom in atoms:
        constraint = constraint_of(atom)
        if constraint is None:
            return True
        common = constraint if common is None else common.intersect(constraint)
        if common is None:
            return True
    return False


def _without_the_needless(atoms: list[Atom]) -> list[Atom]:
    """Return the atoms without those that the contradiction does not need."""
    kept = list(atoms)
    for atom in atoms:
        rest = [other for other in kept if other is not atom]
        if rest and _exclude_each_other(rest):
            kept = rest
    return kept

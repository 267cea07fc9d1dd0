"""Relations of filters: covering (every event of b is an event of a) and intersection (some event may be in both).

Both compare alternatives in pairs. Where they cannot decide, covering answers no and intersection answers yes: a wrong
answer then costs a forwarded subscription, never a lost event.
"""

from __future__ import annotations

from .normal_form import Conjunction, NormalForm


def covers(a: NormalForm, b: NormalForm) -> bool:
    """Return whether each alternative of b lies within one of a."""
    return all(any(conjunction_covers(wide, narrow) for wide in a) for narrow in b)


def intersects(a: NormalForm, b: NormalForm) -> bool:
    """Return whether some alternatives of a and b are compatible on all attributes that both constrain."""
    return any(conjunctions_meet(one, other) for one in a for other in b)


def conjunction_covers(wide: Conjunction, narrow: Conjunction) -> bool:
    """Return whether every event that satisfies `narrow` satisfies `wide`."""
    for attr, constraint in wide.items():
        inner = narrow.get(attr)
        if inner is None or not constraint.includes(inner):
            return False
    return True


def conjunctions_meet(one: Conjunction, other: Conjunction) -> bool:
    """Return whether some event may satisfy both."""
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    for attr, constraint in small.items():
        inner = large.get(attr)
        if inner is not None and constraint.intersect(inner) is None:
            return False
    return True

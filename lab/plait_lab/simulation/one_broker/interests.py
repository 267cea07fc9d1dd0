"""Simulated interests: small filters as trees, their text in Plait's language, and an independent evaluation.

The oracle uses this evaluation instead of Plait's matcher; it shares no code with `plait_core.filters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

Tree: TypeAlias = tuple[Any, ...]
"""("true",), ("is", attr, op, literal), ("has", attr), ("not", tree), ("and" | "or", tree, tree)."""

SYMBOLS: Final = ("ACME", "IBM", "SUN", "ZAP")
PRICE_MAX: Final = 100
_NUMBER_OPS: Final = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class Interest:
    """A filter as a tree."""

    tree: Tree

    @property
    def text(self) -> str:
        return _text(self.tree)

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Return whether an event with these attributes matches."""
        return evaluate(self.tree, attributes) is True


EVERYTHING: Final = Interest(("true",))


def evaluate(tree: Tree, attributes: Mapping[str, object]) -> bool | None:
    """Evaluate a tree: True, False, or None for unknown."""
    what = tree[0]
    if what == "true":
        return True
    if what == "has":
        return attributes.get(tree[1]) is not None
    if what == "is":
        return _compared(attributes.get(tree[1]), tree[2], tree[3])
    if what == "not":
        inner = evaluate(tree[1], attributes)
        return None if inner is None else not inner
    sides = [evaluate(tree[1], attributes), evaluate(tree[2], attributes)]
    decisive: bool = what == "or"
    if decisive in sides:
        return decisive
    return None if None in sides else not decisive


def _compared(value: object, op: str, literal: object) -> bool | None:
    if value is None or isinstance(value, bool) is not isinstance(literal, bool):
        return None
    if isinstance(value, str) is not isinstance(literal, str):
        return None
    left: Any = value
    right: Any = literal
    outcomes: dict[str, bool] = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    outcomes |= {"==": left == right, "!=": left != right}
    return outcomes[op]


def _text(tree: Tree) -> str:
    what = tree[0]
    if what == "true":
        return "true"
    if what == "has":
        return f"has({tree[1]})"
    if what == "is":
        literal = tree[3]
        written = f"'{literal}'" if isinstance(literal, str) else str(literal).lower()
        return f"{tree[1]} {tree[2]} {written}"
    if what == "not":
        return f"not ({_text(tree[1])})"
    return f"({_text(tree[1])}) {what} ({_text(tree[2])})"


def draw_interest(rng: Random, depth: int = 2) -> Interest:
    """Draw a filter that a fair share of `draw_attributes` satisfies."""
    return EVERYTHING if rng.random() < 0.15 else Interest(_draw_tree(rng, depth))


def draw_denied(rng: Random) -> Interest:
    """Draw a filter of a single condition, for events that some principals may not receive."""
    return Interest(_draw_condition(rng))


def _draw_tree(rng: Random, depth: int) -> Tree:
    roll = rng.random()
    if depth == 0 or roll < 0.5:
        return _draw_condition(rng)
    if roll < 0.6:
        return ("not", _draw_tree(rng, depth - 1))
    return (rng.choice(("and", "or", "or")), _draw_tree(rng, depth - 1), _draw_tree(rng, depth - 1))


def _draw_condition(rng: Random) -> Tree:
    roll = rng.random()
    if roll < 0.45:
        return ("is", "symbol", rng.choice(("==", "!=")), rng.choice(SYMBOLS))
    if roll < 0.85:
        return ("is", "price", rng.choice(_NUMBER_OPS), rng.randrange(PRICE_MAX))
    return rng.choice((("has", "urgent"), ("is", "urgent", "==", True), ("is", "urgent", "!=", True)))


def draw_attributes(rng: Random) -> dict[str, Any]:
    """Draw the attributes of an event; each may be missing."""
    drawn: dict[str, Any] = {}
    if rng.random() < 0.95:
        drawn["symbol"] = rng.choice(SYMBOLS)
    if rng.random() < 0.95:
        drawn["price"] = rng.randrange(PRICE_MAX) if rng.random() < 0.7 else rng.randrange(4 * PRICE_MAX) / 4
    if rng.random() < 0.4:
        drawn["urgent"] = rng.random() < 0.5
    return drawn

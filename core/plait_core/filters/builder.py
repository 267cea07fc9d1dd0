"""Filters in Python: `(F.symbol == "IBM") & F.price.between(100, 130) & ~F.halted`.

`F.name` and `F["dotted.name"]` are attributes; comparing one gives a Filter. Filters combine with `&`, `|`, `~`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ..limits import FILTER_LIMITS
from . import atoms
from .ast import negate
from .eventbridge import from_pattern
from .filter import Filter, parse


class Attribute:
    """An attribute to build filters on. Used as a filter itself, it tests that the attribute is true."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = atoms.attribute(name)

    def __getattr__(self, part: str) -> Attribute:
        if part.startswith("__"):
            raise AttributeError(part)
        return Attribute(f"{self._name}.{part}")

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        return self._compare("==", value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Filter:
        return self._compare("<", value)

    def __le__(self, value: object) -> Filter:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Filter:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Filter:
        return self._compare(">=", value)

    __hash__ = None  # type: ignore[assignment]

    def between(self, low: object, high: object) -> Filter:
        """Test `low <= attribute <= high`."""
        return Filter(atoms.between(self._name, atoms.literal(low), atoms.literal(high)))

    def is_in(self, values: Iterable[object]) -> Filter:
        """Test that the attribute equals one of `values`."""
        return Filter(atoms.member(self._name, [atoms.literal(value) for value in values], FILTER_LIMITS))

    def not_in(self, values: Iterable[object]) -> Filter:
        """Test that the attribute is present, of a kind that occurs in `values`, and equal to none of them."""
        return ~self.is_in(values)

    def startswith(self, text: str) -> Filter:
        return self._text("startswith", text)

    def endswith(self, text: str) -> Filter:
        return self._text("endswith", text)

    def contains(self, text: str) -> Filter:
        return self._text("contains", text)

    def like(self, pattern: str) -> Filter:
        """Test by SQL's LIKE: % is any text, _ any character, a backslash makes either plain."""
        return self._text("like", pattern)

    def exists(self) -> Filter:
        """Test that the attribute is present and not null."""
        return Filter(atoms.presence(self._name, True))

    def is_null(self) -> Filter:
        """Test that the attribute is missing or null."""
        return Filter(atoms.presence(self._name, False))

    def as_filter(self) -> Filter:
        """Return the filter that tests that the attribute is true."""
        return Filter(atoms.compare(self._name, "==", True))

    def __invert__(self) -> Filter:
        return Filter(negate(self.as_filter().expr))

    def __and__(self, other: object) -> Filter:
        return self.as_filter() & other

    def __or__(self, other: object) -> Filter:
        return self.as_filter() | other

    def __bool__(self) -> NoReturn:
        raise TypeError("an attribute is neither true nor false by itself: combine filters with &, | and ~")

    def __iter__(self) -> NoReturn:
        raise TypeError("an attribute has no items")

    def __repr__(self) -> str:
        return f"F[{self._name!r}]"

    def _compare(self, op: str, value: object) -> Filter:
        return Filter(atoms.compare(self._name, op, atoms.literal(value)))

    def _text(self, op: str, text: str) -> Filter:
        return Filter(atoms.text(self._name, op, atoms.literal(text)))


class Builder:
    """The type of `F`: attributes by name, and importers of other filter languages."""

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):
            raise AttributeError(name)
        return Attribute(name)

    def __getitem__(self, name: str) -> Attribute:
        return Attribute(name)

    def from_text(self, text: str) -> Filter:
        """Parse `text`: Plait's grammar, which accepts SQL, CEL and Python spellings."""
        return parse(text)

    def from_pattern(self, pattern: Mapping[str, Any]) -> Filter:
        """Translate an EventBridge-style JSON pattern."""
        return from_pattern(pattern)


F = Builder()

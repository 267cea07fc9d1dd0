"""Filters in Python: `(F.symbol == "IBM") & F.price.between(100, 130) & ~F.halted`.

`F.name` and `F["dotted.name"]` are attributes; comparing one gives a Filter. Filters combine with `&`, `|`, `~`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from ..errors import EventInvalid, FilterSyntax
from ..limits import FILTER_LIMITS
from ..value_mapping import plain_value
from ..values import Literal
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

    def __call__(self, *arguments: object, **named: object) -> NoReturn:
        """Raise FilterSyntax: the call was meant for a method that does not exist."""
        name, _, method = self._name.rpartition(".")
        attribute = f"F.{name}" if name else "F"
        raise FilterSyntax(f"{attribute} has no method {method}", hint=_method_hint(attribute, method))

    def between(self, low: object, high: object) -> Filter:
        """Test `low <= attribute <= high`."""
        return Filter(atoms.between(self._name, _literal(low), _literal(high)))

    def is_in(self, values: Iterable[object]) -> Filter:
        """Test that the attribute equals one of `values`."""
        if isinstance(values, str):
            raise FilterSyntax("is_in takes several values", hint=f"is_in([{values!r:.40}])")
        return Filter(atoms.member(self._name, [_literal(value) for value in values], FILTER_LIMITS))

    def not_in(self, values: Iterable[object]) -> Filter:
        """Test that the attribute is present, of a kind that occurs in `values`, and equal to none of them."""
        return ~self.is_in(values)

    def startswith(self, text: str) -> Filter:
        """Test that the attribute is a text that starts with `text`."""
        return self._text("startswith", text)

    def endswith(self, text: str) -> Filter:
        """Test that the attribute is a text that ends with `text`."""
        return self._text("endswith", text)

    def contains(self, text: str) -> Filter:
        """Test that the attribute is a text that contains `text`."""
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
        raise TypeError(
            "an attribute is neither true nor false by itself: combine filters with &, | and ~; `in` is is_in()"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError("an attribute has no items")

    def __repr__(self) -> str:
        return f"F[{self._name!r}]"

    def _compare(self, op: str, value: object) -> Filter:
        if isinstance(value, Attribute):
            raise FilterSyntax("two attributes cannot be compared", hint="one side must be a literal")
        if value is None:
            raise FilterSyntax("nothing is compared with None", hint=f"{self!r}.is_null(), or {self!r}.exists()")
        return Filter(atoms.compare(self._name, op, _literal(value)))

    def _text(self, op: str, text: str) -> Filter:
        return Filter(atoms.text(self._name, op, atoms.literal(text)))


def _literal(value: object) -> Literal:
    """Return a Python value as a literal, mapped as it is when it is published."""
    try:
        return atoms.literal(plain_value(value))
    except EventInvalid as error:
        raise FilterSyntax(error.message, hint=error.hint) from None


_METHODS: Final = {
    "in": "is_in",
    "isin": "is_in",
    "oneof": "is_in",
    "anyof": "is_in",
    "notin": "not_in",
    "isnotin": "not_in",
    "startswith": "startswith",
    "endswith": "endswith",
    "includes": "contains",
    "matches": "like",
    "isnull": "is_null",
    "isnone": "is_null",
    "isnotnull": "exists",
    "notnull": "exists",
    "has": "exists",
    "range": "between",
}
_OPERATORS: Final = {"eq": "==", "equals": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _method_hint(attribute: str, method: str) -> str:
    """Return the method that was meant by one that does not exist."""
    plain = method.lower().replace("_", "")
    if plain in _OPERATORS:
        return f"write {attribute} {_OPERATORS[plain]} ..."
    known = [name for name in vars(Attribute) if not name.startswith("_") and name != "as_filter"]
    meant = _METHODS.get(plain)
    if meant is None:
        from difflib import get_close_matches  # only after a mistake

        meant = next(iter(get_close_matches(method.lower(), known, 1, 0.7)), "")
    return f"did you mean {attribute}.{meant}(...)?" if meant else f"its methods are {', '.join(known)}"


class Builder:
    """The builder of filters: `F.price` and `F["place.city"]` are attributes.

    Compare an attribute by `==`, `!=`, `<`, `<=`, `>`, `>=`, or by its methods. Combine filters by `&`, `|` and `~`.
    """

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

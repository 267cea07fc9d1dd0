"""The event space's view of a filter: boxes, one for each conjunction of its normal form.

A box maps each attribute that a conjunction tests to the allowed values; other attributes are unbounded. Atoms become
ranges as follows (several atoms on one attribute are joined by `AllOf`):

    x == v                      Interval.point(v)
    x < v, x <= v               Interval(hi=v, hi_open=True), Interval(hi=v); likewise x > v, x >= v with lo
    x != v                      AnyOf((Interval(hi=v, hi_open=True), Interval(lo=v, lo_open=True)))
    x in (u, v)                 AnyOf((Interval.point(u), Interval.point(v)))
    x startswith p              Prefix(p)
    has(x), x is not null       ANY
    x is null, not has(x)       NONE: every event of a space has all of its attributes
    all other atoms             ANY; the mapping is then not faithful: it includes events that the filter excludes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import SpaceInvalid
from ..values import Literal, ValueKind, kind_of


@dataclass(frozen=True, slots=True)
class Interval:
    """The values from `lo` to `hi`, of their kind only.

    A None end is no bound; with two None ends every kind is allowed.
    """

    lo: Literal | None = None
    hi: Literal | None = None
    lo_open: bool = False
    hi_open: bool = False

    def __post_init__(self) -> None:
        kinds = {kind_of(bound) for bound in (self.lo, self.hi) if bound is not None}
        if None in kinds or len(kinds) > 1:
            raise SpaceInvalid(
                f"no interval from {self.lo!r:.80} to {self.hi!r:.80}",
                hint="both ends are numbers, both are text or both are bool; NaN is no end",
            )

    @classmethod
    def point(cls, value: Literal) -> Interval:
        """Return the interval of this value alone."""
        return cls(value, value)

    @property
    def kind(self) -> ValueKind | None:
        """The kind of its values, or None if it allows any."""
        return kind_of(self.hi if self.lo is None else self.lo)

    @property
    def is_point(self) -> bool:
        """True if the interval is a single value."""
        return self.lo is not None and self.lo == self.hi and not self.lo_open and not self.hi_open

    def admits(self, value: Literal) -> bool:
        """Return whether `value` lies in the interval."""
        if self.kind is None:
            return True
        if kind_of(value) is not self.kind:
            return False
        return _above(value, self.lo, self.lo_open) and _below(value, self.hi, self.hi_open)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The texts that start with `text`."""

    text: str

    def admits(self, value: Literal) -> bool:
        """Return whether `value` starts with the prefix."""
        return isinstance(value, str) and value.startswith(self.text)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The union of ranges: values that at least one of them allows."""

    ranges: tuple[ValueRange, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """The intersection of ranges: values that each of them allows."""

    ranges: tuple[ValueRange, ...]


ValueRange: TypeAlias = Interval | Prefix | AnyOf | AllOf
Box: TypeAlias = Mapping[str, ValueRange]

ANY = Interval()
NONE = AnyOf(())


def _above(value: Literal, bound: Literal | None, is_open: bool) -> bool:
    """Return whether `value` is above the bound. Python compares ints and floats exactly at any size."""
    return bound is None or bool(value > bound if is_open else value >= bound)  # type: ignore[operator]


def _below(value: Literal, bound: Literal | None, is_open: bool) -> bool:
    return bound is None or bool(value < bound if is_open else value <= bound)  # type: ignore[operator]

"""Domains: the values of a dimension of the event space, and the cells that contain them (thesis 2.2, 2.3.1).

A domain is halved `bits` times, into 2**bits cells. The cell of a value after fewer halvings is a prefix of that one.
Cells grow with values, so an interval of values is a run of cells. Cells are half-open: a boundary belongs to the upper
half. (In the thesis it belongs to the lower one; half-open intervals tile without exceptions at the domain's ends.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import ClassVar, Protocol, TypeAlias

from ..errors import SpaceInvalid
from ..limits import DZ_BITS_MAX, FILTER_SET_MAX
from ..values import Literal, ValueKind, kind_of
from .boxes import AllOf, AnyOf, Interval, Prefix, ValueRange
from .cells import Side

Number: TypeAlias = int | float
Plain: TypeAlias = Number | str | list[Literal]

_NOTHING = Side(())


class Domain(Protocol):
    """The interface of a dimension's domain. Values outside are refused; ranges are clipped to the domain."""

    type_name: ClassVar[str]

    @property
    def bits(self) -> int:
        """Halvings down to its granularity."""
        ...

    def cell(self, value: object) -> int:
        """Return the finest cell of `value`; raise SpaceInvalid if the domain has no such value."""
        ...

    def side(self, allowed: Interval | Prefix) -> Side:
        """Return the finest cells that contain the allowed values."""
        ...

    def fields(self) -> dict[str, Plain]:
        """Return the constructor's arguments, as JSON writes them."""
        ...


def side_of(domain: Domain, allowed: ValueRange) -> Side:
    """Return the finest cells of `domain` that contain the allowed values."""
    if isinstance(allowed, AnyOf):
        return Side.union(side_of(domain, each) for each in allowed.ranges)
    if isinstance(allowed, AllOf):
        side = _everything(domain)
        for each in allowed.ranges:
            side = side.intersection(side_of(domain, each))
        return side
    return domain.side(allowed)


@dataclass(frozen=True, slots=True)
class IntRange:
    """The integers from `lo` to `hi`, both included: thesis 2.8.1 has [1, 128]. Halved down to single integers."""

    lo: int
    hi: int
    type_name: ClassVar[str] = "int"

    def __post_init__(self) -> None:
        if type(self.lo) is not int or type(self.hi) is not int or self.lo > self.hi:
            raise SpaceInvalid(f"no integers from {self.lo!r:.80} to {self.hi!r:.80}", hint="two ints, the lower first")

    @property
    def bits(self) -> int:
        return (self.hi - self.lo).bit_length()

    def cell(self, value: object) -> int:
        if not isinstance(value, int | float) or kind_of(value) is not ValueKind.NUMBER:
            raise _outside(value, self)
        if not self.lo <= value <= self.hi or value != floor(value):
            raise _outside(value, self)
        return self._start(int(value))

    def side(self, allowed: Interval | Prefix) -> Side:
        if not isinstance(allowed, Interval) or allowed.kind not in (None, ValueKind.NUMBER):
            return _NOTHING
        first, last = self.lo, self.hi
        lo, hi = _number(allowed.lo), _number(allowed.hi)
        if (lo is not None and lo > last) or (hi is not None and hi < first):
            return _NOTHING
        if lo is not None and lo >= first:
            first = floor(lo) + 1 if allowed.lo_open else ceil(lo)
        if hi is not None and hi <= last:
            last = ceil(hi) - 1 if allowed.hi_open else floor(hi)
        return Side.of([(self._start(first), self._start(last + 1))])

    def fields(self) -> dict[str, Plain]:
        return {"lo": self.lo, "hi": self.hi}

    def _start(self, value: int) -> int:
        """Return the first cell of a value.

        There may be more cells than values; a value owns the cells up to the next one's.
        """
        return ((value - self.lo) << self.bits) // (self.hi - self.lo + 1)


@dataclass(frozen=True, slots=True)
class FloatRange:
    """The numbers from `lo` to below `hi`, in 2**bits equal cells."""

    lo: Number
    hi: Number
    bits: int = 16
    type_name: ClassVar[str] = "float"

    def __post_init__(self) -> None:
        _check_bits(self.bits)
        for bound in (self.lo, self.hi):
            if kind_of(bound) is not ValueKind.NUMBER or bound in (inf, -inf):
                raise SpaceInvalid(f"{bound!r:.80} cannot bound a domain", hint="finite numbers")
        if not self.lo < self.hi:
            raise SpaceInvalid(f"no numbers from {self.lo} to below {self.hi}", hint="the lower first")
        object.__setattr__(self, "lo", _simplest(self.lo))
        object.__setattr__(self, "hi", _simplest(self.hi))

    def cell(self, value: object) -> int:
        if (
            not isinstance(value, int | float)
            or kind_of(value) is not ValueKind.NUMBER
            or not self.lo <= value < self.hi
        ):
            raise _outside(value, self)
        return self._scaled(value)[0]

    def side(self, allowed: Interval | Prefix) -> Side:
        if not isinstance(allowed, Interval) or allowed.kind not in (None, ValueKind.NUMBER):
            return _NOTHING
        lo, hi = _number(allowed.lo), _number(allowed.hi)
        if _is_empty(lo, hi, allowed.lo_open or allowed.hi_open):
            return _NOTHING
        if (lo is not None and lo >= self.hi) or (hi is not None and hi < self.lo):
            return _NOTHING
        first, first_exact = 0, True
        if lo is not None and lo >= self.lo:
            first, between = self._scaled(lo)
            first_exact = not between and not allowed.lo_open
        end, end_exact = 1 << self.bits, True
        if hi is not None and hi < self.hi:
            end, between = self._scaled(hi)
            end_exact = not between and allowed.hi_open
            end += not end_exact
        return Side.of([(first, end)], first_exact and end_exact)

    def fields(self) -> dict[str, Plain]:
        return {"lo": self.lo, "hi": self.hi, "bits": self.bits}

    def _scaled(self, value: Number) -> tuple[int, bool]:
        """Return the cell of a value in the domain, and whether the value lies beyond the cell's start."""
        above, above_of = _minus(value, self.lo)
        width, width_of = _minus(self.hi, self.lo)
        cell, rest = divmod((above * width_of) << self.bits, above_of * width)
        return cell, rest != 0


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Listed values, in an order that makes related ones neighbours. Halved down to single values.

    An enumeration has at most as many values as an `in` list; larger vocabularies are a `TextPrefix`.
    """

    values: tuple[Literal, ...] = field(compare=False)
    type_name: ClassVar[str] = "enum"
    _ranks: dict[tuple[ValueKind | None, object], int] = field(init=False, repr=False, compare=False)
    _keys: tuple[tuple[ValueKind | None, object], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.values) not in (list, tuple) or not 1 <= len(self.values) <= FILTER_SET_MAX:
            raise SpaceInvalid(
                "an enumeration of no values or too many", hint=f"1 to {FILTER_SET_MAX} (FILTER_SET_MAX)"
            )
        if any(kind_of(value) is None for value in self.values):
            raise SpaceInvalid("an enumeration with a value that no filter can compare", hint="no null, NaN or list")
        values = tuple(value if isinstance(value, str) else _simplest(value) for value in self.values)
        keys = tuple(map(_key, values))
        ranks = {key: rank for rank, key in enumerate(keys)}
        if len(ranks) < len(keys):
            raise SpaceInvalid("an enumeration that lists a value twice")
        for name, made in (("values", values), ("_keys", keys), ("_ranks", ranks)):
            object.__setattr__(self, name, made)

    @property
    def bits(self) -> int:
        return (len(self.values) - 1).bit_length()

    def cell(self, value: object) -> int:
        rank = None if kind_of(value) is None else self._ranks.get(_key(value))
        if rank is None:
            raise _outside(value, self)
        return self._start(rank)

    def side(self, allowed: Interval | Prefix) -> Side:
        """Compare values, not their order in the list: filters know only the natural order of values."""
        if isinstance(allowed, Interval) and allowed.is_point:
            rank = self._ranks.get(_key(allowed.lo))
            ranks = [] if rank is None else [rank]
        else:
            ranks = [rank for rank, value in enumerate(self.values) if allowed.admits(value)]
        return Side.of((self._start(rank), self._start(rank + 1)) for rank in ranks)

    def fields(self) -> dict[str, Plain]:
        return {"values": list(self.values)}

    def _start(self, rank: int) -> int:
        return (rank << self.bits) // len(self.values)


@dataclass(frozen=True, slots=True)
class TextPrefix:
    """All texts, distinguished by their first `prefix_bytes` bytes of UTF-8. UTF-8 sorts like code points.

    Texts that share these bytes share a cell, as do those that differ only in trailing NULs. So a prefix of at most
    `prefix_bytes` bytes is exactly one dz-expression of this dimension: the trie of thesis 5.4.2, eight bits a byte.
    """

    prefix_bytes: int = 8
    type_name: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        if type(self.prefix_bytes) is not int or not 1 <= self.prefix_bytes <= DZ_BITS_MAX // 8:
            raise SpaceInvalid(
                f"texts distinguished by {self.prefix_bytes!r:.80} bytes", hint=f"1 to {DZ_BITS_MAX // 8}"
            )

    @property
    def bits(self) -> int:
        return self.prefix_bytes * 8

    def cell(self, value: object) -> int:
        if not isinstance(value, str):
            raise _outside(value, self)
        return int.from_bytes(self._leading(value), "big")

    def side(self, allowed: Interval | Prefix) -> Side:
        if isinstance(allowed, Prefix):
            return self._starting_with(allowed.text)
        lo, hi = allowed.lo, allowed.hi
        if allowed.kind is None:
            return _everything(self)
        if allowed.kind is not ValueKind.TEXT:
            return _NOTHING
        first, end = 0, 1 << self.bits
        exact = True
        if isinstance(lo, str):
            first = self.cell(lo)
            exact = self._starts_cell(lo) and not allowed.lo_open
        if isinstance(hi, str):
            below = allowed.hi_open and self._starts_cell(hi)
            end = self.cell(hi) + (not below)
            exact = exact and below
        return _NOTHING if _is_empty(lo, hi, allowed.lo_open or allowed.hi_open) else Side.of([(first, end)], exact)

    def fields(self) -> dict[str, Plain]:
        return {"prefix_bytes": self.prefix_bytes}

    def _starting_with(self, prefix: str) -> Side:
        known = _utf8(prefix)[: self.prefix_bytes]
        low_bits = 8 * (self.prefix_bytes - len(known))
        start = int.from_bytes(known, "big")
        # A NUL at the end looks like the end of a shorter text, which does not have the prefix.
        exact = len(_utf8(prefix)) <= self.prefix_bytes and not known.endswith(b"\0")
        return Side(((start << low_bits, (start + 1) << low_bits),), exact)

    def _leading(self, text: str) -> bytes:
        return _utf8(text[: self.prefix_bytes])[: self.prefix_bytes].ljust(self.prefix_bytes, b"\0")

    def _starts_cell(self, text: str) -> bool:
        """Return whether no lesser text shares its cell."""
        return _utf8(text) == self._leading(text).rstrip(b"\0")


def _everything(domain: Domain) -> Side:
    return Side(((0, 1 << domain.bits),))


def _outside(value: object, domain: Domain) -> SpaceInvalid:
    return SpaceInvalid(f"the value {value!r:.80} is outside its domain", hint=f"{domain!r:.160}")


def _check_bits(bits: object) -> None:
    if type(bits) is not int or not 0 <= bits <= DZ_BITS_MAX:
        raise SpaceInvalid(f"a dimension of {bits!r:.80} bits", hint=f"0 to {DZ_BITS_MAX} (DZ_BITS_MAX)")


def _key(value: object) -> tuple[ValueKind | None, object]:
    """Distinguish True from 1, as filters do and Python does not."""
    return kind_of(value), value


def _simplest(value: Number) -> Number:
    """Return equal numbers in one form, so that equal schemas have equal texts."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(bound: Literal | None) -> Number | None:
    assert bound is None or not isinstance(bound, str), "the interval's kind was checked"
    return bound


def _minus(a: Number, b: Number) -> tuple[int, int]:
    """Return a - b exactly, as a numerator and a denominator."""
    over, under = a.as_integer_ratio()
    over_b, under_b = b.as_integer_ratio()
    return over * under_b - over_b * under, under * under_b


def _is_empty(lo: Literal | None, hi: Literal | None, is_open: bool) -> bool:
    if lo is None or hi is None:
        return False
    return lo > hi or (is_open and lo == hi)  # type: ignore[operator]  # an interval's ends are of one kind


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")

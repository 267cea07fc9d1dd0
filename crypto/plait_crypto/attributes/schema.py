"""The schema of sealed events: the guarding attributes, each with its tree, and the epochs.

Every attribute of a schema guards every event sealed under it, whether the attribute is hidden or in the clear. A key
opens only events that match its whole filter. Attributes outside the schema guard nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, TypeAlias

from plait_core import Filter, SpaceInvalid
from plait_core.filters import Constraint
from plait_core.space import Enumeration, FloatRange, IntRange
from plait_core.values import is_name

from ..errors import SealInvalid
from ..hazmat.hashing import digest
from ..limits import BOXES_MAX, CREDENTIALS_MAX, PLACES_MAX, ROWS_MAX, SCHEMA_TEXT_MAX
from .credentials import WHOLE, Credential, Tree, too_wide
from .enumerations import OneOf
from .numeric import Numbers, wider_dz
from .strings import Texts
from .validity import Epochs

TIME_ROW: Final = "$time"
"""The name of the row of slots. No attribute of an application can have it in a schema."""

Box: TypeAlias = tuple[tuple[Credential, ...], ...]
"""The credentials for one conjunction of a filter. Any one credential of each row suffices."""

CLEAR_MAX: Final = 64
"""Attributes that a schema declares clear."""

_DEPTH_MAX: Final = 8
"""Twice the nesting of a schema."""

_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBERS: Final[dict[str, type[IntRange | FloatRange]]] = {"int": IntRange, "float": FloatRange}


@dataclass(frozen=True)
class Schema:
    """Guarding attributes in order, and the epochs."""

    trees: Mapping[str, Tree]
    epochs: Epochs
    clear: frozenset[str] = frozenset()
    """Attributes that every event has in the clear. Brokers route by them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clear", frozenset(self.clear))
        if len(self.clear) > CLEAR_MAX or not all(is_name(name) and not name.startswith("$") for name in self.clear):
            raise SealInvalid("no names of clear attributes", hint=f"at most {CLEAR_MAX} attribute names")
        if not 1 <= len(self.trees) <= ROWS_MAX - 1:
            raise SealInvalid(f"a schema of {len(self.trees)} attributes", hint=f"1 to {ROWS_MAX - 1}, besides time")
        for name, tree in self.trees.items():
            if not is_name(name) or name.startswith("$"):
                raise SealInvalid(
                    f"{name[:80]!r} cannot guard events", hint="an attribute name that is not Plait's own"
                )
            if not 2 <= tree.places <= PLACES_MAX:
                raise SealInvalid(f"{name}: {tree.places} credentials a value", hint=f"2 to {PLACES_MAX} (PLACES_MAX)")

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """The meaning of each row of a capsule. Time has a row only if epochs are divided into slots."""
        return (*self.trees, TIME_ROW) if self.epochs.slot_bits else tuple(self.trees)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Places of each row."""
        places = tuple(tree.places for tree in self.trees.values())
        return (*places, self.epochs.places) if self.epochs.slot_bits else places

    @cached_property
    def digest(self) -> bytes:
        """The digest that identifies the schema."""
        return digest(b"schema", self.to_json().encode())

    def paths(self, attributes: Mapping[str, object], slot: int) -> tuple[tuple[bytes, ...], ...]:
        """Return the labels of an event's values, row by row."""
        found = [_named(name, tree.path, attributes.get(name)) for name, tree in self.trees.items()]
        return (*found, self.epochs.path(slot)) if self.epochs.slot_bits else tuple(found)

    def leaves(self, attributes: Mapping[str, object]) -> tuple[object, ...]:
        """Return a value that is equal for events with the same paths and different for others, apart from the slot."""
        return tuple(_named(name, tree.leaf, attributes.get(name)) for name, tree in self.trees.items())

    def boxes(self, filter: Filter, slots: tuple[int, int] | None = None, *, widen: bool = False) -> tuple[Box, ...]:
        """Return the credentials that keys for a filter need, as a box for each of its conjunctions."""
        found = [box for conjunction in filter.normal if (box := self._box(conjunction, slots, widen)) is not None]
        if not found:
            raise SealInvalid("no event of this schema matches the filter", hint=str(filter)[:200])
        if len(found) > BOXES_MAX:
            raise SealInvalid(f"a filter of {len(found)} conjunctions", hint=f"{BOXES_MAX} (BOXES_MAX) are allowed")
        return tuple(found)

    def wider(self, box: Box, levels: int) -> Box:
        """Return the credentials this many levels above those of a box, each once."""
        trees = list(self.trees.values())
        found = []
        for row, credentials in enumerate(box):
            widen = trees[row].wider if row < len(trees) else wider_dz
            found.append(tuple(dict.fromkeys(widen(each, levels) for each in credentials)))
        return tuple(found)

    def to_json(self) -> str:
        """Return the JSON text. Equal schemas have equal texts."""
        rows = [{"name": name, "type": tree.type_name, **tree.fields()} for name, tree in self.trees.items()]
        whole = {"attributes": rows, "clear": sorted(self.clear), "epochs": dict(self.epochs.fields())}
        return json.dumps(whole, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Parse the output of `to_json`; raise SealInvalid if it is invalid."""
        if len(text) > SCHEMA_TEXT_MAX or _depth(text) > _DEPTH_MAX:
            raise SealInvalid("no schema of sealed events", hint="the output of Schema.to_json")
        try:
            given = json.loads(text)
            rows = given["attributes"]
            trees = {row["name"]: _tree(row) for row in rows}
            if len(trees) < len(rows):
                raise SealInvalid("a schema that names an attribute twice")
            clear = given.get("clear", [])
            if type(clear) is not list:
                raise SealInvalid("clear attributes that are not a list")
            return cls(trees, Epochs(**given["epochs"]), frozenset(clear))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SpaceInvalid):
            raise SealInvalid("no schema of sealed events", hint="the output of Schema.to_json") from None

    def _box(self, conjunction: Mapping[str, Constraint], slots: tuple[int, int] | None, widen: bool) -> Box | None:
        if not widen and (unknown := [name for name in conjunction if name not in self.trees]):
            raise too_wide(f"a condition on {unknown[0][:80]}", "the schema has " + ", ".join(self.trees)[:200])
        rows: list[tuple[Credential, ...]] = []
        for name, tree in self.trees.items():
            constraint = conjunction.get(name)
            rows.append((WHOLE,) if constraint is None else tree.cover(constraint, widen))
        if self.epochs.slot_bits:
            rows.append(self.epochs.cover(slots))
        elif slots is not None:
            raise SealInvalid("slots of epochs that have none", hint="give the schema's Epochs some slot_bits")
        if not all(rows):
            return None
        if (count := sum(map(len, rows))) > CREDENTIALS_MAX:
            raise SealInvalid(
                f"a conjunction that needs {count} credentials",
                hint=f"{CREDENTIALS_MAX} (CREDENTIALS_MAX) are allowed; ranges that end on coarser cells need fewer",
            )
        return tuple(rows)


def _depth(text: str) -> int:
    """Return the nesting depth of brackets outside strings, to keep deep texts from the recursive JSON parser."""
    steps = (1 if char in "[{" else -1 for char in _STRING.sub("", text) if char in "[{]}")
    return max(accumulate(steps), default=0)


def _named(name: str, make: Any, value: object) -> Any:
    try:
        return make(value)
    except SealInvalid as error:
        raise SealInvalid(f"{name}: {error.message}", hint=error.hint) from None


def _tree(row: dict[str, Any]) -> Tree:
    fields = {key: value for key, value in row.items() if key not in ("name", "type", "domain")}
    match row["type"]:
        case "numbers":
            return Numbers(_NUMBERS[row["domain"]](**fields))
        case "texts":
            return Texts(**fields)
        case "one of":
            return OneOf(Enumeration(**fields))
    raise SealInvalid(f"no type {row['type']!r:.80} of attributes")
